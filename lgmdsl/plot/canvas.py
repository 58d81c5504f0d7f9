"""A figure and its bytes, in the library's style, without pyplot: no window, no global state."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from lgmdsl.plot.comparison import COLOURS, NO_DATE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
BLUE, RED = COLOURS[0], COLOURS[1]
GREY = "#666666"
# Letters of a title in a line, for each inch of the figure's width.
LETTERS = 9.5


def picture(
    draw: Callable[[Figure], None], title: str, width: float, height: float, format: str
) -> bytes:
    """What `draw` puts on a figure of that size in inches, under a title, as the bytes of a png,
    svg or pdf. Raises ImportError without matplotlib."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels may hold letters that the font lacks
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False,
             "axes.titlesize": 9.5, "axes.titlecolor": GREY, "axes.titlelocation": "left",
             "text.parse_math": False, "svg.hashsalt": "lgmdsl"}
        )  # fmt: skip
        layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08)
        figure = Figure(figsize=(width, height), dpi=110, layout=layout)
        FigureCanvasAgg(figure)
        lines = textwrap.wrap(title, max(20, int(LETTERS * width)), max_lines=2, placeholder=" …")
        figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=12, fontweight="bold")
        draw(figure)
        out = io.BytesIO()
        figure.savefig(out, format=format, metadata=NO_DATE.get(format))
        return out.getvalue()


def short(text: str, letters: int) -> str:
    """The text, its end cut off where it is longer than so many letters."""
    return text if len(text) <= letters else text[: letters - 1] + "…"


def turn(axes: Axes) -> None:
    """Labels of the x axis at an angle, so that long ones do not overlap."""
    for label in axes.get_xticklabels():
        label.set(rotation=45, horizontalalignment="right", rotation_mode="anchor")


def zero_line(axes: Axes, along: str, low: float, high: float) -> None:
    """A thin line at zero where it lies between both."""
    if low < 0.0 < high:
        line = axes.axhline if along == "y" else axes.axvline
        line(0.0, color=GREY, linewidth=0.7, zorder=1)
