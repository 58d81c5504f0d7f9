"""Fits whose hyperparameters have factors: all that is said of responses averages the noise over
its own, as draws of the posterior do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.numerics.cholesky import cholesky

MODEL = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
hyper v : positive ~ half_normal(sd = 2)
latent a ~ normal(sd = 3)
latent b ~ normal(sd = 3)
let eta[obs] = a + b * x
observe y ~ normal(mean = eta, sd = v)
"""
X = np.linspace(-1.0, 1.0, 6)
Y = np.array([0.3, 1.9, -1.0, 0.7, 1.2, 2.9])
DRAWS = 50_000


@pytest.fixture(scope="module")
def fit() -> Fit:
    return lgm.fit(lgm.loads(MODEL), {"x": X, "y": Y}, hyper="vb")


@pytest.fixture(scope="module")
def draws(fit: Fit) -> dict[str, Array]:
    """eta and v from q(z) q(v)."""
    found = fit.sample(DRAWS, seed=3, names=["eta", "v"])
    return {"eta": found["eta"].values, "v": found["v"].values[:, None]}


def test_the_noise_of_new_data_is_that_of_its_factor(fit: Fit, draws: dict[str, Array]) -> None:
    v, sd = float(fit.mean("v")), float(fit.sd("v"))
    known = np.sqrt(v**2 + sd**2 + fit.sd("eta").values ** 2)
    np.testing.assert_allclose(np.sqrt((draws["v"] ** 2).mean()), np.hypot(v, sd), rtol=0.01)
    found = fit.predict({"x": X})
    np.testing.assert_allclose(found.response("y")["sd"], known, rtol=1e-3)
    drawn = found.sample_response("y", 20_000, 1).values
    np.testing.assert_allclose(drawn.std(axis=0), known, rtol=0.02)


def test_replicates_are_made_at_each_draw_s_own_noise(fit: Fit, draws: dict[str, Array]) -> None:
    y = fit.sample_predictive(DRAWS, seed=5)["y"].values
    other = draws["eta"] + draws["v"] * np.random.default_rng(0).normal(size=draws["eta"].shape)
    levels = [0.01, 0.1, 0.5, 0.9, 0.99]
    ours, known = (np.quantile(a, levels, axis=0) for a in (y, other))
    np.testing.assert_allclose(ours, known, atol=0.03 * known.std(), rtol=0.02)
    at_one = stats.norm.ppf(0.99, *(getattr(draws["eta"], m)(axis=0) for m in ("mean", "std")))
    assert (ours[-1] > at_one).all()


def test_criteria_average_over_the_factor(fit: Fit, draws: dict[str, Array]) -> None:
    level = stats.norm(draws["eta"], draws["v"]).logpdf(Y)
    waic = fit.waic()
    lppd = logsumexp(level, axis=0) - np.log(DRAWS)
    np.testing.assert_allclose(waic.observations.labelled(waic.local_lppd), lppd, atol=0.01)
    np.testing.assert_allclose(waic.effective(), level.var(axis=0), rtol=0.05)
    dic = fit.dic()
    assert dic.mean_deviance == pytest.approx(-2.0 * level.sum(axis=1).mean(), abs=0.03)
    plug = stats.norm(fit.mean("eta").values, fit.theta["v"]).logpdf(Y).sum()
    assert dic.deviance_at_mean == pytest.approx(-2.0 * plug)


def cavities(fit: Fit) -> tuple[Array, Array]:
    """Means and sds of the predictors without the Gaussian of their own response."""
    mean, variance = fit.mean("eta").values, fit.sd("eta").values ** 2
    weight = float(fit.theta["v"]) ** -2.0
    alone = variance / (1.0 - weight * variance)
    return alone * (mean / variance - weight * Y), np.sqrt(alone)


def without(level: Array, expected: Array) -> Array:
    """log of the mean of exp(level) over draws that are reweighted by exp(-expected)."""
    return np.asarray(logsumexp(level - expected, axis=0) - logsumexp(-expected, axis=0))


def test_leaving_out_takes_the_response_off_the_factor(fit: Fit, draws: dict[str, Array]) -> None:
    mean, sd = cavities(fit)
    v = draws["v"]
    expected = stats.norm(mean, v).logpdf(Y) - 0.5 * (sd / v) ** 2
    left = stats.norm(mean, np.hypot(sd, v))
    loo, pit = fit.loo(), fit.pit()
    np.testing.assert_allclose(loo.pointwise(), without(left.logpdf(Y), expected), atol=0.02)
    share = np.exp(-expected)
    known = (share * left.cdf(Y)).sum(axis=0) / share.sum(axis=0)
    np.testing.assert_allclose(pit.pointwise(), known, atol=0.01)


