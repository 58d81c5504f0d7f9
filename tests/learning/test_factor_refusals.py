"""Which hypers take a factor: those that are scales, counted as the Gaussians that share them."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.canonical.queries.scales import log_sd_slopes, scales
from tests.compiled import canonical_form
from tests.learning.factor_models import DATA, RNG, X, rises

HEAD = "lgm 1\nindex obs\ndata y[obs] : real\ndata t[obs] : real\nlatent a ~ normal(sd = 3)\n"
REFUSED = {
    "appears in a predictor": "hyper b : real ~ normal(sd = 1)\n"
    "observe y ~ normal(mean = a + b * t, sd = 1)\n",
    "is part of the sd": "hyper b : positive ~ half_normal(sd = 1)\n"
    "observe y ~ normal(mean = a, sd = 1 + b)\n",
    "two different powers": "hyper b : positive ~ half_normal(sd = 1)\n"
    "latent c ~ normal(sd = b)\nobserve y ~ normal(mean = a + c, sd = sqrt(b))\n",
    "is the rho of `ar1`": "hyper b : correlation ~ uniform(lower = -1, upper = 1)\n"
    "latent f[obs] ~ ar1(sd = 1, rho = b)\nobserve y ~ normal(mean = a + f, sd = 1)\n",
    "appears in the prior of `c`": "hyper b : positive ~ half_normal(sd = 1)\n"
    "hyper c : positive ~ half_normal(sd = b)\nobserve y ~ normal(mean = a, sd = b * c)\n",
    "appears in no sd": "hyper b : positive ~ half_normal(sd = 1)\n"
    "observe y ~ normal(mean = a, sd = 1)\n",
}


@pytest.mark.parametrize("why", REFUSED)
def test_hypers_that_are_no_scales_are_refused_with_the_reason(why: str) -> None:
    data = {"y": DATA["y"], "t": X[:, 0]}
    with pytest.raises(lgm.MethodError) as caught:
        lgm.fit(lgm.loads(HEAD + REFUSED[why]), data, hyper="vb")
    assert why in str(caught.value) and 'fixed={"b": VALUE}' in str(caught.value)
    assert caught.value.diagnostics[0].code == "E501"
    pinned = {"b": 0.5} | ({"c": 1.0} if "hyper c" in REFUSED[why] else {})
    assert lgm.fit(lgm.loads(HEAD + REFUSED[why]), data, hyper="vb", fixed=pinned).converged


@pytest.mark.thorough
def test_a_method_without_a_lower_bound_is_refused() -> None:
    text = HEAD.replace("real\ndata t", "binary\ndata t")
    text += "hyper s : positive ~ half_normal(sd = 1)\nlatent c[obs] ~ normal(sd = s)\n"
    text += "observe y ~ bernoulli(logit = a + c)\n"
    data = {"y": DATA["y"] > 0, "t": X[:, 0]}
    for method in ("laplace", "ep"):
        with pytest.raises(lgm.MethodError, match="no lower bound"):
            lgm.fit(lgm.loads(text), data, method=method, hyper="vb")
    fit = lgm.fit(lgm.loads(text), data, method="natural-gradient", hyper="vb")
    assert fit.guarantee.value == "lower bound" and rises(fit)


def test_an_improper_factor_is_told() -> None:
    text = HEAD + "hyper s : positive ~ flat\nlatent c ~ normal(sd = s)\n"
    text += "observe y ~ normal(mean = a + c, sd = 1)\n"
    with pytest.raises(lgm.NumericalError, match="factor of `s` is improper"):
        lgm.fit(lgm.loads(text), {"y": DATA["y"], "t": X[:, 0]}, hyper="vb")


def test_the_gaussians_that_share_an_sd_are_counted() -> None:
    """Observed rows, ranks of intrinsic priors and of products, through powers and computed hypers:
    minus half the slope of the log determinants."""
    text = """lgm 1
index day
index who
data y[day, who] : real?
hyper a : positive ~ half_normal(sd = 1)
hyper b : positive ~ half_normal(sd = 1)
hyper c : positive ~ half_normal(sd = 1)
hyper half : positive = 0.5 * sqrt(c)
latent f[day] ~ rw2(sd = a)
latent g[day, who] ~ rw1(sd = b) * iid()
observe y ~ normal(mean = f + g, sd = half)
"""
    y = RNG.normal(size=(7, 3))
    y[2, 1] = np.nan
    canonical = canonical_form(text, {"y": y})
    theta = canonical.hypers.theta({"a": 2.0, "b": 3.0, "c": 4.0})
    counts = log_sd_slopes(canonical, {**theta, "half": np.asarray(1.0)}, {})
    found = {n: float(counts[n] * theta[n]) for n in ("a", "b", "c")}
    assert found == pytest.approx({"a": 5.0, "b": 6.0 * 3.0, "c": 0.5 * 20.0})
    assert scales(canonical).exponents == {"a": 1.0, "b": 1.0, "c": 0.5}
