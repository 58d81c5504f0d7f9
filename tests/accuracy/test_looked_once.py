"""The fits of a mixture that the estimate of errors looks at are conditioned once."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.accuracy import better as errors_of_q
from lgmdsl.api.fit.errors import estimated, hyper_errors
from lgmdsl.assess import ladder

MODEL = """lgm 1
index obs
index k = 4
data g[obs] : k
data x[obs] : real
data y[obs] : binary
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent a ~ normal(sd = 3)
latent b ~ normal(sd = 3)
latent u[k] ~ normal(sd = s)
let eta[obs] = a + b * x + u[g]
observe y ~ bernoulli(logit = eta)
"""


def test_each_fit_of_a_small_mixture_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[int] = Counter()
    asked: Counter[float] = Counter()
    plain, series = hyper_errors.conditioned, errors_of_q.better

    def conditioned(problem: Any, fitted: Any) -> Any:
        seen[id(fitted)] += 1
        return plain(problem, fitted)

    def better(planned: Any, theta: Any, *rest: Any, **more: Any) -> Any:
        asked[float(theta["s"])] += 1
        return series(planned, theta, *rest, **more)

    for module in (estimated, hyper_errors):
        monkeypatch.setattr(module, "conditioned", conditioned)
    for module in (estimated, ladder):
        monkeypatch.setattr(module, "better", better)
    rng = np.random.default_rng(1)
    x, g = rng.normal(size=25), rng.integers(0, 4, 25)
    y = (rng.random(25) < 1 / (1 + np.exp(-0.4 * x))).astype(int)
    fit = lgm.fit(lgm.loads(MODEL), {"g": g, "x": x, "y": y}, options={"correction": "off"})
    assert seen and set(seen.values()) == {1}
    assert max(asked.values()) == 1
    assert fit.accuracy.evidence > 0.0  # a variational bound of the evidence is below it
