"""Gaussian sites of single rows: 16 bytes a row next to the packed rows, in memory or on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.joint import Cavity, RowSites, Visit, VisitedRows
from lgmdsl.contract.questions import Tilted, TiltedSlopes
from lgmdsl.files import scratch
from lgmdsl.memory import budget

if TYPE_CHECKING:
    from lgmdsl.streams.collective import Places
    from lgmdsl.streams.rows import Chunk

BYTES = 16  # of a row: a weight and a shift
# Held at once, about: sites, those they ask for, those of the step before, and the best ones.
COPIES = 4
SHARE = 0.25  # of the memory budget, from which on they lie on disk


def on_disk(rows: int) -> bool:
    """Whether the sites of so many rows are kept in temporary files."""
    return BYTES * COPIES * rows > SHARE * budget()


def _empty(rows: int) -> Array:
    """(2, rows), in a file without a name where that is large."""
    if not on_disk(rows):
        return np.empty((2, rows))
    return np.frombuffer(scratch(BYTES * rows), dtype=np.float64).reshape(2, rows)


@dataclass(frozen=True, eq=False)
class GaussianRows(RowSites):
    """Weights and shifts of the rows, a `share` of the way from `first` to `last`, (2, n) each;
    None stands for zeros. In a predictor s = a'z + c,

        exp(-w s^2 / 2 + b s) = exp(-w (a'z)^2 / 2 + (b - w c) a'z) const
    """

    places: Places
    weight: Array
    shift: Array
    first: Array | None
    last: Array | None
    share: float

    def _at(self, rows: slice) -> Array:
        """Weights and shifts of some rows, (2, m)."""
        zero = np.zeros((2, rows.stop - rows.start))
        first = zero if self.first is None or self.share == 1.0 else self.first[:, rows]
        last = zero if self.last is None else self.last[:, rows]
        return last if self.share == 1.0 else first + self.share * (last - first)

    def visited(self, mean: Array, variance: Array, visit: Visit) -> VisitedRows | None:
        places, whole = self.places, self.share == 1.0
        count, value = places.rows.count, 0.0
        now, asked = self.last if whole else _empty(count), _empty(count)
        sums = [places.zeros(order) for order in (1, 1, 2)]
        for chunk, m, v in places.at(mean, variance):
            w, b = self._at(chunk.rows)
            if not whole and now is not None:
                now[:, chunk.rows] = w, b
            update = visit(w, b, m, v, places.asked(chunk, Tilted))
            if update is None:
                return None
            value += float(np.sum(update.value))
            asked[:, chunk.rows] = update.weight, update.shift
            shift = update.shift - update.weight * chunk.offset
            for x, out in zip((update.gap, shift, update.weight), sums, strict=True):
                chunk.add(x, out)
        gap, shift, weight = map(places.outward, sums)
        return VisitedRows(value, gap, partial(self._towards, weight, shift, now, asked))

    def _towards(
        self, weight: Array, shift: Array, now: Array | None, asked: Array, share: float
    ) -> GaussianRows:
        """Sums are linear in the sites of the rows."""
        if share == 1.0:
            return GaussianRows(self.places, weight, shift, None, asked, 1.0)
        weight = self.weight + share * (weight - self.weight)
        shift = self.shift + share * (shift - self.shift)
        return GaussianRows(self.places, weight, shift, now, asked, share)

    def slopes(
        self, mean: Array, variance: Array, cavity: Cavity, power: float
    ) -> dict[str, Array]:
        def of(chunk: Chunk, m: Array, v: Array) -> Mapping[str, Array]:
            w, b = self._at(chunk.rows)
            at = cavity(w, b, m, v)
            with np.errstate(all="ignore"):
                answer = self.places.asked(chunk, TiltedSlopes)
                known: Mapping[str, Array] = answer.tilted_slopes(*at, power)
            return known

        return self.places.slopes(of, mean, variance)
