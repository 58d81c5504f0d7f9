"""Claimed errors of means against the truth, at sizes on both sides of those at which cheaper
estimates are taken."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from tests.accuracy.posteriors import MODELS, SMALL, asked

FAMILIES: dict[str, tuple[str, str]] = {
    "poisson": ("count", "poisson(log_rate = eta)"),
    "bernoulli": ("binary", "bernoulli(logit = eta)"),
}
METHODS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("poisson", "laplace", {}),
    ("bernoulli", "laplace", {}),
    ("bernoulli", "double-loop", {}),
    ("bernoulli", "natural-gradient", {"bound": "jaakkola"}),
)


LEVELS = """lgm 1
index t
data y[t] : {kind}
{hyper}latent f[t] ~ rw1(sd = {sd})
latent b ~ normal(sd = 5)
let eta[t] = b + f
observe y ~ {family}
"""
NAMES = pytest.mark.parametrize(
    "case", METHODS, ids=lambda c: f"{c[0]}-{c[1]}-{c[2].get('bound', '')}"
)


@pytest.mark.few(6)
@NAMES
@pytest.mark.parametrize("size", [300, 400, 1000, 4000])
def test_small_slopes_of_many_rows_add_up(size: int, case: tuple[str, str, dict[str, Any]]) -> None:
    """No row's slope is left by more than 0.02 sds, but the level by 0.2 to 0.6; `ep` is close to
    the truth here."""
    family, method, more = case
    rate = np.exp(np.sin(6.0 * np.arange(size) / size) - 1.5)
    rng = np.random.default_rng(0)
    y = rng.poisson(rate) if family == "poisson" else rng.binomial(1, rate / (1.0 + rate))
    kind, text = FAMILIES[family]
    model = lgm.loads(LEVELS.format(kind=kind, hyper="", sd="1", family=text))
    off: dict[str, Any] = {"correction": "off"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = lgm.fit(model, {"y": y}, method=method, options=off, **more)
        near = lgm.fit(model, {"y": y}, method="ep", options=off)
    truth = max(
        float((np.abs(fit.mean(v) - near.mean(v)) / near.sd(v)).max()) for v in ("f", "b", "eta")
    )
    assert 0.5 * truth <= fit.accuracy.mean <= 2.0 * truth + 0.02
    assert ("W609" in [w.code for w in fit.warnings]) == (
        max(fit.accuracy.mean, fit.accuracy.sd) > 0.1
    )


def test_with_an_integrated_scale() -> None:
    rng = np.random.default_rng(0)
    y = rng.poisson(np.exp(np.sin(6.0 * np.arange(400) / 400) - 1.5))
    hyper = "hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)\n"
    text = LEVELS.format(kind="count", hyper=hyper, sd="s", family="poisson(log_rate = eta)")
    off: dict[str, Any] = {"correction": "off"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = lgm.fit(lgm.loads(text), {"y": y}, method="laplace", options=off)
    assert fit.accuracy.mean > 0.3  # of 0.5 at the mean of s


QUICK = (("groups poisson", 200), ("ar1 probit", 50))
# Methods that are dense in rows or latents, and the largest size at which they are asked here.
DENSE = {
    "cholesky": 500, "coordinate-ascent": 200, "coordinate-descent": 500, "lcl": 500,
    "stochastic": 1000,
}  # fmt: skip


def _marked(name: str, size: int) -> Any:
    """Few always; larger sizes with the benchmark's table."""
    larger = pytest.mark.thorough if size <= 200 else pytest.mark.reproduction
    return pytest.param(name, size, marks=() if (name, size) in QUICK else larger)


@pytest.mark.parametrize(
    ("name", "size"), [_marked(n, s) for n, (_, sizes) in MODELS.items() for s in sizes]
)
def test_claims_are_half_of_the_errors_at_least(name: str, size: int) -> None:
    """Of means and sds, by all methods; or the fit says why it claims nothing."""
    make, _ = MODELS[name]
    known, short = make(size), list[str]()
    model = lgm.loads(known.text)
    for label, method, bound, options in asked(model):
        # EP is what the truth of `rw1` is taken from.
        if size > DENSE.get(method, size) or (name.startswith("rw1") and method == "ep"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = lgm.fit(model, known.data, method=method, bound=bound, options=options)
        claim, true = fit.accuracy, known.errors(fit)
        if not claim.known:
            assert claim.basis.removeprefix("none: "), label
            continue
        for what, said, is_true in (("mean", claim.mean, true[0]), ("sd", claim.sd, true[1])):
            if is_true > max(SMALL, 2.0 * said):
                short.append(f"{label}: {what} {said:.3g} of {is_true:.3g}")
    assert not short


def test_a_level_of_many_groups_of_counts() -> None:
    """What is left of each group adds up in the mean of the level, by all ways of estimating it."""
    for size, how in ((50, "second-order correction"), (1000, "second-order correction, by draws")):
        known = MODELS["groups poisson"][0](size)
        fit = lgm.fit(
            lgm.loads(known.text), known.data, "natural-gradient", options={"correction": "off"}
        )
        true = known.errors(fit)[0]
        assert fit.accuracy.basis == how
        assert true > SMALL
        assert 0.7 * true <= fit.accuracy.mean <= 2.0 * true


def test_means_that_are_off_where_scales_are_large_widen_the_mixture() -> None:
    """The modes at all values of a scale spread less than the means there."""
    known = MODELS["learned poisson"][0](50)
    off = {"correction": "off"}
    fit = lgm.fit(lgm.loads(known.text), known.data, "laplace", options=off)
    _, true, _, _ = known.errors(fit)
    assert true > 0.1
    assert 0.5 * true <= fit.accuracy.sd <= 2.0 * true
