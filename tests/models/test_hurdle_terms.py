"""A hurdle whose share of zeros has a predictor is two models that share nothing but rows: of
whether y is 0, and of the rows above 0."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Expected, Pointwise, Tilted, Widths
from lgmdsl.contract.site import Property, Site
from lgmdsl.sites.catalogue import family
from lgmdsl.sites.combined.hurdle import hurdle_terms
from lgmdsl.sites.combined.truncated import truncated

HEAD = """lgm 1
index obs
index group = 6
data x[obs] : real
data who[obs] : group
"""
ABOVE = """hyper t : positive ~ exponential(rate = 1)
hyper k : positive ~ half_normal(sd = 2)
latent a ~ normal(sd = 3)
latent u[group] ~ normal(sd = t)
"""
ZERO = """hyper r : positive ~ exponential(rate = 1)
latent c ~ normal(sd = 2)
latent v[group] ~ normal(sd = r)
"""
LAST = "let eta[obs] = a + 0.5 * x + u[who]\n"
SHARE = "let zeta[obs] = c + 0.3 * x + v[who]\n"
QUESTIONS: tuple[tuple[type, Callable[[Any, Array, Array], tuple[Array, ...]]], ...] = (
    (Site, lambda site, s, v: (site.log_density(s),)),
    (Pointwise, lambda site, s, v: dataclasses.astuple(site.pointwise(s, v))[:4]),
    (Expected, lambda site, s, v: dataclasses.astuple(site.expected(s, v, True))[:5]),
    (Tilted, lambda site, s, v: dataclasses.astuple(site.tilted(s, v, 0.8))),
    (Widths, lambda site, s, v: dataclasses.astuple(site.widths(s, v))),
)
# name: type of y, the family with both predictors, the family above 0
FAMILIES = {
    "lognormal": ("nonnegative", "lognormal(mean = eta, sd = k", "lognormal(mean = eta, sd = k)"),
    "gamma": ("nonnegative", "gamma(log_mean = eta, shape = k", "gamma(log_mean = eta, shape = k)"),
    "negbinomial": (
        "count",
        "negbinomial(log_mean = eta, size = k",
        "negbinomial(log_mean = eta, size = k, truncated = true)",
    ),
}
RNG = np.random.default_rng(2)
N = 60
WHO, X = RNG.integers(0, 6, N), RNG.normal(size=N)
EFFECT = np.array([-1.5, -0.8, -0.2, 0.3, 0.9, 1.6])
ZEROS = RNG.random(N) < 1.0 / (1.0 + np.exp(0.4 + EFFECT[WHO]))
WEIGHT = RNG.uniform(0.5, 2.0, N)


def data(name: str) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    mean = np.exp(0.7 + EFFECT[WHO])
    count = FAMILIES[name][0] == "count"
    y = 1.0 + rng.poisson(mean) if count else mean * rng.lognormal(sigma=0.7, size=N)
    return {"x": X, "who": WHO, "y": np.where(ZEROS, 0.0, y)}


def both(name: str, more: str = "") -> lgm.Model:
    kind, with_both, _ = FAMILIES[name]
    head = HEAD + f"data y[obs] : {kind}\n" + ("data w[obs] : positive\n" if more else "")
    return lgm.loads(
        head
        + ABOVE
        + ZERO
        + LAST
        + SHARE
        + f"observe y ~ {with_both}, hurdle_logit = zeta{more})\n"
    )


def apart(name: str, more: str = "") -> tuple[lgm.Model, lgm.Model]:
    """The models of the zeros, and of the rows above 0."""
    kind, _, above = FAMILIES[name]
    kind = "positive" if kind == "nonnegative" else kind
    weight = "data w[obs] : positive\n" if more else ""
    zero = HEAD + weight + "data y[obs] : binary\n" + ZERO + SHARE
    rest = HEAD + weight + f"data y[obs] : {kind}\n" + ABOVE + LAST
    return (
        lgm.loads(zero + f"observe y ~ bernoulli(logit = zeta{more})\n"),
        lgm.loads(rest + f"observe y ~ {above[:-1]}{more})\n"),
    )


def parts(name: str) -> tuple[dict[str, Array], dict[str, Array]]:
    given = data(name)
    return {**given, "y": np.where(ZEROS, 1.0, 0.0)}, {k: v[~ZEROS] for k, v in given.items()}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "method"),
    [
        *((name, "laplace") for name in FAMILIES),
        ("gamma", "natural-gradient"),
        ("gamma", "ep"),
        ("lognormal", "opper-archambeau"),
        ("lognormal", "double-loop"),
    ],
)
def test_evidence_modes_and_leave_one_out_are_those_of_two_models(name: str, method: str) -> None:
    whole = lgm.fit(both(name), data(name), method=method, hyper="map")
    halves = [
        lgm.fit(m, d, method=method, hyper="map")
        for m, d in zip(apart(name), parts(name), strict=True)
    ]
    assert whole.converged and all(h.converged for h in halves)
    total = sum(h.log_evidence for h in halves)
    assert whole.log_evidence == pytest.approx(total, abs=1e-4)
    for half, latent, hypers in ((halves[0], "v", "r"), (halves[1], "u", "tk")):
        for hyper in hypers:
            assert float(whole.mean(hyper)) == pytest.approx(float(half.mean(hyper)), rel=2e-3)
        np.testing.assert_allclose(whole.mean(latent), half.mean(latent), rtol=0, atol=2e-3)
        np.testing.assert_allclose(whole.sd(latent), half.sd(latent), rtol=5e-3)
    if method == "laplace":
        zero, above = (np.asarray(h.loo().pointwise()) for h in halves)
        zero[~ZEROS] += above
        np.testing.assert_allclose(whole.loo().pointwise(), zero, rtol=0, atol=5e-3)


@pytest.mark.thorough
def test_weights_go_to_both() -> None:
    more = ", weight = w"
    whole = lgm.fit(both("gamma", more), {**data("gamma"), "w": WEIGHT}, "laplace", hyper="map")
    zero, above = parts("gamma")
    halves = [
        lgm.fit(m, {**d, "w": w}, "laplace", hyper="map")
        for m, d, w in zip(
            apart("gamma", more), (zero, above), (WEIGHT, WEIGHT[~ZEROS]), strict=True
        )
    ]
    assert whole.log_evidence == pytest.approx(sum(h.log_evidence for h in halves), abs=2e-5)


@pytest.mark.parametrize("zeros", [np.zeros(N, dtype=bool), np.ones(N, dtype=bool)])
def test_all_zeros_and_none(zeros: Array) -> None:
    given = {**data("gamma"), "y": np.where(zeros, 0.0, 1.0 + X**2)}
    fit = lgm.fit(both("gamma"), given, method="laplace", fixed={"k": 2.0, "t": 1.0, "r": 1.0})
    assert fit.converged and np.sign(float(fit.mean("c"))) == (1.0 if zeros.all() else -1.0)
    if zeros.all():
        assert float(fit.sd("a")) == pytest.approx(3.0, rel=1e-6)


@pytest.mark.thorough
def test_it_is_explained_and_kept(tmp_path: Path) -> None:
    explained = str(lgm.explain(both("gamma"), data("gamma")))
    assert "hurdle to a Bernoulli site of the zeros and one of each row above 0: exact" in explained
    fit = lgm.fit(both("gamma"), data("gamma"), method="laplace", hyper="map")
    file = f"{tmp_path}/fit.nc"
    fit.save(file)
    again = lgm.load_fit(file)
    assert again.log_evidence == fit.log_evidence
    assert again.loo().elpd == pytest.approx(fit.loo().elpd, abs=1e-9)


@pytest.mark.parametrize("name", ["lognormal.mean", "gamma.log_mean", "poisson.log_rate"])
def test_terms_answer_as_their_families_do(name: str) -> None:
    base = family(name)
    above = truncated(base) if base.spec.discrete else base
    n = 8
    fields = {p: np.linspace(0.6, 1.4, n) for p in above.spec.parameters}
    y = np.array([0.0, 1.0, 2.0, 0.0, 4.0, 1.0, 0.0, 3.0])
    term = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    made: Any = hurdle_terms(above)
    site = made(y=y, term=term, **fields)
    of_positive: Any = above
    positive = of_positive(y=np.where(y > 0.0, y, 1.0), **fields)
    of_zero: Any = family("bernoulli.logit")
    zero = of_zero(np.where(y == 0.0, 1.0, 0.0))
    s, v = np.linspace(-2.0, 2.0, n), np.linspace(0.1, 2.0, n)
    at, asked = term > 0.0, 0
    for question, ask in QUESTIONS:
        if isinstance(site, question):
            asked += 1
            one, two = ask(zero, s, v), ask(positive, s, v)
            for answer, by_zero, by_positive in zip(ask(site, s, v), one, two, strict=True):
                assert np.array_equal(answer, np.where(at, by_zero, by_positive))
    assert asked >= (2 if base.spec.discrete else 1)
    assert isinstance(site, Widths) == (Property.SUPER_GAUSSIAN in above.spec.properties)
    for parameter, slope in positive.parameter_slopes(s).items():
        assert np.array_equal(site.parameter_slopes(s)[parameter], np.where(at, 0.0, slope))
    none = made(y=np.zeros(n), term=np.ones(n), **fields)
    assert none.parameter_slopes(s).keys() == positive.parameter_slopes(s).keys()
    assert not any(slope.any() for slope in none.parameter_slopes(s).values())


@pytest.mark.parametrize(
    "observed",
    [
        "gamma(log_mean = eta, shape = 2, hurdle_logit = zeta)",
        "gamma(log_mean = eta + zeta, shape = 2, hurdle = 0.3)",
        "tweedie(log_mean = eta + zeta, dispersion = 1.2, power = 1.5)",
    ],
)
def test_the_probability_of_zero_is_that_of_draws(observed: str) -> None:
    text = (
        HEAD + "data y[obs] : nonnegative\nlatent a ~ normal(sd = 3)\nlatent c ~ normal(sd = 2)\n"
        "latent d ~ normal(sd = 2)\nlet eta[obs] = a\nlet zeta[obs] = c + d * x\n"
        f"observe y ~ {observed}\n"
    )
    fit = lgm.fit(lgm.loads(text), data("gamma"), method="laplace")
    new = fit.predict({"x": np.array([-1.0, 0.0, 1.0]), "who": np.zeros(3, dtype=int)})
    zero = new.response("y")["probability"]
    assert zero.dims == ("obs", "value") and zero["value"].values.tolist() == [0]
    drawn = np.asarray(new.sample_response("y", 4000, seed=1)) == 0.0
    np.testing.assert_allclose(zero.values[:, 0], drawn.mean(axis=0), rtol=0, atol=0.03)
