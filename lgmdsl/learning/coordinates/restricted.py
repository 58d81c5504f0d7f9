"""Coordinates of hyperparameters with edges and ties: simplices with zeros, shares, covariances.

Probabilities as squares: coordinates in which an edge of the simplex is like any other place.

    p_k = r_k^2,   r_k = 2 u_k / (1 + |u|^2) for k < K,   r_K = (1 - |u|^2) / (1 + |u|^2)

r lies on the unit sphere, whose stereographic projection from -e_K is u. Where a maximum has p_k =
0 a log ratio runs away; u_k = 0 is a place, and the objective bends there as much as elsewhere: on
the sphere the information of n draws is 4n times the identity, which a projection keeps up to a
factor between 1 and 4 over the simplex, |u| <= 1. So gradients climb fast. Signs of u_k are free,
and what lies outside |u| = 1 mirrors what lies inside: charts for maxima, not for integrals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.learning.coordinates.transforms import Simplex, Slopes, Transform
from lgmdsl.numerics.stable import capped_exp, sigmoids
from lgmdsl.priors.covariance import sparse_inverse
from lgmdsl.priors.prior import InLogits

_LEAST = 1e-150  # of a root: its logarithm is finite


class ClosedSimplex(Simplex):
    """Along the last axis, edges included."""

    def _roots(self, x: Array) -> tuple[Array, Array]:
        """u and r."""
        u = np.asarray(x, dtype=np.float64).reshape(*self.shape[:-1], self.shape[-1] - 1)
        square = (u * u).sum(axis=-1, keepdims=True)
        return u, np.concatenate([2.0 * u, 1.0 - square], axis=-1) / (1.0 + square)

    def value(self, x: Array) -> Array:
        p = self._roots(x)[1] ** 2
        return np.asarray(p / p.sum(axis=-1, keepdims=True))

    def coordinates(self, value: Array) -> Array:
        with np.errstate(invalid="ignore"):
            r = np.sqrt(np.asarray(value, dtype=np.float64))
        return np.asarray(r[..., :-1] / (1.0 + r[..., -1:])).reshape(-1)

    def pull(self, adjoint: Array, x: Array) -> Slopes:
        u, r = self._roots(x)
        return Slopes(_from_sphere(2.0 * r * adjoint, u).reshape(-1))

    def lengths(self, x: Array) -> Array:
        """(..., K - 1) how far r moves on the sphere for a unit of each coordinate."""
        u, _ = self._roots(x)
        return np.broadcast_to(2.0 / (1.0 + (u * u).sum(axis=-1, keepdims=True)), u.shape)

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        """2^(K-1) prod_k |r_k| (2 / (1 + |u|^2))^(K-1), k = 1 ... K."""
        u, r = self._roots(x)
        free = self.shape[-1] - 1
        grown = 1.0 + (u * u).sum(axis=-1, keepdims=True)
        r = np.copysign(np.maximum(np.abs(r), _LEAST), r)
        total = np.log(np.abs(r)).sum() + free * np.log(4.0 / grown).sum()
        slopes = _from_sphere(1.0 / r, u) - 2.0 * free * u / grown
        return float(total), Slopes(slopes.reshape(-1))


def _from_sphere(slope: Array, u: Array) -> Array:
    """dF/du from dF/dr."""
    grown = 1.0 + (u * u).sum(axis=-1, keepdims=True)
    radial = (slope[..., :-1] * u).sum(axis=-1, keepdims=True) + slope[..., -1:]
    return np.asarray(2.0 * slope[..., :-1] / grown - 4.0 * radial * u / grown**2)


# ---- map share ---------------------------------------------------------------------------------
# The coordinate of a share whose tail near 1 (as of pc_mix) ends far beyond the last double.
#
#     mix = sigma(L),   L = 2 sinh(x)
#
# log(1 - mix) is about -L there and the prior's density in L falls like exp(-c sqrt(L)) alone, so
# that half a posterior may lie beyond mix = 1 - 1e-5, where a logit would have to be followed for
# hundreds of units. In x it falls like exp(-c e^(x/2)). Values are rounded to the last double
# before 1; what the prior says of L is not (`InLogits.in_logits`).


# sinh of more than this is nothing that a share can tell from 1.
FARTHEST = 20.0
BELOW_ONE = np.nextafter(1.0, 0.0)


@dataclass(frozen=True, eq=False)
class MapShare(Transform):
    """mix = sigma(2 sinh(x)) under `prior`."""

    bounded: ClassVar[bool] = True
    elementwise: ClassVar[bool] = True
    prior: InLogits

    def value(self, x: Array) -> Array:
        return np.clip(sigmoids(self._logit(x)[0])[0], np.finfo(float).tiny, BELOW_ONE)

    def coordinates(self, value: Array) -> Array:
        with np.errstate(divide="ignore"):
            logit = np.log(value) - np.log1p(-np.asarray(value, dtype=np.float64))
        return np.asarray(np.arcsinh(0.5 * logit)).reshape(-1)

    def pull(self, adjoint: Array, x: Array) -> Slopes:
        return Slopes(np.asarray(adjoint * self._steep(x)).reshape(-1))

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        """log of the prior's density in x less that of the rounded value: with the latter, which
        the hyperparameters' prior adds, the density in x is exact however near 1 the value is."""
        logit, stretch = self._logit(x)
        exact = self.prior.in_logits(logit)
        rounded = self.prior.terms(self.value(x))
        total = exact.log_density + np.log(stretch) - rounded.log_density
        slope = exact.slope * stretch + np.tanh(self._shaped(x)) - rounded.slope * self._steep(x)
        return float(total.sum()), Slopes(slope.reshape(-1))

    def _logit(self, x: Array) -> tuple[Array, Array]:
        """L and dL/dx."""
        x = np.clip(self._shaped(x), -FARTHEST, FARTHEST)
        return 2.0 * np.sinh(x), 2.0 * np.cosh(x)

    def _steep(self, x: Array) -> Array:
        """dmix/dx."""
        logit, stretch = self._logit(x)
        up, down, _ = sigmoids(logit)
        return np.asarray(up * down * stretch)


