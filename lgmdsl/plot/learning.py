"""The learning curve of a design: test error against labels, or against measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lgmdsl.plot.canvas import COLOURS, legend, picture
from lgmdsl.plot.comparison import MARKED

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def learning_picture(
    title: str,
    labels: Sequence[int],
    errors: Sequence[float],
    format: str = "png",
    axes_labels: tuple[str, str] = ("labels", "test error in %"),
    unit: float = 0.01,
) -> bytes:
    """The error at test cases, in `unit`s (the share of wrong ones in %), against the number of
    labels, as the bytes of a png, svg or pdf. Raises ImportError without matplotlib."""

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        marker = "o" if len(labels) <= MARKED else ""
        axes.plot(
            labels,
            [e / unit for e in errors],
            color=COLOURS[0],
            marker=marker,
            markersize=4.0,
            linewidth=1.8,
            label="test cases",
        )
        axes.set_xlabel(axes_labels[0])
        axes.set_ylabel(axes_labels[1])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(x=0.02)
        legend(axes)

    return picture(draw, title, 7.0, 4.2, format)
