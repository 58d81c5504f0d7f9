"""Calibration: histograms of probability integral transforms, and ECDFs with their band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from lgmdsl.arrays import Array
from lgmdsl.plot.canvas import COLOURS, entry, legend, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALE = "#8DBFDD"
CENTRAL = 0.9  # of the heights of a bar under uniform transforms


def pit_picture(
    title: str, heights: Array, count: int, censored: int = 0, format: str = "png"
) -> bytes:
    """Bars of a density. Raises ImportError without matplotlib."""
    draw = partial(draw_pit, heights=heights, count=count, censored=censored)
    return picture(lambda f: draw(f.subplots()), title, 6.4, 3.8, format)


def draw_pit(axes: Axes, heights: Array, count: int, censored: int = 0) -> None:
    """Bars of a density (K,) in equal bins, 1 on average, from `count` responses, of which the
    `censored` ones are spread over the values that they may have; between the dashed lines each bar
    lies with probability 0.9 if independent transforms are uniform."""
    bins = len(heights)
    low, high = (
        float(stats.binom.ppf(p, count, 1.0 / bins)) * bins / max(count, 1)
        for p in (0.5 - 0.5 * CENTRAL, 0.5 + 0.5 * CENTRAL)
    )
    edges = np.linspace(0.0, 1.0, bins + 1)
    axes.bar(
        edges[:-1],
        heights,
        1.0 / bins,
        align="edge",
        color=PALE,
        edgecolor="white",
        label=f"{count:,} responses"
        + (f",\n{censored:,} censored, spread over their range" if censored else ""),
    )
    axes.axhline(1.0, color="black", linewidth=0.8, label="uniform")
    for end, label in ((low, ""), (high, "90 % of bars if uniform")):
        axes.axhline(end, color="black", linewidth=0.9, linestyle="--", label=label)
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.15 * max(float(heights.max()), high))
    axes.set_xlabel("P(Y ≤ y | the other responses)")
    axes.set_ylabel("density")
    legend(axes)


# ---- ecdf --------------------------------------------------------------------------------------
# ECDFs less the diagonal, with the band in which all of an exact posterior's stay.


BAND = "where an exact posterior's stays"
SHOWN = 12  # panels on one picture; those at fault come first


@dataclass(frozen=True)
class EcdfPanel:
    """One quantity: its ECDF at z and the band there, (K,) each, and whether it leaves it."""

    name: str
    z: Array
    ecdf: Array
    low: Array
    high: Array
    outside: bool


def ecdf_picture(title: str, panels: Sequence[EcdfPanel], format: str = "png") -> bytes:
    """The panels, those at fault first, as the bytes of a png, svg or pdf. Raises ImportError
    without matplotlib."""
    shown = sorted(panels, key=lambda p: not p.outside)[:SHOWN]
    columns = min(3, max(len(shown), 1))
    rows = max(1, math.ceil(len(shown) / columns))

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
        every = grid.reshape(-1)
        for axes, panel in zip(every, shown, strict=False):
            _draw(axes, panel)
        for axes in every[len(shown) :]:
            axes.set_visible(False)
        for axes in every[max(len(shown) - columns, 0) : len(shown)]:
            axes.set_xlabel("P(q < truth)")
            axes.tick_params(labelbottom=True)
        for axes in grid[:, 0]:
            axes.set_ylabel("ECDF less uniform")
        handles, labels = every[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=2, frameon=False, fontsize=9)

    return picture(draw, title, max(4.0 * columns, 7.0), 2.9 * rows + 1.1, format)


def _draw(axes: Axes, panel: EcdfPanel) -> None:
    z, low, high, off = panel.z, panel.low - panel.z, panel.high - panel.z, panel.ecdf - panel.z
    axes.fill_between(z, low, high, color="#BBBBBB", alpha=0.5, linewidth=0, label=BAND)
    axes.axhline(0.0, color="#777777", linewidth=0.8)
    colour = COLOURS[1] if panel.outside else COLOURS[0]
    axes.plot(z, off, color=colour, linewidth=1.8, label="ECDF less uniform")
    name = entry(panel.name, 32)
    axes.set_title(f"{name}: outside" if panel.outside else name, fontsize=10, color="black")
    reach = 1.15 * float(np.abs(np.r_[low, high, off]).max())
    axes.set_ylim(-reach, reach)
    axes.set_xlim(0.0, 1.0)
