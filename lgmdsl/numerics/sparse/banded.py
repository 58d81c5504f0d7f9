"""Sparse Cholesky of a band with a dense border: chains, state-space models, fixed effects.

A = [[T, C], [C', D]] = [[L, 0], [W', R]] [[L', W], [0, R']] with T = LL' of half-bandwidth p,
W = L^-1 C (n x m) and RR' = D - W'W. Linear in n: n (p^2 + 2pm + m^2) flops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.lib.stride_tricks import sliding_window_view
from scipy.sparse.csgraph import reverse_cuthill_mckee

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.numerics.cholesky import Cholesky, cholesky
from lgmdsl.numerics.sparse.banded_triangle import BandTriangle, CompiledTriangle, LapackTriangle
from lgmdsl.numerics.sparse.base import Factor, Pattern, Symbolic

# Rows from which the compiled sweeps (0.02 us a row where LAPACK takes 1) repay numba's start,
# 0.3 s; wide bands go to BLAS.
COMPILED_FROM = 10_000


def banded_symbolic(pattern: Pattern, compiled: bool | None = None) -> BandedSymbolic | None:
    """The band and border of a pattern; None where it is none, or another kernel does better.

    `compiled` forces the compiled sweeps or LAPACK's.
    """
    structure = find_structure(pattern)
    if structure is None:
        return None
    if compiled is None:
        compiled = pattern.size >= COMPILED_FROM and structure.bandwidth <= NARROW
    return BandedSymbolic(pattern, structure, compiled, structure.fill, structure.flops)


@dataclass(frozen=True, eq=False)
class BandedSymbolic(Symbolic):
    """Where every entry of the pattern goes. One buffer holds the band, C and D, one by one."""

    kernel: ClassVar[str] = "banded"
    pattern: Pattern
    structure: BandStructure
    compiled: bool
    fill: int
    flops: float

    @property
    def held(self) -> float:  # type: ignore[override]
        """Two factors, the inverse on band and border, and the border as it is swept."""
        return 3.0 * self.length + 2.0 * self.states * self.structure.border

    @property
    def states(self) -> int:
        """Rows of the band."""
        return len(self.order) - self.structure.border

    @property
    def order(self) -> IntArray:
        """(n,) the row of A that stands in each place."""
        return self.structure.order

    @cached_property
    def place(self) -> IntArray:
        """(n,) the place of each row of A."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(self.order))
        return place

    @cached_property
    def natural(self) -> bool:
        """Whether the rows keep their order."""
        return bool((self.order == np.arange(len(self.order))).all())

    @cached_property
    def target(self) -> IntArray | slice:
        """(nnz,) where each value of the pattern stands in the buffer."""
        places = self.find(self.pattern.indices, self.pattern.columns)
        in_order = bool((places == np.arange(len(places))).all())
        return slice(0, len(places)) if in_order else places

    def find(self, rows: IntArray, columns: IntArray) -> IntArray:
        """Where entries stand in the buffer; -1 outside band and border."""
        a, b = self.place[rows], self.place[columns]
        late, early = np.maximum(a, b), np.minimum(a, b)
        n, m, width = self.states, self.structure.border, self.structure.bandwidth + 1
        places = np.where(late - early < width, early * width + (late - early), -1)
        if m:
            border = n * width + early * m + (late - n)
            # D's upper triangle, the one that the dense kernel reads.
            corner = n * (width + m) + (early - n) * m + (late - n)
            places = np.where(late < n, places, np.where(early < n, border, corner))
        return np.asarray(places, dtype=np.int64)

    @property
    def length(self) -> int:
        """Numbers in the buffer."""
        n, m = self.states, self.structure.border
        return n * (self.structure.bandwidth + 1 + m) + m * m

    def split(self, buffer: Array) -> tuple[Array, Array, Array]:
        """Views of the buffer: the band (n, p + 1), C (n, m), D (m, m)."""
        n, m, width = self.states, self.structure.border, self.structure.bandwidth + 1
        band, end = n * width, n * (width + m)
        return (
            buffer[:band].reshape(n, width),
            buffer[band:end].reshape(n, m),
            buffer[end:].reshape(m, m),
        )

    def factor(self, values: Array) -> BandedFactor | None:
        if not np.isfinite(values).all():
            return None
        buffer = np.zeros(self.length)
        buffer[self.target] = values
        band, border, corner = self.split(buffer)
        of = CompiledTriangle.of if self.compiled else LapackTriangle.of
        triangle = of(band)
        if triangle is None:
            return None
        # A border may overflow on its way to a pivot that is then refused.
        with np.errstate(all="ignore"):
            if border.size:
                border = _swept(triangle.forward, border)
                corner = corner - border.T @ border
            schur = cholesky(corner)
        return None if schur is None else BandedFactor(self, triangle, border, schur)


