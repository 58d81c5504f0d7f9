"""Responses that a model fits exactly: the search ends where noise is rounding, and says so."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lgmdsl as lgm

HEAD = """lgm 1
index obs
index group
data y[obs] : real
data x[obs] : real
data who[obs] : group
hyper s : positive ~ {prior}
hyper t : positive ~ pc_sd(u = 1, alpha = 0.01)
latent b0 ~ normal(sd = 10)
"""
LATENTS = {
    "line": "latent b1 ~ normal(sd = 10)\n",
    "groups": "latent u[group] ~ normal(sd = t)\n",
    "smooth": "latent f[obs] ~ rw2(sd = t, at = x)\n",
}
TERMS = {"level": "b0", "line": "b0 + b1 * x", "groups": "b0 + u[who]", "smooth": "b0 + f"}
FAMILIES = ("normal(mean = {eta}, sd = s)", "student_t(mean = {eta}, scale = s, df = 4)")
X = np.sort(np.random.default_rng(0).uniform(size=60))
DATA = {"x": X, "who": np.arange(60) % 6}
RESPONSES = {
    "constant": np.full(60, 3.0),
    "line": 1.0 + 2.0 * X,
    "high": np.full(60, 3000.0),
}


def model(
    terms: str, prior: str = "pc_sd(u = 1, alpha = 0.01)", family: str = FAMILIES[0]
) -> lgm.Model:
    text = HEAD.format(prior=prior) + LATENTS.get(terms, "")
    if terms in ("level", "line"):
        text = "\n".join(line for line in text.split("\n") if not line.startswith("hyper t"))
    text += f"observe y ~ {family.format(eta=TERMS[terms])}\n"
    return lgm.loads(text)


@pytest.mark.parametrize(
    ("terms", "response", "family"),
    [
        ("level", "constant", 0),
        ("level", "high", 0),
        ("level", "constant", 1),
        ("line", "line", 0),
        ("groups", "constant", 0),
        ("smooth", "constant", 0),
    ],
)
def test_noise_below_rounding_ends_the_search(terms: str, response: str, family: int) -> None:
    data = DATA | {"y": RESPONSES[response]}
    exact = model(terms, family=FAMILIES[family])
    fit = lgm.fit(exact, data, hyper="map", method="natural-gradient")
    (warning,) = [w for w in fit.warnings if w.code == "W601"]
    assert not fit.converged and "`s`" in str(warning)
    assert "fits the data exactly" in warning.message
    assert len(fit.learning.steps) <= 10  # 14 to 30, of 20 and more fits each, before
    assert fit.learning.fits < 40
    with pytest.raises(lgm.NumericalError, match=r"E601.*nothing to integrate") as raised:
        lgm.fit(exact, data, hyper="integrate", method="natural-gradient")
    assert "`s`" in str(raised.value)


def test_a_proper_prior_is_fitted() -> None:
    """log sd has a maximum at -5 - (n - 1) 0.3^2 but for the prior of the level."""
    proper = model("level", "lognormal(mean = -5, sd = 0.3)")
    data = DATA | {"y": RESPONSES["constant"]}
    fit = lgm.fit(proper, data, hyper="integrate")
    assert fit.converged
    assert float(np.log(fit.quantile("s", [0.5]).item())) == pytest.approx(
        -5.0 - 59 * 0.09, abs=0.02
    )


def test_noise_that_there_is_stays_a_maximum() -> None:
    """Noise of 1e-9 of the level is no rounding."""
    noise = np.random.default_rng(1).normal(size=60)
    fit = lgm.fit(model("level"), DATA | {"y": 3.0 + 1e-9 * noise}, hyper="map")
    assert fit.converged
    assert float(fit.mean("s")) == pytest.approx(1e-9 * noise.std(), rel=0.02)


CONSTANT = {
    "normal": ("real", "half_normal(sd = {size})", "normal(mean = eta, sd = s)"),
    "wide": ("real", "lognormal(mean = 0, sd = 10)", "normal(mean = eta, sd = s)"),
    "variance": ("real", "half_normal(sd = {size})", "normal(mean = eta, sd = sqrt(s))"),
    "lognormal": ("positive", "half_normal(sd = 1)", "lognormal(mean = eta, sd = s)"),
    "weibull": ("positive", "lognormal(mean = 0, sd = 1)", "weibull(log_scale = eta, shape = s)"),
    "gamma": ("positive", "half_cauchy(scale = 1)", "gamma(log_mean = eta, shape = s)"),
}


def constant(kind: str, prior: str = "", size: float = 5.0) -> lgm.Model:
    type_, usual, family = CONSTANT[kind]
    level = f"mean = {size}, sd = {size}" if type_ == "real" else "sd = 10"
    return lgm.loads(
        f"lgm 1\nindex obs\ndata y[obs] : {type_}\n"
        f"hyper s : positive ~ {prior or usual.format(size=size)}\n"
        f"latent b ~ normal({level})\nlet eta[obs] = b\nobserve y ~ {family}\n"
    )


@pytest.mark.few(9)
@pytest.mark.parametrize("hyper", ["map", "integrate"])
@pytest.mark.parametrize("kind", CONSTANT)
@pytest.mark.parametrize(("size", "rows"), [(5.0, 40), (1e5, 40), (5.0, 700)])
def test_the_prior_of_the_message_works(kind: str, hyper: str, size: float, rows: int) -> None:
    """In any unit and for any number of rows; it used to be lognormal(mean = -5, sd = 0.5)."""
    data = {"y": np.full(rows, size)}
    model = constant(kind, size=size)
    if hyper == "map":
        fit = lgm.fit(model, data, hyper="map")
        (warning,) = [w for w in fit.warnings if w.code == "W601"]
        message, remedy = warning.message, warning.help
    else:
        with pytest.raises(lgm.NumericalError) as raised:
            lgm.fit(model, data, hyper="integrate")
        (found,) = raised.value.diagnostics
        message, remedy = found.message, found.help
    assert "fits the data exactly, and their density rises as `s`" in message
    assert "without limit" not in message
    assert "integrate" not in remedy
    (prior,) = re.findall(r"such as (lognormal\(.*?\))", remedy)
    for way in ("map", "integrate"):
        fit = lgm.fit(constant(kind, prior), data, hyper=way)
        assert fit.converged
        assert not [w for w in fit.warnings if w.code.startswith("W60")]


def test_an_exact_fit_by_a_process() -> None:
    text = """lgm 1
