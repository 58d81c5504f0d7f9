"""Marginals of hyperparameters, their priors drawn thinly behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.plot.canvas import BLUE, GREY, RED, entry, legend, picture, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 24  # panels
BARS = 40
EDGE = 0.002  # of the mass, at each end, that is not shown


@dataclass(frozen=True)
class HyperPanel:
    """One hyperparameter: its density at x, (n,), that of its prior there where it is known, and
    the posterior median."""

    name: str
    label: str
    x: Array
    density: Array
    median: float
    prior: Array | None = None


def hyper_picture(title: str, panels: Sequence[HyperPanel], format: str = "png") -> bytes:
    """A panel for each of the first SHOWN hyperparameters."""
    shown = panels[:SHOWN]
    columns = min(3, len(shown))
    rows = math.ceil(len(shown) / columns)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, squeeze=False).reshape(-1)
        for axes, panel in zip(grid, shown, strict=False):
            _density(axes, panel)
        if len(panels) > SHOWN:
            grid[0].set_title(f"the first {SHOWN} of {len(panels):,}", fontsize=8.5, loc="right")
        for axes in grid[len(shown) :]:
            axes.set_visible(False)
        handles, labels = grid[0].get_legend_handles_labels()
        for axes in grid[1 : len(shown)]:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                if label not in labels:
                    handles.append(handle)
                    labels.append(label)
        figure.legend(handles, labels, loc="outside lower left", ncols=3, frameon=False, fontsize=9)

    return picture(draw, title, max(3.6 * columns, 5.2), 2.6 * rows + 1.0, format)


def draw_hyper(axes: Axes, panel: HyperPanel) -> None:
    """One marginal with its prior, and a legend."""
    _density(axes, panel)
    axes.set_title("", loc="left")
    name = entry(panel.name, 34)
    axes.set_xlabel(f"{name}: {short(panel.label, 44)}" if panel.label else name)
    legend(axes)


def _density(axes: Axes, panel: HyperPanel) -> None:
    steps = 0.5 * (panel.density[1:] + panel.density[:-1]) * np.diff(panel.x)
    below = np.concatenate([[0.0], np.cumsum(steps)])
    low, high = np.interp([EDGE, below[-1] - EDGE], below, panel.x)
    # A density may be infinite at the edge of its range: the highest bar of a histogram is shown.
    bars = np.diff(np.interp(np.linspace(low, high, BARS + 1), panel.x, below)) * BARS
    inside = (panel.x >= low) & (panel.x <= high)
    highest = min(float(panel.density[inside].max()), 1.4 * float(bars.max()) / (high - low))
    axes.fill_between(panel.x, panel.density, color=BLUE, alpha=0.18, linewidth=0)
    axes.plot(panel.x, panel.density, color=BLUE, linewidth=1.8, label="posterior")
    axes.vlines(
        panel.median,
        0.0,
        np.interp(panel.median, panel.x, panel.density),
        color=BLUE,
        linewidth=1.0,
        linestyle=":",
        label="posterior median",
    )
    if panel.prior is not None:
        axes.plot(panel.x, panel.prior, color=RED, linewidth=1.0, linestyle="--", label="prior")
    axes.set_xlim(low, high)
    axes.set_ylim(0.0, 1.12 * highest)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=5)
    axes.set_title(entry(panel.name, 34), fontsize=10.5, color="black", loc="left")
    axes.set_xlabel(short(panel.label, 44), fontsize=9, color=GREY)
