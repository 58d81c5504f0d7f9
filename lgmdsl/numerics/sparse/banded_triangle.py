"""The triangular factor of a band, T = LL', behind one interface: on LAPACK or compiled.

A band is (n, p + 1), C-ordered: `band[j, k]` is entry (j + k, j), zero past the last row; LAPACK
reads the same memory as its own lower band storage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import lapack

from lgmdsl.arrays import Array

# Blocks of the inverse on LAPACK: wide enough that a matrix product outweighs its call.
BLOCK = 16
ENTRIES_PER_PASS = 2_000_000  # entries of dense blocks held at once


class BandTriangle(ABC):
    """L of T = LL'. Right-hand sides (n,) or (n, k) are overwritten or not: use what comes back."""

    pivots: Array  # (n,) L_jj^2

    @abstractmethod
    def forward(self, rhs: Array) -> Array:
        """L^-1 rhs."""

    @abstractmethod
    def backward(self, rhs: Array) -> Array:
        """L^-T rhs."""

    @abstractmethod
    def inverse(self, z: Array) -> None:
        """Write the band of T^-1 into z, (n, p + 1)."""


class LapackTriangle(BandTriangle):
    """dpbtrf and dtbtrs; the inverse by the Takahashi recursion on dense blocks."""

    def __init__(self, band: Array) -> None:
        self._band = band
        self.pivots = band[:, 0] ** 2

    @staticmethod
    def of(band: Array) -> LapackTriangle | None:
        """Factor the band in place."""
        lower, info = lapack.dpbtrf(band.T, lower=1, overwrite_ab=1)
        # LAPACK lets NaN pass its pivot test; this comparison does not.
        if info != 0 or not lower[0].min() > 0.0:
            return None
        return LapackTriangle(np.asarray(lower).T)

    def forward(self, rhs: Array) -> Array:
        return self._sweep(rhs, "N")

    def backward(self, rhs: Array) -> Array:
        return self._sweep(rhs, "T")

    def _sweep(self, rhs: Array, transposed: str) -> Array:
        if rhs.size == 0:
            return rhs
        columns = rhs.reshape(len(rhs), -1)
        x, _ = lapack.dtbtrs(self._band.T, columns, uplo="L", trans=transposed, overwrite_b=1)
        return np.asarray(x).reshape(rhs.shape)

    def inverse(self, z: Array) -> None:
        n, width = self._band.shape
        if width == 1:
            z[...] = 1.0 / self._band**2
            return
        block = max(width - 1, BLOCK)
        blocks = -(-n // block)
        below = np.zeros((block, block))  # T^-1's diagonal block after the one at hand
        chunk = max(1, ENTRIES_PER_PASS // (2 * block * block))
        for end in range(blocks, 0, -chunk):
            start = max(0, end - chunk)
            below = self._inverse_blocks(start, end, block, below, z)

    def _inverse_blocks(self, start: int, end: int, block: int, below: Array, z: Array) -> Array:
        """Fill z's rows of blocks start to end from the diagonal block below them.

        With L's block column (U', M')' and G = M U^-1: Z_10 = -Z_11 G and
        Z_00 = U^-T U^-1 + G'Z_11 G.
        """
        width = self._band.shape[1]
        rows = slice(start * block, end * block)
        dense = np.zeros((end - start, block, 2 * block))  # [column, row]: L' by blocks
        # The last block is filled up with the identity's columns.
        padded = np.tile(np.eye(1, width), ((end - start) * block, 1))
        band = self._band[rows]
        padded[: len(band)] = band
        _diagonals(dense, width)[...] = padded.reshape(end - start, block, width)
        half = np.empty((end - start, block, block))  # U^-T
        for b, corner in enumerate(dense[:, :, :block]):
            half[b] = lapack.dtrtri(corner.T, lower=1)[0].T
        right = half @ dense[:, :, block:]  # G'
        squares = half @ half.transpose(0, 2, 1)
        for b in range(end - start - 1, -1, -1):
            across = -(right[b] @ below)
            below = squares[b] - across @ right[b].T
            dense[b, :, :block] = below
            dense[b, :, block:] = across
        z[rows] = _diagonals(dense, width).reshape(-1, width)[: len(band)]
        return below


def _diagonals(dense: Array, width: int) -> Array:
    """[b, c, k] -> dense[b, c, c + k], a view."""
    blocks, block, _ = dense.shape
    step, row, item = dense.strides
    return cast(
        Array, as_strided(dense, (blocks, block, width), (step, row + item, item), writeable=True)
    )


class CompiledTriangle(BandTriangle):
    """L D^1/2 with unit L, by compiled sweeps."""

    def __init__(self, band: Array) -> None:
        self._band = band
        self.pivots = band[:, 0].copy()

    @staticmethod
    def of(band: Array) -> CompiledTriangle | None:
        """Factor the band in place."""
        from lgmdsl.numerics.sparse import banded_kernels

        return CompiledTriangle(band) if banded_kernels.factor(band) else None

    def forward(self, rhs: Array) -> Array:
        from lgmdsl.numerics.sparse import banded_kernels

        banded_kernels.forward(self._band, rhs)
        return rhs

    def backward(self, rhs: Array) -> Array:
        from lgmdsl.numerics.sparse import banded_kernels

        banded_kernels.backward(self._band, rhs)
        return rhs

    def inverse(self, z: Array) -> None:
        from lgmdsl.numerics.sparse import banded_kernels

        banded_kernels.inverse(self._band, z)
