"""The learning curve of a design: test error against labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lgmdsl.plot.canvas import COLOURS, legend, picture
from lgmdsl.plot.comparison import MARKED

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def learning_picture(
    title: str, labels: Sequence[int], errors: Sequence[float], format: str = "png"
) -> bytes:
    """The share of wrong test cases against the number of labels, as the bytes of a png, svg or
    pdf. Raises ImportError without matplotlib."""

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        marker = "o" if len(labels) <= MARKED else ""
        axes.plot(
            labels,
            [100.0 * e for e in errors],
            color=COLOURS[0],
            marker=marker,
            markersize=4.0,
            linewidth=1.8,
            label="test cases",
        )
        axes.set_xlabel("labels")
        axes.set_ylabel("test error in %")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(x=0.02)
        legend(axes)

    return picture(draw, title, 7.0, 4.2, format)
