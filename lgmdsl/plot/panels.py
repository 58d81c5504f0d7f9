"""Several panels on one figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lgmdsl.plot.canvas import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 12  # panels of a picture
WIDTH, HEIGHT = 4.6, 3.1  # of a panel, in inches


def shape(count: int) -> tuple[int, int]:
    """Rows and columns of so many panels."""
    columns = min(count, 2 if count <= 4 else 3)
    return math.ceil(count / max(columns, 1)), columns


def panel_picture(
    title: str, panels: Sequence[Callable[[Axes], None]], format: str = "png"
) -> bytes:
    """The first MOST panels in a grid. Raises ImportError without matplotlib."""
    shown = panels[:MOST]
    rows, columns = shape(len(shown))

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, squeeze=False).reshape(-1)
        for axes, panel in zip(grid, shown, strict=False):
            panel(axes)
        for axes in grid[len(shown) :]:
            axes.set_visible(False)

    return picture(draw, title, WIDTH * columns, HEIGHT * rows + 0.6, format)
