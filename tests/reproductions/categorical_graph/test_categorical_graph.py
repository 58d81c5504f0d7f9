"""Khan 2012, figures 5.3 to 5.5: a categorical latent Gaussian graphical model of two
responses, its distribution learned through three bounds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
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
CATEGORIES = (4, 5, 6, 7, 8)
SCALE = 20.0  # of the covariance, equation 5.38
ROWS = 40  # for each pair of categories
POINTS = 1 << 17  # Sobol' points for exact probabilities
TOL = 1e-6  # of the log evidence, relative

# LL' is the covariance of z in the thesis, whose W is the identity.
TEXT = """lgm 1
index obs
index variable = 2
index class = {classes}
index cut = head(class)
index factor = {nodes}
data y[obs, variable] : class
hyper mu[variable, cut] : real ~ flat
hyper L[variable, cut, factor] : real ~ flat
latent u[obs, factor] ~ normal(sd = 1)
let eta[obs, variable, cut] = mu + L @ u
observe y ~ categorical({link} = eta)
"""


@dataclass(frozen=True)
class Method:
    name: str
    link: str
    bound: str


METHODS = (
    Method("stick-pw", "stick", "piecewise-quadratic-20"),
    Method("logit-log", "softmax", "log"),
    Method("logit-bohning", "softmax", "bohning"),
)
EXTRA = Method("logit-tilted", "softmax", "tilted")


def covariance(classes: int) -> Array:
    """Equation 5.38 with X = [I I]: 20 cov(X) + I, cov as MATLAB's, over K - 1."""
    x = np.tile(np.eye(classes - 1), 2)
    return np.asarray(SCALE * np.cov(x.T) + np.eye(2 * (classes - 1)))


def probabilities(link: str, mean: Array, cov: Array, classes: int) -> Array:
    """(classes, classes) by quasi-random draws of z; `mean` (2 cuts,). Softmax: the last class is
    the reference."""
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = special.ndtri(np.clip(_sobol(len(mean)), 1e-12, 1.0 - 1e-12))
    s = (normal @ root.T + mean).reshape(POINTS, 2, classes - 1)
    if link == "softmax":
        s = np.concatenate([s, np.zeros((POINTS, 2, 1))], axis=2)
        p = special.softmax(s, axis=2)
    else:
        left = np.cumprod(special.expit(-s), axis=2)
        ones = np.ones((POINTS, 2, 1))
        p = np.concatenate([ones, left], axis=2)
        p[..., :-1] *= special.expit(s)
    return np.asarray(np.einsum("na,nb->ab", p[:, 0], p[:, 1]) / POINTS)


@cache
def _sobol(size: int) -> Array:
    return np.asarray(qmc.Sobol(size, seed=0).random(POINTS))


def truth(classes: int) -> Array:
    """The distribution that data come from, the reference category first, as in the thesis."""
    nodes = 2 * (classes - 1)
    return np.roll(
        probabilities("softmax", np.zeros(nodes), covariance(classes), classes), 1, axis=(0, 1)
    )


def rows_of(p: Array) -> IntArray:
    """(N, 2) rows in proportion to p, by largest remainders."""
    count = ROWS * p.size
    whole = np.floor(count * p).astype(np.int64)
    short = np.argsort((whole - count * p).ravel(), kind="stable")[: count - whole.sum()]
    whole.ravel()[short] += 1
    pairs = np.stack(np.meshgrid(*map(np.arange, p.shape), indexing="ij"), axis=-1)
    return np.repeat(pairs.reshape(-1, 2), whole.ravel(), axis=0)


def learned(method: Method, classes: int, y: IntArray) -> tuple[Array, lgm.Fit, float]:
    """The distribution at the estimates, the reference first; the fit; CPU seconds."""
    nodes = 2 * (classes - 1)
    reference_last = method.link == "softmax"
    began = time.process_time()
    fit = lgm.fit(
        lgm.loads(TEXT.format(classes=classes, nodes=nodes, link=method.link)),
        {"y": (y - 1) % classes if reference_last else y},
        "natural-gradient",
        hyper="em",
        bound=method.bound,
        tol=TOL,
    )
    seconds = time.process_time() - began
    mean, root = fit.mean("mu").values.reshape(-1), fit.mean("L").values.reshape(nodes, -1)
    p = probabilities(method.link, mean, root @ root.T, classes)
    return np.roll(p, 1, axis=(0, 1)) if reference_last else p, fit, seconds


def divergence(p: Array, q: Array) -> float:
    return float(special.rel_entr(p, q).sum())


