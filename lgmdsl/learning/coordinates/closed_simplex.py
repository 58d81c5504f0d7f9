"""Probabilities as squares: coordinates in which an edge of the simplex is like any other place.

    p_k = r_k^2,   r_k = 2 u_k / (1 + |u|^2) for k < K,   r_K = (1 - |u|^2) / (1 + |u|^2)

r lies on the unit sphere, whose stereographic projection from -e_K is u. Where a maximum has p_k =
0 a log ratio runs away; u_k = 0 is a place, and the objective bends there as much as elsewhere: on
the sphere the information of n draws is 4n times the identity, which a projection keeps up to a
factor between 1 and 4 over the simplex, |u| <= 1. So gradients climb fast. Signs of u_k are free,
and what lies outside |u| = 1 mirrors what lies inside: charts for maxima, not for integrals.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.learning.coordinates.transforms import Simplex, Slopes

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
