"""A bound of sites with weights: w times that of the family without them, E[w l] = w E[l]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from lgmdsl.arrays import Array
from lgmdsl.contract.bound import Bound, BoundSpec
from lgmdsl.contract.questions import Expected, ExpectedAnswer, ExpectedSlopes
from lgmdsl.contract.site import Site
from lgmdsl.sites.combined.weighted import WeightedSite, times, weighted_expected


@dataclass(frozen=True, eq=False)
class WeightedAnswer(Expected):
    """`weight` times what `inner` answers."""

    inner: Expected
    weight: Array

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        return weighted_expected(self.weight, self.inner.expected(mean, variance, second))


@dataclass(frozen=True, eq=False)
class WeightedSlopes(WeightedAnswer, ExpectedSlopes):
    """`weight` times what `inner` answers, and its slopes in the site's parameters."""

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        slopes = cast(ExpectedSlopes, self.inner).expected_slopes(mean, variance)
        return {name: times(self.weight, slope) for name, slope in slopes.items()}


@dataclass(frozen=True)
class WeightedBound(Bound):
    """`inner` of the family that is weighted."""

    inner: Bound

    @property
    def spec(self) -> BoundSpec:
        """Specification of `inner`: a bound stays one under a weight that is not negative."""
        return self.inner.spec

    def applies_to(self, site: type[Site]) -> str:
        if not issubclass(site, WeightedSite):
            return f"{site.spec.name} has no weights"
        return self.inner.applies_to(site.base)

    def lift(self, site: Site) -> WeightedAnswer:
        assert isinstance(site, WeightedSite)
        inner = cast(Expected, self.inner.lift(site.plain))
        made = WeightedSlopes if isinstance(inner, ExpectedSlopes) else WeightedAnswer
        return made(inner, site.weight)


def reaching(bound: Bound, site: type[Site]) -> Bound:
    """The bound as it takes a family: for sites with weights that it does not take itself, w times
    that of the family without them."""
    weights = issubclass(site, WeightedSite) and bound.spec.gives is Expected
    if not weights or not bound.applies_to(site):
        return bound
    return WeightedBound(bound)
