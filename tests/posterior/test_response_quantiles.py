"""Quantiles of responses, row by row, against the distribution function by brute force."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.site import Property, Site
from lgmdsl.posterior.predictive.averaged import OverDraws, OverMixture
from lgmdsl.posterior.predictive.quantiles import quantiles, reached
from lgmdsl.sites.catalogue import SITES
from lgmdsl.sites.combined.hurdle import hurdle
from lgmdsl.sites.combined.truncated import truncated
from lgmdsl.sites.combined.zero_inflated import zero_inflated
from lgmdsl.sites.scalar.exponential_rate import PoissonLogRate
from tests.sites.examples import example

LEVELS = np.array([0.02, 0.3, 0.5, 0.95])
ROWS = 6
SCALAR = [
    s.spec.name
    for s in SITES.shipped()
    if not s.spec.vector and not s.spec.potential and s.cdf is not Site.cdf
]
NAMES = [n for n in SCALAR if not n.startswith(("ordinal", "bernoulli")) and "censored" not in n]


def made(name: str) -> Site:
    """Sites of a family, perhaps with a modifier: `poisson.log_rate+hurdle`."""
    plain, _, modifier = name.partition("+")
    site = example(plain, ROWS, seed=3)
    if not modifier:
        return site
    makes = {"hurdle": hurdle, "zero_inflated": zero_inflated, "truncated": truncated}
    family = makes[modifier](type(site))
    fields: dict[str, Any] = {f.name: getattr(site, f.name) for f in dataclasses.fields(site)}
    for extra in {f.name for f in dataclasses.fields(family)} - {*fields}:
        fields[extra] = np.linspace(0.1, 0.4, ROWS)
    return family(**fields)


def law(site: Site, wide: float, parts: int = 1) -> OverMixture:
    """Predictors with sds from `wide` / 30 to `wide`, as a mixture of so many parts."""
    rng = np.random.default_rng(5)
    shape = (parts, len(site))
    means = np.linspace(-1.0, 1.5, len(site)) + 0.3 * wide * rng.standard_normal(shape)
    sds = np.geomspace(wide / 30.0, wide, len(site)) * rng.uniform(0.8, 1.2, shape)
    weights = rng.dirichlet(np.ones(parts))
    return OverMixture([site], weights, means, sds)


def upto(law: OverMixture, y: Array) -> Array:
    """P(Y <= y), (Q, N), by 4,001 nodes for each part."""
    z = np.linspace(-8.5, 8.5, 4001)
    share = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    out = np.zeros(y.shape)
    for w, mean, sd in zip(law.weights, law.means, law.sds, strict=True):
        for row in range(y.shape[1]):
            site = law.sites[0].take(np.full(len(z), row))
            for q in range(len(y)):
                fields: dict[str, Any] = {"y": np.full(len(z), y[q, row])}
                with np.errstate(all="ignore"):
                    inside = dataclasses.replace(site, **fields).cdf(mean[row] + sd[row] * z)
                out[q, row] += w * (share @ inside)
    return out


MODIFIED = [
    f"{n}+{m}"
    for n, m in [
        ("poisson.log_rate", "zero_inflated"),
        ("poisson.log_rate", "truncated"),
        ("negbinomial.log_mean", "zero_inflated"),
        ("negbinomial.log_mean", "hurdle"),
        ("gamma.log_mean", "hurdle"),
        ("lognormal.mean", "hurdle"),
        ("inverse_gaussian.log_mean", "hurdle"),
    ]
]


@pytest.mark.few(12)
@pytest.mark.parametrize("name", [*NAMES, *MODIFIED])
@pytest.mark.parametrize(("wide", "parts"), [(1.5, 1), (0.3, 4)])
def test_quantiles_are_where_the_distribution_function_says(
    name: str, wide: float, parts: int
) -> None:
    whole = law(made(name), wide, parts)
    found = quantiles(whole, LEVELS)
    assert (np.diff(found, axis=0) >= 0.0).all()
    level = LEVELS[:, None]
    inside = upto(whole, found)
    if whole.sites[0].spec.discrete:
        assert (inside >= level - 1e-8).all()
        assert (upto(whole, found - 1.0) < level + 1e-8).all()
        assert np.array_equal(found, np.round(found))
    else:
        zero = found == 0.0
        assert (inside[zero] >= np.broadcast_to(level, found.shape)[zero]).all()
        # P(Y <= y | s) with a kink is averaged as nodes 0.025 sds apart can.
        error = 1e-4 if Property.KINKED in whole.sites[0].spec.properties else 1e-8
        wanted = np.broadcast_to(level, found.shape)[~zero]
        np.testing.assert_allclose(inside[~zero], wanted, atol=error, rtol=0.0)


@pytest.mark.few(7)
@pytest.mark.parametrize("name", [*NAMES, *MODIFIED])
def test_a_row_is_answered_alone_as_among_others(name: str) -> None:
    site = made(name)
    whole = law(site, 2.0, 3)
    among = quantiles(whole, LEVELS)
    for row in range(ROWS):
        one = np.array([row])
        alone = OverMixture([site.take(one)], whole.weights, whole.means[:, one], whole.sds[:, one])
        np.testing.assert_allclose(quantiles(alone, LEVELS)[:, 0], among[:, row], rtol=1e-12)


HEAVY = """lgm 1
index obs
data y[obs] : positive
data x[obs] : real
latent a ~ normal(sd = 5)
latent b ~ normal(sd = 1)
let eta[obs] = a + b * x
observe y ~ lognormal(mean = eta, sd = 1)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("unit", [1e-20, 1.0, 1e20])
def test_heavy_tails_are_closed_whatever_the_unit(unit: float) -> None:
    """log y is normal: its quantiles over 13 orders of magnitude, alone and among others."""
    data = {"x": [0.0, 0.1, 0.2, 0.1, -0.1], "y": unit * np.array([1.0, 2.0, 1.5, 0.7, 3.0])}
    text = HEAVY.replace("a ~ normal(", f"a ~ normal(mean = {np.log(unit)}, ")
    fit = lgm.fit(lgm.loads(text), data)
    alone = fit.predict({"x": [10.0]})
    wanted = np.exp(
        alone.mean("eta").values + stats.norm.ppf(LEVELS) * np.hypot(alone.sd("eta").values, 1.0)
    )
    found = alone.response_quantile("y", list(LEVELS)).values
    np.testing.assert_allclose(found[:, 0], wanted, rtol=1e-8)
    among = fit.predict({"x": [0.0, 10.0, 0.5, 1.0]}).response_quantile("y", list(LEVELS)).values
    np.testing.assert_allclose(among[:, 1], wanted, rtol=1e-8)


