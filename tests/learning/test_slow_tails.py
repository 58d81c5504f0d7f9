"""W606 where an sd's own variance is infinite: its density falls off like a power of it.

Under s ~ flat, G groups and data that say where each is, the density of s falls off like s^-G (the
mean of the groups has a proper prior): s has a variance from G = 4 on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm

MODEL = """lgm 1
index obs = 12
index g = {groups}
latent a ~ normal(sd = 3)
hyper s : positive ~ {prior}
hyper e : positive ~ half_normal(sd = 1)
latent u[g] ~ normal(sd = s)
data who[obs] : g
let eta[obs] = a + u[who]
data y[obs] : real
observe y ~ normal(mean = eta, sd = e)
"""


def data(groups: int) -> dict[str, Any]:
    rng = np.random.default_rng(groups)
    who = np.arange(12) % groups
    y = (2.0 * rng.normal(size=groups))[who] + 0.5 * rng.normal(size=12)
    return {"who": who, "y": y}


@pytest.mark.parametrize(
    ("groups", "prior", "infinite"),
    [
        (2, "flat", True),
        (3, "flat", True),
        (4, "flat", False),
        (2, "half_cauchy(scale = 1)", False),  # like s^-4
        (2, "uniform(lower = 0, upper = 1000)", False),
        (2, "half_normal(sd = 3)", False),
    ],
)
def test_an_sd_whose_variance_is_infinite_is_warned_of(
    groups: int, prior: str, infinite: bool
) -> None:
    fit = lgm.fit(lgm.loads(MODEL.format(groups=groups, prior=prior)), data(groups))
    details = " ".join(d for w in fit.warnings if w.code == "W606" for d in w.details)
    assert ("the density of `s` falls off too slowly for a finite sd" in details) == infinite


def test_a_narrow_posterior_has_no_slow_tail() -> None:
    """All fits of a noise of 60 rows are within half a log of one another."""
    text = """lgm 1
index obs
data y[obs] : real
hyper noise : positive ~ flat
latent m ~ normal(sd = 5)
observe y ~ normal(mean = m, sd = noise)
"""
    fit = lgm.fit(lgm.loads(text), {"y": np.random.default_rng(0).normal(size=60)})
    assert fit.hyper == "integrate" and not fit.warnings
