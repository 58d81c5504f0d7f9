"""A covariance by its sds and partial correlations, for integrals over it.

    S = D l l' D,   D = diag(e^x_ii)
    l_ij = tanh z_ij prod_{m<j} sech z_im,   l_ii = prod_{m<i} sech z_im

z_ij, j < i, is atanh of the correlation of i and j given all before j (Lewandowski, Kurowicka and
Joe 2009, section 2.4). Under LKJ(eta) they are independent, whatever the sds: where the data leave
an sd near 0, the density hardly depends on its correlations, and its level sets are boxes. The
entries of a Cholesky factor narrow there with the sd, in a ridge that no search and no quadrature
follows to its end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.learning.coordinates.transforms import Slopes, Transform
from lgmdsl.numerics.stable import capped_exp, sigmoids

_LOG_2 = float(np.log(2.0))


@dataclass(frozen=True, eq=False)
class SdsAndCorrelations(Transform):
    """The lower triangle row by row: log sds on the diagonal, z_ij below it, of (..., k, k).

    `separated`: the Jacobian is that of the sds and the correlations; else of S's lower triangle,
    2^k prod sd^k times as large.

    log |d correlations / dz| = sum_ij (k - j + 1) log sech z_ij, j = 1 ... (each row's factor l has
    a triangular one in z, each row of correlations one in l with the diagonal of the rows above).
    """

    separated: bool = False

    @property
    def size(self) -> int:
        k = self.shape[-1]
        return int(np.prod(self.shape[:-2], dtype=np.int64)) * k * (k + 1) // 2

    def value(self, x: Array) -> Array:
        factor = self._parts(x)[0]
        return np.asarray(factor @ np.swapaxes(factor, -1, -2))

    def values(self, x: Array) -> Array:
        return replace(self, shape=(len(x), *self.shape)).value(x)

    def coordinates(self, value: Array) -> Array:
        try:
            factor: Array = np.asarray(np.linalg.cholesky(value), dtype=np.float64)
        except np.linalg.LinAlgError:
            return np.full(self.size, np.nan)
        # sinh z_ij = L_ij / sqrt(sum_{j < m <= i} L_im^2), of which the last is not 0
        square = np.cumsum((factor * factor)[..., ::-1], axis=-1)[..., ::-1]
        i = np.arange(self.shape[-1])
        out = np.zeros(self.shape)
        out[..., :-1] = np.arcsinh(
            factor[..., :-1] / np.sqrt(np.where(square > 0.0, square, 1.0)[..., 1:])
        )
        out[..., i, i] = 0.5 * np.log(square[..., 0])
        rows, columns = np.tril_indices(self.shape[-1])
        return np.asarray(out[..., rows, columns]).reshape(-1)

    def pull(self, adjoint: Array, x: Array) -> Slopes:
        """With g = dF/dl: dF/dz_ij = g_ij sech^2 z_ij prod_{m<j} sech z_im - tanh z_ij sum_{n>j}
        g_in l_in."""
        factor, tanh, ahead, sech = self._parts(x)
        slopes = (adjoint + np.swapaxes(adjoint, -1, -2)) @ factor  # dF/dL
        below = np.tril(slopes * factor)  # sd_i times both g_in / sd_i and l_in
        past = below.sum(axis=-1, keepdims=True) - np.cumsum(below, axis=-1)
        sds = self._sds(x)
        out = slopes * sds[..., None] * ahead * sech**2 - tanh * past
        i = np.arange(self.shape[-1])
        out[..., i, i] = below.sum(axis=-1)
        rows, columns = np.tril_indices(self.shape[-1])
        return Slopes(np.asarray(out[..., rows, columns]).reshape(-1))

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        k = self.shape[-1]
        whole = self._square(x)
        rows, columns = np.tril_indices(k, -1)
        i, z, power = np.arange(k), whole[..., rows, columns], k - columns.astype(float)
        slopes = np.zeros(self.shape)
        slopes[..., rows, columns] = -power * np.tanh(z)
        slopes[..., i, i] = 1.0 if self.separated else k + 1.0
        log_sech = _LOG_2 - np.abs(z) - np.log1p(np.exp(-2.0 * np.abs(z)))
        total = float((power * log_sech).sum() + (slopes * whole)[..., i, i].sum())
        if not self.separated:
            total += whole[..., i, i].size * _LOG_2
        rows, columns = np.tril_indices(k)
        return total, Slopes(np.asarray(slopes[..., rows, columns]).reshape(-1))

    def natural(self, x: Array, logs: Array) -> Array:
        """The sds, and (1 + tanh z) / 2."""
        return np.where(logs == 1.0, capped_exp(x), sigmoids(2.0 * x)[0])

    def _square(self, x: Array) -> Array:
        """x in the lower triangle, (..., k, k)."""
        out = np.zeros(self.shape)
        rows, columns = np.tril_indices(self.shape[-1])
        out[..., rows, columns] = np.asarray(x, dtype=np.float64).reshape(*self.shape[:-2], -1)
        return out

    def _sds(self, x: Array) -> Array:
        """(..., k)"""
        i = np.arange(self.shape[-1])
        return np.asarray(capped_exp(self._square(x)[..., i, i]))

    def _parts(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """L = Dl, tanh z (0 on the diagonal and above it), prod_{m<j} sech z_im and sech z_ij."""
        z = np.tril(self._square(x), -1)
        tanh, small = np.tanh(z), np.exp(-np.abs(z))
        sech = 2.0 * small / (1.0 + small * small)
        ahead = np.ones(self.shape)
        ahead[..., 1:] = np.cumprod(sech[..., :-1], axis=-1)
        i = np.arange(self.shape[-1])
        unit = tanh * ahead
        unit[..., i, i] = ahead[..., i, i]
        return self._sds(x)[..., None] * np.tril(unit), tanh, ahead, sech
