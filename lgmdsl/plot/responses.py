"""What was observed against what a fit predicts of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from lgmdsl.arrays import Array, IntArray
from lgmdsl.plot.canvas import BLUE, GREY, MANY, RED, legend, picture, short
from lgmdsl.plot.effects import DOTS, draw_censored

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WHISKERS = 300  # rows that have an interval each
JITTER = 0.15  # of whole numbers, so that equal ones do not hide one another
GROUP, MOST = 15, 10  # rows of a group of like probabilities, and groups
MAX_VALUES_MOVED = 30  # different values that are moved


@dataclass(frozen=True)
class Agreement:
    """A response without an order: what was observed (m,), NaN where nothing was, quantiles of its
    prediction there, (5, m) at `effects.LEVELS`, and the ends (2, m) between which censored ones
    lie, infinite where open and NaN in other rows."""

    title: str
    name: str
    observed: Array
    quantiles: Array
    ends: Array | None = None


def agreement_picture(rows: Agreement, format: str = "png") -> bytes:
    """Dots about a diagonal. Raises ImportError without matplotlib."""
    return picture(lambda f: draw_agreement(f.subplots(), rows), rows.title, 6.0, 4.8, format)


def draw_agreement(axes: Axes, rows: Agreement) -> None:
    """Observed against predicted, with 90 % intervals where rows are few."""
    known = np.flatnonzero(np.isfinite(rows.observed) & np.isfinite(rows.quantiles).all(axis=0))
    if len(known) > DOTS:
        known = known[np.linspace(0, len(known) - 1, DOTS).astype(int)]
    y, (low, _, middle, _, high) = rows.observed[known], rows.quantiles[:, known]
    values = np.unique(y)
    moved = y
    if 1 < len(values) <= MAX_VALUES_MOVED:
        step = JITTER * float(np.diff(values).min())
        moved = y + step * np.linspace(-1.0, 1.0, len(y))[_mixed(len(y))]
    if len(y) <= WHISKERS:
        axes.hlines(moved, low, high, color=BLUE, linewidth=0.7, alpha=0.6, label="90 %")
    size = float(np.clip(60.0 / np.sqrt(max(len(y), 1)), 2.0, 4.0))
    axes.plot(middle, moved, "o", color=BLUE, markersize=size, markeredgewidth=0.0, alpha=0.7,
              label="a row", rasterized=len(y) > MANY)  # fmt: skip
    shown = [y, middle]
    if rows.ends is not None:
        draw_censored(axes, rows.quantiles[2], rows.ends, RED)
        hidden = np.isfinite(rows.quantiles[2]) & ~np.isnan(rows.ends[0])
        finite = rows.ends[:, hidden]
        shown += [rows.quantiles[2][hidden], finite[np.isfinite(finite)]]
    every = np.concatenate(shown)
    if len(every):
        ends = [every.min(), every.max()]
        axes.plot(ends, ends, color=GREY, linewidth=0.9, linestyle="--", label="equal", zorder=1)
    axes.set_xlabel("predicted median")
    axes.set_ylabel(short(f"{rows.name}, observed", 40))
    legend(axes)


@dataclass(frozen=True)
class Reliability:
    """A response of 0 and 1, (m,), NaN where nothing was observed, and its probability of 1."""

    title: str
    name: str
    observed: Array
    probability: Array


def reliability_picture(rows: Reliability, format: str = "png") -> bytes:
    """Shares about a diagonal. Raises ImportError without matplotlib."""
    return picture(lambda f: draw_reliability(f.subplots(), rows), rows.title, 6.0, 4.8, format)


def draw_reliability(axes: Axes, rows: Reliability) -> None:
    """The share of ones in groups of rows of like probability, with where 90 % of such shares lie
    if the probabilities are right."""
    known = np.flatnonzero(np.isfinite(rows.observed) & np.isfinite(rows.probability))
    p, y = rows.probability[known], rows.observed[known]
    order = np.argsort(p, kind="stable")
    count = int(np.clip(len(p) // GROUP, 1, MOST))
    groups = [g for g in np.array_split(order, count) if len(g)]
    mean = np.array([p[g].mean() for g in groups])
    share = np.array([y[g].mean() for g in groups])
    sizes = np.array([len(g) for g in groups])
    low, high = (stats.binom.ppf(q, sizes, mean) / sizes for q in (0.05, 0.95))
    axes.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linewidth=0.9, linestyle="--", label="equal")
    axes.vlines(mean, low, high, color=BLUE, linewidth=5.0, alpha=0.25, label="90 % if right")
    label = f"{len(groups)} groups of about {round(len(p) / max(len(groups), 1)):,} rows"
    axes.plot(mean, share, "o", color=BLUE, markersize=5.0, label=label)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("predicted probability of 1")
    axes.set_ylabel(short(f"{rows.name}, share of ones", 40))
    legend(axes)


def _mixed(size: int) -> IntArray:
    """The numbers below size in an order that has no pattern, always the same."""
    return np.random.default_rng(0).permutation(size)
