"""Published examples of R's emmeans and marginaleffects, of Gelman and Hill (2007), side by side.

Estimates and standard errors of R 4.2 with emmeans 1.8.4, lme4 1.1-31 and glm; slopes, which
marginaleffects takes the mean of, by hand from coef and vcov. Priors are wide here, and noise
scales are fixed at R's estimates, so that posteriors of linear models are its sampling
distributions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm

PIGS = (
    "27.8 23.7 31.5 28.5 32.8 34 28.3 30.6 32.7 33.7 39.3 34.8 29.8 39.8 40 39.1 38.5 39.2 40 42.9 "
    "40.6 31 34.6 42.9 50.1 37.4 59.5 41.4 59.8"
)
PERCENT = "9 9 12 12 12 15 15 18 18 18 9 9 9 12 12 12 15 15 15 18 9 9 9 12 12 12 15 15 18"


def numbers(text: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([float(v) for v in text.split()])


def rows(frame: Any, *columns: str) -> Any:
    return frame[["estimate", "sd", *columns]].to_numpy(dtype=float)


def test_pigs() -> None:
    """emmeans, vignette "basics": lm(log(conc) ~ source + factor(percent)), emmeans(, "source")."""
    text = """lgm 1
index obs
index source = {"fish", "soy", "skim"}
index percent = {"9", "12", "15", "18"}
data y[obs] : real
data s[obs] : source
data p[obs] : percent
latent a[source] ~ normal(sd = 1000)
latent b[percent] ~ normal(sd = 1000)
let eta[obs] = a[s] + b[p]
observe y ~ normal(mean = eta, sd = 0.1151279918)
"""
    source = ["fish"] * 10 + ["soy"] * 10 + ["skim"] * 9
    data = {"y": np.log(numbers(PIGS)), "s": source, "p": PERCENT.split()}
    fit = lgm.fit(lgm.loads(text), data)
    means = rows(fit.effects("s", kind="balanced", contrast="levels"))
    published = [[3.394492, 0.03668122], [3.667260, 0.03744798], [3.796770, 0.03938283]]
    np.testing.assert_allclose(means, published, rtol=1e-5)
    pairs = fit.effects("s", kind="balanced", contrast="pairwise")
    assert list(pairs["contrast"]) == ["soy - fish", "skim - fish", "skim - soy"]
    published = [[0.2727678, 0.05293450], [0.4022777, 0.05415929], [0.1295098, 0.05304280]]
    np.testing.assert_allclose(rows(pairs), published, rtol=1e-5)
    published = [
        [3.445307, 0.04088810],
        [3.624861, 0.03837600],
        [3.662706, 0.04372996],
        [3.745156, 0.05296030],
    ]
    means = rows(fit.effects("p", kind="balanced", contrast="levels"))
    np.testing.assert_allclose(means, published, rtol=1e-5)


OATS = (
    "111 130 157 174 117 114 161 141 105 140 118 156 61 91 97 100 70 108 126 149 96 124 121 144 68 "
    "64 112 86 60 102 89 96 89 129 132 124 74 89 81 122 64 103 132 133 70 89 104 117 62 90 100 116 "
    "80 82 94 126 63 70 109 99 53 74 118 113 89 82 86 104 97 99 119 121"
)


def test_oats() -> None:
    """emmeans, vignettes "basics" and "sophisticated": lmer(yield ~ Variety + factor(nitro) +
    (1 | Block / Variety)); random effects at 0."""
    text = """lgm 1
index obs
index variety = {"Golden Rain", "Marvellous", "Victory"}
index nitro = {"0", "0.2", "0.4", "0.6"}
index block
index plot
data y[obs] : real
data v[obs] : variety
data n[obs] : nitro
data in_block[obs] : block
data in_plot[obs] : plot
latent a[variety] ~ normal(sd = 10000)
latent b[nitro] ~ normal(sd = 10000)
latent u[block] ~ normal(sd = 14.64503860)
latent w[plot] ~ normal(sd = 10.47343972)
let eta[obs] = a[v] + b[n] + u[in_block] + w[in_plot]
observe y ~ normal(mean = eta, sd = 12.74985561)
"""
    blocks = np.repeat(["I", "II", "III", "IV", "V", "VI"], 12)
    variety = np.tile(np.repeat(["Victory", "Golden Rain", "Marvellous"], 4), 6)
    data = {
        "y": numbers(OATS),
        "v": variety,
        "n": np.tile(["0", "0.2", "0.4", "0.6"], 18),
        "in_block": blocks,
        "in_plot": np.char.add(blocks, variety),
    }
    fit = lgm.fit(lgm.loads(text), data)
    asked: dict[str, Any] = {"kind": "balanced", "contrast": "levels", "without": ["u", "w"]}
    published = [
        [79.38889, 7.132411],
        [98.88889, 7.132411],
        [114.22222, 7.132411],
        [123.38889, 7.132411],
    ]
    np.testing.assert_allclose(rows(fit.effects("n", **asked)), published, rtol=2e-5)
    published = [[104.5, 7.79754], [109.79167, 7.79754], [97.625, 7.79754]]
    np.testing.assert_allclose(rows(fit.effects("v", **asked)), published, rtol=2e-5)


BREAKS = (
    "26 30 54 25 70 52 51 26 67 18 21 29 17 12 18 35 30 36 36 21 24 18 10 43 28 15 26 27 14 29 19 "
    "29 31 41 20 44 42 26 19 16 39 28 21 39 29 20 21 24 17 13 15 15 16 28"
)


def test_warpbreaks() -> None:
    """emmeans: glm(breaks ~ wool * tension, poisson), emmeans(, ~ tension | wool, type =
    "response"). The posterior mean of a rate is above its mode by about half a break in 250."""
    text = """lgm 1
