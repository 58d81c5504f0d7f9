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


def on_a_scale(unit: float, hyper: str, prior: str = "flat") -> lgm.Fit:
    """An offset whose data are in so large a unit, or small, and a noise sd."""
    text = f"""lgm 1
index obs
data y[obs] : real
hyper mu : real ~ {prior}
hyper t : positive ~ half_normal(sd = {100.0 * unit!r})
latent u[obs] ~ normal(sd = {unit!r})
observe y ~ normal(mean = mu + u, sd = t)
"""
    y = unit * (250.0 + 20.0 * np.random.default_rng(0).standard_normal(30))
    return lgm.fit(lgm.loads(text), {"y": y}, hyper=hyper)


@pytest.mark.parametrize("hyper", ["map", "em", "integrate"])
@pytest.mark.parametrize("unit", [1e4, 1e8])
def test_a_location_far_from_0_in_units_of_1(unit: float, hyper: str) -> None:
    """The slope of a location is its distance over the variance, in units of 1 next to nothing: the
    search ended at 0 with a noise sd that was ten times too large, and no integral held."""
    near, far = on_a_scale(1.0, hyper), on_a_scale(unit, hyper)
    assert far.converged and not {"W604", "W606"} & {w.code for w in far.warnings}
    # a flat prior counts lengths, the prior of t and the data's densities too
    shift = -30.0 * np.log(unit) + (np.log(unit) if hyper == "integrate" else 0.0)
    assert far.log_evidence == pytest.approx(near.log_evidence + shift, abs=0.05)
    for name in ("mu", "t"):
        sd = float(near.sd(name))
        assert float(far.theta[name]) / unit == pytest.approx(float(near.theta[name]), abs=0.1 * sd)
        assert float(far.sd(name)) / unit == pytest.approx(sd, rel=0.02)


def test_a_coefficient_of_a_covariate_in_a_tiny_unit() -> None:
    """x in units in which its coefficient is 2e4: the maximum, and the sd next to a term that is at
    its edge, are those of x in units of 1."""
    text = """lgm 1
index i
data y[i] : count
data x[i] : real
hyper d : real ~ normal(sd = {sd!r})
hyper s : positive ~ half_normal(sd = 1)
latent u[i] ~ normal(sd = s)
let eta[i] = 1 + d * x + u
observe y ~ poisson(log_rate = eta)
"""
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    y = rng.poisson(np.exp(1.0 + 0.5 * x))
    fits = [
        lgm.fit(lgm.loads(text.format(sd=5.0 / c)), {"x": c * x, "y": y}, hyper="map")
        for c in (1.0, 1e-5)
    ]
    near, far = fits
    assert near.converged and far.converged and "W604" not in {w.code for w in far.warnings}
    assert far.log_evidence == pytest.approx(near.log_evidence, abs=1e-3)
    sd = float(near.sd("d"))
    assert 1e-5 * float(far.theta["d"]) == pytest.approx(float(near.theta["d"]), abs=0.02 * sd)
    assert 1e-5 * float(far.sd("d")) == pytest.approx(sd, rel=0.01)
