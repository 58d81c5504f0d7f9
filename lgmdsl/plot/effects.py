"""Effects with bands: curves over an ordered index, sorted entries, and dots with whiskers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.plot.canvas import (
    BLUE,
    GREY,
    MANY,
    RED,
    entry,
    inches,
    legend,
    picture,
    plain,
    short,
    turn,
    zero_line,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
MEDIAN, HALF, NINE_TENTHS = "median", "50 %", "90 %"
DOTTED = 30  # a curve has a dot at every place up to so many
FOREST = 40  # entries without an order that are drawn one by one
UNLIKE = 40.0  # rows whose scales differ by more have separate axes
TICKS = 12
LOWEST = 0.1  # inches of a row with a label of its own
WHISKERS = 300  # sorted entries that have whiskers of their own; more have bands
DOT = 5.0  # points across the median of an entry
EXTREMES = 5  # entries at each end whose labels are shown
DOTS = 5_000  # observations that are drawn; of more, so many evenly chosen


@dataclass(frozen=True)
class Curve:
    """A quantity over an ordered index, or of many entries: places x (n,), quantiles (5, n) at
    LEVELS, names of the places where they are no numbers; what was observed, x and y (m,), and what
    these `dots` are called; whether each place has data, (n,), where that is known, and the ends
    (2, m) between which what was censored lies, infinite where open and NaN where nothing was
    censored."""

    title: str
    name: str
    axis: str
    x: Array
    quantiles: Array
    labels: Sequence[str] | None = None
    observed: tuple[Array, Array] | None = None
    seen: BoolArray | None = None
    ends: Array | None = None
    dots: str = "observed"


@dataclass(frozen=True)
class ForestRow:
    """One entry: its label and its quantiles (5,) at LEVELS."""

    label: str
    quantiles: Array


def curve_picture(curve: Curve, format: str = "png") -> bytes:
    """A line with bands. Raises ImportError without matplotlib, as all pictures do."""
    return picture(lambda f: draw_curve(f.subplots(), curve), curve.title, 8.2, 4.0, format)


def draw_curve(axes: Axes, curve: Curve) -> None:
    """The line with bands, what was observed over it, and where there are no data."""
    order = np.argsort(curve.x, kind="stable")
    x, quantiles = curve.x[order], curve.quantiles[:, order]
    seen = None if curve.seen is None else curve.seen[order]
    _bands(axes, x, quantiles, len(order) <= DOTTED, seen)
    if curve.observed is not None:
        _dots(axes, *curve.observed, curve.dots)
        if curve.ends is not None:
            draw_censored(axes, curve.observed[0], curve.ends, "black")
    axes.set_ylabel(short(curve.name, 40))
    axes.set_xlabel(short(curve.axis, 70))
    along_ticks(axes, curve.x, curve.labels)
    legend(axes)


def along_ticks(axes: Axes, x: Array, labels: Sequence[str] | None) -> None:
    """Ticks of members along a line: their labels where x only numbers them, those of the members
    nearest to evenly spaced places."""
    if labels is None:
        _whole_ticks(axes, x)
        return
    known = np.flatnonzero(np.isfinite(x))
    even = np.linspace(x[known].min(), x[known].max(), min(TICKS, len(known)))
    near = np.abs(x[known][:, None] - even).argmin(axis=0)
    ticks = known[np.unique(near)].tolist()
    axes.set_xticks(x[ticks], [entry(labels[k], 16) for k in ticks])
    if max(len(labels[k]) for k in ticks) > 6:
        turn(axes)


def sorted_picture(curve: Curve, format: str = "png") -> bytes:
    """Many entries without an order, from the lowest median to the highest."""
    return picture(lambda f: draw_sorted(f.subplots(), curve), curve.title, 8.2, 4.2, format)


def draw_sorted(axes: Axes, curve: Curve) -> None:
    """Whiskers, or bands where there are very many; the labels of the lowest and the highest."""
    order = np.argsort(curve.quantiles[2], kind="stable")
    x, quantiles = np.arange(1.0, len(order) + 1.0), curve.quantiles[:, order]
    if len(order) <= WHISKERS:
        wide = float(np.clip(26.0 * inches(axes)[0] / len(order), 0.5, 1.6))  # in points
        axes.vlines(x, quantiles[0], quantiles[4], color=BLUE, linewidth=0.5 * wide, alpha=0.7,
                    label=NINE_TENTHS)  # fmt: skip
        axes.vlines(x, quantiles[1], quantiles[3], color=BLUE, linewidth=1.7 * wide, label=HALF)
        axes.margins(x=0.015)
        narrow = narrower(axes, "y", quantiles[4] - quantiles[0], 2.2 * wide)
        medians(axes, x, quantiles[2], narrow, 2.2 * wide, 0.6)
        zero_line(axes, "y", float(np.nanmin(quantiles)), float(np.nanmax(quantiles)))
    else:
        _bands(axes, x, quantiles, False)
    if curve.labels is not None:
        _extremes(axes, x, quantiles[2], [curve.labels[k] for k in order])
    axes.set_ylabel(short(curve.name, 40))
    axis = f"{curve.axis}: " if curve.axis else ""
    axes.set_xlabel(short(f"{axis}from the lowest median to the highest", 90))
    legend(axes)


def _extremes(axes: Axes, x: Array, median: Array, labels: Sequence[str]) -> None:
    """The lowest at the lower right and the highest at the upper left, where ascending entries
    leave room; their medians in red."""
    finite = np.flatnonzero(np.isfinite(median))
    low, high = finite[:EXTREMES], finite[::-1][:EXTREMES]
    if not len(finite) or len(finite) <= 2 * EXTREMES:
        return
    both = np.concatenate([low, high])
    axes.plot(x[both], median[both], "o", color=RED, markersize=3.5, zorder=4,
              label=f"{EXTREMES} lowest and highest")  # fmt: skip
    box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
    for title, places, where, align in (
        ("highest", high, (0.02, 0.98), ("left", "top")),
        ("lowest", low, (0.98, 0.02), ("right", "bottom")),
    ):
        text = "\n".join([f"{title}:", *(entry(labels[k], 28) for k in places)])
        axes.text(*where, text, transform=axes.transAxes, fontsize=7.5, color=GREY, zorder=5,
                  horizontalalignment=align[0], verticalalignment=align[1], bbox=box)  # fmt: skip


def forest_picture(title: str, name: str, rows: Sequence[ForestRow], format: str = "png") -> bytes:
    """A dot with whiskers for each row; rows of unlike scales have separate axes."""
    q = np.array([r.quantiles for r in rows])
    widths = np.maximum(q[:, 4] - q[:, 0], 1e-300)
    apart = len(rows) > 1 and float(np.ptp(q)) > UNLIKE * float(widths.min())

    def draw(figure: Figure) -> None:
        if apart:
            grid = figure.subplots(len(rows), 1, squeeze=False)[:, 0]
            for axes, row in zip(grid, rows, strict=True):
                _whiskers(axes, [row])
                axes.tick_params(axis="x", labelsize=8.5)
                axes.locator_params(axis="x", nbins=6)
            grid[0].set_title("an axis for each", loc="left")
            legend(grid[0])
            grid[-1].set_xlabel(plain(name))
            return
        draw_forest(figure.subplots(), name, rows)

    height = 1.2 + (0.62 if apart else 0.26) * len(rows)
    return picture(draw, title, 7.2, max(height, 2.0), format)


def draw_forest(axes: Axes, name: str, rows: Sequence[ForestRow]) -> None:
    """A dot with whiskers for each row, on one axis; sorted where the axes are too low for them."""
    if inches(axes)[1] < LOWEST * len(rows):
        q, labels = np.array([r.quantiles for r in rows]).T, [r.label for r in rows]
        draw_sorted(axes, Curve("", name, "", np.arange(1.0, 1.0 + len(rows)), q, labels))
        return
    _whiskers(axes, rows)
    zero_line(axes, "x", *axes.get_xlim())
    axes.set_xlabel(plain(name))
    legend(axes)


def _bands(
    axes: Axes, x: Array, quantiles: Array, dots: bool, seen: BoolArray | None = None
) -> None:
    low, quarter, middle, three_quarters, high = quantiles
    many = len(x) > MANY
    fill: dict[str, Any] = {"color": BLUE, "linewidth": 0.0, "rasterized": many}
    axes.fill_between(x, low, high, alpha=0.18, label=NINE_TENTHS, **fill)
    axes.fill_between(x, quarter, three_quarters, alpha=0.35, label=HALF, **fill)
    line: dict[str, Any] = {"color": BLUE, "linewidth": 1.6, "rasterized": many}
    line |= {"marker": "o" if dots else "", "markersize": 3.5}
    if seen is None or seen.all() or not seen.any():
        axes.plot(x, middle, label=MEDIAN, **line)
    else:
        ends = x[seen][[0, -1]]
        beyond = bool(((x[~seen] < ends[0]) | (x[~seen] > ends[1])).all())
        axes.plot(x, middle, **{**line, "linestyle": "--", "markerfacecolor": "white"})
        axes.plot(x, np.where(seen, middle, np.nan), label=MEDIAN, **line)
        _shade(axes, x, ~seen, "no data: forecast" if beyond else "no data")
    axes.margins(x=0.01)
    zero_line(axes, "y", float(np.nanmin(low)), float(np.nanmax(high)))


def _shade(axes: Axes, x: Array, unseen: BoolArray, label: str) -> None:
    """A grey ground where there are no data, from half-way to the places that have some."""
    edges = np.concatenate([x[:1], 0.5 * (x[1:] + x[:-1]), x[-1:]])
    across = np.repeat(edges, 2)[1:-1]
    axes.fill_between(
        across,
        0.0,
        1.0,
        where=np.repeat(unseen, 2).tolist(),
        transform=axes.get_xaxis_transform(),
        color="#999999",
        alpha=0.15,
        linewidth=0,
        label=label,
        zorder=0,
    )


def _dots(axes: Axes, x: Array, y: Array, name: str) -> None:
    known = _spread_out(np.flatnonzero(np.isfinite(x) & np.isfinite(y)))
    if len(known):
        size = float(np.clip(60.0 / np.sqrt(len(known)), 1.2, 4.0))
        axes.plot(x[known], y[known], ".", color="black", markersize=2.0 * size, alpha=0.55,
                  markeredgewidth=0.0, label=name, rasterized=len(known) > MANY,
                  zorder=2.5)  # fmt: skip


def draw_censored(axes: Axes, x: Array, ends: Array, color: str) -> None:
    """Open triangles at the only end of what was censored, which point to where the response lies,
    and bars between two ends."""
    low, high = ends
    known = np.isfinite(x) & ~np.isnan(low)
    size = float(np.clip(60.0 / np.sqrt(max(int(known.sum()), 1)), 3.0, 5.5))
    style: dict[str, Any] = {
        "color": color,
        "markerfacecolor": "none",
        "markersize": size,
        "markeredgewidth": 0.8,
        "alpha": 0.8,
        "zorder": 2.6,
    }
    for rows, y, marker, label in (
        (known & np.isfinite(low) & np.isinf(high), low, "^", "censored, above this"),
        (known & np.isinf(low) & np.isfinite(high), high, "v", "censored, below this"),
    ):
        some = _spread_out(np.flatnonzero(rows))
        if len(some):
            axes.plot(x[some], y[some], marker, label=label, rasterized=len(some) > MANY, **style)
    both = _spread_out(np.flatnonzero(known & np.isfinite(low) & np.isfinite(high)))
    if len(both):
        axes.vlines(x[both], low[both], high[both], color=color, linewidth=1.2, alpha=0.6,
                    label="censored, between ends", zorder=2.6)  # fmt: skip


def _spread_out(rows: IntArray) -> IntArray:
    """So many of the rows as are drawn, evenly chosen."""
    few = len(rows) <= DOTS
    return rows if few else rows[np.linspace(0, len(rows) - 1, DOTS).astype(int)]


def _whiskers(axes: Axes, rows: Sequence[ForestRow]) -> None:
    places = np.arange(len(rows))[::-1]
    q = np.array([r.quantiles for r in rows])
    axes.hlines(places, q[:, 0], q[:, 4], color=BLUE, linewidth=1.2, label=NINE_TENTHS)
    axes.hlines(places, q[:, 1], q[:, 3], color=BLUE, linewidth=3.6, label=HALF)
    narrow = narrower(axes, "x", q[:, 4] - q[:, 0], DOT)
    label = f"{MEDIAN} ± half of {NINE_TENTHS}, within the dot"
    medians(axes, q[:, 2], places, narrow, DOT, 1.0, label)
    if narrow.any():
        axes.locator_params(axis="x", nbins=TICKS // 2)
        _half_widths(axes, q[narrow], places[narrow])
    size = float(np.clip(60.0 * inches(axes)[1] / len(rows), 6.0, 10.0))
    axes.set_yticks(places, [entry(r.label, 40) for r in rows], fontsize=size)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _half_widths(axes: Axes, q: Array, places: IntArray) -> None:
    """Half of what 90 % span as a number, next to dots that hide it, towards the middle."""
    middle = float(np.mean(axes.get_xlim()))
    box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
    for at, (low, _, median, _, high) in zip(places.tolist(), q.tolist(), strict=True):
        side, align = (8, "left") if median < middle else (-8, "right")
        axes.annotate(f"± {0.5 * (high - low):.2g}", (median, at), (side, 0),
                      textcoords="offset points", va="center", ha=align, fontsize=7.5, color=GREY,
                      bbox=box)  # fmt: skip


def narrower(axes: Axes, along: str, widths: Array, size: float) -> BoolArray:
    """Which intervals are hidden by a mark of a size in points, on what is drawn so far."""
    low, high = axes.get_xlim() if along == "x" else axes.get_ylim()
    points = 72.0 * inches(axes)["xy".index(along)]
    return np.asarray(widths * points < size * abs(high - low))


def medians(
    axes: Axes,
    x: Array | IntArray,
    y: Array | IntArray,
    narrow: BoolArray,
    size: float,
    edge: float,
    label: str = f"{MEDIAN}, {NINE_TENTHS} within the dot",
) -> None:
    """White dots on the intervals; full ones, with their `label`, where the interval is narrower
    than the dot."""
    for rows, color, called in ((~narrow, "white", MEDIAN), (narrow, BLUE, label)):
        if rows.any():
            axes.plot(x[rows], y[rows], "o", color=color, markeredgecolor=BLUE, markersize=size,
                      markeredgewidth=edge, label=called, zorder=3)  # fmt: skip


def _whole_ticks(axes: Axes, x: Array) -> None:
    """No ticks between whole numbers, such as half a year."""
    from matplotlib.ticker import MaxNLocator

    if (x == np.round(x)).all():
        axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
