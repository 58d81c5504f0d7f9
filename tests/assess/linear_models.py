"""Models whose sites are all Gaussian, with everything about them in dense algebra."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import AnyArray, Array

TEXT = """lgm 1
index obs
index subject
data x[obs] : real
data who[obs] : subject
data y[obs] : real?
hyper noise : positive ~ half_normal(sd = 1)
hyper spread : positive ~ half_normal(sd = 1)
latent a ~ normal(sd = 2)
latent b ~ normal(sd = 2)
latent u[subject] ~ normal(sd = spread)
let eta[obs] = 0.3 + a + b * x + u[who]
observe y ~ normal(mean = eta, sd = noise)
"""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A random intercept model with some responses missing."""

    data: dict[str, AnyArray]

    @property
    def seen(self) -> AnyArray:
        return np.flatnonzero(np.isfinite(self.data["y"]))

    @property
    def y(self) -> Array:
        return np.asarray(self.data["y"][self.seen])

    @property
    def groups(self) -> AnyArray:
        return np.asarray(self.data["who"][self.seen])

    def fit(self, noise: float = 0.6, spread: float = 0.8, **settings: Any) -> Fit:
        fixed = {"noise": noise, "spread": spread}
        return lgm.fit(lgm.loads(TEXT), self.data, fixed=fixed, **settings)

    def prior(self, noise: float = 0.6, spread: float = 0.8) -> tuple[Array, Array, Array]:
        """Mean and covariance of the predictors, and covariance of the responses."""
        x, who = self.data["x"][self.seen], self.groups
        k = 4.0 + 4.0 * np.outer(x, x) + spread**2 * (who[:, None] == who[None, :])
        return np.full(len(x), 0.3), k, k + noise**2 * np.eye(len(x))

    def log_density(self, rows: AnyArray, **hypers: float) -> float:
        """log p(y_rows)."""
        mean, _, cov = self.prior(**hypers)
        return float(
            stats.multivariate_normal(mean[rows], cov[np.ix_(rows, rows)]).logpdf(self.y[rows])
        )

    def without(self, rows: AnyArray) -> AnyArray:
        return np.setdiff1d(np.arange(len(self.y)), rows)


def linear_model(seed: int, rows: int = 15) -> LinearModel:
    rng = np.random.default_rng(seed)
    x, who = rng.normal(size=rows), np.arange(rows) % 4
    y = 0.3 + x + 0.8 * rng.normal(size=4)[who] + 0.6 * rng.normal(size=rows)
    y[rng.choice(rows, 2, replace=False)] = np.nan
    return LinearModel({"x": x, "who": who, "y": y})
