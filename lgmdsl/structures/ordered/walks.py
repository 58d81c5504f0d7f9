"""rw1 and rw2: random walks at regular, circular or unequal positions.

rw1: increments z_{i+1} - z_i ~ N(0, g_i), g the gaps (Rue and Held 2005, section 3.3.1).
rw2: Q = H'B^-1 H, H the change of slope at every inner point and B = diag((g_{i-1} + g_i)/2), the
Galerkin solution of z'' = white noise with lumped mass (Lindgren and Rue 2008, section 3); with
g = 1 the second differences. Both then scaled; variances, determinants and null spaces are closed
forms in O(n), for Q = D'WD with D of full row rank and null basis N:
    Q^+ = P R W^-1 R'P,  DR = I,  P = I - NN';    |Q|_+ = |W| |DD'|,
    |DD'| = prod d_i^2 / det(N_E)^2,  d_i the last coefficient of row i, E the first points.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.structure import Extension, Members, Structure
from lgmdsl.structures.ordered.extensions import extended
from lgmdsl.structures.ordered.walk_members import brownian, second_order
from lgmdsl.structures.shared.banded import banded, diagonal
from lgmdsl.structures.shared.content import Content
from lgmdsl.structures.shared.refusals import Refused, too_short
from lgmdsl.structures.shared.scaled import (
    Scaled,
    UnitPrecision,
    nothing_tied,
    sums_to_zero,
    unit_of,
)
from lgmdsl.vocabulary.lookup import declared

Pieces = tuple[SparseMatrix, Array, float, SparseMatrix]  # Q, diag Q^+, log|Q|_+, null basis


@dataclass(frozen=True, eq=False)
class Walk(Scaled):
    """`cyclic`: the last member is the neighbour of the first one."""

    cyclic: bool = False
    members: ClassVar[Members] = Members.ORDERED

    @abstractmethod
    def process(self, variance: float, gap: float, fitted: Array, new: Array) -> Extension:
        """New members at sorted places: differences over the mean gap have this variance."""

    def extension(self, places: Array, new: Array) -> Extension:
        """The increments' variance is that of the fitted walk; `unit.scale` is its own."""
        if self.cyclic:
            raise Refused(
                "E302",
                f"{{axis}} cannot take new members: `{self.name}` closes its circle",
                label="the last member is followed by the first",
                help="ask for the fitted members",
            )
        gap = float(np.diff(np.unique(places)).mean())
        variance = float(self.sd) ** 2 / float(self.unit.scale[0])

        def core(fitted: Array, asked: Array) -> Extension:
            return self.process(variance, gap, fitted, asked)

        return extended(self.name, places, new, core)


class FirstOrderWalk(Walk):
    """rw1, scaled; tied to sum zero unless `sum_to_zero` is false."""

    signature = declared("structure", "rw1")

    def process(self, variance: float, gap: float, fitted: Array, new: Array) -> Extension:
        return brownian(variance / gap)(fitted, new)


class SecondOrderWalk(Walk):
    """rw2, scaled; its line has density 1 unless it is cyclic."""

    signature = declared("structure", "rw2")

    def process(self, variance: float, gap: float, fitted: Array, new: Array) -> Extension:
        return second_order(variance / gap**3, fitted, new)


def rw1(
    size: int, sd: object, cyclic: bool, sum_to_zero: bool, at: Array | None = None
) -> Structure:
    """A random walk of order 1. Raises Refused (E205, E303, E104)."""
    if size < 2:
        raise too_short("rw1", size, 2)
    unit = _walk(1, size, cyclic, _key(at, cyclic), sum_to_zero)
    return FirstOrderWalk(unit, np.asarray(sd), cyclic)


def rw2(
    size: int, sd: object, cyclic: bool, sum_to_zero: bool, at: Array | None = None
) -> Structure:
    """A random walk of order 2. Raises Refused (E205, E303, E104)."""
    if size < 3:
        raise too_short("rw2", size, 3)
    unit = _walk(2, size, cyclic, _key(at, cyclic), sum_to_zero)
    return SecondOrderWalk(unit, np.asarray(sd), cyclic)


def _key(positions: Array | None, cyclic: bool) -> Content | None:
    if positions is None:
        return None
    if cyclic:
        raise Refused(
            "E104",
            "`cyclic = true` and `at` exclude one another",
            "at",
            label="nothing says where the circle closes",
            help="leave out `at`, with every point of the circle in {axis}; or leave out `cyclic`",
        )
    return Content(np.asarray(positions, dtype=np.float64))


def sorted_gaps(positions: Array, name: str) -> tuple[IntArray, Array]:
    """The order of the positions and the gaps between them. Raises Refused (E303)."""
    order = np.argsort(positions, kind="stable")
    gaps = np.diff(positions[order])
    if not (gaps > 0).all():
        again = np.isin(positions, positions[order][1:][gaps == 0])
        raise Refused(
            "E303",
            f"positions of `{name}` repeat",
            "at",
            entries=np.flatnonzero(again),
            label="every point of the axis needs a distinct position",
            help="merge those members, so that rows which share a position map to one: "
            "data when[row] : {index}",
        )
    return order, gaps


