"""Few latents by importance sampling, against quadrature."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.accuracy.better import better
from lgmdsl.accuracy.weighed import weighed
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.inference.plan import plan
from tests.accuracy.models import ZERO

TWO = """lgm 1
index obs
data y[obs] : real
latent a ~ normal(sd = 3)
let eta[obs] = a + 0
observe y ~ student_t(mean = eta, df = 2.5, scale = 0.5)
"""


def described(log: Array, x: Array) -> tuple[float, float, float, float, float]:
    """Log integral, mean, sd, 5 and 95 % points on a grid."""
    top = log.max()
    weight = np.exp(log - top)
    total = np.trapezoid(weight, x)
    mean = np.trapezoid(weight * x, x) / total
    sd = np.sqrt(np.trapezoid(weight * (x - mean) ** 2, x) / total)
    low, high = np.interp([0.05, 0.95], np.cumsum(weight) / weight.sum(), x)
    return float(top + np.log(total)), float(mean), float(sd), float(low), float(high)


def zero_grid() -> tuple[float, float, float, float, float]:
    x = np.linspace(-60.0, 10.0, 70001)
    log = -0.005 * x**2 - 47.0 * np.logaddexp(0.0, x) - np.log(10.0 * np.sqrt(2.0 * np.pi))
    return described(log, x)


@pytest.mark.parametrize("method", ["natural-gradient", "laplace", "ep"])
def test_errors_of_a_skewed_posterior_are_exact(method: str) -> None:
    """A count of 0 of 47: the series overstates the sd's error, the points do not."""
    evidence, mean, sd, low, high = zero_grid()
    fit = lgm.fit(lgm.loads(ZERO), {"y": [0], "n": [47]}, method=method)
    q = fit.posterior.conditioned
    known = better(plan(fit.canonical, method), fit.theta, q, fit.log_evidence)
    assert known is not None and fit.accuracy.basis == "importance sampling"
    errors, m, s = known.errors(), float(fit.mean("a")), float(fit.sd("a"))
    ends = np.abs([m - 1.6448536 * s - low, m + 1.6448536 * s - high]) / sd
    assert known.log_evidence == pytest.approx(evidence, abs=0.01)
    assert errors.mean[0] == pytest.approx((m - mean) / sd, abs=0.02)
    assert errors.sd[0] == pytest.approx(s / sd - 1.0, abs=0.02)
    assert errors.quantile[0] == pytest.approx(ends.max(), abs=0.05)


def test_two_modes_of_a_heavy_tailed_likelihood() -> None:
    """A Gaussian's third derivatives are 0 there, and its fourth say a third of it."""
    y = np.array([-3.0, 3.0])
    fit = lgm.fit(lgm.loads(TWO), {"y": y}, options={"correction": "off"})
    x = np.linspace(-25.0, 25.0, 50001)
    log = -0.5 * (x / 3.0) ** 2 - 1.75 * np.log1p((y[:, None] - x) ** 2 / (2.5 * 0.25)).sum(axis=0)
    _, mean, sd, _, _ = described(log, x)
    assert fit.accuracy.basis == "importance sampling"
    assert fit.accuracy.mean == pytest.approx(abs(float(fit.mean("a")) - mean) / sd, abs=0.03)
    assert fit.accuracy.sd == pytest.approx(abs(float(fit.sd("a")) / sd - 1.0), abs=0.03)
    assert fit.accuracy.sd > 0.1 and not fit.accuracy.within


def test_no_yardstick_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no variational Gaussian is to be had, the weights start from the fit itself."""
    monkeypatch.setattr("lgmdsl.accuracy.better.AFFORDABLE", 0.0)
    evidence, mean, sd, _, _ = zero_grid()
    fit = lgm.fit(lgm.loads(ZERO), {"y": [0], "n": [47]}, method="laplace")
    assert fit.accuracy.basis == "importance sampling"
    assert fit.accuracy.mean == pytest.approx((float(fit.mean("a")) - mean) / sd, abs=0.03)
    assert fit.log_evidence_corrected == pytest.approx(evidence, abs=0.02)


def far_off() -> tuple[lgm.Fit, Conditioned]:
    """A fit of many answers, and a Gaussian that knows of none."""
    fit = lgm.fit(lgm.loads(ZERO), {"y": [470] * 9, "n": [4700] * 9})
    weight, shift = fit.posterior.weight, fit.posterior.shift
    engine = plan(fit.canonical).at(fit.theta).engine
    q = engine.condition(tuple(0.0 * w for w in weight), tuple(0.0 * b for b in shift))
    assert not isinstance(q, Failed)
    return fit, q


def test_uneven_weights_say_nothing() -> None:
    fit, q = far_off()
    sites, linear = fit.canonical.sites(fit.theta), fit.canonical.linear(fit.theta)
    assert weighed(sites, linear, q, 0) is None
    assert weighed(sites, linear, fit.posterior.conditioned, 0) is not None


def test_quantiles_of_lets_are_those_of_their_latents() -> None:
    fit = lgm.fit(lgm.loads(ZERO), {"y": [0, 1], "n": [47, 3]}, options={"correction": "off"})
    q, linear = fit.posterior.conditioned, fit.canonical.linear(fit.theta)
    known = weighed(fit.canonical.sites(fit.theta), linear, q, 3)
    assert known is not None
    (form,) = (tree.form for _, tree in fit.canonical.named.values())
    functional = fit.canonical.predictor(form, ("obs",), fit.theta)
    for one, two in zip(known.moments(None), known.moments(functional), strict=True):
        np.testing.assert_allclose(two, np.full(2, one[0]), rtol=1e-9)
