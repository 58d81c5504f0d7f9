"""Learned scales of few answers: their tails, and those of the latents that they scale."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import lgmdsl as lgm
from lgmdsl.arrays import Array

LEVELS = np.array([0.05, 0.95])
ZEROS = """lgm 1
index obs = 2
hyper s : positive ~ exponential(rate = 0.5)
latent a ~ normal(mean = 0.1, sd = s)
let eta[obs] = a
data y[obs] : binary
observe y ~ bernoulli(probit = eta)
"""
ONE = """lgm 1
hyper s : positive ~ exponential(rate = 0.4)
latent a ~ normal(sd = s)
data y : real
observe y ~ normal(mean = a, sd = 20)
"""


def _quantiles(x: Array, density: Array) -> tuple[float, float, Array]:
    """Mean, sd and quantiles of a density on a grid."""
    mass = density * np.gradient(x)
    mass /= mass.sum()
    mean = float(mass @ x)
    ends = np.interp(LEVELS, np.cumsum(mass) - 0.5 * mass, x)
    return mean, float(np.sqrt(mass @ (x - mean) ** 2)), ends


def _exact(log_likelihood: Array, x: Array, rate: float, mean: float) -> tuple[Array, Array, Array]:
    """Densities of s on a grid and of the latent at x: the grid, and both."""
    s = np.exp(np.linspace(np.log(1e-4), np.log(60.0), 800))
    joint = np.exp(log_likelihood + stats.norm.logpdf(x, mean, s[:, None]) - rate * s[:, None])
    weight = np.gradient(x)
    return s, joint @ weight, (joint * np.gradient(s)[:, None]).sum(axis=0)


def _latents() -> Array:
    """Places dense about 0 and far out."""
    side = np.geomspace(1e-5, 400.0, 1500)
    return np.concatenate([-side[::-1], [0.0], side])


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
def test_two_zeros(seed: int) -> None:
    """The gap of the evidence is 0 at small scales and grows with large ones: a parabola through
    both cut the upper tail by 0.15 sds, and a gap of 0.04 nats at the mode was taken for none."""
    x = _latents()
    s, of_s, of_a = _exact(2.0 * stats.norm.logcdf(-x), x, 0.5, 0.1)
    fit = lgm.fit(lgm.loads(ZEROS), {"y": [0.0, 0.0]}, seed=seed)
    for name, places, density, near in (("s", s, of_s, 0.02), ("a", x, of_a, 0.12)):
        mean, sd, ends = _quantiles(places, density)
        assert float(fit.mean(name)) == pytest.approx(mean, abs=near * sd)
        assert float(fit.sd(name)) == pytest.approx(sd, rel=0.02 if name == "s" else 0.06)
        assert_allclose(fit.quantile(name, list(LEVELS)).values, ends, atol=near * sd)


@pytest.mark.parametrize("y", [0.0, 30.0])
def test_the_variance_of_a_latent_goes_with_the_square_of_its_scale(y: float) -> None:
    """Points of a lattice that have the right moments of log s alone had sds 6 % too small."""
    x = _latents()
    _, _, of_a = _exact(np.asarray(stats.norm.logpdf(y, x, 20.0)), x, 0.4, 0.0)
    mean, sd, ends = _quantiles(x, of_a)
    fit = lgm.fit(lgm.loads(ONE), {"y": y})
    assert float(fit.mean("a")) == pytest.approx(mean, abs=0.01 * sd)
    assert float(fit.sd("a")) == pytest.approx(sd, rel=0.01)
    assert_allclose(fit.quantile("a", list(LEVELS)).values, ends, atol=0.08 * sd)
