"""Which standard deviations by draws are said to rest on few of them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.cli.main import main
from lgmdsl.posterior.tails import (
    MOST,
    grid,
    least_variance,
    of_few_draws,
    reweighted,
    root_error,
    sd_error,
)

COUNTS = """lgm 1
index obs
data o[obs] : real
data y[obs] : count
latent a ~ normal(sd = 0.1)
index g = 2
data who[obs] : g
latent u[g] ~ normal(sd = 5)
observe y ~ negbinomial(log_mean = a + u[who] + o, size = 3, hurdle = 0.3)
"""


def test_errors_of_sds_are_those_of_repeated_draws() -> None:
    """Of moderately heavy tails; of heavier ones they are large, whatever the draws."""
    rng = np.random.default_rng(0)
    draws = np.exp(0.6 * rng.normal(size=(2000, 400)))
    sds = draws.std(axis=0)
    assert np.median(sd_error(draws, 2000.0)) == pytest.approx(sds.std() / sds.mean(), rel=0.25)
    normal = rng.normal(size=(2000, 50))
    np.testing.assert_allclose(sd_error(normal, 500.0), 1.0 / np.sqrt(1000.0), rtol=0.1)
    assert sd_error(np.exp(1.5 * rng.normal(size=(4000, 50))), 4000.0).min() > MOST


@pytest.mark.parametrize("sigma", [1.0, 1.5, 3.0, "gamma"])
def test_errors_of_sds_of_heavy_tails_cover(sigma: float | str) -> None:
    """By the largest draws, whose sample variance is far too small: of e^{3z} an error of 30 % was
    claimed where the sd was 7 times too small, and 26 of 100 were within twice the claim. Of what
    is exponential given an inverse gamma rate, 78."""
    rng = np.random.default_rng(3)
    if isinstance(sigma, str):
        draws = 1.0 / rng.gamma(3.0, size=(4000, 100))
        terms, square = draws**2 + (draws - draws.mean(axis=0)) ** 2, 0.75
    else:
        draws = np.exp(sigma * rng.normal(size=(4000, 100)))
        terms = (draws - draws.mean(axis=0)) ** 2
        square = np.expm1(sigma**2) * np.exp(sigma**2)
    off = np.abs(np.sqrt(terms.mean(axis=0) / square) - 1.0)
    errors = root_error(terms, 4000.0)
    assert np.mean(off <= 2.0 * errors) >= 0.92
    if sigma == 3.0:
        (said,) = of_few_draws("m", errors)
        assert "cannot be told" in said.details[0]


def test_errors_of_what_does_not_vary_or_is_infinite() -> None:
    assert sd_error(np.ones((400, 1)), 400.0)[0] == 0.0
    assert root_error(np.array([[1.0], [np.inf]]), 2.0)[0] == 0.0
    assert 0.0 < root_error(np.array([[1e300], [1e200]]), 2.0)[0] < 1.0


def test_effects_are_averages_over_all_draws_of_the_posterior() -> None:
    """Of 4,000 of 10,000 an sd was 7 % off, and not said to be."""
    text = COUNTS.replace("latent a", "data x[obs] : real\nlatent b ~ normal(sd = 0.3)\nlatent a")
    text = text.replace("u[who] + o", "u[who] + o + b * x")
    data = {"o": [-4.0, -2.5], "who": [0, 1], "x": [0.3, -0.3], "y": [0, 1]}
    fit = lgm.fit(lgm.loads(text), data)
    assert fit.drawn is not None
    every = fit.effects("x", contrast=1, by="who", scale="link", n=len(fit.drawn))
    assert len(fit.drawn) > 4000
    found = fit.effects("x", contrast=1, by="who", scale="link")
    np.testing.assert_array_equal(found["sd"], every["sd"])


def test_few_draws_that_carry_the_variances_of_counts_are_said() -> None:
    """Overdispersed counts: mu^2 / size adds to the variance of mu, and is of the same few draws.
    Of u[0] nothing is known: mu is lognormal with log sd 5."""
    fit = lgm.fit(lgm.loads(COUNTS), {"o": [-4.0, -2.5], "who": [0, 1], "y": [0, 1]})
    assert fit.drawn is not None
    prediction = fit.predict({"o": [-4.0], "who": [0]})
    with pytest.warns(lgm.PredictionWarning, match="W611"):
        prediction.response("y")


RARE = """lgm 1
index obs
data x[obs] : real
data t[obs] : positive
data y[obs] : count
hyper h : positive ~ exponential(rate = 1.37)
latent a ~ normal(mean = -0.39, sd = 0.329)
latent b ~ normal(sd = h)
observe y ~ negbinomial(log_mean = a + x * b, size = 3, exposure = t)
"""


def rare() -> tuple[lgm.Fit, dict[str, list[float]]]:
    rows = {"x": [1.53285231, -0.54389071], "t": [1.0, 0.1]}
    return lgm.fit(lgm.loads(RARE), {**rows, "y": [0, 1]}), rows


def rare_sd() -> float:
    """The sd of another count of the first row, by the trapezoid rule over a, b / h and log h."""
    a = -0.39 + 0.329 * np.linspace(-6.0, 6.0, 61)[:, None, None]
    z = np.linspace(-8.0, 8.0, 321)[:, None]
    h = np.exp(np.linspace(np.log(1e-3), np.log(30.0), 121))
    log = -0.5 * ((a + 0.39) / 0.329) ** 2 - 0.5 * z**2 - 1.37 * h + np.log(h)
    for x, t, y in ((1.53285231, 1.0, 0), (-0.54389071, 0.1, 1)):
        mean = t * np.exp(np.minimum(a + x * h * z, 100.0))
        log = log + y * np.log(mean) - (y + 3.0) * np.log(3.0 + mean)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    mean = np.exp(np.minimum(a + 1.53285231 * h * z, 100.0))  # beyond, the weight is 0
    first, second = (weight * mean).sum(), (weight * (mean + mean**2 * (1.0 + 1.0 / 3.0))).sum()
    return float(np.sqrt(second - first**2))


def test_sds_by_a_gaussian_tail_that_the_posterior_lacks_are_said() -> None:
    """Of a count of 0 under a wide prior: the sd is 2.4 times what it is, where the 5 and 95 %
    points of the predictor are right. An effect's is 69,000 times as large, and a ratio's 15 % too
    large. Of the other row it is 2 % off."""
    fit, rows = rare()
    assert fit.drawn is None
    prediction = fit.predict(rows)
    with pytest.warns(lgm.PredictionWarning, match="W611.*the sd of `y` may be off") as said:
        found = prediction.response("y")["sd"].values
    assert found[0] > 2.0 * rare_sd()
    assert f"{found[0] / rare_sd():.2g} times too large;" in str(said[0].message)
    with pytest.warns(lgm.PredictionWarning, match=r"W611.*\n.*e\+04 times too large"):
        fit.effects("x", contrast=1)
    with pytest.warns(lgm.PredictionWarning, match=r"W611.*\n.*1\d% too large"):
        fit.effects("x", contrast=1, compare="ratio")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit.predict({k: v[1:] for k, v in rows.items()}).response("y")


GROUPS = """lgm 1
index obs
index g
data y[obs] : {kind}
data who[obs] : g
data z[obs] : real
hyper h : positive ~ half_normal(sd = 1)
latent a ~ normal(sd = 2)
latent b ~ normal(sd = 1)
latent u[g] ~ normal(sd = h)
report r[g] = exp(u)
observe y ~ {family}
"""


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("count", "poisson(log_rate = a + b * z + u[who])"),
        ("positive", "lognormal(mean = 3 * (a + b * z + u[who]), sd = 1)"),
    ],
)
def test_sds_of_ordinary_groups_and_of_gaussian_posteriors_are_not_said(
    kind: str, family: str
) -> None:
    """Neither of groups of which the data tell, nor of a new one, whose effect has its prior; and
    however wide predictors are where the posterior is Gaussian."""
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(8), 4)
    z = rng.normal(size=32)
    mean = np.exp(0.3 + 0.3 * z + 0.6 * rng.normal(size=8)[who])
    y = rng.poisson(mean) if kind == "count" else mean
    text = GROUPS.format(kind=kind, family=family)
    fit = lgm.fit(lgm.loads(text), {"y": y, "who": who, "z": z})
    assert fit.drawn is None
    assert "W611" not in [w.code for w in fit.warnings]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="(?s).*W611")
        fit.predict({"who": [0, 3], "z": [0.0, 1.0]}).response("y")
        fit.predict({"who": [99], "z": [0.0]}).response("y")
        fit.effects("z", contrast=1)


def test_moments_under_another_density_are_those_of_quadrature() -> None:
    """Of e^s and a noise of its square under N(0.3, 1.2^2) times a density ratio."""
    nodes = grid(2.4, 1.0, 1.2)
    s = 0.3 + 1.2 * nodes[:, None]
    found = reweighted(nodes, -np.exp(s) - 0.2 * s, np.exp(s), 0.3 * np.exp(2.0 * s))[:, 0]

    def average(g: Callable[[Array], Array]) -> float:
        x = np.linspace(-12.0, 12.0, 400_001)
        log = -0.5 * ((x - 0.3) / 1.2) ** 2 - np.exp(x) - 0.2 * x
        weight = np.exp(log - log.max())
        return float((weight * g(x)).sum() / weight.sum())

    mean = average(np.exp)
    inner = average(lambda x: np.exp(2.0 * x)) - mean**2
    noise = 0.3 * average(lambda x: np.exp(2.0 * x))
    np.testing.assert_allclose(found, [mean, inner + noise, inner], rtol=1e-7)


LONE = """lgm 1
index obs
data o[obs] : real
data y[obs] : positive
hyper h : positive ~ half_normal(sd = 1.81)
latent a ~ normal(mean = 2.142, sd = h)
report k = exp(a)
observe y ~ exponential(log_rate = a + o)
"""


def lone_sds(rows: dict[str, list[float]]) -> tuple[float, float]:
    """The sds of exp(a) and of another y of the first row, by the trapezoid rule over a and h."""
    z = np.linspace(-9.0, 9.0, 1201)[:, None]
    h = np.exp(np.linspace(np.log(1e-4), np.log(12.0), 801))
    a = 2.142 + h * z
    log = -0.5 * z**2 - 0.5 * (h / 1.81) ** 2 + np.log(h)
    for o, y in zip(rows["o"], rows["y"], strict=True):
        log = log + a + o - y * np.exp(np.minimum(a + o, 500.0))
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    out = []
    for mean, noise in ((np.exp(a), 0.0), (np.exp(-a - rows["o"][0]), 1.0)):
        first = (weight * mean).sum()
        out.append(float(np.sqrt((weight * mean**2).sum() * (1.0 + noise) - first**2)))
    return out[0], out[1]


def test_errors_of_sds_by_skewed_predictors_are_carried_to_all_that_is_made_of_them() -> None:
    """Of a report and of a response, whose sds are off by more than that of their predictor."""
    rows = {"o": [1.3, -0.2], "y": [0.0096, 0.0013]}
    fit = lgm.fit(lgm.loads(LONE), rows, options={"correction": "off"})
    report, response = lone_sds(rows)
    off = fit.marginals.off("k")
    assert 1.0 + off.sd[0] == pytest.approx(float(fit.sd("k")) / report, abs=0.01)
    prediction = fit.predict({"o": rows["o"][:1]})
    with pytest.warns(lgm.PredictionWarning, match="W611.*the sd of `y` may be off") as said:
        found = float(prediction.response("y")["sd"].values[0])
    assert found < 0.95 * response
    assert f"{1.0 - found / response:.0%} too small" in str(said[0].message)


CENSORED = """lgm 1
index obs
data o[obs] : real
data x[obs] : real
data low[obs] : real?
data high[obs] : real?
hyper h : positive ~ exponential(rate = 1)
latent b ~ normal(sd = h)
observe y ~ lognormal(mean = o + x * b, sd = 3, lower = low, upper = high)
""".replace("observe", "data y[obs] : positive\nobserve")


def test_sds_that_are_not_known_are_said() -> None:
    """A lognormal response whose rows are censored is not Gaussian: the mean of another was 1e57
    where it is 40, its sd NaN, and nothing was said."""
    rows = {"x": [-2.5, 0.2], "o": [-1.9, -1.8]}
    ends = {"low": [np.nan, 0.34], "high": [0.23, np.nan], "y": [0.1, 0.5]}
    fit = lgm.fit(lgm.loads(CENSORED), {**rows, **ends})
    prediction = fit.predict(rows)
    with pytest.warns(lgm.PredictionWarning, match="W611.*the sd of `y` may be off"):
        prediction.response("y")


def test_certain_outcomes_are_not_said() -> None:
    """Sds of 1e-4 of what is 0 or 1, and of its probability."""
    text = """lgm 1
