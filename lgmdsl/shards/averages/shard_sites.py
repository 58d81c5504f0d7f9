"""The Gaussian sites of rows that lie in shards, by what they are together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.joint import Cavity, RowSites, Visit, VisitedRows
from lgmdsl.contract.questions import Tilted

if TYPE_CHECKING:
    from lgmdsl.shards.passes import Shards


@dataclass(frozen=True, eq=False)
class ShardSites(RowSites):
    """What the rows of all shards say together, their own Gaussian sites being matched in their
    shards at each q of the shared latents.

    F + 1/2 tr WV next to log_normaliser is the value of the whole model: where W is what the shards
    ask for, F has -1/2 tr WV for the spread of beta (`averages.at_shared`).
    """

    shards: Shards
    weight: Array
    shift: Array

    def visited(self, mean: Array, variance: Array, visit: Visit) -> VisitedRows | None:
        value, slope, weight = self.shards.averaged(Tilted, mean, variance)
        if not np.isfinite(value):
            return None
        shift = slope + rows.times(weight, mean)
        gap = slope - (self.shift - rows.times(self.weight, mean))
        value += 0.5 * float(np.sum(rows.trace(self.weight, variance)))

        def towards(share: float) -> ShardSites:
            asked = rows.interpolate((self.weight, self.shift), (weight, shift), share)
            return ShardSites(self.shards, *asked)

        return VisitedRows(value, gap, towards, inside=True)

    def slopes(
        self, mean: Array, variance: Array, cavity: Cavity, power: float
    ) -> dict[str, Array]:
        return self.shards.averaged_slopes(Tilted, mean, variance)