class BandedFactor(Factor):
    """[[L, 0], [W', R]]: `forward` and `backward` are triangular in the order band, border."""

    def __init__(
        self, symbolic: BandedSymbolic, triangle: BandTriangle, border: Array, schur: Cholesky
    ) -> None:
        self._symbolic = symbolic
        self._triangle = triangle
        self._beside = border  # W
        self._schur = schur  # R
        self.half_log_det = 0.5 * float(np.log(triangle.pivots).sum()) + schur.half_log_det

    @property
    def pivots(self) -> Array:
        corner = self._schur.lower.diagonal() ** 2
        return self._restored(np.concatenate([self._triangle.pivots, corner]))

    def solve(self, rhs: Array) -> Array:
        return self.backward(self.forward(rhs))

    def forward(self, rhs: Array) -> Array:
        n = self._symbolic.states
        ordered = np.asarray(rhs, dtype=np.float64)
        natural = self._symbolic.natural
        ordered = ordered.copy() if natural else np.take(ordered, self._symbolic.order, axis=0)
        if n == len(ordered):
            return _swept(self._triangle.forward, ordered)
        top = _swept(self._triangle.forward, ordered[:n])
        return np.concatenate([top, self._schur.forward(ordered[n:] - self._beside.T @ top)])

    def backward(self, rhs: Array) -> Array:
        n = self._symbolic.states
        ordered = np.array(rhs, dtype=np.float64, order="C")
        if n == len(ordered):
            return self._restored(_swept(self._triangle.backward, ordered))
        last = self._schur.backward(ordered[n:])
        top = _swept(self._triangle.backward, ordered[:n] - self._beside @ last)
        return self._restored(np.concatenate([top, last]))

    def selected(self) -> Array:
        target = self._symbolic.target
        return self._inverse[target].copy() if isinstance(target, slice) else self._inverse[target]

    def entries(self, rows: IntArray, columns: IntArray) -> Array:
        """A^-1 at these positions; NaN outside band and border."""
        places = self._symbolic.find(rows, columns)
        return np.where(places >= 0, self._inverse[places], np.nan)

    @cached_property
    def _inverse(self) -> Array:
        """A^-1 where the buffer holds A: on the band T^-1 + UU', in the border -UR^-1, then S^-1.

        U = L^-T W R^-T, so that UU' = T^-1 C S^-1 C'T^-1.
        """
        buffer = np.empty(self._symbolic.length)
        band, border, corner = self._symbolic.split(buffer)
        self._triangle.inverse(band)
        if border.size:
            swept = _swept(self._triangle.backward, self._beside.copy())
            u = self._schur.forward(swept.T).T
            _add_products(band, u)
            border[...] = -self._schur.backward(u.T).T
            corner[...] = self._schur.inverse()
        return buffer

    def _restored(self, x: Array) -> Array:
        """Rows back in A's order."""
        return x if self._symbolic.natural else x[self._symbolic.place]


def _add_products(band: Array, u: Array) -> None:
    """Add the band of UU' to `band` (n, p + 1), for U (n, m): a pass for each diagonal, or for each
    column where they are fewer."""
    n, width = band.shape
    if u.shape[1] >= width:
        for k in range(min(width, n)):
            band[: n - k, k] += np.einsum("ij,ij->i", u[: n - k], u[k:])
        return
    for column in u.T:
        longer = np.concatenate([column, np.zeros(width - 1)])
        band += column[:, None] * sliding_window_view(longer, width)


def _swept(sweep: Callable[[Array], Array], x: Array) -> Array:
    """A sweep that may overwrite x; one column goes as a vector, which is faster."""
    return sweep(x.reshape(len(x)) if x.size == len(x) else x).reshape(x.shape)


# ---- banded structure --------------------------------------------------------------------------
# Find the band and the border of a pattern: which few dense columns to set aside, and an order.


LARGEST_BORDER = 64
NARROW = 32  # half-bandwidths up to here beat every other kernel, however sparse the band


