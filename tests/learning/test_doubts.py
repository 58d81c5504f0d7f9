"""What is uncertain of hyperparameters: sensitivities of what is reported, weights that have the
marginals of more nodes, fits where they tell most, and W606 where the fits leave too much open."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.learning.integration import integrate as integration
from lgmdsl.learning.integration.hyper_posterior import _cells, raked, weighted_quantile
from lgmdsl.learning.integration.refine import (
    EVIDENCE,
    MOMENT,
    QUANTILE,
    VARIANCE,
    bent,
    chosen,
    reported,
    sensitivities,
    uncertainties,
)
from tests.learning.balanced import LEVELS, NAMES, Balanced, half_cauchy, log_half_cauchy
from tests.learning.glmm import GLMM, load


def test_sensitivities_are_the_derivatives_of_what_is_reported() -> None:
    """Against what a small error of the log density at all nodes changes."""
    u = (np.arange(20_001) + 0.5) / 20_001
    x = 0.4 * special.ndtri(u)[:, None]
    share = np.full(len(x), 1.0 / len(x))
    error = 1e-3 * np.sin(3.0 * x[:, 0] + 0.5)
    values = np.exp(x[:, 0])
    effects = sensitivities(values[:, None], share, np.array([True])) @ error
    sd = np.sqrt(share @ (values - share @ values) ** 2)

    def all_of(weights: np.ndarray) -> np.ndarray:
        total = weights.sum()
        w = weights / total
        mean = w @ values
        tails = weighted_quantile(values, w, np.array([0.025, 0.975]))
        wide = np.sqrt(w @ (values**2 - w @ values**2) ** 2)
        return np.array([np.log(total), mean, np.sqrt(w @ (values - mean) ** 2), *tails, wide])

    change = all_of(share * np.exp(error)) - all_of(share)
    of_square = np.sqrt(share @ (values**2 - share @ values**2) ** 2)
    scale = np.array([MOMENT, MOMENT, QUANTILE, QUANTILE]) * sd
    unit = np.concatenate([[EVIDENCE], scale, [VARIANCE * of_square]])
    np.testing.assert_allclose(effects, change / unit, rtol=0.12, atol=2e-4)


def test_fits_are_made_where_they_lower_uncertainties() -> None:
    """After those chosen the uncertainty is what conditioning on them leaves, and no other pair of
    nodes leaves much less."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3.0, 3.0, 25))
    covariance = np.exp(-0.5 * (x[:, None] - x) ** 2)
    effects = rng.uniform(0.0, 1.0, (2, 25))
    everywhere = np.ones(25, dtype=bool)

    def left(nodes: list[int]) -> float:
        cross = covariance[:, nodes]
        rest = covariance - cross @ np.linalg.solve(covariance[np.ix_(nodes, nodes)], cross.T)
        return float(np.sum(uncertainties(effects, rest) ** 2))

    picked = chosen(effects, covariance, 2, everywhere)
    pairs = [left([i, j]) for i in range(25) for j in range(i)]
    assert len(set(picked)) == 2
    assert left(picked) < min(pairs) + 0.1 * (max(pairs) - min(pairs))
    everywhere[picked] = False
    assert not set(chosen(effects, covariance, 2, everywhere)) & set(picked)


def test_large_errors_count_for_more() -> None:
    effects = np.ones((1, 2))
    np.testing.assert_allclose(bent(effects, np.array([1e-3, 2.0])), [[1.0005, 3.1945]], rtol=1e-4)


def test_few_nodes_get_the_marginals_of_many() -> None:
    """Quantiles and correlation of a skew pair; the few nodes' own are off by 0.1 and more."""
    rng = np.random.default_rng(3)

    def draws(count: int) -> tuple[np.ndarray, np.ndarray]:
        z = rng.standard_t(6, size=(count, 2)) * 1.2
        x = np.column_stack([z[:, 0], 0.5 * z[:, 0] + z[:, 1]])
        ratio = -0.5 * np.sum(z**2, axis=1) + 3.5 * np.log1p((z / 1.2) ** 2 / 6.0).sum(axis=1)
        weight = np.exp(ratio)
        return x, weight / weight.sum()

    (few, rough), (many, masses) = draws(1000), draws(200_000)
    weights = raked(few, rough, many, masses)
    assert weights.sum() == pytest.approx(1.0) and (weights >= 0.0).all()
    levels, before, after = np.array([0.025, 0.975]), [], []
    for j, sd in ((0, 1.0), (1, np.sqrt(1.25))):
        exact = sd * special.ndtri(levels)
        before.append(weighted_quantile(few[:, j], rough, levels) - exact)
        after.append(weighted_quantile(few[:, j], weights, levels) - exact)
    assert np.abs(after).max() < 0.06 < np.abs(before).max()
    assert weights @ (few[:, 0] * few[:, 1]) == pytest.approx(0.5, abs=0.06)


def test_cells_hold_enough_of_the_few() -> None:
    """Of 100 nodes on one side of the many no cell holds fewer than 8, the last one included, and
    the masses of all cells are those of the many."""
    rng = np.random.default_rng(5)
    for few in (rng.normal(size=100), rng.normal(size=100) - 2.0, rng.normal(size=100) + 2.0):
        many, masses = rng.normal(size=5000), np.full(5000, 2e-4)
        cell, wanted = _cells(few, many, masses)
        counts = np.bincount(cell, minlength=len(wanted))
        assert counts.min() >= 8 and len(wanted) > 4 and wanted.sum() == pytest.approx(1.0)


