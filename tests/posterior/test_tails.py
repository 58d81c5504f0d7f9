"""Which standard deviations by draws are said to rest on few of them."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.cli.main import main
from lgmdsl.posterior.normal_mixtures import mixed_quantile
from lgmdsl.posterior.tails import (
    MOST,
    exponential_powers,
    least_variance,
    root_error,
    sd_error,
    share_beyond,
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
    points of the predictor are right. An effect's is 69,000 times as large."""
    fit, rows = rare()
    assert fit.drawn is None
    prediction = fit.predict(rows)
    with pytest.warns(lgm.PredictionWarning, match="W611.*rests on a tail that is not checked"):
        found = prediction.response("y")["sd"].values
    assert found[0] > 2.0 * rare_sd()
    with pytest.warns(lgm.PredictionWarning, match="W611.*a tail that is not checked"):
        fit.effects("x", contrast=1)


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


def test_shares_beyond_are_those_of_exponentials() -> None:
    """Of E e^{2s} under two normals: by numerical integration beyond the 1 and 99 % points."""
    weights, means, sds = np.array([0.7, 0.3]), np.array([[0.0], [-1.0]]), np.array([[0.5], [1.4]])
    powers = exponential_powers(means, sds, np.full(1, 1e-12))
    s = np.linspace(-12.0, 14.0, 200_001)[:, None]
    low, high = mixed_quantile(weights, means, sds, np.array([0.01, 0.99]))
    density = sum(
        w * np.exp(2.0 * s - 0.5 * ((s - m) / d) ** 2) / d
        for w, m, d in zip(weights, means, sds, strict=True)
    )
    outside = (s < low) | (s > high)
    wanted = density[outside].sum() / density.sum()
    assert share_beyond(weights, means, sds, powers)[0] == pytest.approx(wanted, abs=1e-4)
    # What is not tied to the fitted sites moves none of them.
    assert share_beyond(weights, means, sds, powers, 1e-6)[0] == pytest.approx(0.02, abs=0.02)


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
        tail = "not checked" in doubt.message
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
