"""What the data determine of some latents, against dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg as sla

import lgmdsl as lgm
from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess import influence as influence_
from lgmdsl.assess.influence import Influence
from lgmdsl.assess.smooth_tests import smooth_test
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.memory import TooLarge

RNG = np.random.default_rng(6)
X = RNG.uniform(-1.0, 1.0, 40)
WHO = np.arange(40) % 3
Y = np.sin(3.0 * X) + 0.4 * RNG.normal(size=40)
HEAD = """lgm 1
index obs
index g
data x[obs] : real
data who[obs] : g
data y[obs] : {type}
latent u[g] ~ normal(sd = 0.7)
latent f[obs] ~ spline(at = x, sd = 0.8, size = 6)
"""
MODELS = {
    "gaussian": ("real", "observe y ~ normal(mean = u[who] + f, sd = 0.4)"),
    "counts": ("count", "observe y ~ poisson(log_rate = u[who] + f)"),
    "two predictors": (
        "real",
        "latent h[obs] ~ spline(at = x, sd = 0.3, size = 4)\nlatent c ~ normal(sd = 1)\n"
        "observe y ~ normal(mean = u[who] + f, log_sd = c + h)",
    ),
    "constrained": (
        "real",
        "constrain sum(u, g) = 0\nobserve y ~ normal(mean = u[who] + f, sd = 0.4)",
    ),
}


def fitted(name: str) -> lgm.Fit:
    kind, rest = MODELS[name]
    y = np.round(np.exp(Y)) if kind == "count" else Y
    text = HEAD.format(type=kind) + rest + "\n"
    return lgm.fit(lgm.loads(text), {"x": X, "who": WHO, "y": y})


def dense(fit: lgm.Fit) -> tuple[Array, Array, Array]:
    """The covariance, by inversion of a sum of precisions, and M = B'WB; F is their product."""
    linear = fit.canonical.linear(fit.theta)
    design = StackedPredictors(linear).dense()
    weight = sla.block_diag(
        *(np.diag(w) if w.ndim == 1 else sla.block_diag(*w) for w in fit.posterior.weight)
    )
    information = design.T @ weight @ design
    flat = {"f.free", "h.free"}
    prior = np.concatenate(
        [
            np.zeros(b.size) if b.name in flat else 1.0 / b.factors[0].variance()
            for b in linear.blocks
        ]
    )
    basis = np.eye(linear.size)
    if linear.constraints is not None:
        rows = np.zeros((1, linear.size))
        rows[:, linear.slices["u"]] = linear.constraints.columns["u"].dense()
        basis = sla.null_space(rows)
    inner = np.linalg.inv(basis.T @ (information + np.diag(prior)) @ basis)
    return basis @ inner @ basis.T, information, design


def places(fit: lgm.Fit, *names: str) -> IntArray:
    slices = fit.canonical.linear(fit.theta).slices
    return np.concatenate([np.arange(slices[n].start, slices[n].stop) for n in names])


@pytest.mark.parametrize("name", MODELS)
def test_degrees_of_freedom_and_what_tests_need(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = fitted(name)
    covariance, information, _ = dense(fit)
    whole = covariance @ information
    influence = Influence(fit.canonical.linear(fit.theta), fit.posterior.conditioned)
    where = places(fit, "f.free", "f.curve")
    block = np.ix_(where, where)
    np.testing.assert_allclose(influence.edf(where), np.trace(whole[block]), rtol=1e-8)
    monkeypatch.setattr(influence_, "COLUMNS", 2)
    np.testing.assert_allclose(influence._by_rows(where), np.trace(whole[block]), rtol=1e-8)
    group = places(fit, "u")  # in a constraint, where there is one
    wanted = np.trace(whole[np.ix_(group, group)])
    np.testing.assert_allclose(influence.edf(group), wanted, rtol=1e-8)
    found = influence.of(where)
    np.testing.assert_allclose(found.covariance, covariance[block], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.information, information[block], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.sampling, (whole @ covariance)[block], rtol=1e-6, atol=1e-9)
    reference = 2.0 * np.trace(whole[block]) - np.trace((whole @ whole)[block])
    np.testing.assert_allclose(found.reference, reference, rtol=1e-8)
    every = influence.edf(np.arange(len(whole)))
    np.testing.assert_allclose(every, np.trace(whole), rtol=1e-8)


def test_a_smooth_without_noise_of_its_own_is_as_often_small_as_its_p_value_says() -> None:
    """Of responses that are noise: p values over draws of them are near to uniform."""
    text = HEAD.format(type="real") + MODELS["gaussian"][1] + "\n"
    text = text.replace("size = 6", "size = 6, shrink = true").replace("sd = 0.7", "sd = 1e-6")
    fit = lgm.fit(lgm.loads(text), {"x": X, "who": WHO, "y": Y})
    influence = Influence(fit.canonical.linear(fit.theta), fit.posterior.conditioned)
    where, linear = places(fit, "f.curve"), influence.linear
    covariance, _, design = dense(fit)
    draws = RNG.normal(size=(400, 40)) * 0.4
    means = draws / 0.16 @ design @ covariance
    plain = influence.of(where)
    values = []
    for mean in means[:, where]:
        moved = replace(plain, mean=mean)
        values.append(smooth_test(moved, free=False, residual_df=None).p_value)
    assert linear.rows == 40
    shares = [float(np.mean(np.array(values) < level)) for level in (0.05, 0.25, 0.5, 0.75)]
    np.testing.assert_allclose(shares, [0.05, 0.25, 0.5, 0.75], atol=0.08)


def test_matrices_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = fitted("gaussian")
    influence = Influence(fit.canonical.linear(fit.theta), fit.posterior.conditioned)
    monkeypatch.setattr("lgmdsl.memory.budget", lambda: 1000)
    with pytest.raises(TooLarge, match="leave `test` out"):
        influence.of(places(fit, "f.curve"))
