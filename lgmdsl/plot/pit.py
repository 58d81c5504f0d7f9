"""Histogram of probability integral transforms: flat where a model is calibrated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from lgmdsl.arrays import Array
from lgmdsl.plot.canvas import BLUE, GREY, picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CENTRAL = 0.9  # of the heights of a bar under uniform transforms


def pit_picture(title: str, heights: Array, count: int, format: str = "png") -> bytes:
    """Bars of a density (K,) in equal bins, 1 on average, from `count` responses; grey is where
    each bar lies with probability 0.9 if independent transforms are uniform."""
    bins = len(heights)
    ends = stats.binom.ppf([0.5 - 0.5 * CENTRAL, 0.5 + 0.5 * CENTRAL], count, 1.0 / bins)
    low, high = ends * bins / max(count, 1)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        edges = np.linspace(0.0, 1.0, bins + 1)
        axes.axhspan(low, high, color=GREY, alpha=0.18, linewidth=0)
        axes.axhline(1.0, color=GREY, linewidth=0.8)
        axes.bar(edges[:-1], heights, 1.0 / bins, align="edge", color=BLUE, alpha=0.55,
                 edgecolor="white", linewidth=1.0)  # fmt: skip
        axes.set_xlim(0.0, 1.0)
        axes.set_ylim(0.0, 1.15 * max(float(heights.max()), high))
        axes.set_xlabel("P(Y ≤ y | the other responses)")
        axes.set_ylabel("density")
        axes.set_title(f"{count:,} responses left out one by one; grey: 90 % of uniform ones")

    return picture(draw, title, 6.4, 3.8, format)
