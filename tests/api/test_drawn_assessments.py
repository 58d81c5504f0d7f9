"""LOO, WAIC, DIC and PIT of posteriors that are made of exact draws, against quadrature."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.assess.failure import WORDS, Failure

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