# ---- sds and correlations ----------------------------------------------------------------------
# A covariance by its sds and partial correlations, for integrals over it.
#
#     S = D l l' D,   D = diag(e^x_ii)
#     l_ij = tanh z_ij prod_{m<j} sech z_im,   l_ii = prod_{m<i} sech z_im
#
# z_ij, j < i, is atanh of the correlation of i and j given all before j (Lewandowski, Kurowicka and
# Joe 2009, section 2.4). Under LKJ(eta) they are independent, whatever the sds: where the data
# leave an sd near 0, the density hardly depends on its correlations, and its level sets are boxes.
# The entries of a Cholesky factor narrow there with the sd, in a ridge that no search and no
# quadrature follows to its end.


_LOG_2 = float(np.log(2.0))


@dataclass(frozen=True, eq=False)
class SdsAndCorrelations(Transform):
    """The lower triangle row by row: log sds on the diagonal, z_ij below it, of (..., k, k).

    `separated`: the Jacobian is that of the sds and the correlations; else of S's lower triangle,
    2^k prod sd^k times as large. `leading`: the member that comes before all others, whose
    correlations with them are tanh z, given no other.

    log |d correlations / dz| = sum_ij (k - j + 1) log sech z_ij, j = 1 ... (each row's factor l has
    a triangular one in z, each row of correlations one in l with the diagonal of the rows above).
    """

    separated: bool = False
    leading: int = 0

    @property
    def size(self) -> int:
        k = self.shape[-1]
        return int(np.prod(self.shape[:-2], dtype=np.int64)) * k * (k + 1) // 2

    def value(self, x: Array) -> Array:
        factor = self._parts(x)[0]
        return self._ordered(factor @ np.swapaxes(factor, -1, -2), np.argsort(self._order))

    def values(self, x: Array) -> Array:
        return replace(self, shape=(len(x), *self.shape)).value(x)

    def coordinates(self, value: Array) -> Array:
        try:
            ordered = self._ordered(np.asarray(value, dtype=np.float64), self._order)
            factor: Array = np.asarray(np.linalg.cholesky(ordered))
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
        adjoint = self._ordered(adjoint, self._order)
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

    @property
    def _order(self) -> IntArray:
        """(k,) the members, the leading one first."""
        members = np.arange(self.shape[-1])
        return np.concatenate([members[self.leading :][:1], np.delete(members, self.leading)])

    def _ordered(self, matrices: Array, order: IntArray) -> Array:
        """(..., k, k) with rows and columns in an order."""
        if self.leading == 0:
            return np.asarray(matrices)
        return np.asarray(matrices)[..., order[:, None], order]

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


# ---- sparse precision --------------------------------------------------------------------------
# The coordinates of a covariance whose prior makes its inverse sparse: entries of the precision.
#
# Zeros of P are zeros there, exactly, and every step between two of them keeps those that they
# share.


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
