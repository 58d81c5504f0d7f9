"""The coordinates of a covariance whose prior makes its inverse sparse: entries of the precision.

Zeros of P are zeros there, exactly, and every step between two of them keeps those that they share.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.learning.coordinates.transforms import Slopes, Transform
from lgmdsl.priors.covariance import sparse_inverse


class SparsePrecision(Transform):
    """S = P^-1, (..., k, k): the lower triangle of P row by row, as it is.

    The Jacobian is that of the lower triangle of S: |P|^-(k + 1). Where P is not positive definite
    there is no value: LinAlgError.
    """

    @property
    def size(self) -> int:
        k = self.shape[-1]
        return int(np.prod(self.shape[:-2], dtype=np.int64)) * k * (k + 1) // 2

    def precision(self, x: Array) -> Array:
        """(..., k, k) P."""
        rows, columns = np.tril_indices(self.shape[-1])
        out = np.zeros(self.shape)
        out[..., rows, columns] = np.asarray(x).reshape(*self.shape[:-2], -1)
        out[..., columns, rows] = out[..., rows, columns]
        return out

    def packed(self, precision: Array) -> Array:
        """(size,) of P, or of any symmetric matrices."""
        rows, columns = np.tril_indices(self.shape[-1])
        return np.asarray(precision[..., rows, columns]).reshape(-1)

    def value(self, x: Array) -> Array:
        precision = self.precision(x)
        np.linalg.cholesky(precision)
        inverse = np.linalg.inv(precision)
        return np.asarray(0.5 * (inverse + np.swapaxes(inverse, -1, -2)))

    def coordinates(self, value: Array) -> Array:
        try:
            np.linalg.cholesky(value)
        except np.linalg.LinAlgError:
            return np.full(self.size, np.nan)
        return self.packed(sparse_inverse(value))

    def pull(self, adjoint: Array, x: Array) -> Slopes:
        s = self.value(x)
        slopes = -s @ (0.5 * (adjoint + np.swapaxes(adjoint, -1, -2))) @ s
        return Slopes(self._twice(slopes))

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        k, precision = self.shape[-1], self.precision(x)
        log_det = float(np.linalg.slogdet(precision)[1].sum())
        return -(k + 1.0) * log_det, Slopes(self._twice(-(k + 1.0) * self.value(x)))

    def _twice(self, slopes: Array) -> Array:
        """Slopes in the lower triangle, of those in all entries."""
        off = 2.0 - np.eye(self.shape[-1])
        return self.packed(off * slopes)
