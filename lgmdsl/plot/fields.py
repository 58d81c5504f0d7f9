"""Quantities of two dimensions: heat maps over two indices, maps over places, and surfaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.plot.canvas import MANY, entry, picture, short, turn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

TICKS = 12
TALLEST = 7.0  # inches of a map
FLATTEST = 0.3  # height over width: a map that is flatter is stretched
EQUAL = 1e-4  # share of values by which they may differ and are all drawn as one colour
DETAILED = 300  # places of a surface whose shades are kept as shapes in svg and pdf files
SHADES = 24  # of a surface between scattered places
LEAST = 10  # places that a surface is drawn through
FILLED = 0.5  # share of a lattice that has a place
MEAN, SD = "mean", "sd"


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
    unit of the second over one of the first, `surface` whether there are values between the
    places, `name` what is shown."""

    title: str
    axes: tuple[str, str]
    places: Array
    mean: Array
    sd: Array
    ratio: float = 1.0
    surface: bool = False
    name: str = ""


def heat_picture(heat: Heat, format: str = "png") -> bytes:
    """Mean and sd side by side, the longer index downwards."""
    count = max(heat.mean.shape)

    def draw(figure: Figure) -> None:
        pair = figure.subplots(1, 2, sharey=True)
        for axes, kind in zip(pair, (MEAN, SD), strict=True):
            draw_heat(axes, heat, kind)
        pair[1].set_ylabel("")

    return picture(draw, heat.title, 9.5, float(np.clip(1.6 + 0.17 * count, 3.2, 8.0)), format)


def draw_heat(axes: Axes, heat: Heat, kind: str) -> None:
    """The means or the sds over two indices, the longer one downwards."""
    turned = heat.mean.shape[0] < heat.mean.shape[1]
    rows, columns = (1, 0) if turned else (0, 1)
    values = heat.mean if kind == MEAN else heat.sd
    image = axes.imshow(
        values.T if turned else values,
        aspect="auto",
        interpolation="nearest",
        **_colours(values, kind == MEAN),
    )
    axes.set_title(kind, loc="left")
    axes.set_xlabel(short(heat.axes[columns], 40))
    axes.set_ylabel(short(heat.axes[rows], 40))
    _ticks(axes, "x", heat.labels[columns])
    _ticks(axes, "y", heat.labels[rows])
    _scale(axes, image)


def map_picture(field: Map, format: str = "png") -> bytes:
    """Two maps, coloured by mean and by sd, with equal lengths along both axes."""
    spans = np.maximum(np.ptp(field.places, axis=0), 1e-12)
    wide, tall = 4.0, 4.0 * float(spans[1] * field.ratio / spans[0])
    wide, tall = wide * min(1.0, TALLEST / tall), min(tall, TALLEST)

    def draw(figure: Figure) -> None:
        pair = figure.subplots(1, 2, sharex=True, sharey=True)
        for axes, kind in zip(pair, (MEAN, SD), strict=True):
            draw_map(axes, field, kind)
        pair[1].set_ylabel("")

    return picture(draw, field.title, 2.0 * max(wide, 2.4) + 2.4, max(tall, 2.2) + 1.3, format)


def draw_map(axes: Axes, field: Map, kind: str) -> None:
    """The means or the sds at places: cells of a lattice, a surface through places where there are
    values between them, else dots."""
    values = field.mean if kind == MEAN else field.sd
    known = np.isfinite(field.places).all(axis=1) & np.isfinite(values)
    places, values = field.places[known], values[known]
    colours = _colours(values, kind == MEAN)
    image = _lattice(axes, places, values, colours)
    if image is None and field.surface:
        image = _surface(axes, places, values, colours)
    if image is None:
        image = axes.scatter(
            places[:, 0],
            places[:, 1],
            c=values,
            s=float(np.clip(6000.0 / max(len(places), 1), 4.0, 60.0)),
            linewidths=0.3 if len(places) <= MANY else 0.0,
            edgecolors="#444444" if len(places) <= MANY else "none",
            rasterized=len(places) > MANY,
            **colours,
        )
    axes.set_aspect(_aspect(field), adjustable="box")
    axes.set_title(kind, loc="left")
    axes.set_xlabel(short(field.axes[0], 30))
    axes.set_ylabel(short(field.axes[1], 30))
    axes.locator_params(axis="x", nbins=5)
    _scale(axes, image)


