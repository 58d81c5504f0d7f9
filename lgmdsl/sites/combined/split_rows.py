"""Expectations of sites of which some rows are those of the base family, and a constant."""

from __future__ import annotations

from typing import cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import Expected, ExpectedAnswer, ExpectedSlopes
from lgmdsl.sites.combined.combined import CombinedSite
from lgmdsl.sites.quadrature import expected_by_quadrature, slopes_by_quadrature


def expected_of_parts(
    site: CombinedSite,
    closed: BoolArray,
    constant: Array,
    mean: Array,
    variance: Array,
    second: bool,
) -> ExpectedAnswer:
    """E[l]: of `closed` rows by the base family, of the others by quadrature."""
    out = np.zeros((5, len(mean)))
    for rows, of_base in ((np.flatnonzero(closed), True), (np.flatnonzero(~closed), False)):
        if not len(rows):
            continue
        if of_base:
            plain = cast(Expected, site.plain.take(rows))
            a = plain.expected(mean[rows], variance[rows], second)
        else:
            a = expected_by_quadrature(site.take(rows), mean[rows], variance[rows], second)
        parts = [a.value, a.d_mean, a.d_variance]
        if second:
            assert a.d_mean_variance is not None and a.d_variance2 is not None
            parts += [a.d_mean_variance, a.d_variance2]
        out[: len(parts), rows] = parts
    out[0] += np.where(closed, constant, 0.0)
    return ExpectedAnswer(out[0], out[1], out[2], *(out[3:] if second else ()))


def slopes_of_parts(
    site: CombinedSite, closed: BoolArray, mean: Array, variance: Array
) -> dict[str, Array]:
    """E[dl/dparameter]: of `closed` rows by the base family where the parameter is its own."""
    at_mean = site.parameter_slopes(mean)
    out = {name: np.array(np.broadcast_to(v, np.shape(mean))) for name, v in at_mean.items()}
    rows, others = np.flatnonzero(closed), np.flatnonzero(~closed)
    if len(rows):
        plain = cast(ExpectedSlopes, site.plain.take(rows))
        for name, slope in plain.expected_slopes(mean[rows], variance[rows]).items():
            out[name][rows] = slope
    if len(others):
        answer = slopes_by_quadrature(site.take(others), mean[others], variance[others], 0.0)
        for name, slope in answer.items():
            out[name][others] = slope
    return out
