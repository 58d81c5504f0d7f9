"""Which standard deviations by draws are said to rest on few of them."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.posterior.tails import largest_share

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


def test_shares_are_those_of_the_largest_terms() -> None:
    terms = np.ones((400, 2))
    terms[:4, 0] = 396.0
    np.testing.assert_allclose(largest_share(terms), [0.8, 0.01])


def test_few_draws_that_carry_the_variances_of_counts_are_said() -> None:
    """Overdispersed counts: mu^2 / size adds to the variance of mu, and is of the same few draws.
    Of u[0] nothing is known: mu is lognormal with log sd 5."""
    fit = lgm.fit(lgm.loads(COUNTS), {"o": [-4.0, -2.5], "who": [0, 1], "y": [0, 1]})
    assert fit.drawn is not None
    prediction = fit.predict({"o": [-4.0], "who": [0]})
    with pytest.warns(lgm.PredictionWarning, match="W611"):
        prediction.response("y")
