"""Which standard deviations by draws are said to rest on few of them."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.posterior.tails import MOST, root_error, sd_error

COUNTS = """lgm 1
index obs
data o[obs] : real
data y[obs] : count
latent a ~ normal(sd = 0.1)
index g = 2
data who[obs] : g
latent u[g] ~ normal(sd = 5)
observe y ~ negbinomial(log_mean = a + u[who] + o, size = 3, hurdle = 0.3)
"""


def test_errors_of_sds_are_those_of_repeated_draws() -> None:
    """Of moderately heavy tails; of heavier ones they are large, whatever the draws."""
    rng = np.random.default_rng(0)
    draws = np.exp(0.6 * rng.normal(size=(2000, 400)))
    sds = draws.std(axis=0)
    assert np.median(sd_error(draws, 2000.0)) == pytest.approx(sds.std() / sds.mean(), rel=0.25)
    normal = rng.normal(size=(2000, 50))
    np.testing.assert_allclose(sd_error(normal, 500.0), 1.0 / np.sqrt(1000.0), rtol=0.1)
    assert sd_error(np.exp(1.5 * rng.normal(size=(4000, 50))), 4000.0).min() > MOST


def test_errors_of_what_does_not_vary_or_is_infinite() -> None:
    assert sd_error(np.ones((400, 1)), 400.0)[0] == 0.0
    assert root_error(np.array([[1.0], [np.inf]]), 2.0)[0] == 0.0
    assert 0.0 < root_error(np.array([[1e300], [1e200]]), 2.0)[0] < 1.0


def test_effects_are_averages_over_all_draws_of_the_posterior() -> None:
    """Of 4,000 of 10,000 an sd was 7 % off, and not said to be."""
    text = COUNTS.replace("latent a", "data x[obs] : real\nlatent b ~ normal(sd = 0.3)\nlatent a")
    text = text.replace("u[who] + o", "u[who] + o + b * x")
    data = {"o": [-4.0, -2.5], "who": [0, 1], "x": [0.3, -0.3], "y": [0, 1]}
    fit = lgm.fit(lgm.loads(text), data)
    assert fit.drawn is not None
    every = fit.effects("x", contrast=1, by="who", scale="link", n=len(fit.drawn))
    assert len(fit.drawn) > 4000
    found = fit.effects("x", contrast=1, by="who", scale="link")
    np.testing.assert_array_equal(found["sd"], every["sd"])


def test_few_draws_that_carry_the_variances_of_counts_are_said() -> None:
    """Overdispersed counts: mu^2 / size adds to the variance of mu, and is of the same few draws.
    Of u[0] nothing is known: mu is lognormal with log sd 5."""
    fit = lgm.fit(lgm.loads(COUNTS), {"o": [-4.0, -2.5], "who": [0, 1], "y": [0, 1]})
    assert fit.drawn is not None
    prediction = fit.predict({"o": [-4.0], "who": [0]})
    with pytest.warns(lgm.PredictionWarning, match="W611"):
        prediction.response("y")
