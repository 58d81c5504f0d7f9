"""Orthogonal wavelet transforms of grids (filters of PyWavelets, the extra `wavelet`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.operators.base import Gram, Operator, fold, length, sparse_gram, unfold

AFFORDED = 5e7  # entries of an explicit form that may be stored


def deepest(grid: tuple[int, ...], filter_length: int) -> int:
    """The most levels that halve even axes only, and (as pywt.dwt_max_level has it) leave some
    coefficient that the border does not touch."""
    levels, sizes = 0, grid
    while all(n % 2 == 0 and n >= 2 * (filter_length - 1) for n in sizes):
        levels, sizes = levels + 1, tuple(n // 2 for n in sizes)
    return levels


@dataclass(frozen=True)
class Wavelet(Operator):
    """The periodised orthogonal transform along all axes of a grid, so that W'W = I.

    `levels` of them (default: see `deepest`). Coefficients take the place of the cells:
    approximation first along each axis, as pywt.coeffs_to_array has it.
    Raises ValueError where an axis cannot be halved so often, ImportError without PyWavelets.
    """

    grid: tuple[int, ...]
    filter: str
    levels: int | None = None

    def __post_init__(self) -> None:
        if self.depth < 1 or any(n % 2**self.depth for n in self.grid):
            raise ValueError(f"{self.depth} levels on a grid of {self.grid}")

    @cached_property
    def _filter_length(self) -> int:
        import pywt

        return int(pywt.Wavelet(self.filter).dec_len)

    @cached_property
    def depth(self) -> int:
        """Number of levels."""
        return deepest(self.grid, self._filter_length) if self.levels is None else self.levels

    @property
    def shape(self) -> tuple[int, int]:
        return length(self.grid), length(self.grid)

    @cached_property
    def _stages(self) -> list[list[SparseMatrix]]:
        """For each level the one-dimensional transform of each axis of the corner it works on."""
        import pywt

        matrices: dict[int, SparseMatrix] = {}
        stages, sizes = [], self.grid
        for _ in range(self.depth):
            for n in set(sizes) - set(matrices):
                halves = pywt.dwt(np.eye(n), self.filter, mode="periodization", axis=0)
                matrices[n] = sp.csr_array(np.vstack(halves))
            stages.append([matrices[n] for n in sizes])
            sizes = tuple(n // 2 for n in sizes)
        return stages

    def _corner(self, stage: list[SparseMatrix]) -> tuple[slice, ...]:
        return tuple(slice(0, m.shape[0]) for m in stage)

    def matvec(self, x: Array) -> Array:
        grid = unfold(x, self.grid).copy()
        for stage in self._stages:
            corner = self._corner(stage)
            grid[corner] = _apply(stage, grid[corner])
        return fold(grid, x)

    def rmatvec(self, y: Array) -> Array:
        grid = unfold(y, self.grid).copy()
        for stage in reversed(self._stages):
            corner = self._corner(stage)
            grid[corner] = _apply([sp.csr_array(m.T) for m in stage], grid[corner])
        return fold(grid, y)

    @cached_property
    def _explicit(self) -> SparseMatrix:
        cells = np.arange(length(self.grid)).reshape(self.grid)
        whole: SparseMatrix | None = None
        for stage in self._stages:
            corner = cells[self._corner(stage)].reshape(-1)
            one = stage[0]
            for m in stage[1:]:
                one = sp.csr_array(sp.kron(one, m, format="csr"))
            place = sp.csr_array(
                (np.ones(len(corner)), (corner, np.arange(len(corner)))),
                shape=(cells.size, len(corner)),
            )
            rest = np.ones(cells.size)
            rest[corner] = 0.0
            step = place @ one @ place.T + sp.diags_array(rest)
            whole = sp.csr_array(step if whole is None else step @ whole)
        assert whole is not None
        return whole

    def sparse(self) -> SparseMatrix:
        return self._explicit

    @property
    def is_sparse(self) -> bool:
        return self.entries <= min(self.shape[0] ** 2 / 8.0, AFFORDED)

    def entries_by_row(self) -> Array:
        """Entries of each row: of a coefficient of level l, (2^l - 1)(filter length - 1) + 1 cells
        along an axis."""
        width = np.empty(self.grid)
        for level, stage in enumerate(self._stages, start=1):
            reach = (2**level - 1) * (self._filter_length - 1) + 1
            width[self._corner(stage)] = length(tuple(min(n, reach) for n in self.grid))
        return width.reshape(-1)

    @property
    def cost(self) -> float:
        taps = 2.0 * self._filter_length * len(self.grid)
        return float(sum(taps * length(tuple(m.shape[0] for m in s)) for s in self._stages))

    def gram(self, rows: IntArray, columns: IntArray) -> Gram | None:
        if self.entries > AFFORDED:
            return None
        return sparse_gram(self._explicit, rows, columns)


def _apply(matrices: list[SparseMatrix], grid: Array) -> Array:
    """Each matrix along its axis; further axes are carried along."""
    for axis, m in enumerate(matrices):
        first = np.moveaxis(grid, axis, 0)
        done = np.asarray(m @ np.ascontiguousarray(first).reshape(first.shape[0], -1))
        grid = np.moveaxis(done.reshape(first.shape), 0, axis)
    return grid