def test_all_marginals_agree_after_several_sweeps() -> None:
    """Of coordinates that go together one sweep leaves those that came first off."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(3000, 1)) + rng.normal(size=(3000, 2))
    many = 1.2 * rng.normal(size=(20_000, 1)) + rng.normal(size=(20_000, 2)) + [0.2, -0.1]
    masses = np.full(len(many), 1.0 / len(many))
    weights = raked(x, np.full(len(x), 1.0 / len(x)), many, masses)
    for few, sample in zip(x.T, many.T, strict=True):
        cell, wanted = _cells(few, sample, masses)
        np.testing.assert_allclose(np.bincount(cell, weights), wanted, rtol=2e-3)
    missing = np.where(x[:, 1] > 1.0, 0.0, 1.0)  # cells whose nodes have no weight at all
    assert raked(x, missing / missing.sum(), many, masses).sum() == pytest.approx(1.0, abs=1e-12)


def test_both_tails_of_a_symmetric_value_count_alike() -> None:
    values = np.linspace(-2.0, 2.0, 41)
    low, high = sensitivities(values[:, None], np.full(41, 1.0 / 41), np.array([False]))[-2:]
    np.testing.assert_allclose(high, -low[::-1], rtol=1e-12)


def test_errors_of_many_nats_are_cut_off_and_known_nodes_are_not_chosen_again() -> None:
    effects = np.ones((1, 1))
    assert bent(effects, np.array([50.0]))[0, 0] == bent(effects, np.array([2.0]))[0, 0]
    root = np.random.default_rng(2).uniform(0.1, 1.0, 30)  # one value tells all of them
    picked = chosen(np.ones((1, 30)), np.outer(root, root), 5, np.ones(30, dtype=bool))
    assert len(picked) == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", [1, 3])
def test_tail_quantiles_of_few_groups(seed: int) -> None:
    """Left tails of log sds are followed until little mass is beyond: 2.5 % quantiles of cells' sds
    were off by 0.15 to 0.27 sd."""
    few = Balanced.drawn(seed, (5, 4, 2), (0.5, 0.5, 1.0))
    fit = lgm.fit(load(half_cauchy()), few.data, hyper="integrate")
    exact = few.exact(log_half_cauchy, 91)[1]
    for name in NAMES:
        _, sd, quantiles = exact[name]
        assert 0.95 < float(fit.sd(name)) / sd < 1.05
        found = fit.quantile(name, LEVELS.tolist()).values
        np.testing.assert_allclose(found, quantiles, atol=0.1 * sd)


@pytest.mark.thorough
def test_what_the_fits_leave_uncertain_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Balanced.drawn(1, (5, 4, 2), (0.5, 0.15, 1.0))
    monkeypatch.setattr(integration, "DOUBT", 0.0)
    fit = lgm.fit(load(half_cauchy()), few.data, hyper="integrate")
    warnings = [w for w in fit.warnings if w.code == "W606"]
    assert fit.converged and len(warnings) == 1
    assert "is inaccurate" in warnings[0].message
    assert "may be off by" in str(warnings[0])


def test_words_for_what_is_uncertain() -> None:
    names, squared = ("sa", "se"), np.array([False, True])
    assert reported(names, squared, 0, 2.0) == "the log evidence may be off by 0.04"
    assert reported(names, squared, 2, 1.5) == "the sd of `sa` may be off by 0.075 posterior sds"
    assert reported(names, squared, 5, 1.5) == "the mean of `se` may be off by 0.075 posterior sds"
    quantile = "the 97.5 % quantile of `se` may be off by 0.15 posterior sds"
    assert reported(names, squared, 8, 1.5) == quantile
    assert reported(names, squared, 9, 1.5) == "the sd of `se` may be off by 0.15 posterior sds"


def test_tails_of_a_bounded_value_are_short() -> None:
    """Data press a sd against the bound of its prior: its tail in logits is long, and says little
    of the value, but exp(logit) was judged, and W606 raised for nothing."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(12), 5)
    text = GLMM.replace("pc_sd(u = 1, alpha = 0.01)", "uniform(lower = 0, upper = 0.1)")
    y = rng.poisson(np.exp(2.0 + rng.normal(size=12)[who]))
    data = {"y": y, "who": who, "x": rng.normal(size=60)}
    fit = lgm.fit(load(text), data, method="laplace", hyper="integrate")
    assert fit.converged and float(fit.mean("s")) > 0.09
    assert not [w for w in fit.warnings if w.code == "W606"]


def test_quantiles_on_a_lattice_are_no_steps() -> None:
    """Of one coordinate of a product lattice, whose values each stand as often as the other axis is
    long: quantiles of a normal law, to the square of the lattice's step."""
    step = 0.5
    axis = np.arange(-6.0, 6.01, step)
    x, y = (a.reshape(-1) for a in np.meshgrid(axis, axis, indexing="ij"))
    weights = np.exp(-0.5 * (x**2 + y**2))
    levels = np.array([0.05, 0.3, 0.5, 0.8, 0.95])
    found = weighted_quantile(x, weights / weights.sum(), levels)
    np.testing.assert_allclose(found, special.ndtri(levels), atol=0.1 * step)