def _aspect(field: Map) -> float | Literal["auto"]:
    """Equal lengths along both axes, unless that leaves a thin line: inputs in other units."""
    spans = np.ptp(field.places, axis=0)
    if not (spans > 0.0).all():
        return "auto"
    flat = float(spans[1] * field.ratio / spans[0])
    return field.ratio if FLATTEST <= flat <= 1.0 / FLATTEST else "auto"


def _lattice(
    axes: Axes, places: Array, values: Array, colours: dict[str, Any]
) -> ScalarMappable | None:
    """Cells, where the places are those of a lattice, or half of them; None elsewhere."""
    lines = [np.unique(places[:, k], return_inverse=True) for k in (0, 1)]
    (x, column), (y, row) = lines
    cells = len(x) * len(y)
    if min(len(x), len(y)) < 3 or not FILLED * cells <= len(places) <= cells:
        return None
    table = np.full((len(y), len(x)), np.nan)
    table[row, column] = values
    if np.isfinite(table).sum() < len(places):  # several in one cell
        return None
    edges = [np.concatenate([v[:1] - 0.5 * (v[1] - v[0]), 0.5 * (v[1:] + v[:-1]),
                             v[-1:] + 0.5 * (v[-1] - v[-2])]) for v in (x, y)]  # fmt: skip
    return axes.pcolormesh(*edges, table, rasterized=cells > MANY, **colours)


def _surface(
    axes: Axes, places: Array, values: Array, colours: dict[str, Any]
) -> ScalarMappable | None:
    """Shades between scattered places, which are dots; None where they are few or on a line."""
    from matplotlib.tri import TriAnalyzer, Triangulation

    if len(places) < LEAST:
        return None
    span = np.ptp(places, axis=0)
    if not (span > 0.0).all():
        return None
    try:
        triangles = Triangulation(*((places - places.min(axis=0)) / span).T)
    except (RuntimeError, ValueError):  # on a line
        return None
    triangles.set_mask(TriAnalyzer(triangles).get_flat_tri_mask(0.01))
    if triangles.mask is not None and triangles.mask.all():
        return None
    shown = Triangulation(places[:, 0], places[:, 1], triangles.triangles, triangles.mask)
    low, high = (float(colours.get(k, f(values))) for k, f in (("vmin", np.min), ("vmax", np.max)))
    if not high > low:
        return None
    levels = np.linspace(low, high, SHADES + 1)
    image = axes.tricontourf(shown, values, levels=levels, extend="neither", **colours)
    if len(places) > DETAILED:
        image.set_rasterized(True)
    axes.plot(*places.T, ".", color="black", markeredgewidth=0.0, alpha=0.5,
              markersize=float(np.clip(60.0 / np.sqrt(len(places)), 0.7, 4.0)),
              rasterized=len(places) > MANY)  # fmt: skip
    return image


def _scale(axes: Axes, image: ScalarMappable) -> None:
    """The scale of colours, as high as its axes, with round numbers."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    bar = axes.figure.colorbar(
        image, ax=axes, shrink=0.9, ticks=MaxNLocator(7), format=ScalarFormatter(useOffset=False)
    )
    bar.minorticks_off()


def _colours(values: Array, mean: bool) -> dict[str, Any]:
    """Diverging about zero where there are both signs, else from dark to light; both
    maps are legible to the colour-blind."""
    finite = values[np.isfinite(values)]
    if mean and finite.size and finite.min() < 0.0 < finite.max():
        reach = float(np.abs(finite).max())
        return {"cmap": "PuOr", "vmin": -reach, "vmax": reach}
    colours: dict[str, Any] = {"cmap": "viridis" if mean else "cividis"}
    if finite.size and np.ptp(finite) <= EQUAL * float(np.abs(finite).max()):  # rounding
        middle = float(finite.mean())
        room = 0.1 * abs(middle) or 1.0
        colours |= {"vmin": middle - room, "vmax": middle + room}
    return colours


def _ticks(axes: Axes, along: str, labels: Sequence[str]) -> None:
    most = TICKS if along == "y" else TICKS // 2 + 2
    ticks = np.arange(0, len(labels), max(1, -(-len(labels) // most)))
    texts = [entry(labels[k], 16) for k in ticks.tolist()]
    if along == "y":
        axes.set_yticks(ticks, texts)
    else:
        axes.set_xticks(ticks, texts)
        if sum(map(len, texts)) > 30:
            turn(axes)