@lru_cache(maxsize=8)
def _walk(
    degree: int, size: int, cyclic: bool, positions: Content | None, tied: bool
) -> UnitPrecision:
    if cyclic:
        q, variances, log_det, null = _circle(degree, size)
    else:
        order, gaps = np.arange(size), np.ones(size - 1)
        if positions is not None:
            assert isinstance(positions.value, np.ndarray)
            order, gaps = sorted_gaps(positions.value, f"rw{degree}")
            gaps = gaps / gaps.mean()
        q, variances, log_det, null = _first(gaps) if degree == 1 else _second(gaps)
        back = np.argsort(order)
        q, null = sp.csr_array(q[back][:, back]), sp.csr_array(null[back])
    rows = sums_to_zero(size) if tied else nothing_tied(size)
    return unit_of(q, variances, log_det, null, rows)


def _differences(weights: Array, *coefficients: Array) -> SparseMatrix:
    """D'WD with D_{i, i + k} = coefficients[k]_i."""
    rows = len(weights)
    d = banded(coefficients, range(len(coefficients)), (rows, rows + len(coefficients) - 1))
    return sp.csr_array(d.T @ (diagonal(weights) @ d))


def _level(size: int) -> SparseMatrix:
    return sp.csr_array(np.full((size, 1), size**-0.5))


def _circle(degree: int, size: int) -> Pieces:
    """Eigenvalues (2 - 2 cos(2 pi k / n))^degree, of product n^(2 degree) without the zero."""
    one = sp.eye_array(size, format="csr")
    forward = sp.csr_array(one[np.roll(np.arange(size), -1)])
    q = sp.csr_array(2.0 * one - forward - forward.T)
    n = float(size)
    if degree == 1:
        variance = (n * n - 1.0) / (12.0 * n)
    else:
        q, variance = sp.csr_array(q @ q), (n * n - 1.0) * (n * n + 11.0) / (720.0 * n)
    return q, np.full(size, variance), 2.0 * degree * float(np.log(n)), _level(size)


def _first(gaps: Array) -> Pieces:
    """Column j of PR is a step after point j, less its mean."""
    n = len(gaps) + 1
    ones = np.ones(n - 1)
    q = _differences(1.0 / gaps, -ones, ones)
    below = np.arange(1, n) / n  # the share of the points before step j
    after, before = gaps * below**2, gaps * (1.0 - below) ** 2
    zero = np.zeros(1)
    variances = np.concatenate([zero, np.cumsum(after)])
    variances += np.concatenate([np.cumsum(before[::-1])[::-1], zero])
    return q, variances, float(np.log(n) - np.log(gaps).sum()), _level(n)


def _second(gaps: Array) -> Pieces:
    """Column j of PR is the hinge (x - x_j)_+ at inner point j, less its regression on a line."""
    n, lumped = len(gaps) + 1, 0.5 * (gaps[:-1] + gaps[1:])
    x = np.concatenate([[0.0], np.cumsum(gaps)])
    x -= x.mean()
    spread = float(x @ x)
    q = _differences(1.0 / lumped, 1.0 / gaps[:-1], -1.0 / gaps[:-1] - 1.0 / gaps[1:], 1 / gaps[1:])
    null = np.column_stack([np.full(n, n**-0.5), x / np.sqrt(spread)])
    knots = x[1:-1]
    # sums over the points after each knot
    count = np.arange(n - 2, 0, -1.0)
    total, square = (np.cumsum(p[::-1])[::-1][2:] for p in (x, x * x))
    level = (total - count * knots) / n
    slope = (square - total * knots) / spread
    # residuals (1 - slope) x - (knot + level) after the knot, -(level + slope x) before it
    log_det = -float(np.log(lumped).sum()) - 2.0 * float(np.log(gaps[1:]).sum())
    log_det += float(np.log(n * spread / gaps[0] ** 2))
    variances = _squares(x, 1.0 - slope, -(knots + level), lumped, after=True)
    variances += _squares(x, slope, level, lumped, after=False)
    return q, variances, log_det, sp.csr_array(null)


def _squares(x: Array, slope: Array, level: Array, weight: Array, after: bool) -> Array:
    """sum_j weight_j (slope_j x_i + level_j)^2, over the knots j before (or from) each point i."""
    parts = []
    for term in (weight * slope**2, 2.0 * weight * slope * level, weight * level**2):
        if after:
            parts.append(np.concatenate([[0.0, 0.0], np.cumsum(term)]))
        else:
            parts.append(np.concatenate([np.cumsum(term[::-1])[::-1], [0.0, 0.0]]))
    # the knot of inner point j lies at point j + 1: `before` covers i <= j + 1, `after` i > j + 1
    if not after:
        parts = [np.concatenate([p[:1], p[:-1]]) for p in parts]
    return np.asarray((parts[0] * x + parts[1]) * x + parts[2])
