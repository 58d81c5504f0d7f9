"""Coordinates in which the posterior of the hyperparameters is about a standard normal.

    x = mode + T u,   T = V Lambda^-1/2 from the eigen-decomposition of minus the Hessian
    u_j = s_j(sign z_j) z_j

The stretches s make up for skewness: along each half-axis the density falls by 1 nat at
z = sqrt(2), as a normal one does (Rue, Martino and Chopin 2009, 6.5, take the half-axes so).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import AnyArray, Array, BoolArray

# A direction wider than this (in log or logit units) is not resolved; it is called flat.
WIDEST = 5.0
# The unit of a coordinate that is the value itself, and so in a unit of the user's: so many of its
# own conditional sds.
SDS = 1e3
DIGITS = 1e-10  # of the largest curvature: the least that eigenvalues beside it tell


@dataclass(frozen=True, eq=False)
class Standardised:
    """`mode`: (d,); `axes`: (d, d), columns are the principal axes, one sd long; `flat`: (d,) the
    principal axes along which the density hardly falls, and whose length was cut to WIDEST;
    `unknown`: (d, r) directions along which nothing is known, to which the axes are orthogonal."""

    mode: Array
    axes: Array
    flat: BoolArray
    unknown: Array | None = None

    @property
    def size(self) -> int:
        return len(self.mode)

    @property
    def log_volume(self) -> float:
        """log |dx/du|."""
        return float(np.linalg.slogdet(self.axes)[1])

    @property
    def covariance(self) -> Array:
        """(d, d) of x, as the curvature has it."""
        return self.axes @ self.axes.T

    def x(self, u: Array) -> Array:
        """(d,) or (n, d) coordinates."""
        return self.mode + u @ self.axes.T

    def record(self) -> dict[str, AnyArray]:
        """The arrays that a result file keeps."""
        known: dict[str, AnyArray] = {"mode": self.mode, "axes": self.axes}
        known["flat"] = self.flat.astype(np.int8)
        return known if self.unknown is None else {**known, "unknown": self.unknown}

    def u(self, x: Array) -> Array:
        """(d,) or (n, d) standardised coordinates of x."""
        return np.asarray(np.linalg.solve(self.axes, (x - self.mode).T).T)


def standardised(
    mode: Array, hessian: Array | None, scaled: BoolArray | None = None
) -> Standardised:
    """From the mode and the Hessian (None: not to be had, so nothing is known); `scaled`: (d,)
    coordinates that are logs or logits, all unless said. Others have a unit of the user's, in which
    no length is wide by itself."""
    size = len(mode)
    if hessian is None or not np.isfinite(hessian).all():
        return Standardised(mode, WIDEST * np.eye(size), np.ones(size, dtype=bool))
    frame, curvature = _axes(mode, hessian, np.ones(size)), -np.diag(hessian)
    if scaled is None or scaled.all():
        return frame
    if not frame.flat.any() and DIGITS * curvature.max() < curvature.min():
        return frame
    scale = np.where(curvature > 0.0, 1.0 / np.sqrt(np.maximum(curvature, 1e-300)), 1.0 + abs(mode))
    return _axes(mode, hessian, np.where(scaled, 1.0, SDS * scale))


def _axes(mode: Array, hessian: Array, units: Array) -> Standardised:
    """Principal axes of the curvature in some units (d,) of the coordinates."""
    values, vectors = np.linalg.eigh(-hessian * np.outer(units, units))
    flat = values < WIDEST**-2
    lengths = 1.0 / np.sqrt(np.maximum(values, WIDEST**-2))
    # Each axis points to where its largest entry is positive, so that signs are no accident.
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(mode))])
    return Standardised(mode, units[:, None] * vectors * (signs * lengths), flat)


def gaussian_log_integral(size: int) -> float:
    """log of the integral of exp(-z'z/2) over R^size."""
    return 0.5 * size * math.log(2.0 * math.pi)
