"""Draws of hyperparameters: continuous, with the marginals that are reported, and with latents that
move as they should."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.learning.integration.hyper_posterior import drawn_nodes, transport
from tests.learning.glmm import CROSSED, GLMM, NORMAL, counts, crossed, load, measured

LEVELS = [0.025, 0.25, 0.5, 0.75, 0.975]
SIZE = 8000


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("text", "names", "method"),
    [
        (GLMM, ["s", "v"], "laplace"),
        (CROSSED, ["v", "w", "ratio"], "laplace"),
        (NORMAL, ["s", "t", "shift"], "auto"),
    ],
)
def test_draws_have_the_quantiles_that_are_reported(
    text: str, names: list[str], method: str
) -> None:
    data = counts() if text == GLMM else crossed() if text == CROSSED else measured()
    fit = lgm.fit(load(text), data, method=method, hyper="integrate")
    drawn = fit.sample(SIZE, seed=1, names=names)
    points = len(fit.points)
    for name in names:
        values = drawn[name].values
        assert len(np.unique(values)) > 20 * points
        share = [np.mean(values <= q) for q in fit.quantile(name, LEVELS).values]
        error = np.sqrt(np.array(LEVELS) * (1.0 - np.array(LEVELS)) / SIZE)
        np.testing.assert_array_less(np.abs(share - np.array(LEVELS)), 4.0 * error + 0.002)
        spread = float(fit.sd(name))
        assert values.mean() == pytest.approx(float(fit.mean(name)), abs=0.06 * spread)
    again = fit.sample(SIZE, seed=1, names=names)
    np.testing.assert_array_equal(drawn[names[0]], again[names[0]])


LEVEL = """lgm 1
index i
data y[i] : real
hyper c : real ~ normal(sd = 10)
latent u[i] ~ normal(sd = 1)
let eta[i] = c + u
observe y ~ normal(mean = eta, sd = 0.5)
"""


def test_latents_move_with_the_hyperparameters() -> None:
    """Given c the latents have the means 0.8 (y - c): all of them fall as c rises. A point's cell,
    one sd wide, takes a tenth from the slope."""
    y = np.random.default_rng(0).normal(size=20)
    fit = lgm.fit(lgm.loads(LEVEL), {"y": y}, hyper="integrate")
    drawn = fit.sample(SIZE, seed=2, names=["c", "u", "eta"])
    c, u = drawn["c"].values, drawn["u"].values.mean(axis=1)
    slope = np.cov(u, c)[0, 1] / c.var()
    assert slope == pytest.approx(-0.8, abs=0.1)
    np.testing.assert_allclose(drawn["eta"].mean("sample"), fit.mean("eta"), atol=0.03)
    np.testing.assert_allclose(drawn["eta"].std("sample"), fit.sd("eta"), rtol=0.04)


def test_arviz_has_the_same_hyperparameters() -> None:
    fit = lgm.fit(load(GLMM), counts(), method="laplace", hyper="integrate")
    tree = fit.to_arviz(size=400, seed=3)
    drawn = fit.sample(400, seed=3, names=["s", "v"])
    for name in ("s", "v"):
        np.testing.assert_array_equal(
            tree["posterior"].to_dataset()[name].values[0], drawn[name].values
        )
    assert tree["posterior"].to_dataset()["u"].shape[:2] == (1, 400)


def test_a_plan_has_both_margins_and_moves_mass_least() -> None:
    nodes = np.linspace(-4.0, 4.0, 201)[:, None]
    weights = np.exp(-0.5 * nodes[:, 0] ** 2)
    weights /= weights.sum()
    places = np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
    shares = np.array([0.07, 0.23, 0.4, 0.23, 0.07])
    plan = transport(nodes, weights, places, shares)
    np.testing.assert_allclose(plan.sum(axis=1), weights, rtol=1e-12)
    np.testing.assert_allclose(plan.sum(axis=0), shares, rtol=1e-2)
    middles = (plan * nodes).sum(axis=0) / plan.sum(axis=0)
    assert (np.diff(middles) > 0.6).all()
    np.testing.assert_allclose(middles, places[:, 0], atol=0.35)
    chosen = np.repeat(np.arange(5), 2000)
    at = nodes[drawn_nodes(plan, chosen, np.random.default_rng(0)), 0]
    for k in range(5):
        assert at[chosen == k].mean() == pytest.approx(middles[k], abs=0.06)


@pytest.mark.parametrize("far", [3.0, 10.0, 60.0])
def test_a_point_far_from_all_nodes_takes_its_mass_from_the_side_that_it_lies_on(
    far: float,
) -> None:
    """Its distance used to overflow: the plan, and the hyperparameters of all draws, were NaN."""
    nodes = np.linspace(-4.0, 4.0, 201)[:, None]
    weights = np.exp(-0.5 * nodes[:, 0] ** 2)
    weights /= weights.sum()
    places = np.array([[-1.0], [0.0], [1.0], [-1.2 * far], [far]])
    shares = np.array([0.25, 0.45, 0.25, 0.02, 0.03])
    plan = transport(nodes, weights, places, shares)
    np.testing.assert_allclose(plan.sum(axis=1), weights, rtol=1e-12)
    np.testing.assert_allclose(plan.sum(axis=0), shares, rtol=1e-2)
    middles = (plan * nodes).sum(axis=0) / plan.sum(axis=0)
    assert middles[3] < -1.9 and middles[4] > 1.8  # the ends: 2 % below -2.05, 3 % above 1.88
