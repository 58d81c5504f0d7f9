"""An engine at some of its rows: the others have weight and shift 0, as rows without a site have.

Patterns, orderings and what else was set up for all rows serve for any of them, and operators stay
the objects that they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lgmdsl.arrays import IntArray
from lgmdsl.contract.engine import Conditioned, Engine, Failed, Leftover, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.engines.shared.other_rows import OtherRows


@dataclass(frozen=True, eq=False)
class Kept:
    """The rows of each site block that stay, by position; a block of which none stays is none of
    those that are left."""

    rows: tuple[IntArray, ...]

    @property
    def filled(self) -> tuple[int, ...]:
        """The blocks that are left."""
        return tuple(k for k, rows in enumerate(self.rows) if len(rows))

    def of(self, values: Rows) -> Rows:
        """What is left of one array for each block."""
        return tuple(values[k][self.rows[k]] for k in self.filled)

    def among(self, values: Rows, shapes: Sequence[tuple[int, ...]]) -> Rows:
        """Arrays of all rows from those of the rows that stay, 0 in the others; `shapes`: of all
        blocks' arrays."""
        out = tuple(np.zeros(shape) for shape in shapes)
        for k, value in zip(self.filled, values, strict=True):
            out[k][self.rows[k]] = value
        return out

    def linear(self, whole: LinearGaussian) -> LinearGaussian:
        """The model of these rows; rows are picked as they are asked for."""
        every = whole.of_rows(self.rows)
        return replace(every, predictors=tuple(every.predictors[k] for k in self.filled))


class SomeRows(Engine):
    """`whole`, an exact engine, as the engine of the rows that are `kept`."""

    name = "some-rows"

    def __init__(self, whole: Engine, rows: Sequence[IntArray]) -> None:
        if not whole.exact:
            raise ValueError("estimates of all rows are no estimates of some")
        self.whole, self.kept = whole, Kept(tuple(rows))
        super().__init__(self.kept.linear(whole.linear))

    @cached_property
    def prior_mean(self) -> Rows:
        return self.kept.of(self.whole.prior_mean)

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        return self._seen(self.whole.condition(*self._among(weight, shift)), weight, shift)

    def approach(
        self, weight: Rows, shift: Rows, begin: Leftover | None, share: float
    ) -> Conditioned | Failed:
        q = self.whole.approach(*self._among(weight, shift), begin, share)
        return self._seen(q, weight, shift)

    def strain(self, weight: Rows) -> float:
        return self.whole.strain(self._weight(weight))

    def remade(self, linear: LinearGaussian) -> Engine:
        """The engine of these rows alone in other units."""
        return self.whole.remade(linear)

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        return "it is made of another engine"

    def _among(self, weight: Rows, shift: Rows) -> tuple[Rows, Rows]:
        return self._weight(weight), self._shift(shift)

    def _weight(self, weight: Rows) -> Rows:
        shapes = [(*m.shape, *m.shape[1:]) for m in self.whole.prior_mean]
        return self.kept.among(weight, shapes)

    def _shift(self, shift: Rows) -> Rows:
        return self.kept.among(shift, [m.shape for m in self.whole.prior_mean])

    def _seen(self, q: Conditioned | Failed, weight: Rows, shift: Rows) -> Conditioned | Failed:
        if isinstance(q, Failed):
            return q
        return OtherRows(q, weight, shift, self.kept.of, self._shift)