@pytest.mark.thorough
def test_counts_of_few_values_are_read_off_their_probabilities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows with small counts take no distribution function, those beside them what they take
    alone; both are where it says."""
    count = 60
    site = PoissonLogRate(np.zeros(count), np.ones(count))
    means = np.linspace(-2.0, 6.0, count) + 0.1 * np.random.default_rng(0).normal(size=(5, count))
    whole = OverMixture([site], np.full(5, 0.2), means, np.full((5, count), 0.3))
    sizes: list[int] = []
    plain = PoissonLogRate.cdf

    def cdf(self: PoissonLogRate, s: Array) -> Array:
        sizes.append(np.size(s))
        return plain(self, s)

    monkeypatch.setattr(PoissonLogRate, "cdf", cdf)
    found = quantiles(whole, LEVELS)
    asked = sum(sizes)
    small = np.arange(count // 2)
    sizes.clear()
    of_small = OverMixture([site.take(small)], whole.weights, means[:, small], whole.sds[:, small])
    np.testing.assert_array_equal(quantiles(of_small, LEVELS), found[:, small])
    assert not sizes and asked > 0
    level = LEVELS[:, None]
    assert (upto(whole, found) >= level - 1e-8).all()
    assert (upto(whole, found - 1.0) < level + 1e-8).all()


@pytest.mark.parametrize("rounding", [-4e-14, 0.0, 2.3e-16])
@pytest.mark.parametrize("start", [-1.0, 0.0, 1.0, 3.0, 4.7e7])
@pytest.mark.parametrize("whole", [True, False])
def test_levels_are_reached_from_any_start(start: float, rounding: float, whole: bool) -> None:
    """Of 0/1 data, from guesses far beyond them; sums of weights pass 1 by rounding."""

    def below(x: Array, entries: Any) -> Array:
        assert (entries == 0).all()
        return np.where(x < 0.0, 0.0, np.where(x < 1.0, 0.78, 1.0 + rounding))

    ends = (np.array([-1.0]), np.array([2.0**62]))
    for level, wanted in ((0.05, 0.0), (0.77, 0.0), (0.95, 1.0)):
        at = reached(below, np.array([level]), np.array([start]), np.ones(1), ends, whole)
        assert at == pytest.approx([wanted], abs=1e-3)


def test_an_end_is_the_answer_where_no_level_is_inside() -> None:
    ends = (np.array([-4.0]), np.array([4.0]))
    for value, wanted in ((0.9, -4.0), (0.1, 4.0)):

        def below(x: Array, _: Any, value: float = value) -> Array:
            return np.where(np.abs(x) < 4.0, value, np.nan)  # limits that no number is

        at = reached(below, np.array([0.5]), np.zeros(1), np.ones(1), ends)
        assert at == pytest.approx([wanted])


@pytest.mark.parametrize("wide", [0.5, 8.0])
def test_binary_responses_under_draws_are_0_or_1(wide: float) -> None:
    """Probabilities of nearly 0 make a lognormal's guess of the quantile huge."""
    rng = np.random.default_rng(2)
    s = -2.0 + wide * rng.normal(size=(10_000, 5))
    site = example("bernoulli.probit", 5, seed=3)
    levels = np.array([0.05, 0.5, 0.95, 0.999])
    found = quantiles(OverDraws([(site, s)], 5), levels)
    chance = stats.norm.cdf(s).mean(axis=0)
    np.testing.assert_array_equal(found, (1.0 - chance < levels[:, None]).astype(float))
