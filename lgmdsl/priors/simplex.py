"""dirichlet(alpha) over the last index of a simplex hyper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.priors.prior import UNIT, VALUE, Bounds, Prior, summed_to
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class Dirichlet(Prior):
    """Gamma(sum alpha) prod x_k^(alpha_k - 1) / Gamma(alpha_k), with respect to all but one entry.

    `alpha` broadcasts over the value (..., K). The slope in the value is that of the formula in
    all K entries: only its part within the simplex means anything.
    """

    alpha: Array
    signature = declared("prior", "dirichlet")

    @property
    def weights(self) -> Array:
        return self.alpha

    @property
    def bounds(self) -> Bounds:
        return UNIT

    def log_density(self, value: Array) -> float:
        value = np.asarray(value, dtype=np.float64)
        if not ((value >= 0.0).all() and np.allclose(value.sum(axis=-1), 1.0, atol=1e-8)):
            return -np.inf
        alpha = np.broadcast_to(self.alpha, value.shape)
        powers = special.xlogy(alpha - 1.0, value) - special.gammaln(alpha)
        return float(powers.sum() + special.gammaln(alpha.sum(axis=-1)).sum())

    def gradient(self, value: Array) -> dict[str, Array]:
        value = np.asarray(value, dtype=np.float64)
        alpha = np.broadcast_to(self.alpha, value.shape)
        whole = special.digamma(alpha.sum(axis=-1, keepdims=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.log(value) - special.digamma(alpha) + whole
            inside = np.where(alpha == 1.0, 0.0, (alpha - 1.0) / value)
        return {VALUE: inside, "alpha": summed_to(slopes, value, self.alpha.shape)}

    def sample(self, rng: Generator, shape: tuple[int, ...] = ()) -> Array:
        # x_k = G_k U^(1/alpha_k), G_k of shape alpha_k + 1: in logs small alphas do not underflow
        alpha = np.broadcast_to(self.alpha, shape)
        logs = np.log(rng.standard_gamma(alpha + 1.0)) + np.log(1.0 - rng.random(shape)) / alpha
        return np.maximum(special.softmax(logs, axis=-1), _LEAST)

    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        """The mean."""
        alpha = np.broadcast_to(self.alpha, shape)
        return np.asarray(alpha / alpha.sum(axis=-1, keepdims=True))
