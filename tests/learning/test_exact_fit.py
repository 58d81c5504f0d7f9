"""Responses that a model fits exactly: the search ends where noise is rounding, and says so."""

from __future__ import annotations

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
    if response != "line":  # there the search leaves its range first
        assert "fits the data exactly" in warning.message
    assert len(fit.learning.steps) <= 4  # 14 to 30 steps, of 20 and more fits each, before
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
