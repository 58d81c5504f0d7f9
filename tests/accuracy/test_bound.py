"""Upper bounds of second-order terms, against the sums themselves; terms by fourth derivatives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.accuracy import derivatives
from lgmdsl.accuracy import second_order as module
from lgmdsl.accuracy.bound import CloseBounds, RowBounds, row_bounds
from lgmdsl.accuracy.derivatives import Derivatives
from lgmdsl.accuracy.expansion import expansion
from lgmdsl.accuracy.limits import BENT, NORMAL
from lgmdsl.accuracy.second_order import second_order
from lgmdsl.accuracy.terms import SecondOrder
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.inference.plan import plan

HEAD = """lgm 1
index obs
index g
data x[obs] : real
data who[obs] : g
latent a ~ normal(sd = 2)
latent b ~ normal(sd = 1)
latent u[g] ~ normal(sd = 0.9)
let eta[obs] = a + b * x + u[who]
let between[g] = u - a
"""
SITES = {
    "poisson": "data y[obs] : count\nobserve y ~ poisson(log_rate = eta)\n",
    "logit": "data y[obs] : binary\nobserve y ~ bernoulli(logit = eta)\n",
    "laplace": "data y[obs] : real\nobserve y ~ laplace(mean = eta, scale = 0.7)\n",
}


def grouped(name: str, groups: int = 8) -> lgm.Fit:
    rng = np.random.default_rng(5)
    who, x = np.repeat(np.arange(groups), 4), rng.standard_normal(4 * groups)
    eta = 0.4 * x + 0.9 * rng.standard_normal(groups)[who]
    y = {
        "poisson": rng.poisson(np.exp(eta)),
        "logit": (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))).astype(float),
        "laplace": np.round(eta + rng.laplace(size=len(eta)), 3),
    }[name]
    data = {"y": y, "x": x, "who": who}
    return lgm.fit(lgm.loads(HEAD + SITES[name]), data, options={"correction": "off"})


def derived(fit: lgm.Fit) -> Derivatives:
    q = fit.posterior.conditioned
    at = expansion(fit.canonical.sites(fit.theta), q.mean, q.variance)
    return Derivatives.of(at.third, at.fourth, q)


def summed(fit: lgm.Fit) -> SecondOrder:
    q = fit.posterior.conditioned
    return second_order(fit.canonical.linear(fit.theta), q, derived(fit), 0)


def functionals(fit: lgm.Fit) -> list[Predictor | None]:
    parts = [(n, d, fit.canonical.named[n][1].form) for n, d in (("eta", "obs"), ("between", "g"))]
    return [None, *(fit.canonical.predictor(form, (d,), fit.theta) for _, d, form in parts)]


def variance_of(q: Conditioned, functional: Predictor | None) -> Array:
    return q.latent_variance if functional is None else q.project(functional)[1]


def close_bounds(fit: lgm.Fit, odd: bool = False) -> tuple[RowBounds, CloseBounds]:
    """`odd`: of third derivatives alone."""
    q, known = fit.posterior.conditioned, derived(fit)
    if odd:
        known = replace(known, fourth=tuple(np.zeros_like(f) for f in known.fourth))
    rows = row_bounds(q, known)
    assert rows is not None

    def condition(weight: Rows, shift: Rows) -> Conditioned | Failed:
        return plan(fit.canonical).at(fit.theta).engine.condition(weight, shift)

    close = rows.closer(fit.canonical.linear(fit.theta), known, q, condition)
    assert close is not None
    return rows, close


@pytest.mark.parametrize("name", list(SITES))
def test_bounds_hold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of latents, predictors and a contrast: sums <= bounds of each <= the bound of all."""
    fit = grouped(name)
    q, exact = fit.posterior.conditioned, summed(fit)
    rows, close = close_bounds(fit)
    assert exact.evidence <= rows.gap * (1.0 + 1e-9)
    assert exact.moved is not None
    away = np.abs(exact.moved).max(axis=1) / np.sqrt(q.latent_variance)
    assert 0.0 < away.max() <= rows.moved
    monkeypatch.setattr("lgmdsl.accuracy.bound.QUANTILE", np.inf)
    for functional in functionals(fit):
        variance = variance_of(q, functional)
        sd = np.sqrt(1.0 + exact.variances(functional) / variance) - 1.0
        cumulants = exact.cumulants(functional)
        assert cumulants is not None
        quantile = NORMAL * sd + BENT * np.abs(cumulants) / variance**1.5
        bounds = close.errors(functional, variance)
        assert bounds is not None
        assert (sd <= bounds[0] * (1.0 + 1e-9)).all()
        assert (quantile <= bounds[1] * (1.0 + 1e-9)).all()
        assert (bounds[1] <= rows.quantile).all() and (bounds[0] <= rows.sd).all()
        assert bounds[1].min() < 0.9 * rows.quantile  # it does say more


