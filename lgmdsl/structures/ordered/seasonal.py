"""seasonal(period): sums over each period are near zero (Rue and Held 2005, section 3.4.3).

Q = D'D, D the moving sums over m points; null space: the patterns of period m that sum to zero
(m - 1, each of density 1). With R the filter that undoes D from zero start (+1 at lags 0, m, 2m
..., -1 at lags 1, m + 1 ...) and P the projection off those patterns, Q^+ = P R R'P; |Q|_+ =
prod n_a sum 1/n_a over the phases a, n_a their points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array
from lgmdsl.contract.structure import Extension, Members, Structure
from lgmdsl.structures.ordered.extensions import autoregression, stepped
from lgmdsl.structures.shared.content import banded
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.structures.shared.scaled import ScaledPrecision, UnitPrecision, nothing_tied, unit_of
from lgmdsl.vocabulary.lookup import declared


@dataclass(frozen=True, eq=False)
class Seasonal(ScaledPrecision):
    """Seasonal pattern that may drift; scaled, and free in the m - 1 strictly periodic patterns."""

    period: int = 2
    signature = declared("structure", "seasonal")
    members: ClassVar[Members] = Members.ORDERED

    def extension(self, places: Array, new: Array) -> Extension:
        """z_t = -(z_{t-1} + ... + z_{t-m+1}) + e, e of the fitted sums' variance."""
        variance = float(self.sd) ** 2 / float(self.unit.scale[0])
        onward = autoregression(-np.ones(self.period - 1), variance, self.size)
        return stepped(self.name, places, new, onward)


def seasonal(size: int, sd: object, period: object) -> Structure:
    """A seasonal pattern of `period` points. Raises Refused (E303, E205)."""
    m = float(np.asarray(period))
    if m < 2 or m != round(m):
        raise Refused(
            "E303",
            f"the period of `seasonal` is {m:g}",
            "period",
            label="a whole number of points, 2 or more",
            help="the number of points after which the pattern returns, e.g. 12 for months",
        )
    if m > size:
        raise Refused(
            "E205",
            f"a period of {m:g} points is longer than {{axis}}, which has {size}",
            "period",
            help="count the period in points of {axis}, and give at least one whole",
        )
    return Seasonal(_unit(size, int(m)), np.asarray(sd), int(m))


@lru_cache(maxsize=8)
def _unit(size: int, period: int) -> UnitPrecision:
    rows = size - period + 1
    d = banded([np.ones(rows)] * period, range(period), (rows, size))
    phase = np.arange(size) % period
    points = np.bincount(phase, minlength=period).astype(np.float64)
    log_det = float(np.log(points).sum() + np.log((1.0 / points).sum()))
    # an orthonormal basis: the patterns e_a / sqrt(n_a), off the direction that has a sum
    total = 1.0 / np.sqrt(points)
    q, _ = np.linalg.qr(np.column_stack([total, np.eye(period)[:, :-1]]))
    null = sp.csr_array((q[:, 1:] * total[:, None])[phase])
    return unit_of(
        sp.csr_array(d.T @ d), _variances(size, period, points), log_det, null, nothing_tied(size)
    )


def _variances(size: int, period: int, points: Array) -> Array:
    """diag P G P, G = RR': P takes off, at phase a, sum_b A_ab (sum over phase b)."""
    phase, i = np.arange(size) % period, np.arange(size)
    weights = 1.0 / points
    a = np.diag(weights) - np.outer(weights, weights) / weights.sum()
    # G_ii: onsets t <= i - (m - 1) at distance 0 or 1 (modulo m) from there
    age = i - period + 1
    g = np.where(age >= 0, age // period + 1 + np.maximum(age + period - 1, 0) // period, 0)
    sums = _filtered(size, period)  # (n, m) G F, F the indicator of each phase
    between = np.vstack([sums[phase == b].sum(axis=0) for b in range(period)])
    middle = a @ between @ a
    cross = np.einsum("ib,ib->i", sums, a[phase])
    return np.asarray(g - 2.0 * cross + middle[phase, phase])


def _filtered(size: int, period: int) -> Array:
    """G F = R (R'F) by recursions in blocks of whole periods."""
    f = np.zeros((size, period))
    f[np.arange(size), np.arange(size) % period] = 1.0
    back = _summed(f[::-1], period)[::-1].copy()
    back[:-1] -= _summed(f[::-1], period)[::-1][1:]
    # R'F has one row for each onset: entry i + m - 1 of the filter run backwards
    driven = np.zeros((size, period))
    driven[period - 1 :] = back[period - 1 :]
    summed = _summed(driven, period)
    out = summed.copy()
    out[1:] -= summed[:-1]
    return out


def _summed(x: Array, period: int) -> Array:
    """y_t = x_t + y_{t - m}: sums at lags 0, m, 2m ..."""
    whole = -(-len(x) // period)
    padded = np.zeros((whole * period, x.shape[1]))
    padded[: len(x)] = x
    folded = padded.reshape(whole, period, -1).cumsum(axis=0)
    return np.asarray(folded.reshape(padded.shape)[: len(x)])
