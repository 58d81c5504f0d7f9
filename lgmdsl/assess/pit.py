"""Leave-one-out probability integral transforms.

PIT_i = P(Y_i <= y_i | y_-i) = int F(y_i | s) N(s; cavity) ds, mixed over the hyperparameters as
they are without y_i. For discrete responses both P(Y_i < y_i) and P(Y_i <= y_i) are given, and the
histogram that needs no random numbers (Czado, Gneiting and Held 2009, Predictive model assessment
for count data, eq. 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.assess.averages import distribution
from lgmdsl.assess.component import Component
from lgmdsl.assess.loo import LooBlock


@dataclass(frozen=True, eq=False)
class PitBlock:
    """`lower` = P(Y < y), `upper` = P(Y <= y) of one datum's responses, (N,), equal for continuous
    ones; of censored ones at both ends of what is known; NaN where a response cannot be left
    out."""

    lower: Array
    upper: Array

    @property
    def middle(self) -> Array:
        """The mean of both: the expected randomised PIT."""
        return 0.5 * (self.lower + self.upper)


def pit(components: Sequence[Component], blocks: Sequence[LooBlock]) -> tuple[PitBlock, ...]:
    """The transforms at what `loo` has left out."""
    out = []
    for k, block in enumerate(blocks):
        n = len(block.log_density)
        rows = np.flatnonzero(np.logical_and.reduce([c.sound for c in block.cavities]))
        total = np.full((2, n), np.nan)
        total[:, rows] = 0.0
        for c, removed, weight in zip(components, block.cavities, block.weight, strict=True):
            site = c.sites[k].take(rows)
            both = distribution(site, removed.mean[rows], removed.variance[rows])
            total[:, rows] += weight[rows] * np.stack(both)
        for row, alone in block.renewed.items():
            total[:, row] = alone.weight @ alone.each(distribution)
        for row, ends in block.ends.items():
            total[:, row] = ends
        out.append(PitBlock(total[0], total[1]))
    return tuple(out)


def histogram(lower: Array, upper: Array, bins: int) -> Array:
    """Density of the non-randomised PIT in equal bins, (bins,), 1 on average.

    Each response spreads its mass evenly over [lower, upper]; where both are equal, it stands in
    one bin (1 belongs to the last). NaN are left out.
    """
    known = np.isfinite(lower) & np.isfinite(upper)
    low, high = lower[known][:, None], upper[known][:, None]
    edges = np.linspace(0.0, 1.0, bins + 1)
    inner = edges[1:-1]  # at the last edge all mass is below
    width = np.where(high > low, high - low, 1.0)
    below = np.where(high > low, np.clip((inner - low) / width, 0.0, 1.0), inner > low)
    total = np.concatenate([np.zeros((len(low), 1)), below, np.ones((len(low), 1))], axis=1)
    return np.asarray(np.diff(total, axis=1).mean(axis=0) * bins)
