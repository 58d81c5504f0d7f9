"""P(y = value), row by row, against the density by brute force."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.posterior.normal_mixtures import mixed_moments
from lgmdsl.posterior.predictive.averaged import OverMixture
from lgmdsl.posterior.predictive.moments import response_moments
from lgmdsl.posterior.predictive.values import probabilities
from lgmdsl.sites.scalar.exponential_rate import PoissonLogRate
from tests.posterior.test_response_quantiles import MODIFIED, NAMES, ROWS, law, made

COUNTS = [n for n in [*NAMES, *MODIFIED] if "count" in made(n).spec.observed]


def moments(whole: OverMixture) -> tuple[Array, Array]:
    """Means and sds of y."""
    each = [
        response_moments(whole.sites[0], mean, sd**2)[:2]
        for mean, sd in zip(whole.means, whole.sds, strict=True)
    ]
    return mixed_moments(whole.weights, *(np.array(one) for one in zip(*each, strict=True)))


def exactly(whole: OverMixture, last: int) -> Array:
    """P(y = k), (N, last + 1), by 4,001 nodes for each part."""
    z = np.linspace(-8.5, 8.5, 4001)
    share = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    site = whole.sites[0]
    out = np.zeros((len(site), last + 1))
    for w, mean, sd in zip(whole.weights, whole.means, whole.sds, strict=True):
        for row in range(len(site)):
            many = site.take(np.full(len(z), row))
            for k in range(last + 1):
                fields: dict[str, Any] = {"y": np.full(len(z), float(k))}
                with np.errstate(all="ignore"):
                    log = dataclasses.replace(many, **fields).log_density(mean[row] + sd[row] * z)
                    out[row, k] += w * (share @ np.nan_to_num(np.exp(log)))
    return out


@pytest.mark.few(27)
@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(("wide", "parts"), [(1.5, 1), (0.3, 4)])
def test_probabilities_are_averaged_densities(name: str, wide: float, parts: int) -> None:
    whole = law(made(name), wide, parts)
    found = probabilities(whole, 12, *moments(whole))
    np.testing.assert_allclose(found, exactly(whole, 12), atol=1e-8, rtol=0.0)


@pytest.mark.parametrize("name", COUNTS)
def test_a_row_has_the_same_values_alone(name: str) -> None:
    site = made(name)
    whole = law(site, 2.0, 3)
    mean, sd = moments(whole)
    among = probabilities(whole, 40, mean, sd)
    for row in range(ROWS):
        one = np.array([row])
        alone = OverMixture([site.take(one)], whole.weights, whole.means[:, one], whole.sds[:, one])
        found = probabilities(alone, 40, mean[one], sd[one])[0]
        np.testing.assert_allclose(found, among[row], rtol=1e-12, atol=1e-15)


def test_windows_miss_nothing_whatever_they_begin_with() -> None:
    """Moments that are far off or unknown: all values that count are found."""
    site = PoissonLogRate(np.zeros(4), np.ones(4))
    whole = OverMixture([site], np.ones(1), np.full((1, 4), 2.0), np.full((1, 4), 0.5))
    mean = np.array([7.4, 60.0, 0.0, np.nan])
    found = probabilities(whole, 150, mean, np.array([5.0, 0.1, 0.1, np.nan]))
    np.testing.assert_allclose(found, np.repeat(found[3:], 4, axis=0), atol=1e-8, rtol=0.0)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)


TEXT = """lgm 1
index obs
index group
data y[obs] : count
data x[obs] : real
data g[obs] : group
hyper s : positive ~ exponential(rate = 1)
latent a ~ normal(sd = 3)
latent u[group] ~ normal(sd = s)
let eta[obs] = a + x + u[g]
observe y ~ poisson(log_rate = eta)
"""


@pytest.fixture(scope="module")
def fit() -> lgm.Fit:
    rng = np.random.default_rng(1)
    x, g = rng.normal(size=60), np.arange(60) % 6
    y = rng.poisson(np.exp(0.5 + x + 0.5 * rng.normal(size=6)[g]))
    return lgm.fit(lgm.loads(TEXT), {"y": y, "x": x, "g": [f"g{k}" for k in g]})


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The densities that Poisson sites are asked for from here on, call by call."""
    sizes: list[int] = []
    plain = PoissonLogRate.log_density

    def log_density(self: PoissonLogRate, s: Array) -> Array:
        sizes.append(np.size(s))
        return plain(self, s)

    monkeypatch.setattr(PoissonLogRate, "log_density", log_density)
    return sizes


@pytest.mark.thorough
def test_the_table_waits_until_it_is_asked_for(
    fit: lgm.Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The means take no probabilities, and these are computed once."""
    sizes = counted(monkeypatch)
    whole = fit.predict({"x": np.linspace(-2, 2, 50), "g": ["g1"] * 50}).response("y")
    assert (whole["mean"].values > 0.0).all() and (whole["sd"].values > 0.0).all()
    assert "probability" in repr(whole) and whole["probability"].shape[0] == 50
    looked = len(sizes)  # at the tails of a few rows, for W611
    table = whole["probability"].values
    known = len(sizes)
    assert known > looked
    np.testing.assert_array_equal(whole["probability"].sel(value=1).values, table[:, 1])
    np.testing.assert_array_equal(copy.deepcopy(whole)["probability"].values, table)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(whole))["probability"].values, table)
    assert len(sizes) == known


def test_a_copy_or_a_pickle_of_the_waiting_table(fit: lgm.Fit) -> None:
    whole = fit.predict({"x": [0.0, 1.0], "g": ["g1", "g2"]}).response("y")
    changed = whole.copy(deep=True)
    kept = pickle.loads(pickle.dumps(whole))
    table = np.array(whole["probability"].values)
    np.testing.assert_array_equal(kept["probability"].values, table)
    changed["probability"][0, 0] = 2.0
    assert changed["probability"].values[0, 0] == 2.0
    np.testing.assert_array_equal(whole["probability"].values, table)
    np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-3)


def test_rows_take_their_own_values_alone(fit: lgm.Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a row with small counts next to one with large counts few values are evaluated, whatever
    the number of points of the mixture."""
    assert len(fit.points) > 2
    near = fit.predict({"x": [-1.0] * 200, "g": ["g1"] * 200}).response("y")
    near["probability"].values  # noqa: B018
    both = fit.predict({"x": [-1.0] * 199 + [4.0], "g": ["g1"] * 200}).response("y")
    sizes = counted(monkeypatch)
    near = fit.predict({"x": [-1.0] * 200, "g": ["g1"] * 200}).response("y")
    alone = near["probability"].values
    few = sum(sizes)
    sizes.clear()
    table = both["probability"].values
    assert table.shape[1] > 100 > 3 * alone.shape[1]
    assert sum(sizes) < 2.0 * few
    np.testing.assert_allclose(table[0, : alone.shape[1]], alone[0], atol=1e-11)


def test_impossible_values_have_probability_zero() -> None:
    """Not k successes of fewer trials."""
    text = """lgm 1
index obs
data y[obs] : count
data n[obs] : count
latent a ~ normal(sd = 1)
let eta[obs] = a
observe y ~ binomial(logit = eta, n = n)
"""
    fit = lgm.fit(lgm.loads(text), {"y": [1, 3, 9], "n": [2, 4, 20]})
    table = fit.predict({"n": [2, 20]}).response("y")["probability"].values
    assert (table[0, 3:] == 0.0).all() and table[0, 2] > 0.0 and table[1, 3] > 0.0
    np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-4)
