"""Loadings of which nothing is left are told (W608)."""

from __future__ import annotations

import numpy as np

import lgmdsl as lgm

MODEL = """lgm 1
index person
index item
data y[person, item] : binary
hyper c[item] : real ~ normal(sd = 3)
hyper L[item] : real ~ normal(sd = 1)
latent z[person] ~ normal(sd = 1)
let eta[person, item] = c + L * z
observe y ~ bernoulli(probit = eta)
"""


def test_a_mean_field_may_lose_the_factor() -> None:
    """The bound of px-vb is highest without it; that of a Gaussian q is not."""
    rng = np.random.default_rng(1)
    eta = np.outer(rng.normal(size=120), [0.6, -0.42, 0.72, 0.36])
    data = {"y": (eta + rng.normal(size=eta.shape) > 0).astype(int)}
    lost = lgm.fit(lgm.loads(MODEL), data, "px-vb", "em")
    assert np.abs(lost.mean("L")).max() < 1e-4
    assert "W608" in [w.code for w in lost.warnings]
    kept = lgm.fit(lgm.loads(MODEL), data, "natural-gradient", "em")
    assert np.abs(kept.mean("L")).max() > 0.3
    assert "W608" not in [w.code for w in kept.warnings]
