"""Quantities of two dimensions: heat maps, curves or cells over two indices, maps over places, and
surfaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.plot.canvas import (
    COLOURS,
    GREY,
    MANY,
    entry,
    legend,
    panel_picture,
    picture,
    short,
    turn,
    zero_line,
)
from lgmdsl.plot.effects import (
    FOREST,
    LEVELS,
    Curve,
    ForestRow,
    along_ticks,
    draw_forest,
    draw_sorted,
    narrower,
)

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
MIN_PLACES = 10  # places that a surface is drawn through
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

    if len(places) < MIN_PLACES:
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


# ---- two way -----------------------------------------------------------------------------------


GROUPS = len(COLOURS)  # that have a colour each
THREADS = 40  # groups that have a line each; more are a heat map
CELL = 4.0  # points across the median of a cell
UNLIKE = 3.0  # times that the numbers of one group may be as large as another's on one axis


@dataclass(frozen=True)
class TwoWay:
    """A quantity over members (n of them along `axis`) and groups (k, of the index `by`): quantiles
    (5, n, k) at `effects.LEVELS`. `x` (n,): where members lie on a line, None where they have no
    order; `labels`: of the members, None where x says all."""

    title: str
    name: str
    axis: str
    by: str
    groups: Sequence[str]
    quantiles: Array
    x: Array | None = None
    labels: Sequence[str] | None = None

    @property
    def apart(self) -> bool:
        """Whether each group has a panel of its own: many members without an order, or numbers of
        unlike size, as of levels and slopes."""
        if self.x is not None or len(self.groups) == 1:
            return False
        sizes = np.nanmax(np.abs(self.quantiles[[0, 4]]), axis=(0, 1))
        unlike = float(np.nanmax(sizes)) > UNLIKE * float(np.nanmin(sizes))
        return self.quantiles.shape[1] > FOREST or unlike


class Along(Protocol):
    """Where the members of an index lie along a line: `x` (n,), under the name `axis`, and their
    `labels` where x only numbers them."""

    @property
    def x(self) -> Array: ...
    @property
    def axis(self) -> str: ...
    @property
    def labels(self) -> Sequence[str] | None: ...


def two_way(
    called: tuple[str, str],
    dims: Sequence[str],
    labels: Sequence[Sequence[str]],
    levels: Array,
    along: Sequence[Along | None],
    crossed: int = GROUPS,
) -> TwoWay | None:
    """Quantiles (5, n, k, ...) of a quantity, `called` by its title and its name, as lines by group
    along the longest order, else cells: the groups are the members of the other indices together.
    None where these would not be told apart, which of several orders are more than `crossed`."""
    sizes = [len(some) for some in labels]
    ordered = [k for k in range(len(dims)) if along[k] is not None]
    member = max(ordered or range(len(dims)), key=lambda k: sizes[k])
    others = [k for k in range(len(dims)) if k != member]
    groups = [", ".join(g) for g in product(*(labels[k] for k in others))]
    places = along[member]
    most = GROUPS if places is None else THREADS if len(ordered) == 1 else crossed
    if len(groups) > most:
        return None
    return TwoWay(
        *called,
        dims[member] if places is None else places.axis,
        ", ".join(dims[k] for k in others),
        groups,
        np.moveaxis(levels, 1 + member, 1).reshape(len(LEVELS), sizes[member], -1),
        None if places is None else places.x,
        labels[member] if places is None else places.labels,
    )


def two_way_picture(table: TwoWay, format: str = "png") -> bytes:
    """Raises ImportError without matplotlib."""
    if table.apart:
        count = range(len(table.groups))
        panels = [lambda axes, k=k: draw_group(axes, table, k) for k in count]
        return panel_picture(table.title, panels, format)
    if table.x is not None:
        return picture(lambda f: draw_lines(f.subplots(), table), table.title, 8.2, 4.4, format)
    height = 1.4 + 0.13 * table.quantiles.shape[1] * (1 + len(table.groups))
    draw: Any = lambda f: draw_cells(f.subplots(), table)  # noqa: E731
    return picture(draw, table.title, 7.2, float(np.clip(height, 2.4, 12.0)), format)


def two_way_panels(table: TwoWay) -> list[Callable[..., None]]:
    """What draws each panel on axes, with `table` to be given: all groups in one, or each in its
    own."""
    if table.apart:
        return [partial(draw_group, group=k) for k in range(len(table.groups))]
    return [draw_cells if table.x is None else draw_lines]


def draw_lines(axes: Axes, table: TwoWay) -> None:
    """A line for each group over the members, with 90 % bands where groups have colours."""
    assert table.x is not None
    order = np.argsort(table.x, kind="stable")
    x, quantiles = table.x[order], table.quantiles[:, order]
    coloured = len(table.groups) <= GROUPS
    for k, group in enumerate(table.groups):
        low, middle, high = quantiles[0, :, k], quantiles[2, :, k], quantiles[4, :, k]
        colour = COLOURS[k] if coloured else COLOURS[0]
        named = "" if coloured else f"median, one line for each of {len(table.groups)} {table.by}"
        label = entry(group, 20) if coloured else named if k == 0 else "_"
        width, alpha = (1.6, 1.0) if coloured else (0.8, 0.6)
        axes.plot(x, middle, color=colour, linewidth=width, alpha=alpha, label=label)
        if coloured:
            axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0.0)
    along_ticks(axes, table.x, table.labels)
    axes.margins(x=0.01)
    zero_line(axes, "y", *axes.get_ylim())
    axes.set_ylabel(short(table.name, 40))
    axes.set_xlabel(short(table.axis, 70))
    _legend(axes, f"{table.by}, median and 90 %" if coloured else "")


def draw_cells(axes: Axes, table: TwoWay) -> None:
    """A dot with whiskers for each cell, a row for each member and a colour for each group."""
    count, groups = table.quantiles.shape[1:]
    places = np.arange(count)[::-1]
    drawn = []
    for k, group in enumerate(table.groups):
        q = table.quantiles[:, :, k]
        at = places + 0.7 * (0.5 - (k + 0.5) / groups)
        colour = COLOURS[k]
        axes.hlines(at, q[0], q[4], color=colour, linewidth=1.0)
        axes.hlines(at, q[1], q[3], color=colour, linewidth=2.6)
        axes.plot([], [], "o-", color=colour, markersize=4.0, label=entry(group, 20))
        drawn.append((q[2], at, q[4] - q[0], colour))
    hidden = False
    for median, at, widths, colour in drawn:
        narrow = narrower(axes, "x", widths, CELL)
        hidden |= bool(narrow.any())
        for rows, color in ((~narrow, "white"), (narrow, colour)):
            axes.plot(median[rows], at[rows], "o", color=color, markeredgecolor=colour,
                      markersize=CELL, zorder=3)  # fmt: skip
    axes.set_yticks(places, [entry(a, 40) for a in table.labels or ()], fontsize=9.0)
    axes.set_ylim(-0.6, count - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    zero_line(axes, "x", *axes.get_xlim())
    axes.set_xlabel(short(table.name, 70))
    axes.set_ylabel(short(table.axis, 30))
    within = "\nfull dots: 90 % within" if hidden else ""
    _legend(axes, f"{table.by}: median, 50 % and 90 %{within}")


def draw_group(axes: Axes, table: TwoWay, group: int) -> None:
    """The members of one group, one by one or sorted."""
    flat, labels = table.quantiles[:, :, group], list(table.labels or ())
    if len(labels) <= FOREST:
        draw_forest(axes, "", [ForestRow(a, q) for a, q in zip(labels, flat.T, strict=True)])
    else:
        x = np.arange(1.0, 1.0 + len(labels))
        draw_sorted(axes, Curve("", "", table.axis, x, flat, labels))
    heading = f"{short(table.name, 20)}, {table.by}: {entry(table.groups[group], 20)}"
    axes.set_title(heading, loc="left", fontsize=9.0, color=GREY, pad=16.0)


def _legend(axes: Axes, title: str) -> None:
    """The groups' colours next to the axes, where they are several."""
    if len(axes.get_legend_handles_labels()[1]) == 1:
        legend(axes)
        return
    axes.legend(
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        frameon=False,
        fontsize=8.5,
        title=short(title, 40),
        title_fontsize=8.5,
        alignment="left",
    )
