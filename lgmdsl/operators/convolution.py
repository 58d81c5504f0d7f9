"""Two-dimensional convolution by fast Fourier transforms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its fft is imported when first used
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, Array, IntArray, SparseMatrix
from lgmdsl.operators.base import (
    Boundary,
    Gram,
    Operator,
    extend,
    fold,
    length,
    remembered,
    shrink,
    sparse_gram,
    unfold,
)

NARROW = 128  # entries of a kernel: up to so many, the explicit form is called sparse
OFFSETS = 256  # distinct distances between the latents of a pair, each of which costs transforms


@dataclass(frozen=True, eq=False)
class Convolution(Operator):
    """y[i] = sum_q psf[q] x[i + centre - q] on a two-dimensional grid, centre = psf.shape // 2.

    The size is kept; beyond the borders x is repeated (circular), 0 (zero) or mirrored with the
    border cell twice (reflect). Raises ValueError for a kernel larger than the grid.
    """

    grid: tuple[int, int]
    psf: Array
    boundary: Boundary

    def __post_init__(self) -> None:
        if self.psf.ndim != 2 or any(k > n for k, n in zip(self.psf.shape, self.grid, strict=True)):
            raise ValueError(f"a kernel of shape {self.psf.shape} on a grid of {self.grid}")

    @property
    def shape(self) -> tuple[int, int]:
        return length(self.grid), length(self.grid)

    @cached_property
    def _margins(self) -> list[tuple[int, int]]:
        """Cells beyond the border that the first and the last cell of each axis reach."""
        if self.boundary == "circular":
            return [(0, 0), (0, 0)]
        return [(k - 1 - k // 2, k // 2) for k in self.psf.shape]

    @cached_property
    def _period(self) -> tuple[int, int]:
        sizes = [n + a + b for n, (a, b) in zip(self.grid, self._margins, strict=True)]
        if self.boundary != "circular":
            sizes = [scipy.fft.next_fast_len(n, real=True) for n in sizes]
        return sizes[0], sizes[1]

    def _placed(self, kernel: Array) -> Array:
        """A kernel on the periodic grid, its centre at the origin."""
        out = np.zeros(self._period)
        a, b = (np.arange(k) - k // 2 for k in self.psf.shape)
        out[np.ix_(a % self._period[0], b % self._period[1])] = kernel
        return out

    @cached_property
    def transfer(self) -> AnyArray:
        """The kernel's transform on the periodic grid."""
        return np.asarray(scipy.fft.rfft2(self._placed(self.psf)))

    def _filter(self, grid: Array, transfer: AnyArray) -> Array:
        spectrum = scipy.fft.rfft2(grid, s=self._period, axes=(0, 1))
        spectrum *= transfer[..., None]
        return np.asarray(scipy.fft.irfft2(spectrum, s=self._period, axes=(0, 1), overwrite_x=True))

    def matvec(self, x: Array) -> Array:
        grid = unfold(x, self.grid)
        for axis, (before, after) in enumerate(self._margins):
            grid = extend(grid, axis, before, after, self.boundary)
        return fold(self._inner(self._filter(grid, self.transfer)), x)

    def _inner(self, wide: Array) -> Array:
        (a, _), (b, _) = self._margins
        return wide[a : a + self.grid[0], b : b + self.grid[1]]

    def rmatvec(self, y: Array) -> Array:
        grid = unfold(y, self.grid)
        sizes = [n + a + b for n, (a, b) in zip(self.grid, self._margins, strict=True)]
        if self.boundary != "circular":
            wide = np.zeros((*sizes, grid.shape[-1]))
            self._inner(wide)[...] = grid
            grid = wide
        grid = self._filter(grid, self.transfer.conj())[: sizes[0], : sizes[1]]
        for axis, (before, after) in enumerate(self._margins):
            grid = shrink(grid, axis, before, after, self.boundary)
        return fold(grid, y)

    def normal(self, weight: Array, x: Array, single: bool = False) -> Array:
        """One pair of transforms instead of two where all weights are the same and the grid is
        periodic; in single precision four times as fast."""
        even = self.boundary == "circular" and weight.size and float(np.ptp(weight)) == 0.0
        if not even:
            return super().normal(weight, x, single)
        grid, squared = unfold(x, self.grid), float(weight[0]) * np.abs(self.transfer) ** 2
        if single:
            grid, squared = grid.astype(np.float32), squared.astype(np.float32)
        return fold(self._filter(grid, squared).astype(np.float64, copy=False), x)

    @cached_property
    def _explicit(self) -> SparseMatrix:
        index = np.arange(1, length(self.grid) + 1).astype(np.float64)
        wide: Array = index.reshape(self.grid)
        margins = [(k - 1 - k // 2, k // 2) for k in self.psf.shape]
        for axis, (before, after) in enumerate(margins):
            wide = extend(wide, axis, before, after, self.boundary)
        rows, columns, values = [], [], []
        for (i, j), tap in np.ndenumerate(self.psf):
            a, b = self.psf.shape[0] - 1 - i, self.psf.shape[1] - 1 - j
            numbers = wide[a : a + self.grid[0], b : b + self.grid[1]].reshape(-1).astype(np.int64)
            inside = np.flatnonzero(numbers) if tap else np.zeros(0, dtype=np.int64)
            rows.append(inside)
            columns.append(numbers[inside] - 1)
            values.append(np.full(len(inside), tap))
        entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
        return sp.csr_array(sp.coo_array(entries, shape=self.shape))

    def sparse(self) -> SparseMatrix:
        return self._explicit

    @property
    def _narrow(self) -> int:
        return int(np.count_nonzero(self.psf))

    @property
    def is_sparse(self) -> bool:
        return self._narrow <= min(NARROW, self.shape[1] // 4)

    def entries_by_row(self) -> Array:
        width = self._narrow if self.is_sparse else self.shape[1]
        return np.full(self.shape[0], float(width))

    @property
    def cost(self) -> float:
        n = float(length(self._period))
        return float(5.0 * n * np.log2(n) + 3.0 * n)

    def gram(self, rows: IntArray, columns: IntArray) -> Gram | None:
        """With d = j - i, sum_p w_p h[p-i] h[p-j] is the correlation of w with h[q] h[q-d]."""
        if self.boundary == "reflect":
            return sparse_gram(self._explicit, rows, columns) if self.is_sparse else None
        near, far = (np.unravel_index(i, self.grid) for i in (rows, columns))
        shift = tuple((f - n) % p for f, n, p in zip(far, near, self._period, strict=True))
        offsets, which = np.unique(np.ravel_multi_index(shift, self._period), return_inverse=True)
        if len(offsets) > OFFSETS:
            return None
        apart = np.stack(np.unravel_index(offsets, self._period))
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(len(offsets) + 1))
        h = self._placed(self.psf)
        products = [
            scipy.fft.rfft2(h * np.roll(h, (int(d[0]), int(d[1])), axis=(0, 1))).conj()
            for d in apart.T
        ]

        flat = np.ravel_multi_index(near, self._period)

        def entries(weight: Array) -> Array:
            spectrum = scipy.fft.rfft2(weight.reshape(self.grid), s=self._period)
            out = np.empty(len(rows))
            for product, start, stop in zip(products, ends, ends[1:], strict=False):
                chunk = order[start:stop]
                correlation = scipy.fft.irfft2(spectrum * product, s=self._period)
                out[chunk] = correlation.reshape(-1)[flat[chunk]]
            return out

        return remembered(entries)
