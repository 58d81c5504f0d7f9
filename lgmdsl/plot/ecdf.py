"""ECDFs less the diagonal, with the band in which all of an exact posterior's stay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.plot.canvas import COLOURS, entry, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
