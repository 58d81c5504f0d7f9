"""Flops to the optimum of the bound, Gaussian-process classification: what the comparisons of Khan
2012, section 3.6.2, share between data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lgmdsl.arrays import AnyArray, Array
from tests.reproductions.courses import SOLVERS, Classification, Course, course
from tests.reproductions.record import COLOURS, figure

RISE = 1e-3  # nats: of the optimum, and what the thesis stops at
NAMES = ("natural-gradient", "coordinate-ascent", "opper-archambeau, plain", "opper-archambeau")
HEADER = (
    *("solver", "minus ELBO", "steps to 1e-3", "flops to 1e-3", "CPU s to 1e-3"),
    *("flops where a rise < 1e-3", "gap there", "ended", "gap at the end", "flops spent"),
)


def title(log_s: float, log_sd: float) -> str:
    return f"log s = {log_s:g}, log sd = {log_sd:g}"


def standardised(X: Array) -> Array:
    """Columns of mean 0 and variance 1; a constant column is 0."""
    spread = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))


def run(at: tuple[float, float], name: str, rows: tuple[Array, AnyArray], budget: float) -> Course:
    """The course of solver `name` at (log s, log sd) on `rows` (X, y), from m = 0 and weights 1/4,
    those of a logistic site at its steepest; at most `budget` CPU seconds."""
    X, y = rows
    given = Classification(X, np.asarray(y, dtype=np.int64), log_sd=at[1], log_s=at[0])
    start = (np.zeros(len(X)), np.full(len(X), 0.25))
    return course(given, SOLVERS[name], start, RISE, budget)


def check(found: Course) -> None:
    """The bound never falls, and no solver is above the optimum."""
    objective = [m.objective for m in found.marks]
    assert np.diff(objective).min(initial=0.0) >= -1e-9 * abs(found.optimum)
    assert max(objective) <= found.optimum + 1e-6


def cells(name: str, found: Course) -> tuple[object, ...]:
    """Under HEADER."""
    reached, stopped, last = found.reached, found.stopped, found.marks[-1]
    return (
        name,
        -found.optimum,
        None if reached is None else reached.step,
        None if reached is None else reached.flops,
        None if reached is None else reached.seconds,
        None if stopped is None else stopped.flops,
        None if stopped is None else found.gap(stopped),
        found.ended,
        found.gap(),
        last.flops,
    )


def draw(
    folder: Path,
    found: Mapping[tuple[str, str], Course],
    shown: Sequence[tuple[float, float]],
    *,
    head: str = "",
    name: str = "figure",
) -> None:
    """Minus the bound, and the gap to its optimum, against flops: a column for each (log s, log sd)
    shown."""
    with figure(folder, 10.0, 5.2, dpi=100, name=name) as picture:
        axes = picture.subplots(2, len(shown), sharex="col")
        for at, (above, below) in zip(shown, axes.T, strict=True):
            for k, solver in enumerate(NAMES):
                one = found[head + title(*at), solver]
                x = [m.flops for m in one.marks]
                look = {"color": COLOURS[k], "marker": "os^v"[k], "markersize": 3.0}
                above.plot(x, [-m.objective for m in one.marks], label=solver, **look)
                below.plot(x, [max(one.gap(m), 1e-6) for m in one.marks], **look)
            low = -one.optimum
            top = min(3.0 * low, max(-m.objective for m in one.marks))
            above.set_ylim(low - 0.05 * (top - low), top)
            above.set_title(title(*at))
            below.axhline(RISE, color="grey", linewidth=0.8, dashes=(3, 3))
            below.set(xscale="log", yscale="log", xlabel="flops")
            below.xaxis.set_minor_formatter("")  # labels of less than a decade overlap
        axes[0, 0].set_ylabel("minus ELBO (nats)")
        axes[1, 0].set_ylabel("nats from the optimum")
        picture.legend(
            *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(NAMES)
        )
