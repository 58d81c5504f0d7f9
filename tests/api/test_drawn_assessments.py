"""LOO, WAIC, DIC and PIT of posteriors that are made of exact draws, against quadrature."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.component import Component
from lgmdsl.assess.drawn.left_out import DRAWS, LEAST
from lgmdsl.assess.failure import WORDS, Failure
from lgmdsl.assess.refit import RefitWithout

ZEROS = """lgm 1
index obs
data n[obs] : count
data y[obs] : count
latent a ~ normal(sd = 10)
let eta[obs] = a
observe y ~ binomial(n = n, logit = eta)
"""
DATA = {"n": [20, 27], "y": [0, 0]}
TRIALS = np.array([20.0, 27.0])

ORDERED = """lgm 1
index obs
index g
index score = {"low", "mid", "high"}
index cut = head(score)
data y[obs] : score
data who[obs] : g
hyper s : positive ~ half_normal(sd = 2)
hyper c[cut] : ordered ~ normal(sd = 1)
latent u[g] ~ normal(sd = s)
let eta[obs] = u[who]
observe y ~ ordinal(logit = eta, cuts = c)
"""


def zeros(**more: Any) -> Fit:
    return lgm.fit(lgm.loads(ZEROS), DATA, **more)


@pytest.fixture(scope="module")
def fit() -> Fit:
    made = zeros()
    assert made.drawn is not None
    return made


@cache
def grid() -> tuple[Array, Array]:
    """Places, and log p(y_i | a) there, (2, m)."""
    x = np.linspace(-80.0, 8.0, 200001)
    return x, -TRIALS[:, None] * np.logaddexp(0.0, x)


def posterior(*rows: int) -> Array:
    """Of a given some of the responses, at the places."""
    x, level = grid()
    p = level[list(rows)].sum(axis=0) - 0.5 * (x / 10.0) ** 2
    p = np.exp(p - p.max())
    return np.asarray(p / p.sum())


def left_out(row: int) -> float:
    return float(np.log(np.exp(grid()[1][row]) @ posterior(1 - row)))


def test_waic_and_dic_follow_the_draws(fit: Fit) -> None:
    x, level = grid()
    p = posterior(0, 1)
    lppd, mean = np.log(np.exp(level) @ p), level @ p
    variance = (level - mean[:, None]) ** 2 @ p
    waic = fit.waic()
    assert waic.pointwise().values == pytest.approx(lppd - variance, abs=0.02)
    assert waic.effective().values == pytest.approx(variance, rel=0.3)
    assert abs(waic.elpd - float(np.sum(lppd - variance))) < 3.0 * waic.error
    assert 0.0 < waic.error < 0.05 and "Monte Carlo error" in str(waic)
    dic = fit.dic()
    at_mean = 2.0 * float(np.sum(TRIALS)) * float(np.logaddexp(0.0, p @ x))
    wanted = -4.0 * float(mean.sum()) - at_mean
    assert abs(dic.dic - wanted) < 4.0 * dic.error < 0.2
    gaussian = zeros(options={"marginals": "gaussian"})
    assert abs(gaussian.waic().elpd - waic.elpd) > 1.0 and gaussian.waic().error == 0.0


def test_errors_of_criteria_are_those_of_repetition(fit: Fit) -> None:
    """Of a few of the draws at a time, each once."""
    sample = fit.drawn
    assert sample is not None
    order, size = np.random.default_rng(0).permutation(len(sample)), 200
    found = []
    for k in range(40):
        some = order[k * size : (k + 1) * size]
        few = replace(sample, away=sample.away[some], point=sample.point[some], ess=float(size))
        part = replace(fit, drawn=few)
        found.append([(c, c.error) for c in (part.dic(), part.waic())])
    for criteria, value in zip(zip(*found, strict=True), ("dic", "elpd"), strict=True):
        scatter = np.std([getattr(c, value) for c, _ in criteria], ddof=1)
        assert np.mean([error for _, error in criteria]) == pytest.approx(scatter, rel=0.35)


def test_responses_are_left_out_of_the_draws(fit: Fit) -> None:
    loo = fit.loo()
    wanted = np.array([left_out(0), left_out(1)])
    errors = loo.pointwise_error().values
    assert (np.abs(loo.pointwise().values - wanted) < 3.0 * errors).all()
    assert (errors < 0.02).all() and loo.flagged == 0
    assert abs(loo.elpd - wanted.sum()) < 3.0 * loo.error and "Monte Carlo error" in str(loo)
    inside = np.log(np.exp(grid()[1]) @ posterior(0, 1)).sum()
    assert loo.p_loo == pytest.approx(inside - wanted.sum(), abs=0.03)
    gaussian = zeros(options={"marginals": "gaussian"}).loo().pointwise().values
    assert np.abs(gaussian - wanted).max() > 0.03


def test_transforms_without_a_response(fit: Fit) -> None:
    pit = fit.pit()
    assert pit.upper().values == pytest.approx(np.exp([left_out(0), left_out(1)]), abs=0.01)
    assert (pit.lower().values == 0.0).all()
    again = fit.pit(exact=True)  # nothing is flagged: nothing is drawn again
    assert (again.upper().values == pit.upper().values).all()


@pytest.mark.thorough
def test_groups_and_draws_without_them(fit: Fit) -> None:
    wanted = [left_out(0), left_out(1)]
    a = np.linspace(-60.0, 60.0, 200001)
    level = -47.0 * np.logaddexp(0.0, a) + stats.norm.logpdf(a / 10.0)
    whole = float(np.log(np.exp(level).sum() / stats.norm.pdf(a / 10.0).sum()))
    assert fit.loo(groups="obs").pointwise().values == pytest.approx(wanted, abs=0.03)
    again = fit.loo(exact="all")
    assert again.pointwise().values == pytest.approx(wanted, abs=0.01)
    assert all(bool(r.all()) for r in again.refitted) and 0.0 < again.error < 0.02
    both = fit.loo(groups=np.array([0, 0]))
    assert both.flags().values.tolist() == [WORDS[Failure.tail]]
    assert "fit.loo(exact=True)" in str(both)
    prior = fit.loo(groups=np.array([0, 0]), exact=True)
    assert prior.flagged == 0 and 0.0 < prior.error < 0.03
    assert prior.pointwise().item() == pytest.approx(whole, abs=3.0 * prior.error)


def ordered_truth(y: Array, who: Array, cuts: Array) -> tuple[Array, Array]:
    """log p(y_i | y_-i) and P(Y_i <= y_i | y_-i) by quadrature over s and each group's effect."""
    nodes, weight = np.polynomial.hermite_e.hermegauss(64)
    weight = weight / weight.sum()
    s = (np.arange(400) + 0.5) / 400 * 9.0
    prior = stats.norm.pdf(s / 2.0)
    u = s[:, None] * nodes
    upto = special.expit(np.concatenate([cuts, [np.inf]])[:, None, None] - u)
    each = np.diff(upto, axis=0, prepend=0.0)
    values = []
    for i in range(len(y)):
        masses = []
        for part in (each[y[i]], upto[y[i]], np.ones_like(u)):
            total = prior.copy()
            for g in np.unique(who):
                mine = [each[y[j]] for j in np.flatnonzero(who == g) if j != i]
                term = np.prod([np.ones_like(u), *mine], axis=0)
                total = total * ((term * (part if g == who[i] else 1.0)) @ weight)
            masses.append(total.sum())
        values.append((np.log(masses[0] / masses[2]), masses[1] / masses[2]))
    log, upper = np.array(values).T
    return log, upper


