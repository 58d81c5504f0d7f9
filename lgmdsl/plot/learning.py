"""The learning curve of a design: test error against labels."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence

from lgmdsl.plot.comparison import COLOURS, MARKED, NO_DATE


def learning_picture(
    title: str, labels: Sequence[int], errors: Sequence[float], format: str = "png"
) -> bytes:
    """The share of wrong test cases against the number of labels, as the bytes of a png, svg or
    pdf. Raises ImportError without matplotlib."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels may hold letters that the font lacks
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False,
             "svg.hashsalt": "lgmdsl"}
        )  # fmt: skip
        figure = Figure(figsize=(7.0, 4.2), dpi=100, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        axes.set_title(title, fontsize=13, fontweight="bold", parse_math=False)
        marker = "o" if len(labels) <= MARKED else ""
        axes.plot(
            labels,
            [100.0 * e for e in errors],
            color=COLOURS[0],
            marker=marker,
            markersize=4.0,
            linewidth=1.8,
        )
        axes.set_xlabel("labels")
        axes.set_ylabel("test error in %")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(x=0.02)
        out = io.BytesIO()
        figure.savefig(out, format=format, metadata=NO_DATE.get(format))
        return out.getvalue()
