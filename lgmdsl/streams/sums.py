"""What rows at places and rows in shards have together: a block of vector sites whose answers are
sums over chunks of rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.joint import SumsOfRows
from lgmdsl.contract.questions import (
    Bounded,
    BoundedAnswer,
    Expected,
    ExpectedSlopes,
    Pointwise,
    Widths,
)
from lgmdsl.contract.site import Property, Site, SiteSpec

# Of the rows' properties, those that their sums have.
KEPT = Property.LOG_CONCAVE | Property.GAUSSIAN | Property.BOUNDED | Property.LIMITED


def spec_of(family: type[Site], sums: str, slopes: tuple[str, ...] = ()) -> SiteSpec:
    """Specification of the sites that rows of a `family` make by their `sums`; `slopes`: what these
    come in, () for the family's parameters."""
    known = family.spec
    return SiteSpec(
        f"{known.name} by {sums}",
        properties=known.properties & KEPT,
        observed=known.observed,
        vector=True,
        shared=slopes or tuple(known.parameters),
        summary=known.summary,
    )


def added(parts: Iterable[Mapping[str, Array]]) -> dict[str, Array]:
    """Sums of slopes by name, from the first to the last."""
    out: dict[str, Array] = {}
    for part in parts:
        for name, slope in part.items():
            out[name] = out[name] + slope if name in out else np.asarray(slope)
    return out


class RowSums(Site, SumsOfRows, Pointwise, Expected, ExpectedSlopes, Bounded):
    """G vector sites whose rows answer in chunks."""

    def check_first(self, second: bool) -> None:
        """Raise TypeError where second derivatives of expectations are wanted."""
        if second:
            raise TypeError(f"{self.spec.name}: no second derivatives of expectations")

    @abstractmethod
    def averaged_slopes(self, question: type, mean: Array, variance: Array) -> dict[str, Array]:
        """Slopes in parameters, or in hyperparameters, of what rows answer to a question about
        N(mean, variance) of the latents: `Expected`, or `Widths` for the best bound."""

    @abstractmethod
    def working_sums(
        self, mean: Array, variance: Array, prior: Array | None
    ) -> tuple[float, float, float]:
        """Sums over the rows of the precision of what `working_sd` is the sd of, and of its
        first two powers times that."""

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.averaged_slopes(Expected, mean, variance)

    def width_slopes(self, s: Array, z: Array) -> dict[str, Array]:
        return self.averaged_slopes(Widths, s, z)

    def working_sd(self, mean: Array, variance: Array, prior: Array | None = None) -> float:
        total, first, second = self.working_sums(mean, variance, prior)
        if not total > 0.0 or not np.isfinite(second):
            return 0.0
        centre = 0.0 if prior is None else first / total
        return float(np.sqrt(max(second / total - centre * centre, 0.0)))

    def bound_of(
        self, s: Array, penalty: Array, level: Array, slope: Array, bend: Array, weight: Array
    ) -> BoundedAnswer:
        """The bound of these penalties, and slopes and curvatures of them, at z = s, (G, K);
        `level`: less 1/2 tr W z, W the weights, (G, K, K)."""
        pull = rows.times(weight, s)
        h = 2.0 * level + rows.inner(pull - 2.0 * slope, s)
        return BoundedAnswer(penalty, slope, bend, weight, pull - slope, h)
