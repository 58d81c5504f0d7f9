"""Second-order corrections of evidence and variances, against quadrature and one another."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.accuracy import derivatives
from lgmdsl.accuracy import second_order as module
from lgmdsl.accuracy.better import Unknown, better
from lgmdsl.accuracy.derivatives import Derivatives
from lgmdsl.accuracy.expansion import expansion
from lgmdsl.accuracy.second_order import second_order
from lgmdsl.accuracy.terms import SecondOrder
from lgmdsl.arrays import Array
from lgmdsl.inference.plan import plan

COUNTS = """lgm 1
index obs
index g
data y[obs] : count
data who[obs] : g
latent a ~ normal(sd = 2)
latent u[g] ~ normal(sd = 0.7)
let eta[obs] = a + u[who]
observe y ~ poisson(log_rate = eta)
"""
COUNT_DATA = {"y": [0, 2, 1, 0, 5, 3], "who": [0, 0, 1, 1, 2, 2]}

ZERO = """lgm 1
index obs
data y[obs] : count
data n[obs] : count
latent a ~ normal(sd = {sd})
let eta[obs] = a + 0
observe y ~ binomial(n = n, logit = eta)
"""


def expanded(fit: lgm.Fit, tilted: bool = False, alone: bool = False) -> SecondOrder:
    q, theta = fit.posterior.conditioned, fit.theta
    at = expansion(fit.canonical.sites(theta), q.mean, q.variance)
    given = Derivatives.of(at.third, at.fourth, q)
    return second_order(fit.canonical.linear(theta), q, given, 0, tilted, alone)


def moments(log_density: Array, x: Array) -> tuple[float, float, float]:
    """log of the integral, mean and sd on a grid."""
    top = log_density.max()
    weight = np.exp(log_density - top)
    total = np.trapezoid(weight, x)
    mean = np.trapezoid(weight * x, x) / total
    variance = np.trapezoid(weight * (x - mean) ** 2, x) / total
    return float(top + np.log(total)), float(mean), float(np.sqrt(variance))


@pytest.mark.parametrize("tilted", [False, True])
def test_all_rows_and_the_tensor_agree(tilted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = lgm.fit(lgm.loads(COUNTS), COUNT_DATA)
    by_tensor = expanded(fit, tilted)
    monkeypatch.setattr(module, "FEW_LATENTS", 0)
    by_rows = expanded(fit, tilted)
    assert by_tensor.exact and by_rows.exact
    assert by_rows.evidence == pytest.approx(by_tensor.evidence, rel=1e-9)
    assert expanded(fit, tilted, alone=True).evidence == by_rows.evidence
    np.testing.assert_allclose(by_rows.variances(), by_tensor.variances(), rtol=1e-9)
    one, other = by_rows.cumulants(), by_tensor.cumulants()
    assert one is not None and other is not None
    np.testing.assert_allclose(one, other, rtol=1e-9)
    if not tilted:  # signs of one seed stand for what a row adds alone there
        assert by_rows.moved is not None and by_tensor.moved is not None
        np.testing.assert_allclose(by_rows.moved, by_tensor.moved, rtol=1e-9)


def test_draws_agree_with_what_is_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = lgm.fit(lgm.loads(COUNTS), COUNT_DATA)
    summed = expanded(fit)
    monkeypatch.setattr(module, "FEW_LATENTS", 0)
    monkeypatch.setattr(module, "FEW_ROWS", 0)
    monkeypatch.setattr(module, "LOW", 0.0)
    monkeypatch.setattr(derivatives, "PAIRS", (4000, 4000))
    monkeypatch.setattr(module, "FEW", (100, 100))
    drawn = expanded(fit)
    assert not drawn.exact
    assert drawn.evidence == pytest.approx(summed.evidence, rel=0.2)
    np.testing.assert_allclose(drawn.variances(), summed.variances(), rtol=0.2)
    assert drawn.moved is not None and summed.moved is not None
    np.testing.assert_allclose(drawn.moved, summed.moved, rtol=0.2, atol=1e-3)
    assert drawn.again is not None
    form = fit.canonical.named["eta"][1].form
    functional = fit.canonical.predictor(form, ("obs",), fit.theta)
    variances, cumulants = drawn.again.variances_and_cumulants(functional)
    np.testing.assert_allclose(variances, summed.variances(functional), rtol=0.2)
    exact = summed.cumulants(functional)
    assert exact is not None
    np.testing.assert_allclose(cumulants, exact, rtol=1e-9)


@pytest.mark.parametrize("sd", [0.3, 0.6])
def test_what_is_left_is_of_a_higher_order(sd: float) -> None:
    """A zero count under a prior of small sd: evidence and variance against quadrature; halving the
    sd divides the relative error of the corrections by four and more."""
    fit = lgm.fit(lgm.loads(ZERO.format(sd=sd)), {"y": [0], "n": [20]})
    x = np.linspace(-12.0 * sd, 8.0 * sd, 40001)
    log_density = -0.5 * (x / sd) ** 2 - 20.0 * np.logaddexp(0.0, x)
    log_density -= 0.5 * np.log(2.0 * np.pi) + np.log(sd)
    evidence, _, true = moments(log_density, x)
    change = expanded(fit)
    gap, spread = evidence - fit.log_evidence, true**2 - float(fit.sd("a")) ** 2
    tolerance = 0.35 * sd
    assert change.evidence == pytest.approx(gap, rel=tolerance)
    assert float(change.variances()[0]) == pytest.approx(spread, rel=tolerance)


def test_one_tilted_site_is_exact_but_for_its_skewness() -> None:
    fit = lgm.fit(lgm.loads(ZERO.format(sd=10)), {"y": [0], "n": [47]}, method="ep")
    change = expanded(fit, tilted=True)
    assert change.evidence == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(change.variances(), 0.0, atol=1e-9)
    cumulants = change.cumulants()
    assert cumulants is not None and float(cumulants[0]) < 0.0


def test_third_derivatives_of_classes_by_differences() -> None:
    """E[l''' ] of a softmax site is the slope of E[l''] in the mean."""
    text = """lgm 1
index obs
index k
data y[obs] : k
latent b[k] ~ normal(sd = 1.5)
let eta[obs, k] = b
observe y ~ categorical(softmax = eta)
"""
    fit = lgm.fit(lgm.loads(text), {"y": np.array(["a", "b", "c", "a"])})
    (site,), q = fit.canonical.sites(fit.theta), fit.posterior.conditioned
    mean, variance = q.mean[0], q.variance[0]
    third = expansion((site,), (mean,), (variance,)).third[0]
    for j in range(3):
        step = np.zeros(3)
        step[j] = 1e-4
        ends = [
            expansion((site,), (mean + s * step,), (variance,)).curvature[0] for s in (1.0, -1.0)
        ]
        np.testing.assert_allclose(third[:, j], (ends[0] - ends[1]) / 2e-4, atol=1e-4)


@pytest.mark.parametrize("method", ["laplace", "double-loop"])
def test_other_methods_are_held_against_a_variational_gaussian(method: str) -> None:
    """The zero count: mean, sd and evidence of each method against quadrature."""
    fit = lgm.fit(lgm.loads(ZERO.format(sd=3)), {"y": [1], "n": [20]}, method=method)
    x = np.linspace(-40.0, 20.0, 40001)
    log_density = -0.5 * (x / 3.0) ** 2 + np.log(20.0) + x - 20.0 * np.logaddexp(0.0, x)
    evidence, mean, sd = moments(log_density - 0.5 * np.log(18.0 * np.pi), x)
    known = better(
        plan(fit.canonical, method), fit.theta, fit.posterior.conditioned, fit.log_evidence
    )
    assert known is not None
    errors = known.errors()
    assert known.log_evidence == pytest.approx(evidence, abs=0.03)
    assert errors.mean[0] == pytest.approx((float(fit.mean("a")) - mean) / sd, abs=0.1)
    assert errors.sd[0] == pytest.approx(float(fit.sd("a")) / sd - 1.0, abs=0.06)


def test_gaussian_sites_are_exact() -> None:
    text = """lgm 1
index obs
data y[obs] : real
latent a ~ normal(sd = 2)
let m[obs] = a + 0
observe y ~ normal(mean = m, sd = 1)
"""
    fit = lgm.fit(lgm.loads(text), {"y": [1.0, 2.0]})
    assert fit.accuracy.basis == "exact" and fit.accuracy.within
    assert (fit.accuracy.mean, fit.accuracy.sd, fit.accuracy.evidence) == (0.0, 0.0, 0.0)
    assert fit.log_evidence_corrected == fit.log_evidence


def test_a_mode_alone_says_that_nothing_is_known() -> None:
    fit = lgm.fit(lgm.loads(COUNTS), COUNT_DATA, method="map")
    assert not fit.accuracy.known and "mode" in fit.accuracy.basis
    assert np.isnan(fit.accuracy.mean) and np.isnan(fit.log_evidence_corrected)
    with pytest.raises(Unknown):
        raise Unknown("said in words")


def test_estimates_of_an_engine_are_not_estimated_again() -> None:
    text = COUNTS.replace("poisson(log_rate = eta)", "bernoulli(logit = eta)")
    data = {"y": [0, 1, 1, 0, 1, 1], "who": COUNT_DATA["who"]}
    text = text.replace(": count", ": binary")
    fit = lgm.fit(lgm.loads(text), data, "double-loop", options={"engine": "iterative"})
    assert fit.converged and not fit.accuracy.known
    assert "the engine's own answers are estimates" in fit.accuracy.basis


def test_a_yardstick_that_is_too_expensive_is_not_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lgmdsl.accuracy.better.AFFORDABLE", 0.0)
    monkeypatch.setattr("lgmdsl.accuracy.weighed.FEW_LATENTS", 0)
    fit = lgm.fit(lgm.loads(COUNTS), COUNT_DATA, method="laplace")
    assert not fit.accuracy.known and "longer than the fit" in fit.accuracy.basis
    assert lgm.fit(lgm.loads(COUNTS), COUNT_DATA).accuracy.known  # it is at that optimum itself