@pytest.mark.thorough
def test_learned_hyperparameters_move_with_what_is_left_out() -> None:
    """Over points: an ordinal response, whose groups' sd is integrated."""
    y = np.array([2, 2, 2, 0, 0, 1, 2, 2])
    who = np.array([0, 0, 0, 1, 1, 2, 2, 3])
    names = np.array(["low", "mid", "high"])
    fit = lgm.fit(
        lgm.loads(ORDERED),
        {"y": names[y], "who": who},
        fixed={"c": [-0.5, 0.7]},
        options={"effort": "high"},
    )
    assert fit.drawn is not None and len(fit.points) > 1
    log, upper = ordered_truth(y, who, np.array([-0.5, 0.7]))
    loo = fit.loo()
    reliable = loo.flags().values == ""
    away = np.abs(loo.pointwise().values - log)
    assert reliable.sum() >= 6
    assert (away < 3.5 * loo.pointwise_error().values)[reliable].all() and away.max() < 0.1
    assert fit.pit().upper().values[reliable] == pytest.approx(upper[reliable], abs=0.03)
    again = fit.loo(exact="all")
    assert again.pointwise().values == pytest.approx(log, abs=0.02)


# Random models, and what quadrature gives: log p(y_0 | y_-0) times its weight; the
# 5 % point and the sd of a predictor.
WEIGHTED = """lgm 1
index obs
latent a ~ normal(mean = -0.206, sd = 2.807)
data x0[obs] : real
hyper h0 : positive ~ pc_sd(u = 2.34, alpha = 0.05)
latent b0 ~ normal(sd = h0)
data x1[obs] : real
latent b1 ~ normal(sd = 0.22)
data o[obs] : real
let eta[obs] = a + x0 * b0 + x1 * b1 + o
data n0[obs] : count
data w0[obs] : nonnegative
data y[obs] : count
observe y ~ betabinomial(probit = eta, n = n0, concentration = 5.0, weight = w0)
"""
OF_WEIGHTED = {
    "x0": [
        1.174603,
        0.302121,
        -1.153305,
        1.123489,
        1.80655,
        -0.222189,
        -0.060274,
        -0.212406,
        -0.936794,
        0.212424,
    ],
    "x1": [
        -0.520489,
        -0.556305,
        0.278637,
        -1.106273,
        1.644779,
        -0.931122,
        0.027568,
        0.035995,
        0.086933,
        -0.132841,
    ],
    "o": [0.157, 3.868, -1.211, -2.048, -0.566, -1.113, -2.35, -0.062, 3.441, -0.95],
    "n0": [47.0, 1.0, 7.0, 47.0, 1.0, 47.0, 7.0, 47.0, 1.0, 1.0],
    "w0": [3.0, 2.0, 3.0, 1.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0],
    "y": [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
}
WITHOUT = -1.2067
BOUNDED = """lgm 1
index obs
latent a ~ normal(mean = 0.0, sd = 6.136)
data x0[obs] : real
latent b0 ~ normal(sd = 18.698)
data x1[obs] : real
latent b1 ~ normal(sd = 14.399)
data x2[obs] : real
latent b2 ~ normal(sd = 0.053)
let eta[obs] = a + x0 * b0 + x1 * b1 + x2 * b2
data w0[obs] : nonnegative
data y[obs] : real
observe y ~ gev(location = eta, scale = 3.0, shape = 1.0, weight = w0)
"""
OF_BOUNDED = {
    "x0": [1.293957, 0.99947, 0.400811],
    "x1": [1.010223, -0.106021, 0.686616],
    "x2": [-0.285409, -0.542784, 0.933198],
    "w0": [0.5, 3.0, 0.5],
    "y": [5.575023, 38.316744, 5.289489],
}
LOW, WIDTH = 31.49, 4.186


def test_values_that_smoothed_weights_overstate_are_flagged() -> None:
    """The first row leaves three times: the largest weights, which smoothing takes down, carry much
    of the mean though k-hat is 0.66."""
    fit = lgm.fit(lgm.loads(WEIGHTED), OF_WEIGHTED)
    assert fit.drawn is not None
    first = fit.loo()
    assert abs(first.pointwise().values[0] - WITHOUT) > 0.2
    assert first.flags().values[0] == WORDS[Failure.tail] == fit.pit().flags().values[0]
    assert first.pointwise_error().values[0] > 0.1
    again = fit.loo(exact=True)
    assert again.flags().values[0] == ""
    assert again.pointwise().values[0] == pytest.approx(WITHOUT, abs=0.06)


def test_bounded_posteriors_are_drawn_by_weights_where_chains_mix_slowly() -> None:
    fit = lgm.fit(lgm.loads(BOUNDED), OF_BOUNDED)
    assert fit.drawn is not None
    assert fit.drawn.ess > 0.25 * len(fit.drawn)
    assert not fit.drawn.of_chains
    low = float(fit.quantile("eta", [0.05]).values[0, 1])
    assert abs(low - LOW) < 0.15 * WIDTH
    assert fit.accuracy.quantile < 0.15


def test_draws_without_a_response_are_shared_by_the_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """And are of weights where latents are few: chains of 4,000 at each of thirty points took half
    a minute for two rows."""
    counts: list[int] = []
    before = RefitWithout.draws

    def counted(
        self: RefitWithout, component: Component, rows: tuple[IntArray, ...], count: int
    ) -> tuple[Array, float] | None:
        counts.append(count)
        return before(self, component, rows, count)

    def chains(*_: object) -> None:
        raise AssertionError("chains")

    monkeypatch.setattr(RefitWithout, "draws", counted)
    monkeypatch.setattr("lgmdsl.assess.refit.Chains.at", chains)
    text = ZEROS.replace("latent a ~ normal(sd = 10)", LEARNED)
    fit = lgm.fit(lgm.loads(text), DATA)
    assert fit.drawn is not None
    fit.loo(exact="all")
    rounds = len(counts) // len(fit.points)
    assert len(counts) >= 2 * len(fit.points)
    assert sum(counts) < 2 * rounds * (DRAWS + LEAST * len(fit.points))
    assert max(counts) < DRAWS


LEARNED = """hyper s : positive ~ half_normal(sd = 3)
latent a ~ normal(sd = s)"""


SKEWED_WITHOUT = """lgm 1
index obs
data x[obs] : real
data n[obs] : count
data y[obs] : count
latent a ~ normal(sd = 1.946)
latent b ~ normal(sd = 0.059)
let eta[obs] = a + b * x
observe y ~ binomial(probit = eta, n = n)
"""


def test_refits_of_a_gaussian_fit_are_exact_where_no_gaussian_is_near() -> None:
    """Without the third row two successes are left, and a skewed posterior: the variational
    Gaussian gives log p 0.087 too low, and 0.323 as the transform."""
    x, n, y = np.array([-0.321, -0.71, 1.678]), np.array([1.0, 1.0, 47.0]), np.array([1, 1, 41])
    fit = lgm.fit(lgm.loads(SKEWED_WITHOUT), {"x": x, "n": n, "y": y})
    assert fit.drawn is None
    a, b = np.meshgrid(np.linspace(-12, 12, 2001), 0.059 * np.linspace(-6, 6, 121), indexing="ij")
    prior = stats.norm.logpdf(a, 0, 1.946) + stats.norm.logpdf(b, 0, 0.059)
    chance = special.ndtr(a + b * x[:, None, None])
    level = [stats.binom.logpmf(y[i], n[i], chance[i]) for i in range(3)]
    w = np.exp(prior + level[0] + level[1])
    w /= w.sum()
    log = np.log(np.sum(w * np.exp(level[2])))
    upto = np.sum(w * stats.binom.cdf(y[2], n[2], chance[2]))
    loo, pit = fit.loo(exact="all"), fit.pit(exact=True)
    assert loo.pointwise().values[2] == pytest.approx(log, abs=0.05)
    assert 0.0 < loo.pointwise_error().values[2] < 0.035  # of draws, a quarter the prior's
    assert pit.upper().values[2] == pytest.approx(upto, abs=0.025)
    together = fit.loo(groups=["p", "q", "r"], exact="all")
    assert together.pointwise().values[2] == pytest.approx(log, abs=0.05)
    assert loo.error == pytest.approx(loo.pointwise_error().values[2])