index obs
data y[obs] : real
data x[obs] : real
hyper s : positive ~ half_normal(sd = 1)
hyper t : positive ~ half_normal(sd = 1)
hyper l : positive ~ lognormal(mean = -1, sd = 1)
latent b ~ normal(sd = 10)
latent f[obs] ~ gp(at = x, kernel = se(sd = t, length = l))
observe y ~ normal(mean = b + f, sd = s)
"""
    data = {"y": np.full(40, 5.0), "x": np.linspace(0.0, 1.0, 40)}
    fit = lgm.fit(lgm.loads(text), data, hyper="map")
    (warning,) = [w for w in fit.warnings if w.code == "W601"]
    assert "fits the data exactly, and their density rises as `s` goes to 0" in warning.message


@pytest.mark.parametrize(
    "observed",
    [
        "latent f[obs] ~ ou(sd = 1, rate = r, at = x)\nobserve y ~ normal(mean = b + f, sd = 0.5)",
        "observe y ~ student_t(mean = b, scale = 1, df = r)",
        "observe c ~ negbinomial(log_mean = b, size = r)",
        "latent u[g] ~ normal(sd = 1 / sqrt(r))\nobserve y ~ normal(mean = b + u[who], sd = 1)",
    ],
)
def test_the_way_on_where_nothing_can_be_integrated(observed: str) -> None:
    """A prior that has a mass: map's warning sent to integrate, which sent back."""
    text = f"""lgm 1
index obs
index g
data x[obs] : real
data y[obs] : real
data c[obs] : count
data who[obs] : g
hyper r : positive ~ flat
latent b ~ normal(sd = 3)
{observed}
"""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(size=40))
    y, c = rng.normal(size=40), rng.poisson(3, 40)
    data = {"x": x, "y": y, "c": c, "who": np.arange(40) % 5}
    with pytest.raises(lgm.NumericalError, match=r"E601.*nothing to integrate") as raised:
        lgm.fit(lgm.loads(text), data, hyper="integrate")
    remedy = raised.value.diagnostics[0].help
    assert "lognormal(mean = log(VALUE), sd = 1)" in remedy
    proper = text.replace("r : positive ~ flat", "r : positive ~ lognormal(mean = 0, sd = 1)")
    for hyper in ("map", "integrate"):
        assert lgm.fit(lgm.loads(proper), data, hyper=hyper).converged