@dataclass(frozen=True, eq=False)
class BandStructure:
    """Rows in the order `order` (n,): a band of half-bandwidth `bandwidth`, `border` rows last."""

    order: IntArray
    bandwidth: int
    border: int

    @property
    def fill(self) -> int:
        """Entries of L."""
        p, m = self.bandwidth, self.border
        n = len(self.order) - m
        return n * (p + 1) - p * (p + 1) // 2 + n * m + m * (m + 1) // 2

    @property
    def flops(self) -> float:
        """Flops of the factorisation: the band's, the border's sweep and its Schur complement."""
        p, m = self.bandwidth, self.border
        n = len(self.order) - m
        return float(n) * (p * p + 2 * p + 2 * p * m + m * (m + 2)) + m**3 / 3

    def pays(self, nnz: int) -> bool:
        """Whether the band is narrow, or so full that no ordering can do much better."""
        n, p = len(self.order), self.bandwidth
        if p > NARROW and 2 * p >= n:
            return False
        return self.fill <= max((NARROW + 1) * n, 2 * nnz)


def find_structure(pattern: Pattern) -> BandStructure | None:
    """The cheapest band and border found; None where none pays.

    Borders tried are the columns of degree above the largest / 2^k. The natural order is kept where
    reverse Cuthill-McKee and folding give no narrower band, or cannot give a much narrower one.
    """
    n = pattern.size
    if not n:
        return None
    off = pattern.indices != pattern.columns
    rows, columns = pattern.indices[off], pattern.columns[off]
    degree = np.bincount(rows, minlength=n) + np.bincount(columns, minlength=n)
    tried, waiting = [], []
    for inner in _interiors(degree):
        edges = inner[rows] & inner[columns]
        low, high = columns[edges], rows[edges]
        border = n - int(np.count_nonzero(inner))
        order = np.concatenate([np.flatnonzero(inner), np.flatnonzero(~inner)])
        bandwidth = _bandwidth(order, high, low)
        tried.append(BandStructure(order, bandwidth, border))
        inside = np.bincount(low, minlength=n) + np.bincount(high, minlength=n)
        least = -(-int(inside.max(initial=0)) // 2)
        bound = BandStructure(order, least, border)
        if 2 * bandwidth > 3 * least and bound.pays(pattern.nnz):
            waiting.append((bound, high, low))
    best = min(tried, key=lambda s: s.flops)
    for bound, high, low in waiting:
        if bound.flops < best.flops:
            for narrowing in (_cuthill_mckee, _folded):
                order = narrowing(bound.order, bound.border, high, low)
                narrowed = BandStructure(order, _bandwidth(order, high, low), bound.border)
                best = min(best, narrowed, key=lambda s: s.flops)
    return best if best.pays(pattern.nnz) else None


def _interiors(degree: IntArray) -> list[BoolArray]:
    """Masks of the rows outside each border tried, the empty border first."""
    n = len(degree)
    interiors, size, threshold = [np.ones(n, dtype=bool)], 0, int(degree.max())
    while threshold := threshold // 2:
        inner = degree <= threshold
        border = n - int(np.count_nonzero(inner))
        if border > LARGEST_BORDER or border == n:
            break
        if border > size:
            interiors.append(inner)
            size = border
    return interiors


def _bandwidth(order: IntArray, high: IntArray, low: IntArray) -> int:
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    return int(np.abs(position[high] - position[low]).max(initial=0))


def _cuthill_mckee(order: IntArray, border: int, high: IntArray, low: IntArray) -> IntArray:
    """`order` with its rows before the border rearranged."""
    inner = order[: len(order) - border]
    position = np.empty(len(order), dtype=np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    a, b = position[high], position[low]
    edges = sp.csr_array(
        (np.ones(2 * len(a), dtype=np.int8), (np.concatenate([a, b]), np.concatenate([b, a]))),
        shape=(len(inner), len(inner)),
    )
    permutation = reverse_cuthill_mckee(edges, symmetric_mode=True)
    return np.concatenate([inner[permutation], order[len(inner) :]])


def _folded(order: IntArray, border: int, high: IntArray, low: IntArray) -> IntArray:
    """Rings laid flat, 0, n - 1, 1, n - 2, ...: each stretch that no edge leaves is one ring.

    A ring of half-bandwidth p becomes a band of 2p, where reverse Cuthill-McKee may miss it.
    """
    inner = order[: len(order) - border]
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    a, b = position[high], position[low]
    n = len(inner)
    starts = np.bincount(np.minimum(a, b), minlength=n) - np.bincount(np.maximum(a, b), minlength=n)
    closed = np.cumsum(starts) == 0
    last = np.flatnonzero(closed)
    first = np.concatenate([[0], last[:-1] + 1])
    size = last - first + 1
    step = np.arange(n) - np.repeat(first, size)
    remaining = np.repeat(size, size) - step
    rank = np.repeat(first, size) + np.minimum(2 * step, 2 * remaining - 1)
    folded = np.empty_like(inner)
    folded[rank] = inner
    return np.concatenate([folded, order[n:]])