index obs
index wool = {"A", "B"}
index tension = {"L", "M", "H"}
data y[obs] : count
data w[obs] : wool
data t[obs] : tension
latent b[wool, tension] ~ normal(sd = 10)
let eta[obs] = b[w, t]
observe y ~ poisson(log_rate = eta)
"""
    data = {
        "y": numbers(BREAKS),
        "w": np.repeat(["A", "B"], 27),
        "t": np.tile(np.repeat(["L", "M", "H"], 9), 2),
    }
    fit = lgm.fit(lgm.loads(text), data)
    frame = fit.effects(
        "t", by="w", kind="conditional", contrast="levels", quantiles=(0.025, 0.975)
    )
    frame = frame.sort_values("w", kind="stable")
    assert list(frame["contrast"]) == ["L", "M", "H"] * 2
    published = numbers(
        "44.55556 2.2249942 40.40127 49.13701 24.00000 1.6329920 21.00363 27.42383 "
        "24.55556 1.6517819 21.52246 28.01610 28.22222 1.7708188 24.95641 31.91540 "
        "28.77778 1.7881635 25.47805 32.50486 18.77778 1.4444444 16.14980 21.83339"
    ).reshape(6, 4)
    error = (rows(frame, "q2.5", "q97.5") - published) / published[:, 1:2]
    assert np.abs(error[:, 0]).max() < 0.1 and np.abs(error[:, 1]).max() < 0.05
    assert np.abs(error[:, 2:]).max() < 0.2


MPG = (
    "21 21 22.8 21.4 18.7 18.1 14.3 24.4 22.8 19.2 17.8 16.4 17.3 15.2 10.4 10.4 14.7 32.4 30.4 "
    "33.9 21.5 15.5 15.2 13.3 19.2 27.3 26 30.4 15.8 19.7 15 21.4"
)
HP = (
    "110 110 93 110 175 105 245 62 95 123 123 180 180 180 205 215 230 66 52 65 97 150 150 245 175 "
    "66 91 113 264 175 335 109"
)
WT = (
    "2.62 2.875 2.32 3.215 3.44 3.46 3.57 3.19 3.15 3.44 3.44 4.07 3.73 3.78 5.25 5.424 5.345 2.2 "
    "1.615 1.835 2.465 3.52 3.435 3.84 3.845 1.935 2.14 1.513 3.17 2.77 3.57 2.78"
)


def test_mtcars() -> None:
    """marginaleffects, chapter "slopes": avg_slopes(lm(mpg ~ hp * wt, mtcars)); the product is in
    the model, so that it follows."""
    text = """lgm 1
index car
data mpg[car] : real
data hp[car] : real
data wt[car] : real
latent a ~ normal(sd = 1e4)
latent b ~ normal(sd = 1e4)
latent c ~ normal(sd = 1e4)
latent d ~ normal(sd = 1e4)
let eta[car] = a + b * hp + c * wt + d * (hp * wt)
observe mpg ~ normal(mean = eta, sd = 2.152751545)
"""
    fit = lgm.fit(lgm.loads(text), {"mpg": numbers(MPG), "hp": numbers(HP), "wt": numbers(WT)})
    np.testing.assert_allclose(rows(fit.effects("hp")), [[-0.03050764, 0.007503002]], rtol=1e-4)
    np.testing.assert_allclose(rows(fit.effects("wt")), [[-4.131649, 0.529558]], rtol=1e-4)


@pytest.mark.thorough
def test_wells(shared: Path) -> None:
    """Gelman and Hill (2007), section 5.7: average predictive differences of switching wells, -0.20
    of 100 m, 0.06 of arsenic 1 against 0.5, 0.12 of twelve years of education against none; and
    average marginal effects, with standard errors by the delta method."""
    text = """lgm 1
index obs
data switched[obs] : binary
data dist100[obs] : real
data arsenic[obs] : real
data educ4[obs] : real
latent a ~ normal(sd = 100)
latent b ~ normal(sd = 100)
latent c ~ normal(sd = 100)
latent d ~ normal(sd = 100)
let eta[obs] = a + b * dist100 + c * arsenic + d * educ4
observe switched ~ bernoulli(logit = eta)
"""
    with np.load(shared / "data" / "pdb_wells_data.npz") as d:
        data = {
            "switched": d["switched"],
            "dist100": d["dist"] / 100.0,
            "arsenic": d["arsenic"],
            "educ4": d["educ"] / 4.0,
        }
    fit = lgm.fit(lgm.loads(text), data)
    for name, contrast, estimate, error in (
        ("dist100", (0, 1), -0.204468103, 0.022936678),
        ("arsenic", (0.5, 1.0), 0.0564380655, 0.0048614745),
        ("educ4", (0, 3), 0.116718939, 0.025643654),
        ("dist100", "slope", -0.204647300, 0.022801995),
        ("arsenic", "slope", 0.1070172878, 0.0087698148),
    ):
        row = rows(fit.effects(name, contrast=contrast, n=2000))[0]
        assert row[0] == pytest.approx(estimate, abs=0.12 * error), name
        assert row[1] == pytest.approx(error, rel=0.06), name