def test_figure_5_3() -> None:
    cov = covariance(4)
    table(FOLDER, [str(k + 1) for k in range(6)], cov.tolist(), name="figure_5_3", digits=4)
    assert np.all(cov[:3, 3:].diagonal() > 0) and cov[0, 1] < 0 and np.linalg.eigvalsh(cov)[0] > 0
    with figure(FOLDER, 6.4, 2.9, name="figure_5_3") as picture:
        left, right = picture.subplots(1, 2)
        shown = left.imshow(cov, cmap="PuOr", vmin=-8, vmax=8)
        left.set(xticks=range(6), yticks=range(6), title="covariance of z")
        left.set_xticklabels(range(1, 7))
        left.set_yticklabels(range(1, 7))
        picture.colorbar(shown, ax=left, shrink=0.8)
        spots = [(float(v), float(2 - k)) for v in range(2) for k in range(3)]
        for i in range(6):
            for j in range(i):
                (a, b), (c, d) = spots[i], spots[j]
                positive = cov[i, j] > 0
                # A column's outer nodes are joined around the one between them.
                bow = 0.25 * (1 if a else -1) if a == c and abs(b - d) > 1 else 0.0
                middle = (0.5 * (a + c) + 2 * bow, 0.5 * (b + d))
                t = np.linspace(0, 1, 21)
                curve = [
                    (1 - t) ** 2 * o + 2 * t * (1 - t) * m + t**2 * e
                    for o, m, e in zip((a, b), middle, (c, d), strict=True)
                ]
                right.plot(
                    *curve,
                    "-" if positive else "--",
                    zorder=1,
                    linewidth=1.0,
                    color=COLOURS[0] if positive else COLOURS[1],
                )
        for n, (a, b) in enumerate(spots):
            right.plot(a, b, "o", color="white", markeredgecolor="black", markersize=19)
            right.text(a, b, f"$z_{{{n % 3 + 1}{n // 3 + 1}}}$", ha="center", va="center")
        for v in range(2):
            right.plot(v, -1.1, "o", color="0.85", markeredgecolor="black", markersize=19)
            right.text(v, -1.1, f"$y_{v + 1}$", ha="center", va="center")
            right.annotate("", (v, -0.88), (v, -0.25), arrowprops={"arrowstyle": "->"})
        right.set(xlim=(-0.7, 1.7), ylim=(-1.5, 2.4), title="solid: positive, dashed: negative")
        right.set_axis_off()


def test_figures_5_4_and_5_5() -> None:
    """To show: stick with pieces below log below Boehning at every number of categories."""
    rows: list[list[object]] = []
    first: dict[str, Array] = {}
    found: dict[str, list[float]] = {m.name: [] for m in (*METHODS, EXTRA)}
    for classes in CATEGORIES:
        p = truth(classes)
        y = rows_of(p)
        apart = divergence(p, np.outer(p.sum(axis=1), p.sum(axis=0)))
        for method in (*METHODS, EXTRA) if classes == CATEGORIES[0] else METHODS:
            q, fit, seconds = learned(method, classes, y)
            found[method.name].append(divergence(p, q))
            entropy = float(special.entr(p).sum())
            rows.append([
                classes, method.name, found[method.name][-1], apart, entropy,
                -fit.log_evidence / len(y) - entropy, len(y), str(fit.status), seconds,
            ])  # fmt: skip
            if classes == CATEGORIES[0]:
                first.setdefault("true", p)
                first[method.name] = q
    table(
        FOLDER,
        ["categories", "method", "KL", "KL of independence", "entropy", "loss of the bound",
         "rows", "status", "CPU s"],
        rows, name="figure_5_5", digits=4,
    )  # fmt: skip
    assert all(q.sum() == pytest.approx(1.0, abs=1e-6) for q in first.values())
    for k in range(len(CATEGORIES)):
        assert 1e-9 < found["stick-pw"][k] < 0.3 * found["logit-log"][k]
        assert found["logit-log"][k] < found["logit-bohning"][k]
    names = list(first)
    pattern = [
        [f"{a}{b}", *(float(first[n][a, b]) for n in names)] for a in range(4) for b in range(4)
    ]
    table(FOLDER, ["pattern", *names], pattern, name="figure_5_4", digits=4)
    with figure(FOLDER, 8.4, 3.8, name="figure_5_4") as picture:
        panels = picture.subplots(2, 3, sharex=True, sharey=True).ravel()
        for axes, name, colour in zip(panels, names, ("0.3", *COLOURS), strict=False):
            axes.bar(np.arange(1, 17), first[name].ravel(), color=colour)
            kl = "" if name == "true" else f", KL {divergence(first['true'], first[name]):.3g}"
            axes.set(title=name + kl, xticks=[4, 8, 12, 16])
        panels[-1].set_axis_off()
        picture.supxlabel("pattern", fontsize=9)
        picture.supylabel("probability", fontsize=9)
    with figure(FOLDER, 4.6, 3.2, name="figure_5_5") as picture:
        axes = picture.subplots()
        for method, marker in zip(METHODS, "os^", strict=True):
            axes.plot(CATEGORIES, found[method.name], marker + "-", label=method.name)
        alone = [float(str(r[3])) for r in rows if r[1] == METHODS[0].name]
        axes.plot(CATEGORIES, alone, ":", color="black", label="independent variables")
        axes.set(xlabel="categories", ylabel="KL(true, estimated)", ylim=(0, None))
        axes.set_xticks(CATEGORIES)
        axes.legend()
