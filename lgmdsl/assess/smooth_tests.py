"""Tests that a smooth is zero, as in the summary of R's mgcv.

Of a smooth whose penalty leaves directions free (Wood 2013a): with f = B b at the rows and V its
posterior covariance, T = f'V^r- f, V^r- a pseudo-inverse of the rank r = 2 tr F - tr FF, the
degrees of freedom. A fractional rank shares an eigenvector between two (appendix of the paper);
either sign of it has the same claim, and T is the mean of both, where mgcv shows one of them and
averages their p values.

Of one that is penalised everywhere (Wood 2013b): T = b'V_b^-1 b, with V_b the posterior covariance
of the coefficients, whose distribution under zero is a sum of chi-squares weighted by the
eigenvalues of V_b^-1 times the covariance of b over data drawn again.

Where the noise was estimated with so many residual degrees of freedom, chi-squares are divided by
that of the noise. Smoothing parameters count as known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg as sla

from lgmdsl.arrays import Array
from lgmdsl.assess.influence import Coefficients
from lgmdsl.numerics.chi_squares import upper_tail

# Of the largest eigenvalue: smaller ones count as 0, as in mgcv.
SPAN, RANK = 2.3e-15**0.9, 2.3e-15**0.8


class SmoothTest(NamedTuple):
    """T, its degrees of freedom under zero, and P(T or larger) under zero."""

    statistic: float
    df: float
    p_value: float


def smooth_test(smooth: Coefficients, free: bool, residual_df: float | None) -> SmoothTest:
    """The test of a smooth; `free`: whether its penalty leaves directions free; `residual_df`:
    degrees of freedom from which the noise was estimated, None where it is known."""
    return (_of_curve if free else _of_variance)(smooth, residual_df)


def _tail(statistic: float, weights: Array, residual_df: float | None) -> float:
    """P(sum of weighted chi-squares of one degree of freedom > statistic)."""
    ones = np.ones(len(weights))
    if residual_df is None:
        return upper_tail(statistic, weights, ones)
    noise = max(residual_df, 1.0)
    return upper_tail(0.0, np.append(weights, -statistic / noise), np.append(ones, noise))


def _of_curve(smooth: Coefficients, residual_df: float | None) -> SmoothTest:
    values, vectors = np.linalg.eigh(smooth.information)
    root = (np.sqrt(np.maximum(values, 0.0)) * vectors).T  # R'R = B'WB
    spread, axes = np.linalg.eigh(root @ smooth.covariance @ root.T)
    spread, axes = spread[::-1], axes[:, ::-1]
    scores = axes.T @ (root @ smooth.mean)
    rank = min(float(len(scores)), max(smooth.reference, 0.0))
    known = int((spread > spread[0] * SPAN).sum())
    if int(np.ceil(rank)) > known:
        rank = float(known)
    whole = int(np.floor(rank))
    part = rank - whole
    unit = scores / np.sqrt(np.where(spread > 0.0, spread, 1.0))
    if whole == 0:  # of one direction at most
        return SmoothTest(
            float(unit[0] ** 2), 1.0, _tail(float(unit[0] ** 2), np.ones(1), residual_df)
        )
    if part == 0.0:
        statistic = float((unit[:whole] ** 2).sum())
        return SmoothTest(statistic, rank, _tail(statistic, np.ones(whole), residual_df))
    shared = np.sqrt(0.5 * part * (1.0 - part))
    k = whole - 1
    first = float((unit[:k] ** 2).sum() + unit[k] ** 2 + part * unit[whole] ** 2)
    across = 2.0 * shared * float(unit[k] * unit[whole])
    larger = 0.5 * (1.0 + part + np.sqrt((1.0 + part) * (1.0 - part)))
    weights = np.concatenate([np.ones(k), [larger, 1.0 + part - larger]])
    tails = [_tail(first + side * across, weights, residual_df) for side in (1.0, -1.0)]
    return SmoothTest(first, rank, 0.5 * sum(tails))


def _of_variance(smooth: Coefficients, residual_df: float | None) -> SmoothTest:
    values, vectors = np.linalg.eigh(smooth.covariance)
    kept = values > values[-1] * RANK
    root = vectors[:, kept] / np.sqrt(values[kept])  # root root' = V_b^-1
    statistic = float(((root.T @ smooth.mean) ** 2).sum())
    weights = np.maximum(sla.eigvalsh(root.T @ smooth.sampling @ root), 0.0)
    rank = int((weights > weights.max(initial=0.0) * RANK).sum())
    if not rank:
        return SmoothTest(statistic, 0.0, 1.0)
    return SmoothTest(statistic, float(rank), _tail(statistic, weights, residual_df))