@pytest.mark.parametrize("name", ["poisson", "logit"])
def test_high_bounds_are_taken_from_the_sums(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = grouped(name)
    q, exact = fit.posterior.conditioned, summed(fit)
    _, close = close_bounds(fit, odd=True)
    monkeypatch.setattr("lgmdsl.accuracy.bound.QUANTILE", -1.0)
    for functional in functionals(fit):
        variance = variance_of(q, functional)
        bounds = close.errors(functional, variance)
        cumulants = exact.cumulants(functional)
        assert bounds is not None and cumulants is not None
        sd = 0.5 * exact.variances(functional) / variance
        assert (bounds[0] >= sd * (1.0 - 1e-9)).all()
        np.testing.assert_allclose(bounds[0], sd, rtol=0.12)
        skewness = BENT * np.abs(cumulants) / variance**1.5
        np.testing.assert_allclose(bounds[1], NORMAL * bounds[0] + skewness, rtol=1e-6)
    monkeypatch.setattr("lgmdsl.accuracy.bound.CARRY", 1)
    assert close.errors(None, q.latent_variance) is None  # too many predictors carry them


def test_many_rows_of_low_bounds_are_not_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW_LATENTS", 0)
    monkeypatch.setattr(module, "FEW_ROWS", 0)

    def refused(*_: object) -> SecondOrder:
        raise AssertionError("draws were taken")

    monkeypatch.setattr(module, "by_draws", refused)
    fit = lgm.fit(
        lgm.loads(HEAD + SITES["poisson"]),
        {"y": np.full(12, 60), "x": np.linspace(-1, 1, 12), "who": np.repeat(np.arange(3), 4)},
    )
    assert fit.accuracy.basis == "bound of the second-order correction"
    assert 0.0 < fit.accuracy.quantile <= 0.15 and fit.accuracy.within


def test_a_let_of_high_bounds_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where bounds of too many functionals are high, all of them come from draws."""
    monkeypatch.setattr(module, "FEW_LATENTS", 0)
    monkeypatch.setattr(module, "FEW_ROWS", 0)
    monkeypatch.setattr(module, "LOW", 0.0)
    monkeypatch.setattr("lgmdsl.accuracy.bound.QUANTILE", 0.0)
    monkeypatch.setattr("lgmdsl.accuracy.bound.MANY", 0)
    fit = grouped("logit", 3)
    assert fit.accuracy.basis == "second-order correction, by draws"


def test_negative_weights_have_no_bounds() -> None:
    text = "data y[obs] : real\nobserve y ~ student_t(mean = eta, df = 2.5, scale = 0.3)\n"
    rng = np.random.default_rng(1)
    data = {"y": 4.0 * rng.standard_normal(12), "x": np.zeros(12), "who": np.arange(12) % 3}
    fit = lgm.fit(lgm.loads(HEAD + text), data, options={"correction": "off"})
    assert min(w.min() for w in fit.posterior.conditioned.weight) < 0.0
    assert row_bounds(fit.posterior.conditioned, derived(fit)) is None


# ---- fourth derivatives --------------------------------------------------------------------------


def test_fourth_derivatives_are_the_slopes_of_the_third() -> None:
    fit = grouped("laplace")
    (site,), q = fit.canonical.sites(fit.theta), fit.posterior.conditioned
    mean, variance, step = q.mean[0], q.variance[0], 1e-4
    ends = [expansion((site,), (mean + s * step,), (variance,)).third[0] for s in (1.0, -1.0)]
    (fourth,) = expansion((site,), (mean,), (variance,)).fourth
    np.testing.assert_allclose(fourth, (ends[0] - ends[1]) / (2.0 * step), atol=1e-5)
    assert np.abs(fourth).max() > 0.1


def test_fourth_order_terms_agree_by_all_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = grouped("laplace")
    by_tensor = summed(fit)
    assert len(by_tensor.spreads) == 2  # they are taken
    monkeypatch.setattr(module, "FEW_LATENTS", 0)
    by_rows = summed(fit)
    assert by_rows.evidence == pytest.approx(by_tensor.evidence, rel=1e-9)
    np.testing.assert_allclose(by_rows.variances(), by_tensor.variances(), rtol=1e-8)
    monkeypatch.setattr(module, "FEW_ROWS", 0)
    monkeypatch.setattr(derivatives, "PAIRS", (20000, 20000))
    monkeypatch.setattr(module, "FEW", (60, 60))
    drawn = summed(fit)
    assert not drawn.exact and drawn.evidence == pytest.approx(by_tensor.evidence, rel=0.2)
    np.testing.assert_allclose(drawn.variances(), by_tensor.variances(), rtol=0.2)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_symmetric_sites_against_quadrature(scale: float) -> None:
    """Five symmetric heavy-tailed answers about 0: the third derivatives say nothing, the fourth
    give two thirds of the change of the variance and more where the noise is wide."""
    text = """lgm 1
index obs
data y[obs] : real
latent a ~ normal(sd = 1)
let eta[obs] = a + 0
observe y ~ student_t(mean = eta, df = 4, scale = {scale})
"""
    y = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) * 0.8
    fit = lgm.fit(lgm.loads(text.format(scale=scale)), {"y": y}, options={"correction": "off"})
    x = np.linspace(-12.0, 12.0, 20001)
    log = -0.5 * x**2 - 2.5 * np.log1p((y[:, None] - x) ** 2 / (4.0 * scale**2)).sum(axis=0)
    weight = np.exp(log - log.max())
    true = np.trapezoid(weight * x**2, x) / np.trapezoid(weight, x)
    q, exact = fit.posterior.conditioned, true - float(fit.sd("a")) ** 2
    known = derived(fit)
    k, f, c = known.third[0], known.fourth[0], float(q.latent_variance[0])
    odd, even = 0.5 * k.sum() ** 2 * c**4, f.sum() ** 2 * c**5 / 6.0
    assert abs(odd) < 1e-9
    assert 0.5 * exact < even < 1.05 * exact
