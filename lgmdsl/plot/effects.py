"""Effects with bands: curves over an ordered index, sorted entries, and dots with whiskers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.plot.canvas import BLUE, picture, short, turn, zero_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
BANDS = "median, with 50 % and 90 % bands"
WHISKERS = "median, with 50 % and 90 % intervals"
DOTTED = 30  # a curve has a dot at every place up to so many
UNLIKE = 40.0  # rows whose scales differ by more have separate axes
TICKS = 12


@dataclass(frozen=True)
class Curve:
    """A quantity over an ordered index: places x (n,), quantiles (5, n) at LEVELS, and names of
    the places where they are no numbers."""

    title: str
    name: str
    axis: str
    x: Array
    quantiles: Array
    labels: Sequence[str] | None = None


@dataclass(frozen=True)
class ForestRow:
    """One entry: its label and its quantiles (5,) at LEVELS."""

    label: str
    quantiles: Array


def curve_picture(curve: Curve, format: str = "png") -> bytes:
    """A line with bands. Raises ImportError without matplotlib, as all pictures do."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        order = np.argsort(curve.x, kind="stable")
        _bands(axes, curve.x[order], curve.quantiles[:, order], len(order) <= DOTTED)
        axes.set_title(BANDS)
        axes.set_ylabel(short(curve.name, 40))
        axes.set_xlabel(short(curve.axis, 70))
        if curve.labels is None:
            _whole_ticks(axes, curve.x)
        else:
            ticks = order[np.unique(np.linspace(0, len(order) - 1, TICKS).astype(int))]
            longest = max(len(curve.labels[k]) for k in ticks)
            texts = [short(curve.labels[k], 16) for k in ticks]
            axes.set_xticks(curve.x[ticks], texts)
            if longest > 6:
                turn(axes)

    return picture(draw, curve.title, 8.2, 4.0, format)


def sorted_picture(curve: Curve, format: str = "png") -> bytes:
    """Many entries without an order, from the lowest median to the highest, with bands."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        order = np.argsort(curve.quantiles[2], kind="stable")
        _bands(axes, np.arange(1.0, len(order) + 1.0), curve.quantiles[:, order], False)
        axes.set_title(BANDS)
        axes.set_ylabel(short(curve.name, 40))
        axes.set_xlabel(f"{curve.axis}: from the lowest median to the highest")

    return picture(draw, curve.title, 8.2, 4.0, format)


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
            grid[0].set_title(f"{WHISKERS}; an axis for each")
            grid[-1].set_xlabel(name)
            return
        axes = figure.subplots()
        _whiskers(axes, rows)
        zero_line(axes, "x", *axes.get_xlim())
        axes.set_title(WHISKERS)
        axes.set_xlabel(name)

    height = 1.2 + (0.62 if apart else 0.26) * len(rows)
    return picture(draw, title, 7.2, max(height, 2.0), format)


def _bands(axes: Axes, x: Array, quantiles: Array, dots: bool) -> None:
    low, quarter, middle, three_quarters, high = quantiles
    axes.fill_between(x, low, high, color=BLUE, alpha=0.18, linewidth=0)
    axes.fill_between(x, quarter, three_quarters, color=BLUE, alpha=0.35, linewidth=0)
    axes.plot(x, middle, color=BLUE, linewidth=1.6, marker="o" if dots else "", markersize=3.5)
    axes.margins(x=0.01)
    zero_line(axes, "y", float(np.nanmin(low)), float(np.nanmax(high)))


def _whiskers(axes: Axes, rows: Sequence[ForestRow]) -> None:
    places = np.arange(len(rows))[::-1]
    q = np.array([r.quantiles for r in rows])
    axes.hlines(places, q[:, 0], q[:, 4], color=BLUE, linewidth=1.2)
    axes.hlines(places, q[:, 1], q[:, 3], color=BLUE, linewidth=3.6)
    axes.plot(q[:, 2], places, "o", color="white", markeredgecolor=BLUE, markersize=5.0, zorder=3)
    axes.set_yticks(places, [short(r.label, 40) for r in rows])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _whole_ticks(axes: Axes, x: Array) -> None:
    """No ticks between whole numbers, such as half a year."""
    from matplotlib.ticker import MaxNLocator

    if (x == np.round(x)).all():
        axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
