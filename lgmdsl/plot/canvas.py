"""A figure and its bytes, in the library's style, without pyplot: no window, no global state. What
is drawn can be drawn on axes of the caller's as well: nothing here asks which they are."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.errors import MethodError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
# Metadata without the time of day: the same picture has the same bytes.
NO_DATE: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
# Okabe and Ito 2008: distinguishable by the colour-blind. Markers and dashes differ too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
BLUE, RED, GREEN = COLOURS[0], COLOURS[1], COLOURS[2]
GREY = "#666666"
# Letters of a title in a line, for each inch of the figure's width.
LETTERS = 9.5
NARROW = 4.5  # inches of axes whose legend has smaller letters
# Of a legend, in sizes of its font: a letter, the mark of an entry, and the gaps about both.
LETTER, HANDLE, GAPS = 0.55, 1.6, 2.0
# Above so many points, what is drawn is kept as an image in svg and pdf files too.
MANY = 2_000


def check_matplotlib() -> None:
    """Raise MethodError E501 where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        message = "a picture needs matplotlib"
        raise MethodError.of("E501", message, help="pip install 'lgmdsl[plot]'")


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
        room = max(20, int(LETTERS * width))
        lines = textwrap.wrap(one_line(title), room, max_lines=2, placeholder=" …")
        figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=12, fontweight="bold")
        draw(figure)
        out = io.BytesIO()
        figure.savefig(out, format=format, metadata=NO_DATE.get(format))
        return out.getvalue()


def one_line(text: str) -> str:
    """The text without line breaks and characters that no font has a picture of."""
    return "".join(c if c.isprintable() else " " for c in text)


def short(text: str, letters: int) -> str:
    """The text on one line, its end cut off where it is longer than so many letters; shown as it
    is, dollar signs included."""
    text = one_line(text)
    return plain(text if len(text) <= letters else text[: letters - 1] + "…")


def entry(text: str, letters: int) -> str:
    """A label of an entry, as `short`, but cut in the middle: many differ at their ends alone."""
    text = one_line(text)
    if len(text) > letters:
        tail = (letters - 1) // 3
        text = f"{text[: letters - 1 - tail]}…{text[len(text) - tail :]}"
    return plain(text)


def plain(text: str) -> str:
    """The text as matplotlib has to be given it, so that it takes none of it for a formula."""
    import matplotlib

    return text.replace("$", r"\$") if matplotlib.rcParams["text.parse_math"] else text


def legend(axes: Axes) -> None:
    """What each colour is, above the axes, where it hides nothing: in as many columns as the axes
    are wide, since the layout would make room for a wider legend by narrower axes."""
    labels = axes.get_legend_handles_labels()[1]
    wide = inches(axes)[0]
    size = 7.5 if wide < NARROW else 8.5
    if labels:
        axes.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            ncols=legend_columns(labels, wide, size),
            frameon=False,
            fontsize=size,
            borderaxespad=0.1,
            handlelength=HANDLE,
            columnspacing=1.2,
        )


def legend_columns(labels: Sequence[str], wide: float, size: float, most: int = 5) -> int:
    """The most columns of a legend of a font of `size` points that is not wider than so many
    inches; labels fill one column after the other."""
    widths = [max(map(len, label.split("\n"))) * LETTER + HANDLE + GAPS for label in labels]
    for count in range(min(len(labels), most), 1, -1):
        rows, longer = divmod(len(widths), count)
        ends = np.cumsum([rows + (k < longer) for k in range(count)])
        parts = np.split(np.array(widths), ends[:-1])
        if sum(float(part.max()) for part in parts) * size / 72.0 <= wide:
            return count
    return 1


def inches(axes: Axes) -> tuple[float, float]:
    """About how wide and how high axes are."""
    figure, box = axes.get_figure(root=True), axes.get_position()
    if figure is None:
        return 6.0, 4.0
    return box.width * figure.get_figwidth(), box.height * figure.get_figheight()


def turn(axes: Axes) -> None:
    """Labels of the x axis at an angle, so that long ones do not overlap."""
    for label in axes.get_xticklabels():
        label.set(rotation=45, horizontalalignment="right", rotation_mode="anchor")


def zero_line(axes: Axes, along: str, low: float, high: float) -> None:
    """A thin line at zero where it lies between both."""
    if low < 0.0 < high:
        line = axes.axhline if along == "y" else axes.axvline
        line(0.0, color=GREY, linewidth=0.7, zorder=1)


# ---- panels ------------------------------------------------------------------------------------
# Several panels on one figure.


MAX_PANELS = 12  # panels of a picture
WIDTH, HEIGHT = 4.6, 3.1  # of a panel, in inches


def shape(count: int) -> tuple[int, int]:
    """Rows and columns of so many panels."""
    columns = min(count, 2 if count <= 4 else 3)
    return math.ceil(count / max(columns, 1)), columns


def panel_picture(
    title: str, panels: Sequence[Callable[[Axes], None]], format: str = "png"
) -> bytes:
    """The first MOST panels in a grid. Raises ImportError without matplotlib."""
    shown = panels[:MAX_PANELS]
    rows, columns = shape(len(shown))

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, squeeze=False).reshape(-1)
        for axes, panel in zip(grid, shown, strict=False):
            panel(axes)
        for axes in grid[len(shown) :]:
            axes.set_visible(False)

    return picture(draw, title, WIDTH * columns, HEIGHT * rows + 0.6, format)
