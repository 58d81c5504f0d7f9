"""Pictures of runs: a comparison of methods, and the learning curve of a design.

A comparison shows each method's path to its optimum, and its result.

Left, against time, a marker for each step: the objective, and how far it is below its optimum.
Right: Gaussian marginals of a few latents, one curve for each method.
matplotlib is imported when a picture is drawn, and its global state is left as it is.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.plot.canvas import COLOURS, NO_DATE, entry, legend, one_line, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2), (3, 1.5), (8, 3))
# Runs whose times differ by more than this are drawn on a logarithmic axis.
LONG = 20.0
WIDTH, LETTERS = 12.5, 13.0  # of the figure, in inches; letters of its legend in an inch
# Every step has its marker up to this many; longer runs have this many, evenly chosen.
MARKED = 60


@dataclass(frozen=True)
class Course:
    """One method's run: seconds and objective after each step, (T,); `target` is the optimum that
    its objective is measured against (that of the best bound, where several share one)."""

    method: str
    label: str
    seconds: Array
    objective: Array
    target: float


@dataclass(frozen=True)
class Marginal:
    """One latent: its name, and mean and sd by method."""

    title: str
    moments: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class _Look:
    """How one method is drawn, everywhere alike."""

    colour: str
    marker: str
    dashes: tuple[float, ...]
    place: int


def comparison_picture(
    title: str, courses: Sequence[Course], marginals: Sequence[Marginal], format: str = "png"
) -> bytes:
    """The picture as the bytes of a png, svg or pdf. Raises ImportError without matplotlib."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    looks = {
        c.method: _Look(
            COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)], DASHES[k % len(DASHES)], k
        )
        for k, c in enumerate(courses)
    }
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels may hold letters that the font lacks
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False,
             "axes.grid": True, "grid.alpha": 0.25, "svg.hashsalt": "lgmdsl"}
        )  # fmt: skip
        figure = Figure(figsize=(WIDTH, 6.4), dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        _draw(figure, title, courses, marginals, looks)
        out = io.BytesIO()
        figure.savefig(out, format=format, metadata=NO_DATE.get(format))
        return out.getvalue()


def _draw(
    figure: Figure,
    title: str,
    courses: Sequence[Course],
    marginals: Sequence[Marginal],
    looks: Mapping[str, _Look],
) -> None:
    figure.suptitle(one_line(title), fontsize=13, fontweight="bold", parse_math=False)
    shares = (1.0, 1.25) if marginals else (1.0,)
    halves = figure.subfigures(1, len(shares), squeeze=False, width_ratios=shares)[0]
    above, below = halves[0].subplots(2, 1, sharex=True)
    _objectives(above, courses, looks)
    _gaps(below, courses, looks)
    if marginals:
        columns = 1 if len(marginals) == 1 else 2 if len(marginals) <= 4 else 3
        rows = math.ceil(len(marginals) / columns)
        grid = halves[1].subplots(rows, columns, squeeze=False).reshape(-1)
        halves[1].suptitle(
            "Posterior marginals of latents that differ most", x=0.01, ha="left", fontsize=10.5
        )
        for axes, marginal in zip(grid, marginals, strict=False):
            _densities(axes, marginal, looks)
        for axes in grid[len(marginals) :]:
            axes.set_visible(False)
    handles, labels = above.get_legend_handles_labels()
    longest = max((len(label) for label in labels), default=0)
    columns = int(np.clip(LETTERS * WIDTH // (longest + 8), 1, min(3, max(len(labels), 1))))
    figure.legend(
        handles,
        labels,
        title="method: log evidence",
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9.5,
        handlelength=3.2,
    )


def _line(axes: Axes, x: Array, y: Array, look: _Look, label: str = "") -> None:
    """One course; later ones are thinner, so that what lies below them can be seen."""
    axes.plot(
        x,
        y,
        color=look.colour,
        marker=look.marker,
        markersize=max(6.5 - 0.6 * look.place, 3.5),
        markevery=max(1, math.ceil(len(x) / MARKED)),
        markerfacecolor="white",
        markeredgewidth=1.3,
        linewidth=max(2.4 - 0.25 * look.place, 1.1),
        dashes=look.dashes or (None, None),
        label=label.replace("$", r"\$"),
        clip_on=True,
        zorder=3 + look.place,
    )


def _objectives(axes: Axes, courses: Sequence[Course], looks: Mapping[str, _Look]) -> None:
    for course in courses:
        _line(axes, course.seconds, course.objective, looks[course.method], course.label)
    low, high = window([c.objective for c in courses])
    axes.set_ylim(low, high)
    axes.set_ylabel("objective (nats)")
    axes.set_title("Objective against time, a marker for each step", loc="left", fontsize=10.5)
    axes.ticklabel_format(axis="y", useOffset=False, style="plain")


def _gaps(axes: Axes, courses: Sequence[Course], looks: Mapping[str, _Look]) -> None:
    """|target - objective| on a logarithmic axis, down to where rounding begins."""
    floor = min((1e-12 * max(1.0, abs(c.target)) for c in courses), default=1e-12)
    for course in courses:
        gap = np.maximum(np.abs(course.target - course.objective), floor)
        _line(axes, course.seconds, gap, looks[course.method])
    axes.set_yscale("log")
    axes.set_ylabel("nats from the optimum")
    axes.set_xlabel("seconds")
    times = np.concatenate([c.seconds for c in courses]) if courses else np.ones(1)
    times = times[times > 0]
    if times.size and times.max() > LONG * times.min():
        axes.set_xscale("log")
    axes.set_title(
        "Distance from the optimum (own, or of the best bound)", loc="left", fontsize=10.5
    )


def window(objectives: Sequence[Array]) -> tuple[float, float]:
    """Limits that show where the objectives end: starts far below are cut off.

    At most 12 times the spread of the last values (or 0.5 % of their size) is shown below them.
    """
    ends = np.array([o[-1] for o in objectives if len(o)] or [0.0])
    every = np.concatenate([*objectives, ends])
    spread = max(float(np.ptp(ends)), 0.005 * float(np.abs(ends).max()), 1e-6)
    low = max(float(every.min()), float(ends.min()) - 12.0 * spread)
    high = min(float(every.max()), float(ends.max()) + 12.0 * spread)
    room = 0.06 * max(high - low, 1e-9 * max(abs(high), 1.0))
    return low - room, high + room


def _densities(axes: Axes, marginal: Marginal, looks: Mapping[str, _Look]) -> None:
    usable = {m: v for m, v in marginal.moments.items() if v[1] > 0 and np.isfinite(v).all()}
    if usable:
        low, high, top = _room(list(usable.values()))
        x = np.linspace(low, high, 400)
        for method, (mean, sd) in usable.items():
            look = looks[method]
            y = np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
            if look.place == 0:
                axes.fill_between(x, y, color=look.colour, alpha=0.12, linewidth=0)
            axes.plot(
                x,
                y,
                color=look.colour,
                linewidth=max(2.4 - 0.25 * look.place, 1.1),
                dashes=look.dashes or (None, None),
                zorder=3 + look.place,
            )
        axes.set_xlim(low, high)
        axes.set_ylim(0, top)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=5)
    axes.set_title(entry(marginal.title, 28), fontsize=10.5, loc="left")


def _room(moments: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Limits of x and the top of y. The first density is shown well, whatever the others are: a
    collapsed one is cut off at three times its height, a far one at 12 of its sds."""
    mean, sd = moments[0]
    low = max(min(m - 3.6 * s for m, s in moments), mean - 12.0 * sd)
    high = min(max(m + 3.6 * s for m, s in moments), mean + 12.0 * sd)
    narrowest = max(min(s for _, s in moments), sd / 3.0)
    return low, high, 1.08 / (narrowest * math.sqrt(2 * math.pi))


# ---- learning ----------------------------------------------------------------------------------
# The learning curve of a design: test error against labels, or against measurements.


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
