"""Khan 2012, figure 4.5: the covariance of a binary latent Gaussian graphical model in
five dimensions as each bound learns it from unlimited data, and how far its distribution of the 32
binary vectors is from the true one."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from scipy import special
from scipy.stats import qmc

import lgmdsl as lgm
from lgmdsl.arrays import Array, IntArray
from tests.reproductions.record import COLOURS, figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
# The first three go together, the last two against each other; the thesis shows no numbers.
TRUTH = np.zeros((5, 5))
TRUTH[:3, :3] = 8.0 + 2.0 * np.eye(3)
TRUTH[3:, 3:] = [[10.0, -8.0], [-8.0, 10.0]]
PATTERNS: IntArray = (np.arange(32)[:, None] >> np.arange(5)) & 1
CASES = 4000  # divided among the patterns as the truth says: data without chance
BOUNDS = {
    "B": "bohning", "J": "jaakkola",
    **{f"L{r}": f"piecewise-linear-{r}" for r in (3, 4, 5, 10)},
    **{f"Q{r}": f"piecewise-quadratic-{r}" for r in (3, 4, 5, 10)},
    "none": "quadrature",
}  # fmt: skip
# Under the worst bounds the most likely covariance is singular. This prior, with df = 6, is worth
# 12 cases of covariance I beside those.
SCALE = 12.0 * np.eye(5)
MODEL = """lgm 1
index case
index item
data y[case, item] : binary
data scale[item, item] : real
hyper mu[item] : real ~ flat
hyper S[item, item] : covariance ~ inv_wishart(df = 6, scale = scale)
latent z[case, item] ~ iid * dense(cov = S)
let eta[case, item] = mu + z
observe y ~ bernoulli(logit = eta)
"""


def distribution(mu: Array, cov: Array) -> Array:
    """p(y) of the 32 patterns, by 2^18 Sobol points: to 2e-5."""
    points = special.ndtri(qmc.Sobol(5, rng=np.random.default_rng(0)).random_base2(18))
    values, vectors = np.linalg.eigh(cov)
    z = mu + points @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    yes = np.ones((len(z), 1))
    for k in range(5):  # patterns in the order of PATTERNS: the last doubling is the last item
        p = special.expit(z[:, k : k + 1])
        yes = np.hstack([yes * (1.0 - p), yes * p])
    return np.asarray(yes.mean(axis=0))


def replicated(p: Array, count: int) -> Array:
    """(count, 5) patterns in these shares, by largest remainders."""
    exact = count * p
    held = np.floor(exact).astype(np.int64)
    held[np.argsort(held - exact)[: count - held.sum()]] += 1
    return np.repeat(PATTERNS, held, axis=0)


def bits(p: Array, q: Array) -> float:
    """KL(p || q), base 2."""
    return float(np.sum(p * np.log2(p / q)))


def test_figure_4_5() -> None:
    """KL divergence: pieces below Jaakkola below Böhning; covariances shrink the other way."""
    true = distribution(np.zeros(5), TRUTH)
    y = replicated(true, CASES)
    model = lgm.loads(MODEL)
    rows: list[list[object]] = []
    covariances: dict[str, Array] = {}
    kl: dict[str, float] = {}
    for short, rule in BOUNDS.items():
        began = time.process_time()
        fit = lgm.fit(model, {"y": y, "scale": SCALE}, hyper="em", bound=rule)
        assert fit.converged, (short, fit.status)
        seconds = time.process_time() - began
        s = np.asarray(fit.theta["S"])
        covariances[short] = s
        kl[short] = bits(true, distribution(np.asarray(fit.theta["mu"]), s))
        rows.append(
            [
                short,
                kl[short],
                float(s[0, 0]),
                float(s[0, 1]),
                float(s[3, 3]),
                float(s[3, 4]),
                fit.log_evidence / CASES,
                seconds,
            ]
        )
    np.testing.assert_allclose(y.mean(axis=0), 0.5, atol=1e-3)
    entropy = float(np.sum(true * np.log(true)))
    rows.append(["truth", 0.0, 10.0, 8.0, 10.0, -8.0, entropy, None])
    head = [
        "bound",
        "KL in bits",
        "var 1",
        "cov 1, 2",
        "var 4",
        "cov 4, 5",
        "evidence a case",
        "CPU seconds",
    ]
    table(FOLDER, head, rows, digits=4)
    with figure(FOLDER, 5.6, 3.0, name="kl") as picture:
        axes = picture.subplots()
        colours = [COLOURS["BJLQn".index(s[0])] for s in kl]
        axes.bar(list(kl), list(kl.values()), color=colours)
        axes.set(yscale="log", ylim=(1e-3, 0.3), ylabel="KL divergence, bits", xlabel="bound")
    with figure(FOLDER, 7.6, 2.2, name="covariances") as picture:
        shown = {"truth": TRUTH, **{s: covariances[s] for s in ("B", "J", "Q10")}}
        panels = picture.subplots(1, 4)
        for axes, (name, s) in zip(panels, shown.items(), strict=True):
            image = axes.imshow(s, vmin=-10, vmax=10, cmap="RdBu_r")
            axes.set(title=name, xticks=[], yticks=[])
        picture.colorbar(image, ax=list(panels))

    pieces = {short: value for short, value in kl.items() if short[0] in "LQ"}
    assert max(pieces.values()) < kl["J"] < kl["B"]
    assert kl["L10"] < kl["L5"] < kl["L4"] < kl["L3"]
    for r in (3, 4, 5):
        assert kl[f"Q{r}"] < kl[f"L{r}"]
    # What is left at ten pieces is Jensen's inequality.
    assert kl["Q10"] == pytest.approx(kl["none"], rel=0.02)
    variance = {short: float(s[0, 0]) for short, s in covariances.items()}
    assert variance["B"] < variance["J"] < 0.3 * TRUTH[0, 0] < variance["Q10"] < TRUTH[0, 0]
