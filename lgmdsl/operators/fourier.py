"""The unitary discrete Fourier transform of real grids, as pairs of real rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its fft is imported when first used

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.operators.base import Gram, Operator, fold, length, unfold

_ROOT2 = float(np.sqrt(2.0))


def opposite(grid: tuple[int, ...]) -> IntArray:
    """(n,) the flat position of frequency -k for each k."""
    index = np.arange(length(grid)).reshape(grid)
    for axis in range(len(grid)):
        index = np.roll(np.flip(index, axis), 1, axis)
    return index.reshape(-1)


def paired(spectrum: AnyArray) -> Array:
    """np.fft.fftn(x, norm="ortho") of a real array as real numbers of the same shape and norm.

    Of frequencies k and -k the first (in row-major order) holds sqrt(2) Re, the other sqrt(2) Im of
    the first; one that is its own opposite holds its (real) value.
    """
    flat, away = spectrum.reshape(-1), opposite(spectrum.shape)
    position = np.arange(flat.size)
    out = np.where(position < away, _ROOT2 * flat.real, _ROOT2 * flat[away].imag)
    return np.where(position == away, flat.real, out).reshape(spectrum.shape)


@dataclass(frozen=True)
class Fourier(Operator):
    """F x = paired(fftn(x, norm = ortho)): orthogonal, F'F = I."""

    grid: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return length(self.grid), length(self.grid)

    @cached_property
    def _opposite(self) -> IntArray:
        return opposite(self.grid)

    @cached_property
    def _order(self) -> Array:
        """1 for the first of a pair, -1 for the second, 0 for a frequency alone."""
        return np.asarray(np.sign(self._opposite - np.arange(self.shape[0])), dtype=np.float64)

    @property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(len(self.grid)))

    def matvec(self, x: Array) -> Array:
        spectrum = scipy.fft.fftn(unfold(x, self.grid), axes=self._axes, norm="ortho")
        flat = spectrum.reshape(self.shape[0], -1)
        order = self._order[:, None]
        out = np.where(order > 0, _ROOT2 * flat.real, flat.real)
        second = np.flatnonzero(self._order < 0)
        out[second] = _ROOT2 * flat[self._opposite[second]].imag
        return fold(out, x)

    def rmatvec(self, y: Array) -> Array:
        pairs = y.reshape(self.shape[0], -1)
        other = pairs[self._opposite]
        order = self._order[:, None]
        # F[k] = (a + ib) / sqrt(2) at the first of a pair, its conjugate at the second.
        real = np.where(order == 0, pairs, np.where(order > 0, pairs, other) / _ROOT2)
        imaginary = np.where(order > 0, other, -pairs) * (np.abs(order) / _ROOT2)
        spectrum = unfold(real + 1j * imaginary, self.grid)
        return fold(scipy.fft.ifftn(spectrum, axes=self._axes, norm="ortho").real, y)

    @property
    def cost(self) -> float:
        n = float(self.shape[0])
        return float(5.0 * n * np.log2(max(n, 2.0)))

    def gram(self, rows: IntArray, columns: IntArray) -> Gram:
        """With w1 (first) and w2 (second) of a pair, 2 w1 cos a cos b + 2 w2 sin a sin b
        = (w1 + w2) cos(a - b) + (w1 - w2) cos(a + b), a and b being the phases at i and j."""
        n = self.shape[0]
        near = np.stack(np.unravel_index(rows, self.grid))
        far = np.stack(np.unravel_index(columns, self.grid))
        sizes = np.array(self.grid)[:, None]
        apart = np.ravel_multi_index(tuple((near - far) % sizes), self.grid)
        joint = np.ravel_multi_index(tuple((near + far) % sizes), self.grid)

        def entries(weight: Array) -> Array:
            other = weight[self._opposite]
            even = np.where(self._order == 0, weight, 0.5 * (weight + other))
            odd = 0.5 * self._order * (weight - other)
            return np.asarray((self._cosines(even)[apart] + self._cosines(odd)[joint]) / n)

        return entries

    def _cosines(self, weight: Array) -> Array:
        """sum_k w_k cos(phase of k at x), for every cell x."""
        return np.asarray(scipy.fft.fftn(weight.reshape(self.grid)).real.reshape(-1))
