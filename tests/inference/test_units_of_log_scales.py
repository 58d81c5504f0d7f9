"""Families with a predictor for the logarithm of their scale have no unit of their own: the same
data in another unit or from another origin give the same fit."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit

ROWS = 30
MODEL = """lgm 1
index obs
index who
data x[obs] : real
data of[obs] : who
data y[obs] : real
latent a ~ {a}
latent b ~ {b}
latent c ~ {c}
latent d ~ normal(sd = 1)
latent u[who] ~ normal(sd = {sd!r})
let eta[obs] = a + b * x + u[of]
let zeta[obs] = c + d * x
observe y ~ {family}
"""


def fitted(family: str, method: str, unit: float, flat: bool, origin: float = 0.0) -> Fit:
    rng = np.random.default_rng(0)
    x, of = rng.normal(size=ROWS), np.arange(ROWS) % 5
    y = 1.0 + 0.5 * x + 0.5 * rng.normal(size=5)[of] + np.exp(0.3 * x) * rng.normal(size=ROWS)
    priors = {
        "a": f"normal(mean = {origin * unit!r}, sd = {3.0 * unit!r})",
        "b": f"normal(sd = {2.0 * unit!r})",
        "c": f"normal(mean = {float(np.log(unit))!r}, sd = 2)",
    }
    flats = dict.fromkeys(priors, "flat")
    text = MODEL.format(family=family, sd=0.7 * unit, **(flats if flat else priors))
    return lgm.fit(lgm.loads(text), {"x": x, "of": of, "y": unit * (y + origin)}, method)


def summary(fit: Fit, unit: float, flat: bool, origin: float = 0.0) -> list[float]:
    """log p(y), means and sds in units of 1."""
    log_unit = float(np.log(unit))
    gain = (ROWS - 2 * flat) * log_unit  # a flat prior has density 1 in either unit
    level = float(fit.mean("a")) / unit - origin
    means = [level, float(fit.mean("b")) / unit, float(fit.mean("c")) - log_unit]
    sds = [float(fit.sd("a")) / unit, float(fit.sd("b")) / unit, float(fit.sd("c"))]
    return [fit.log_evidence + gain, *means, *sds]


@pytest.mark.few(9)
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("method", ["laplace", "natural-gradient"])
@pytest.mark.parametrize("unit", [1e6, 1e20, 1e-20])
def test_the_unit_of_the_data_is_irrelevant(unit: float, method: str, flat: bool) -> None:
    family = "normal(mean = eta, log_sd = zeta)"
    one, two = fitted(family, method, 1.0, flat), fitted(family, method, unit, flat)
    assert one.converged and two.converged
    np.testing.assert_allclose(summary(two, unit, flat), summary(one, 1.0, flat), atol=2e-5)


@pytest.mark.parametrize(
    ("family", "method"),
    [
        ("student_t(mean = eta, df = 30, log_scale = zeta)", "laplace"),
        ("normal(mean = eta, log_sd = zeta, weight = 2)", "laplace"),
        ("normal(mean = eta, log_sd = zeta)", "ep"),
    ],
)
def test_so_it_is_for_other_families_and_methods(family: str, method: str) -> None:
    unit = 1e-20
    one, two = fitted(family, method, 1.0, False), fitted(family, method, unit, False)
    assert one.converged and two.converged
    got = summary(two, unit, False)
    got[0] += ROWS * np.log(unit) * ("weight" in family)  # each density counts twice
    np.testing.assert_allclose(got, summary(one, 1.0, False), atol=2e-5)


@pytest.mark.parametrize("flat", [False, True])
def test_the_origin_of_the_data_is_irrelevant(flat: bool) -> None:
    family = "normal(mean = eta, log_sd = zeta)"
    one = fitted(family, "natural-gradient", 1.0, flat)
    two = fitted(family, "natural-gradient", 1.0, flat, origin=1e9)
    assert one.converged and two.converged
    # Data of 1e9 keep seven digits behind the point.
    np.testing.assert_allclose(summary(two, 1.0, flat, 1e9), summary(one, 1.0, flat), atol=2e-5)


def test_a_learned_sd_has_the_unit_of_the_data() -> None:
    rng = np.random.default_rng(3)
    of = np.repeat(np.arange(8), 5)
    y = 1.0 + 0.7 * rng.normal(size=8)[of] + rng.normal(size=40)
    text = """lgm 1
index obs
index who
data of[obs] : who
data y[obs] : real
hyper s : positive ~ half_normal(sd = {sd!r})
latent a ~ flat
latent c ~ flat
latent u[who] ~ normal(sd = s)
let eta[obs] = a + u[of]
observe y ~ normal(mean = eta, log_sd = c)
"""
    sds = []
    for unit in (1.0, 1e20):
        model = lgm.loads(text.format(sd=2.0 * unit))
        fit = lgm.fit(model, {"of": of, "y": unit * y}, "laplace", hyper="map")
        assert fit.converged
        sds.append(float(fit.mean("s")) / unit)
    assert sds[1] == pytest.approx(sds[0], rel=1e-4)
