"""Histogram of probability integral transforms: flat where a model is calibrated."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from lgmdsl.arrays import Array
from lgmdsl.plot.canvas import legend, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALE = "#8DBFDD"
CENTRAL = 0.9  # of the heights of a bar under uniform transforms


def pit_picture(
    title: str, heights: Array, count: int, censored: int = 0, format: str = "png"
) -> bytes:
    """Bars of a density. Raises ImportError without matplotlib."""
    draw = partial(draw_pit, heights=heights, count=count, censored=censored)
    return picture(lambda f: draw(f.subplots()), title, 6.4, 3.8, format)


def draw_pit(axes: Axes, heights: Array, count: int, censored: int = 0) -> None:
    """Bars of a density (K,) in equal bins, 1 on average, from `count` responses, of which the
    `censored` ones are spread over the values that they may have; between the dashed lines each bar
    lies with probability 0.9 if independent transforms are uniform."""
    bins = len(heights)
    low, high = (
        float(stats.binom.ppf(p, count, 1.0 / bins)) * bins / max(count, 1)
        for p in (0.5 - 0.5 * CENTRAL, 0.5 + 0.5 * CENTRAL)
    )
    edges = np.linspace(0.0, 1.0, bins + 1)
    axes.bar(
        edges[:-1],
        heights,
        1.0 / bins,
        align="edge",
        color=PALE,
        edgecolor="white",
        label=f"{count:,} responses"
        + (f",\n{censored:,} censored, spread over their range" if censored else ""),
    )
    axes.axhline(1.0, color="black", linewidth=0.8, label="uniform")
    for end, label in ((low, ""), (high, "90 % of bars if uniform")):
        axes.axhline(end, color="black", linewidth=0.9, linestyle="--", label=label)
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.15 * max(float(heights.max()), high))
    axes.set_xlabel("P(Y ≤ y | the other responses)")
    axes.set_ylabel("density")
    legend(axes)
