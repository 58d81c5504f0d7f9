"""Sites of which some rows are those of the base family and a constant: rows of each kind
answered together, and expectations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Pointwise,
    PointwiseAnswer,
)
from lgmdsl.contract.site import Site
from lgmdsl.sites.combined.combined import CombinedSite
from lgmdsl.sites.quadrature import expected_by_quadrature, slopes_by_quadrature

MANY = 1_000  # evaluations from which rows of each kind are answered by themselves

# Rows, and their sites.
Parts: TypeAlias = tuple[tuple[IntArray, Site], ...]


def parts_of(site: Site, first: BoolArray) -> Parts:
    """The sites of the rows in `first` and of the others; () where there is one kind."""
    rows, others = np.flatnonzero(first), np.flatnonzero(~first)
    if not len(rows) or not len(others):
        return ()
    return ((rows, site.take(rows)), (others, site.take(others)))


def joined(
    parts: Parts, s: Array, answer: Callable[[Site, Array], tuple[Array, ...]]
) -> tuple[Array, ...]:
    """Answers of the shape of s from those of parts, 0 in rows of none."""
    out: tuple[Array, ...] = ()
    for rows, site in parts:
        found = answer(site, s[rows])
        out = out or tuple(np.zeros(np.shape(s)) for _ in found)
        for whole, some in zip(out, found, strict=True):
            whole[rows] = some
    return out


def pointwise_of_parts(parts: Parts, s: Array, variance: Array | float) -> PointwiseAnswer:
    """l and its derivatives, the third times the variance."""

    def answer(site: Site, s: Array) -> tuple[Array, ...]:
        a = cast(Pointwise, site).pointwise(s)
        return a.value, a.slope, a.curvature, a.third

    value, slope, curvature, third = joined(parts, s, answer)
    return PointwiseAnswer(value, slope, curvature, third * variance)


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