index obs
data x[obs] : real
data y[obs] : binary
latent a ~ normal(sd = 2)
latent b ~ normal(sd = 5)
report p[obs] = invlogit(a + b * x)
observe y ~ bernoulli(logit = a + b * x)
"""
    x = np.linspace(-3.0, 3.0, 40)
    y = (x + np.sin(40.0 * x) > 0.0).astype(int)
    fit = lgm.fit(lgm.loads(text), {"x": x, "y": y}, options={"correction": "off"})
    assert "W611" not in [w.code for w in fit.warnings]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        far = fit.predict({"x": [8.0, 12.0, 20.0]}).response("y")
    assert 0.0 < far["sd"].values.max() < 0.1
    assert least_variance(np.exp) == 0.0
    assert least_variance(lambda x: 3.0 / (1.0 + np.exp(-x))) == pytest.approx(0.18)


EXPONENTIALS = """lgm 1
index obs
index g
data y[obs] : {kind}
data who[obs] : g
hyper s : positive ~ half_normal(sd = 2)
latent a ~ normal(sd = 3)
latent u[g] ~ normal(sd = s)
let eta[obs] = a + u[who]
observe y ~ {family}
report {report}
"""


@pytest.mark.parametrize(
    "report",
    [
        'r = exp(a + u["0"])',
        "r[g] = exp(a + u)",
        'r = 2 * exp(u["0"])',
        'r = exp(a) / (1 + exp(u["1"]))',
        "r = sum(exp(a + u), g)",
    ],
)
@pytest.mark.parametrize("settings", [{}, {"options": {"correction": "on"}}])
def test_the_logarithm_of_the_help_has_an_sd(report: str, settings: dict[str, Any]) -> None:
    """The help was about sums of exponentials, whatever the report was."""
    data = {"y": [1, 1, 1, 0, 1, 1], "who": [*range(6)]}
    text = EXPONENTIALS.format(kind="binary", family="bernoulli(logit = eta)", report=report)
    fit = lgm.fit(lgm.loads(text), data, method="laplace", fixed={"s": 2.0}, **settings)
    doubts = [w for w in fit.warnings if w.code == "W611"]
    assert doubts or "sum" in report
    for doubt in doubts:
        assert "quote the median and quantiles" in doubt.help
        (new,) = re.findall(r"its logarithm has both: (report .*?)(?:; |$)", doubt.help)
        more = lgm.fit(
            lgm.loads(f"{text}{new}\n"), data, method="laplace", fixed={"s": 2.0}, **settings
        )
        assert len([w for w in more.warnings if w.code == "W611"]) == len(doubts)
        assert np.all(more.sd("log_r") > 0.0)
        exact = np.log(fit.quantile("r", [0.25, 0.75]))
        close = more.quantile("log_r", [0.25, 0.75])
        np.testing.assert_allclose(close, exact, atol=0.1)
        tail = "may be off" in doubt.message
        assert ('options={"correction": "on"}' in doubt.help) == tail
        assert ("narrower prior" in doubt.help) != tail


@pytest.mark.filterwarnings("default")
def test_the_command_line_says_it_in_its_own_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With flags in place of arguments, and without a line of click's source."""
    fit, _ = rare()
    fit.save(tmp_path / "f.nc")
    (tmp_path / "new.csv").write_text("x,t\n1.53285231,1.0\n-0.54389071,0.1\n")
    for words in (["predict"], ["effects"]):
        names = ["x", "--contrast", "1"] if words == ["effects"] else [str(tmp_path / "new.csv")]
        assert main([*words, str(tmp_path / "f.nc"), *names]) == 0
        said = capfd.readouterr().err
        assert said.startswith("warning[W611]: ")
        assert "--option correction=on" in said
        assert "PredictionWarning" not in said
