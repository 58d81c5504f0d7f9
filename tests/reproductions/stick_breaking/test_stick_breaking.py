"""Khan 2012, figures 5.1 and 5.2: how a stick is broken, and what its order costs.

Figure 5.2 is drawn after a picture of points that the thesis does not give: here one class lies
amid three others, so that no line parts it from them and a stick that begins with it must fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array, IntArray
from lgmdsl.sites.vector.stick import CategoricalStick
from tests.reproductions.record import COLOURS, figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
CLASSES = 4

LINEAR = """lgm 1
index obs
index feature
index class = 4
index cut = head(class)
data X[obs, feature] : real
data y[obs] : class
latent b[cut] ~ normal(sd = 10)
latent W[cut, feature] ~ normal(sd = 10)
let eta[obs, cut] = b + X @ W
observe y ~ categorical({link} = eta)
"""


def test_figure_5_1() -> None:
    """The four lengths are what is left of the stick times sigma, and make 1."""
    eta = np.array([-0.8, 0.3, -0.2])
    site = CategoricalStick(np.arange(CLASSES, dtype=np.float64), np.ones((CLASSES, CLASSES)))
    lengths = np.exp(site.log_density(np.tile(eta, (CLASSES, 1))))
    taken = np.append(1.0 / (1.0 + np.exp(-eta)), 1.0)
    left = np.append(1.0, np.cumprod(1.0 - taken)[:-1])
    np.testing.assert_allclose(lengths, left * taken, rtol=1e-10)
    assert lengths.sum() == pytest.approx(1.0, abs=1e-12)
    rows = [
        [k + 1, *np.round(np.array([left[k], taken[k], lengths[k]]), 6).tolist()]
        for k in range(CLASSES)
    ]
    table(FOLDER, ["class", "left before", "share taken", "p(y)"], rows, name="figure_5_1")
    with figure(FOLDER, 6.0, 2.6, name="figure_5_1") as picture:
        axes = picture.subplots()
        for k in range(CLASSES):
            height, start = CLASSES - 1 - k, 1.0 - left[k]
            axes.barh(height, lengths[k], 0.45, start, color=COLOURS[k])
            if k < CLASSES - 1:
                rest = left[k] - lengths[k]
                axes.barh(height, rest, 0.45, start + lengths[k], color="0.9")
            sticks = "".join(f"(1 − σ(η{j + 1}))" for j in range(k))
            name = (f"σ(η{k + 1}) " if k < CLASSES - 1 else "") + sticks
            axes.text(1.02, height, f"p(y = {k + 1}) = {name}", va="center", fontsize=8)
        axes.set(xlim=(0, 1.75), yticks=[], xticks=[0, 0.5, 1], xlabel="the stick")
        axes.spines["left"].set_visible(False)


@dataclass(frozen=True)
class Panel:
    """A model of figure 5.2; `order`: which class is taken at each place of the stick."""

    name: str
    link: str
    order: tuple[int, ...]
    square: bool


PANELS = (
    Panel("softmax, linear", "softmax", (0, 1, 2, 3), False),
    Panel("stick, linear, middle last", "stick", (1, 2, 3, 0), False),
    Panel("stick, quadratic, middle last", "stick", (1, 2, 3, 0), True),
    Panel("stick, linear, middle first", "stick", (0, 1, 2, 3), False),
    Panel("stick, quadratic, middle first", "stick", (0, 1, 2, 3), True),
)


def points() -> tuple[Array, IntArray]:
    """40 of each class: class 0 in the middle, the others around it."""
    rng = np.random.default_rng(0)
    angles = np.deg2rad([90.0, 210.0, 330.0])
    centres = np.vstack([[0.0, 0.0], 2.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)])
    y = np.repeat(np.arange(CLASSES), 40)
    return centres[y] + 0.55 * rng.standard_normal((len(y), 2)), y


def features(x: Array, square: bool) -> Array:
    one, two = x.T
    return np.stack([one, two, one**2, one * two, two**2], axis=1) if square else x


def test_figure_5_2() -> None:
    x, y = points()
    side = np.linspace(-4.2, 4.2, 51)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    rows: list[list[object]] = []
    regions = []
    for panel in PANELS:
        place = np.argsort(panel.order)  # of each class on the stick
        fit = lgm.fit(
            lgm.loads(LINEAR.format(link=panel.link)),
            {"X": features(x, panel.square), "y": place[y]},
        )
        assert fit.converged
        response = [
            fit.predict({"X": features(at, panel.square)}).response("y")["probability"].values
            for at in (x, grid)
        ]
        classes = [np.asarray(panel.order)[p.argmax(axis=1)] for p in response]
        regions.append(classes[1].reshape(len(side), -1))
        own = response[0][np.arange(len(y)), place[y]]
        wrong = float((classes[0] != y).mean())
        rows.append([panel.name, fit.method, fit.log_evidence, wrong, float(-np.log2(own).mean())])
    table(
        FOLDER,
        ["model", "method", "log evidence", "wrong", "bits a case"],
        rows,
        name="figure_5_2",
        digits=4,
    )
    with figure(FOLDER, 9.6, 2.5, name="figure_5_2") as picture:
        for axes, panel, region in zip(
            picture.subplots(1, len(PANELS), sharex=True, sharey=True), PANELS, regions, strict=True
        ):
            for k in range(CLASSES):
                axes.contour(
                    side, side, region == k, levels=[0.5], colors="#E69F00", linewidths=1.0
                )
                axes.plot(*x[y == k].T, "o^sv"[k], color=COLOURS[k], markersize=2.2)
            axes.set_title(panel.name, fontsize=8)
            axes.set(aspect="equal", xlabel="feature 1", xticks=[], yticks=[])
    share = {str(r[0]): float(str(r[3])) for r in rows}
    assert share["stick, linear, middle first"] > 0.15
    assert all(w < 0.05 for n, w in share.items() if n != "stick, linear, middle first")
