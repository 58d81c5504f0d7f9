"""Claimed errors of means against the truth, at sizes on both sides of those at which cheaper
estimates are taken."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.arrays import Array
from tests.accuracy.chains import filtered

SD, RHO = 1.5, 0.9
CHAIN = f"""lgm 1
index t
data y[t] : {{kind}}
latent f[t] ~ ar1(sd = {SD}, rho = {RHO})
let eta[t] = f - 1.5
observe y ~ {{family}}
"""
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


def _claim(size: int, family: str, method: str, more: dict[str, Any]) -> tuple[float, float]:
    """The claimed and the true largest error of a mean, in posterior sds."""
    rng = np.random.default_rng(size)
    z = np.zeros(size)
    z[0] = SD * rng.standard_normal()
    for k in range(1, size):
        z[k] = RHO * z[k - 1] + SD * np.sqrt(1.0 - RHO**2) * rng.standard_normal()
    kind, text = FAMILIES[family]
    rate = np.exp(z - 1.5)
    y = rng.poisson(rate) if family == "poisson" else rng.binomial(1, rate / (1.0 + rate))

    def log_density(grid: Array) -> Array:
        s = grid - 1.5
        if family == "poisson":
            return np.asarray(stats.poisson.logpmf(y[:, None], np.exp(s)))
        return np.asarray(-np.logaddexp(0.0, np.where(y[:, None] == 1, -s, s)))

    exact = filtered(size, SD, RHO, log_density)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = lgm.fit(
            lgm.loads(CHAIN.format(kind=kind, family=text)),
            {"y": y},
            method=method,
            options={"correction": "off"},
            **more,
        )
    assert fit.converged
    off = np.abs(fit.mean("f").values - exact.mean) / exact.sd
    return fit.accuracy.mean, float(off.max())


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


@pytest.mark.thorough
@pytest.mark.parametrize("size", [50, 100, 300, 400, 1000, 5000])
@NAMES
def test_claims_against_exact_posteriors_of_chains(
    size: int, case: tuple[str, str, dict[str, Any]]
) -> None:
    claim, truth = _claim(size, *case)
    assert 0.5 * truth <= claim <= 3.0 * truth + 0.1
