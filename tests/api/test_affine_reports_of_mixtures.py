"""One point of a mixture says whether a report is Gaussian: each of them is a conditioning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import lgmdsl as lgm
from lgmdsl.posterior.marginals import Marginals
from lgmdsl.posterior.mixture import Mixture

TEXT = """lgm 1
index obs
index group
data y[obs] : count
data who[obs] : group
hyper s : positive ~ half_normal(sd = 2)
latent a ~ normal(sd = 5)
latent u[group] ~ normal(sd = s)
let eta[obs] = a + u[who]
observe y ~ poisson(log_rate = eta)
report twice = 2 * a
report root = sqrt(a)
"""


def test_one_point_says_that_an_affine_report_is_defined() -> None:
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(6), 5)
    data = {"y": rng.poisson(np.exp(0.3 * rng.normal(size=6)[who])), "who": who}
    fit = lgm.fit(lgm.loads(TEXT), data, hyper="integrate")
    mixture = fit.marginals
    assert isinstance(mixture, Mixture) and len(mixture.parts) > 3
    made: list[int] = []

    def counted(k: int, part: Callable[[], Marginals]) -> Callable[[], Marginals]:
        def make() -> Marginals:
            made.append(k)
            return part()

        return make

    parts = tuple(counted(k, part) for k, part in enumerate(mixture.parts))
    fresh = replace(mixture, parts=parts)
    assert fresh.undefined("twice") == 0.0 and made == [0]
    assert fresh.undefined("root") > 0.01 and len(made) > 1
