"""Working residuals of a fit: what the sites' Gaussian stand-ins leave between data and predictor.

With weight W and shift b of the sites, r = W^-1 (b - W m) at the mean m of the predictor: y - m for
normal observations, (y - rate) / rate for a Poisson count under a log link.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array

LEAST = float(np.finfo(np.float64).tiny)  # so that nothing over nothing is 0
FLAT = 1e-3  # least weight, as a share of the mean squared slope, that a slope is divided by


def working_residuals(
    weight: Array, shift: Array, mean: Array, as_they_are: bool = False
) -> tuple[Array, Array]:
    """Residuals (N,) or (N, K) of the sites, and their precisions: (N,), or (N, K) along the
    principal axes of the weights of vector sites. `as_they_are`: the weights, however small next to
    the slopes, for means that are as far from the data as those of a prior may be."""
    if weight.ndim == 1:
        slope = shift - weight * mean
        precision = _curvature(weight, slope, as_they_are)
        return slope / precision, precision
    slope = shift - np.einsum("nab,nb->na", weight, mean)
    values, vectors = np.linalg.eigh(weight)
    along = np.einsum("nab,na->nb", vectors, slope)
    precision = _curvature(values, slope, as_they_are)
    return np.einsum("nab,nb->na", vectors, along / precision), precision


def residual_sd(residual: Array, precision: Array) -> float:
    """The root of the mean square of residuals weighted by their precisions; 0 without any."""
    total = float(np.sum(precision))
    square = float(np.sum(precision * residual**2))
    return float(np.sqrt(square / total)) if total > 0.0 and np.isfinite(square) else 0.0


def _curvature(weight: Array, slope: Array, as_they_are: bool) -> Array:
    """Weights; the mean squared slope, which is their expectation under the model, where they are
    next to nothing (between the kinks of linear pieces, in tails)."""
    if as_they_are:
        return np.maximum(weight, FLAT * float(np.max(weight, initial=LEAST)))
    typical = float(np.mean(slope**2)) if slope.size else 0.0
    return np.maximum(np.where(weight < FLAT * typical, typical, weight), LEAST)
