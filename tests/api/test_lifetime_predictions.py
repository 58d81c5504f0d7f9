"""Predicted lifetimes: quantiles, draws and moments against closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.api.predict.predict import Prediction
from lgmdsl.arrays import Array, IntArray
from lgmdsl.errors import DataError, NumericalError
from lgmdsl.numerics.expectations.normal_product import averages
from lgmdsl.sites.catalogue import site
from lgmdsl.sites.combined.entered import entered
from lgmdsl.sites.observed import make_sites

# Latents that are known: predictions are those of one distribution for each row.
KNOWN = (
    "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : {type}\n"
    "latent a ~ normal(sd = 1e-6)\nlet eta[obs] = x + a\nobserve y ~ {family}\n"
)


def fitted(family: str, type: str = "positive") -> lgm.Fit:
    data = {"x": np.zeros(3), "y": np.array([1.0, 0.5, 2.0])}
    return lgm.fit(lgm.loads(KNOWN.format(type=type, family=family)), data, method="laplace")


def predicted(family: str, x: Array, type: str = "positive", **more: Any) -> Prediction:
    return fitted(family, type).predict({"x": x, **more})


def test_low_quantiles_of_the_inverse_gaussian() -> None:
    """Mean / shape up to 5: the bracket of low quantiles reaches 0, where the law is 0."""
    x, levels = np.array([0.0, 1.0, 1.44, 1.8, 2.5]), [0.01, 0.3, 0.99]
    prediction = predicted("inverse_gaussian(log_mean = eta, shape = 2.5)", x)
    law = stats.invgauss(np.exp(x) / 2.5, scale=2.5)
    wanted = law.ppf(np.array(levels)[:, None])
    assert prediction.response_quantile("y", levels).values == pytest.approx(wanted, rel=1e-5)


HURDLES = {"hurdle = 0.3": 0.7, "hurdle_logit = 0.5 + 0 * a": 1.0 / (1.0 + np.exp(0.5))}


@pytest.mark.parametrize("hurdle", HURDLES)
@pytest.mark.parametrize(
    ("family", "law"),
    [
        ("gamma(log_mean = eta, shape = 2", stats.gamma(2.0, scale=0.5)),
        ("exponential(log_rate = eta", stats.expon()),
        ("weibull(log_scale = eta, shape = 1.5", stats.weibull_min(1.5)),
        (
            "gamma(log_mean = eta, log_shape = 0.7 + 0 * a",
            stats.gamma(math.e**0.7, scale=math.e**-0.7),
        ),
    ],
)
def test_survival_past_a_hurdle(family: str, law: Any, hurdle: str) -> None:
    """P(Y > t) = (1 - p) P(Y > t | Y > 0) from time 0 on, and the hazard of those that are left."""
    fit = fitted(f"{family}, {hurdle})", "nonnegative")
    times = [0.0, 1e-9, 0.5, 2.0]
    table = fit.survival(times, {"x": [0.0]})
    assert table["survival_mean"].to_numpy() == pytest.approx(
        HURDLES[hurdle] * law.sf(times), abs=1e-5
    )
    hazard = law.pdf(times) / law.sf(times)
    assert table["hazard_mean"].to_numpy() == pytest.approx(hazard, rel=1e-4, abs=1e-12)


def test_lifetimes_that_never_end() -> None:
    """Quantiles above the share that fails are inf, and so are as many draws."""
    x, levels = np.array([-1.0, 0.0]), np.array([0.1, 0.5, 0.8, 0.9])
    prediction = predicted("gompertz(log_rate = eta, shape = -0.5)", x)
    rate = np.exp(x)
    inside = np.maximum(1.0 + 0.5 * np.log(1.0 - levels)[:, None] / rate, 0.0)
    with np.errstate(divide="ignore"):
        wanted = -2.0 * np.log(inside)
    assert np.isinf(wanted).sum() == 3
    values = prediction.response_quantile("y", list(levels)).values
    assert values == pytest.approx(wanted, rel=1e-4)
    drawn = prediction.sample_response("y", 4000, seed=1).values
    assert np.isposinf(drawn).mean(axis=0) == pytest.approx(np.exp(-rate / 0.5), abs=0.03)


def test_lifetimes_that_never_end_among_those_who_entered_late() -> None:
    """P(Y = inf | Y > entry), of rows with and without a late entry."""
    family = site("gompertz.log_rate")
    rows, s = 2000, np.zeros(2000)
    fields = {"shape": np.full(rows, -0.5), "event": np.ones(rows)}
    late = np.repeat([0.0, 1.0], rows // 2)
    sites = make_sites(entered(family), np.full(rows, 2.0), fields | {"entry": late})
    share = np.exp(-2.0 * np.exp(-0.5 * late))
    assert sites.endless(s) == pytest.approx(share, rel=1e-12)
    drawn = sites.sample(s, np.random.default_rng(2)).reshape(2, -1)
    assert np.isposinf(drawn).mean(axis=1) == pytest.approx(share[:: rows // 2], abs=0.05)
    assert drawn[1].min() > 1.0


def test_draws_of_extreme_predictors_are_still_refused() -> None:
    prediction = predicted("gompertz(log_rate = eta, shape = 0.5)", np.array([-800.0]))
    with pytest.raises(NumericalError, match="cannot be drawn: its predictor reaches 800"):
        predicted("exponential(log_rate = eta)", np.array([-800.0])).sample_response("y", 5)
    assert np.isfinite(prediction.sample_response("y", 5).values).all()


PIECES = (
    "lgm 1\nindex obs\nindex piece = {count}\nindex inner = head(piece)\ndata x[obs] : real\n"
    "data y[obs] : positive\ndata died[obs] : binary\ndata start[obs] : real\n"
    "data b[inner] : positive\nlatent h[piece] ~ normal(sd = 1e-6)\n"
    "let eta[obs, piece] = h + 0.3 * x - 1\n"
    "observe y ~ piecewise_exponential(log_hazard = eta, breaks = b, event = died, entry = start)\n"
)


@pytest.mark.parametrize("count", [2, 3, 5, 20])
def test_piecewise_exponential_answers_all_that_lifetimes_answer(count: int) -> None:
    """One hazard in all pieces: y - entry is exponential."""
    rng = np.random.default_rng(4)
    x, start = rng.normal(size=8), np.repeat([0.0, 0.7], 4)
    rate = np.exp(0.3 * x - 1.0)
    y, breaks = start + rng.exponential(size=8) / rate, np.arange(1, count) / 3.0
    data = {"x": x, "y": y, "died": np.ones(8), "start": start, "b": breaks}
    fit = lgm.fit(lgm.loads(PIECES.format(count=count)), data, method="laplace")
    gone = -np.expm1(-rate * (y - start))
    assert fit.pit().upper().values == pytest.approx(gone, abs=1e-6)
    prediction = fit.predict({"x": x[:2], "b": breaks, "start": np.zeros(2)})
    law, levels = stats.expon(scale=1.0 / rate[:2]), np.array([0.05, 0.5, 0.95])
    moments = prediction.response("y")
    assert moments["mean"].values == pytest.approx(law.mean(), rel=1e-6)
    assert moments["sd"].values == pytest.approx(law.std(), rel=1e-6)
    values = prediction.response_quantile("y", list(levels)).values
    assert values == pytest.approx(law.ppf(levels[:, None]), rel=1e-6)
    assert len(prediction.frame()) == 2
    assert fit.augment(data)["obs"].size == 8
    drawn = fit.sample_predictive(2000, seed=1)["y"].values - start
    assert drawn.min() > 0.0
    assert drawn.mean(axis=0) == pytest.approx(1.0 / rate, rel=0.12)


@pytest.mark.parametrize("dimension", [4, 30])
def test_sampled_rules_average_exponentials_of_many_predictors(dimension: int) -> None:
    """E exp(c's) = exp(c'm + c'Vc / 2), and rows of which nothing is known well are unsettled."""
    rng = np.random.default_rng(5)
    c = rng.normal(size=(3, dimension)) / np.sqrt(dimension)
    mean = rng.normal(size=(2, dimension))
    covariance = 0.04 * (np.eye(dimension) + np.ones((dimension, dimension)))
    variance = np.stack([covariance, 900.0 * covariance])

    def values(rows: IntArray, s: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(np.moveaxis(s @ c.T, -1, 0)))

    with np.errstate(invalid="ignore"):
        answer, settled = averages(values, mean, variance)
    spread = np.einsum("qi,ij,qj->q", c, covariance, c)
    assert answer[:, 0] == pytest.approx(np.exp(c @ mean[0] + 0.5 * spread), rel=1e-3)
    assert settled.tolist() == [True, False]


def test_breaks_say_how_many_pieces_there_are() -> None:
    """`index piece` without a size: one more than `data b[inner]`, inner = head(piece)."""
    text = PIECES.format(count=3).replace("index piece = 3", "index piece")
    data = {"x": np.zeros(3), "y": [0.3, 0.6, 1.5], "died": np.ones(3), "start": np.zeros(3)}
    fit = lgm.fit(lgm.loads(text), data | {"b": [0.5, 1.0]}, method="laplace")
    assert fit.mean("h").coords["piece"].values.tolist() == [0, 1, 2]
    assert len(fit.predict({"x": [0.0], "start": [0.0], "b": [0.5, 1.0]}).frame()) == 1
    named = lgm.fit(lgm.loads(text), data | {"b": [0.5, 1.0], "piece": ["a", "b", "c"]})
    assert named.mean("h").coords["piece"].values.tolist() == ["a", "b", "c"]
    with pytest.raises(DataError, match="missing `b`"):
        lgm.fit(lgm.loads(text), data)
