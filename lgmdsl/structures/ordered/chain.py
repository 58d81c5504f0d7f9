"""Stationary Markov chains: z_{k+1} = r_k z_k + e, var e = sd^2 (1 - r_k^2).

Q sums, over the links, c r^2, c and -c r, c = 1 / (sd^2 (1 - r^2)), and 1/sd^2 at the first point:
tridiagonal along the chain. `ar1` has one r, `ou` has r_k = exp(-rate gap_k).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, Array, IntArray, Matrix, SparseMatrix
from lgmdsl.contract.structure import Extension, Members, Regression, Shape, Structure
from lgmdsl.structures.ordered.extensions import Links, extended, whole_steps
from lgmdsl.structures.shared.by_member import by_member
from lgmdsl.structures.shared.content import Content, band, entries, inner
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.vocabulary.lookup import declared


@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """The csr pattern of a tridiagonal matrix whose k-th point is row `order[k]`."""

    indptr: AnyArray
    indices: AnyArray
    places: IntArray  # (3n - 2,) places in csr of the diagonal, then (k, k + 1), then (k + 1, k)

    def matrix(self, diagonal: Array, off: Array) -> SparseMatrix:
        data = np.empty(len(self.places))
        data[self.places] = np.concatenate([diagonal, off, off])
        n = len(diagonal)
        return sp.csr_array((data, self.indices, self.indptr), shape=(n, n))


@lru_cache(maxsize=8)
def _pattern(size: int, order: Content | None) -> Tridiagonal:
    point = np.arange(size) if order is None else np.asarray(order.value).astype(np.int64)
    rows = np.concatenate([point, point[:-1], point[1:]])
    columns = np.concatenate([point, point[1:], point[:-1]])
    numbered = sp.csr_array((np.arange(1.0, len(rows) + 1.0), (rows, columns)), shape=(size, size))
    numbered.sort_indices()
    place = np.empty(len(rows), dtype=np.int64)
    place[numbered.data.astype(np.int64) - 1] = np.arange(len(rows))
    return Tridiagonal(numbered.indptr, numbered.indices, place)


@dataclass(frozen=True, eq=False)
class Chain(Structure):
    """sd^2 times a correlation that is the product of the links between two points."""

    sd: Array
    members: ClassVar[Members] = Members.ORDERED

    chained: ClassVar[bool] = True

    @abstractmethod
    def correlation(self, gap: Array) -> tuple[Array, Array]:
        """r and 1 - r^2 over any gaps, the latter without cancellation."""

    @abstractmethod
    def correlation_slopes(self, gap: Array) -> dict[str, Array]:
        """dr/dargument over any gaps."""

    @property
    @abstractmethod
    def line(self) -> Array:
        """(n,) where the members lie."""

    def regression(self, members: IntArray, before: IntArray) -> Regression:
        """The slope is r, the variance sd^2 (1 - r^2)."""
        r, left = self._links(members, before)
        return Regression(r, float(self.sd) ** 2 * left)

    def _links(self, members: IntArray, before: IntArray) -> tuple[Array, Array]:
        """r and 1 - r^2 to the members before, 0 and 1 where there is none (-1)."""
        r, left = self.correlation(np.abs(self.line[members] - self.line[before]))
        return np.where(before < 0, 0.0, r), np.where(before < 0, 1.0, left)

    def pullback_regression(
        self, members: IntArray, before: IntArray, slope: Array, variance: Array
    ) -> dict[str, Array]:
        r, left = self._links(members, before)
        square = float(self.sd) ** 2
        by_r = np.where(before < 0, 0.0, slope - 2.0 * square * r * variance)
        turns = self.correlation_slopes(np.abs(self.line[members] - self.line[before]))
        by_sd = 2.0 * float(self.sd) * (variance @ left)
        return {**{k: np.asarray(by_r @ v) for k, v in turns.items()}, "sd": np.asarray(by_sd)}

    def extension(self, places: Array, new: Array) -> Extension:
        """By the links between neighbours."""
        square = float(self.sd) ** 2

        def step(gap: float) -> tuple[float, float]:
            r, left = self.correlation(np.asarray(gap))
            return float(r), square * float(left)

        def bridge(before: float, after: float) -> tuple[float, float, float]:
            (r, left), (s, right) = (self.correlation(np.asarray(g)) for g in (before, after))
            both = left + right - left * right  # 1 - r^2 s^2
            return (
                float(r * right / both),
                float(s * left / both),
                square * float(left * right / both),
            )

        return extended(self.name, places, new, Links(step, bridge))

    @property
    @abstractmethod
    def correlations(self) -> Array:
        """(n - 1,) r of each link."""

    @property
    @abstractmethod
    def innovations(self) -> Array:
        """(n - 1,) 1 - r^2 of each link, innovation variances over sd^2, without cancellation."""

    @property
    def order(self) -> IntArray | None:
        """The points along the chain; None for 0, 1, 2 ..."""
        return None

    @property
    def shape(self) -> Shape:
        return Shape.PRECISION | Shape.SPARSE | Shape.COVARIANCE

    @property
    def joined(self) -> bool:
        return True

    def variance(self) -> Array:
        return np.full(self.size, float(self.sd) ** 2)

    @cached_property
    def _precision(self) -> SparseMatrix:
        r, c = self.correlations, 1.0 / self.innovations
        diagonal = np.ones(self.size)
        diagonal[1:] = c
        diagonal[:-1] += r * r * c
        key = None if self.order is None else Content(self.order.astype(np.float64))
        off, scale = -r * c, float(self.sd) ** 2
        return _pattern(self.size, key).matrix(diagonal / scale, off / scale)

    def precision(self) -> SparseMatrix:
        """Computed once; not to be written to."""
        return self._precision

    def log_det_precision(self) -> float:
        return float(-2.0 * self.size * np.log(self.sd) - np.log(self.innovations).sum())

    def covariance_at(self, rows: IntArray, columns: IntArray) -> Array:
        """sd^2 on the diagonal, sd^2 r next to it."""
        place = np.arange(self.size)
        if self.order is not None:
            place = np.empty(self.size, dtype=np.int64)
            place[self.order] = np.arange(self.size)
        i, j = place[rows], place[columns]
        links = np.append(self.correlations, 1.0)  # for the last point, whose place is n - 1
        return np.asarray(float(self.sd) ** 2 * np.where(i == j, 1.0, links[np.minimum(i, j)]))

    def _link_slopes(self, adjoint: Matrix) -> Array:
        """(n - 1,) dF/dr of each link: with l = 1 - r^2, dc/dr = d(c r^2)/dr = 2 r c / l and
        d(c r)/dr = c (1 + r^2) / l."""
        if self.order is None:
            diagonal, off = band(adjoint, 0), band(adjoint, 1)
        else:
            p = self.order
            diagonal = entries(adjoint, p, p)
            off = 0.5 * (entries(adjoint, p[1:], p[:-1]) + entries(adjoint, p[:-1], p[1:]))
        r, innovations = self.correlations, self.innovations
        turned = 2.0 * r * (diagonal[:-1] + diagonal[1:]) - 2.0 * (1.0 + r * r) * off
        return np.asarray(turned / (innovations * float(self.sd)) ** 2)

    def _sd_by_precision(self, adjoint: Matrix) -> Array:
        return np.asarray(-2.0 * inner(adjoint, self._precision) / self.sd)


# ---- ar1 ---------------------------------------------------------------------------------------
# ar1(rho): the stationary autoregression of order 1, K_ij = sd^2 rho^|i - j|.


@dataclass(frozen=True, eq=False)
class Ar1(Chain):
    """sd is the stationary marginal; |rho| < 1."""

    order_: int
    rho: Array
    signature = declared("structure", "ar1")

    @property
    def size(self) -> int:
        return self.order_

    @property
    def correlations(self) -> Array:
        return np.full(self.order_ - 1, float(self.rho))

    @property
    def innovations(self) -> Array:
        r = float(self.rho)
        return np.full(self.order_ - 1, (1.0 - r) * (1.0 + r))

    @property
    def line(self) -> Array:
        return np.arange(float(self.order_))

    def correlation(self, gap: Array) -> tuple[Array, Array]:
        size = abs(float(self.rho))
        if size == 0.0:
            return np.where(gap == 0.0, 1.0, 0.0), np.where(gap == 0.0, 0.0, 1.0)
        sign = np.where((self.rho < 0.0) & (gap % 2.0 != 0.0), -1.0, 1.0)
        depth = gap * np.log(size)
        return sign * np.exp(depth), -np.expm1(2.0 * depth)

    def correlation_slopes(self, gap: Array) -> dict[str, Array]:
        with np.errstate(all="ignore"):  # of no gap at all
            slope = gap * np.power(float(self.rho), gap - 1.0)
        return {"rho": np.where(gap == 0.0, 0.0, slope)}

    def extension(self, places: Array, new: Array) -> Extension:
        """A chain in whole steps."""
        whole_steps(self.name, places, new)
        return super().extension(places, new)

    def _powers(self) -> Array:
        return np.asarray(float(self.rho) ** np.arange(self.order_))

    def covariance(self) -> Array:
        return np.asarray(sla.toeplitz(float(self.sd) ** 2 * self._powers()))

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        """dK/drho = sd^2 k rho^(k - 1) at lag k."""
        lags = np.arange(1, self.order_)
        slope = lags * self._powers()[:-1] * float(self.sd) ** 2
        turn = sla.toeplitz(np.concatenate([np.zeros(1), slope]))
        by_sd = np.sum(adjoint * self.covariance()) * 2.0 / self.sd
        return {"sd": np.asarray(by_sd), "rho": np.asarray(np.sum(adjoint * turn))}

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        slope = self._link_slopes(adjoint).sum()
        return {"sd": self._sd_by_precision(adjoint), "rho": np.asarray(slope)}


def ar1(size: int, sd: object, rho: object) -> Structure:
    """`sd` a number, or (n,). Raises Refused (E303) unless |rho| < 1."""
    value = np.asarray(rho, dtype=np.float64)
    if not abs(float(value)) < 1.0:
        raise Refused(
            "E303",
            f"`rho` of `ar1` is {float(value):g}",
            "rho",
            label="wanted -1 < rho < 1",
            help="a walk that does not return to its mean is rw1(sd = {sd})",
        )
    return by_member(sd, lambda one: Ar1(one, size, value))
