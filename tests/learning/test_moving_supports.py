"""Families whose support moves with their parameters, flat priors, against SciPy's maximum."""

from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

import lgmdsl as lgm
from lgmdsl.arrays import Array

PARETO = """lgm 1
index obs
data x[obs] : real
data y[obs] : positive
hyper q : real ~ flat()
{unknown}
observe y ~ generalized_pareto(log_scale = a + b * x, shape = q)
"""
HYPERS = "hyper a : real ~ flat()\nhyper b : real ~ flat()"
LATENTS = "latent a ~ flat()\nlatent b ~ flat()"


def _excesses(shape: float, n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=n)
    scale = np.exp(0.5 + 0.3 * x)
    return x, np.asarray(stats.genpareto.rvs(shape, scale=scale, random_state=rng))


def _negative(p: Array, x: Array, y: Array) -> float:
    value = -np.sum(stats.genpareto.logpdf(y, p[2], scale=np.exp(p[0] + p[1] * x)))
    return float(value) if np.isfinite(value) else 1e10


@pytest.mark.parametrize("shape", [0.2, -0.3])
def test_flat_hypers_reach_the_maximum_of_the_likelihood(shape: float) -> None:
    x, y = _excesses(shape, 150)
    fit = lgm.fit(lgm.loads(PARETO.format(unknown=HYPERS)), {"x": x, "y": y}, hyper="map")
    start = np.array([np.log(y.max()), 0.0, 0.0])
    options: Any = {"xatol": 1e-9, "fatol": 1e-12, "maxfev": 5000}
    known = optimize.minimize(_negative, start, args=(x, y), method="Nelder-Mead", options=options)
    assert fit.converged
    assert fit.log_evidence == pytest.approx(-known.fun, abs=1e-4)
    for name, value in zip("abq", known.x, strict=True):
        assert abs(float(fit.mean(name)) - value) < 1e-3 * float(fit.sd(name))


@pytest.mark.thorough
def test_a_far_trial_of_the_search_begins_at_the_prior_again() -> None:
    """From the fit at shape -0.1 EP at -0.7 moved for hours through its last resorts."""
    x, y = _excesses(-0.3, 300)
    fit = lgm.fit(lgm.loads(PARETO.format(unknown=LATENTS)), {"x": x, "y": y}, hyper="map")
    assert fit.converged
    assert fit.learning.iterations < 400
