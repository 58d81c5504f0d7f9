"""PIT of censored responses: between the ends of what is known, whatever stands in y."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.arrays import Array

MODEL = """lgm 1
index obs
data y[obs] : {type}
data a[obs] : real?
data b[obs] : real?
latent level ~ normal(sd = 2)
observe y ~ {family}, lower = a, upper = b)
"""
FAMILIES = {
    "weibull": ("positive", "weibull(log_scale = level, shape = 1.5"),
    "gamma": ("positive", "gamma(log_mean = level, shape = 2"),
    "lognormal": ("positive", "lognormal(mean = level, sd = 0.7"),
    "normal": ("real", "normal(mean = level, sd = 1"),
    "student": ("real", "student_t(mean = level, scale = 1, df = 4"),
}
COUNT = 400


def drawn(name: str, rng: np.random.Generator) -> Array:
    """Responses of a family at level 0.5."""
    e = np.exp(0.5)
    made: dict[str, Callable[[], Array]] = {
        "weibull": lambda: e * rng.weibull(1.5, COUNT),
        "gamma": lambda: rng.gamma(2.0, e / 2.0, COUNT),
        "lognormal": lambda: np.exp(0.5 + 0.7 * rng.normal(size=COUNT)),
        "normal": lambda: 0.5 + rng.normal(size=COUNT),
        "student": lambda: 0.5 + rng.standard_t(4, COUNT),
    }
    return made[name]()


def known(y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Ends on a grid that does not know y: intervals, open ones, and rows that are observed."""
    width = rng.uniform(0.2, 2.0, COUNT)
    low = width * np.floor(y / width)
    high = low + width
    first, last = y < 0.6, y > 2.5
    low, high = np.where(first, np.nan, low), np.where(first, 0.6, high)
    low, high = np.where(last, 2.5, low), np.where(last, np.nan, high)
    seen = rng.random(COUNT) < 0.25
    return np.where(seen, np.nan, low), np.where(seen, np.nan, high)


@pytest.mark.parametrize("name", FAMILIES)
def test_uniform_under_the_truth_whatever_is_filled_in(name: str) -> None:
    rng = np.random.default_rng(7)
    y = drawn(name, rng)
    a, b = known(y, rng)
    positive, family = FAMILIES[name]
    model = lgm.loads(MODEL.format(type=positive, family=family))
    begin = np.where(np.isnan(a), np.where(np.isnan(b), 0.0, b - 0.3), a)
    end = np.where(np.isnan(b), begin + 4.0, b)
    pits = []
    for share in (0.1, 0.9):  # of the interval, where y is filled in
        filled = np.where(np.isnan(a) & np.isnan(b), y, begin + share * (end - begin))
        fit = lgm.fit(model, {"y": filled, "a": a, "b": b}, method="laplace")
        pits.append(fit.pit())
    low, high = pits[0].lower().values, pits[0].upper().values
    np.testing.assert_allclose(pits[1].lower().values, low, atol=1e-6)
    np.testing.assert_allclose(pits[1].upper().values, high, atol=1e-6)
    censored = ~(np.isnan(a) & np.isnan(b))
    assert (high[censored] > low[censored]).all()
    np.testing.assert_array_equal(low[~censored], high[~censored])
    np.testing.assert_allclose(low[censored & np.isnan(a)], 0.0, atol=1e-12)
    np.testing.assert_allclose(high[censored & np.isnan(b)], 1.0, atol=1e-12)
    spread = low + rng.random(COUNT) * (high - low)
    assert stats.kstest(spread, "uniform").pvalue > 0.01


def test_ends_are_those_of_the_distribution() -> None:
    """A fixed level, so that leaving a row out changes nothing: F at both ends."""
    text = MODEL.format(type="positive", family=FAMILIES["weibull"][1])
    text = text.replace("normal(sd = 2)", "normal(mean = 0.5, sd = 1e-6)")
    y, a, b = np.array([1.0, 2.0, 0.3, 1.0]), [0.5, 1.5, np.nan, np.nan], [1.8, np.nan, 0.6, np.nan]
    pit = lgm.fit(lgm.loads(text), {"y": y, "a": a, "b": b}, method="laplace").pit()
    law = stats.weibull_min(1.5, scale=np.exp(0.5))
    np.testing.assert_allclose(pit.lower(), [*law.cdf([0.5, 1.5]), 0.0, law.cdf(1.0)], atol=1e-5)
    np.testing.assert_allclose(pit.upper(), [law.cdf(1.8), 1.0, *law.cdf([0.6, 1.0])], atol=1e-5)
