"""Hyperparameters that are `real` have a unit of the user's: no length in it is wide by itself."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm

MODEL = """lgm 1
index obs
data y[obs] : real
hyper mu : real ~ normal(mean = {mean!r}, sd = {prior!r})
latent u[obs] ~ normal(sd = {sd!r})
observe y ~ normal(mean = mu + u, sd = {noise!r})
"""


@pytest.mark.parametrize("unit", [0.01, 1.0, 1e4])
@pytest.mark.parametrize("way", ["map", "em"])
@pytest.mark.parametrize("mean", [0.0, 250.0])
def test_the_sd_of_a_location_follows_its_unit(unit: float, way: str, mean: float) -> None:
    y = 250.0 + 20.0 * np.random.default_rng(0).standard_normal(5)
    text = MODEL.format(mean=mean * unit, prior=1000.0 * unit, sd=unit, noise=20.0 * unit)
    fit = lgm.fit(lgm.loads(text), {"y": y * unit}, hyper=way)
    exact = (5.0 / (20.0**2 + 1.0) + 1000.0**-2) ** -0.5
    assert fit.converged and not {"W604", "W605"} & {w.code for w in fit.warnings}
    assert float(fit.sd("mu")) == pytest.approx(unit * exact, rel=1e-5)


def test_correlated_locations_are_no_flat_direction() -> None:
    """Two intercepts whose sum alone is well known, in a large unit."""
    text = """lgm 1
index obs
data y[obs] : real
hyper a : real ~ normal(mean = 0, sd = 1000)
hyper b : real ~ normal(mean = 0, sd = 1000)
latent u[obs] ~ normal(sd = 1)
observe y ~ normal(mean = a + b + u, sd = 20)
"""
    y = 250.0 + 20.0 * np.random.default_rng(0).standard_normal(5)
    fit = lgm.fit(lgm.loads(text), {"y": y}, hyper="map")
    precision = np.full((2, 2), 5.0 / (20.0**2 + 1.0)) + np.eye(2) * 1e-6
    exact = float(np.sqrt(np.linalg.inv(precision)[0, 0]))
    assert float(fit.sd("a")) == pytest.approx(exact, rel=1e-4)
