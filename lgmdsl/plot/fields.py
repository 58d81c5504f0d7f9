"""Quantities of two dimensions: heat maps over two indices, and maps over places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.plot.canvas import picture, short, turn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TICKS = 12
TALLEST = 7.0  # inches of a map


@dataclass(frozen=True)
class Heat:
    """Mean and sd over two indices, (n, m): `axes` are their names, `labels` their members'."""

    title: str
    axes: tuple[str, str]
    labels: tuple[Sequence[str], Sequence[str]]
    mean: Array
    sd: Array


@dataclass(frozen=True)
class Map:
    """Mean and sd (n,) at places (n, 2); `axes` name the coordinates, `ratio` is the length of one
    unit of the second over one of the first."""

    title: str
    axes: tuple[str, str]
    places: Array
    mean: Array
    sd: Array
    ratio: float = 1.0


def heat_picture(heat: Heat, format: str = "png") -> bytes:
    """Mean and sd side by side, the longer index downwards."""
    turned = heat.mean.shape[0] < heat.mean.shape[1]
    rows, columns = (1, 0) if turned else (0, 1)
    count = heat.mean.shape[rows]

    def draw(figure: Figure) -> None:
        pair = figure.subplots(1, 2, sharey=True)
        for axes, values, title in zip(pair, (heat.mean, heat.sd), ("mean", "sd"), strict=True):
            image = axes.imshow(
                values.T if turned else values,
                aspect="auto",
                interpolation="nearest",
                **_colours(values, title == "mean"),
            )
            axes.set_title(title)
            axes.set_xlabel(heat.axes[columns])
            _ticks(axes, "x", heat.labels[columns])
            figure.colorbar(image, ax=axes, shrink=0.9)
        _ticks(pair[0], "y", heat.labels[rows])
        pair[0].set_ylabel(heat.axes[rows])

    return picture(draw, heat.title, 9.5, float(np.clip(1.6 + 0.17 * count, 3.2, 8.0)), format)


def map_picture(field: Map, format: str = "png") -> bytes:
    """Two maps, coloured by mean and by sd, with equal lengths along both axes."""
    spans = np.maximum(np.ptp(field.places, axis=0), 1e-12)
    wide, tall = 4.0, 4.0 * float(spans[1] * field.ratio / spans[0])
    wide, tall = wide * min(1.0, TALLEST / tall), min(tall, TALLEST)
    size = float(np.clip(6000.0 / len(field.places), 4.0, 60.0))

    def draw(figure: Figure) -> None:
        pair = figure.subplots(1, 2, sharex=True, sharey=True)
        for axes, values, title in zip(pair, (field.mean, field.sd), ("mean", "sd"), strict=True):
            image = axes.scatter(
                field.places[:, 0],
                field.places[:, 1],
                c=values,
                s=size,
                linewidths=0.3,
                edgecolors="#444444",
                **_colours(values, title == "mean"),
            )
            axes.set_aspect(field.ratio, adjustable="box")
            axes.set_title(title)
            axes.set_xlabel(short(field.axes[0], 30))
            axes.locator_params(axis="x", nbins=5)
            figure.colorbar(image, ax=axes, shrink=0.85)
        pair[0].set_ylabel(short(field.axes[1], 30))

    return picture(draw, field.title, 2.0 * max(wide, 2.4) + 2.4, max(tall, 2.2) + 1.3, format)


def _colours(values: Array, mean: bool) -> dict[str, object]:
    """Diverging about zero where there are both signs, else from dark to light; both
    maps are legible to the colour-blind."""
    finite = values[np.isfinite(values)]
    if mean and finite.size and finite.min() < 0.0 < finite.max():
        reach = float(np.abs(finite).max())
        return {"cmap": "PuOr", "vmin": -reach, "vmax": reach}
    return {"cmap": "viridis" if mean else "cividis"}


def _ticks(axes: Axes, along: str, labels: Sequence[str]) -> None:
    ticks = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), TICKS)).astype(int))
    texts = [short(labels[k], 16) for k in ticks]
    if along == "y":
        axes.set_yticks(ticks, texts)
    else:
        axes.set_xticks(ticks, texts)
        if sum(map(len, texts)) > 30:
            turn(axes)