def test_leaving_out_is_near_to_a_fit_without() -> None:
    """Nearer than four times, on the whole, to fits without each response than at one noise."""
    rng = np.random.default_rng(1)
    x = np.linspace(-1.0, 1.0, 12)
    y = 0.5 + x + 0.7 * rng.normal(size=12)
    whole = lgm.fit(lgm.loads(MODEL), {"x": x, "y": y}, hyper="vb")
    known = 0.0
    for k in range(12):
        rest = np.arange(12) != k
        other = lgm.fit(lgm.loads(MODEL), {"x": x[rest], "y": y[rest]}, hyper="vb")
        at = other.predict({"x": x[[k]]})
        v = other.sample(4000, seed=0, names=["v"])["v"].values
        centre, spread = float(at.mean("eta")[0]), np.hypot(float(at.sd("eta")[0]), v)
        known += float(np.log(stats.norm(centre, spread).pdf(y[k]).mean()))
    pinned = lgm.fit(lgm.loads(MODEL), {"x": x, "y": y}, fixed={"v": whole.theta["v"]})
    assert abs(whole.loo().elpd - known) < 0.25 * abs(pinned.loo().elpd - known)


def test_arviz_gets_densities_at_each_draw_s_own_noise(fit: Fit) -> None:
    tree = fit.to_arviz(300)
    eta, v, log = (
        np.asarray(tree[n]) for n in ("posterior/eta", "posterior/v", "log_likelihood/y")
    )
    np.testing.assert_allclose(log, stats.norm(eta, v[..., None]).logpdf(Y))
    assert np.unique(v).size == 300


GROUPED = """lgm 1
index obs
index kind
data who[obs] : kind
data y[obs] : real
hyper v[kind] : positive ~ half_normal(sd = 2)
latent a ~ normal(sd = 3)
let eta[obs] = a
observe y ~ normal(mean = eta, sd = v[who])
"""


def test_each_row_averages_over_its_own_factor_and_groups_over_all() -> None:
    who = np.array([0, 0, 0, 1, 1, 1])
    data: dict[str, Any] = {"who": np.array(["p", "q"])[who], "y": Y * np.where(who, 1.0, 0.1)}
    fit = lgm.fit(lgm.loads(GROUPED), data, hyper="vb")
    y = data["y"]
    drawn = fit.sample(DRAWS, seed=1, names=["a", "v"])
    v = drawn["v"].values[:, who]
    level = stats.norm(drawn["a"].values[:, None], v).logpdf(y)
    lppd = logsumexp(level, axis=0) - np.log(DRAWS)
    waic = fit.waic()
    np.testing.assert_allclose(waic.observations.labelled(waic.local_lppd), lppd, atol=0.01)
    # A group with a row of each kind: its density is joint over both noises.
    pair = np.array(["both", "p", "p", "both", "q", "q"])
    found = fit.loo(groups=pair).pointwise().values[0]
    rows = [0, 3]
    theta = fit.theta["v"][who]
    weight = 1.0 / fit.sd("a").values ** 2 - np.sum(theta[rows] ** -2.0)
    mean = fit.mean("a").values / fit.sd("a").values ** 2 - np.sum(y[rows] / theta[rows] ** 2)
    mean, spread = mean / weight, 1.0 / weight
    a = v[:, rows] ** 2 + spread
    det = a[:, 0] * a[:, 1] - spread**2
    r = y[rows] - mean
    form = (a[:, 1] * r[0] ** 2 + a[:, 0] * r[1] ** 2 - 2.0 * spread * r[0] * r[1]) / det
    log = -0.5 * form - 0.5 * np.log(det) - np.log(2.0 * np.pi)
    own = stats.norm(mean, v[:, rows]).logpdf(y[rows]) - 0.5 * spread / v[:, rows] ** 2
    assert found == pytest.approx(without(log, own.sum(axis=1)), abs=0.03)


def test_the_inverse_of_nothing_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """LAPACK complains of it on the standard output."""
    factor = cholesky(np.zeros((0, 0)))
    assert factor is not None and factor.inverse().shape == (0, 0)
    assert capfd.readouterr() == ("", "")
