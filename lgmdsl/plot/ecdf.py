"""ECDFs less the diagonal, with the band in which all of an exact posterior's stay."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.plot.comparison import COLOURS, NO_DATE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = sorted(panels, key=lambda p: not p.outside)[:SHOWN]
    columns = min(3, max(len(shown), 1))
    rows = max(1, math.ceil(len(shown) / columns))
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels may hold letters that the font lacks
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False,
             "svg.hashsalt": "lgmdsl"}
        )  # fmt: skip
        size = (max(4.0 * columns, 7.0), 2.9 * rows + 1.1)
        figure = Figure(figsize=size, dpi=100, layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(title, fontsize=13, fontweight="bold", parse_math=False)
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True).reshape(-1)
        for axes, panel in zip(grid, shown, strict=False):
            _draw(axes, panel)
        for axes in grid[len(shown) :]:
            axes.set_visible(False)
        if shown:
            handles, labels = grid[0].get_legend_handles_labels()
            figure.legend(
                handles, labels, loc="outside upper right", ncols=2, frameon=False, fontsize=9
            )
        figure.supxlabel("P(q < truth)", fontsize=10)
        figure.supylabel("ECDF less uniform", fontsize=10)
        out = io.BytesIO()
        figure.savefig(out, format=format, metadata=NO_DATE.get(format))
        return out.getvalue()


def _draw(axes: Axes, panel: EcdfPanel) -> None:
    z, low, high, off = panel.z, panel.low - panel.z, panel.high - panel.z, panel.ecdf - panel.z
    axes.fill_between(z, low, high, color="#BBBBBB", alpha=0.5, linewidth=0, label=BAND)
    axes.axhline(0.0, color="#777777", linewidth=0.8)
    colour = COLOURS[1] if panel.outside else COLOURS[0]
    axes.plot(z, off, color=colour, linewidth=1.8, label="ECDF less uniform")
    title = f"{panel.name}: outside" if panel.outside else panel.name
    axes.set_title(title, fontsize=10, parse_math=False)
    reach = 1.15 * float(np.abs(np.r_[low, high, off]).max())
    axes.set_ylim(-reach, reach)
    axes.set_xlim(0.0, 1.0)
