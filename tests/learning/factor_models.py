"""A linear regression whose scales have factors, with data drawn once."""

from __future__ import annotations

import numpy as np

import lgmdsl as lgm

RNG = np.random.default_rng(5)
X = RNG.standard_normal((25, 3))
DATA = {"X": X, "y": X @ [1.0, -0.5, 0.2] + 0.5 * RNG.standard_normal(25)}

LINEAR = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real
hyper v : positive ~ {v}
hyper u : positive ~ {u}
latent w[feat] ~ normal(sd = sqrt(u))
observe y ~ normal(mean = X @ w, sd = sqrt(v))
"""
GAMMAS = "inv_gamma(shape = 2, scale = 1)", "inv_gamma(shape = 3, scale = 0.5)"


def fitted(text: str, **options: object) -> lgm.Fit:
    return lgm.fit(lgm.loads(text), DATA, **{"hyper": "vb", **options})  # type: ignore[arg-type]


def rises(fit: lgm.Fit) -> bool:
    assert fit.learning is not None
    bounds = np.array([s.objective for s in fit.learning.steps])
    return bool((np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all())
