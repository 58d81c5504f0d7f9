"""The bound `quadrature`: Expected and Tilted of any smooth scalar site, and their slopes in its
parameters, to 1e-9.

One class for each question it gives. All ask for Pointwise (with log_density, which every site
has), so a third-party site that answers nothing else runs with every back end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.bound import Bound, BoundSpec
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Pointwise,
    Tilted,
    TiltedAnswer,
    TiltedSlopes,
)
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.sites.quadrature import (
    NodeSites,
    expected_by_quadrature,
    slopes_by_quadrature,
    tilted_by_quadrature,
)
from lgmdsl.state import FieldState
from lgmdsl.vocabulary.notes import Notes


@dataclass(frozen=True, eq=False)
class QuadratureExpected(FieldState, Expected, ExpectedSlopes):
    """E_{N(m, v)}[l] by quadrature, and E[dl/dparameter]."""

    site: Site

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        return expected_by_quadrature(self.site, mean, variance, second, self.nodes)

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return slopes_by_quadrature(self.site, mean, variance, 0.0)

    @cached_property
    def nodes(self) -> NodeSites:
        """The site at nodes, for all questions."""
        return NodeSites(self.site)

    def take(self, rows: IntArray) -> QuadratureExpected:
        """The answer of some rows."""
        return QuadratureExpected(self.site.take(rows))


@dataclass(frozen=True, eq=False)
class QuadratureTilted(Tilted):
    """Mass and moments of N(m, v) t^power by quadrature."""

    site: Site

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        return tilted_by_quadrature(self.site, mean, variance, power)

    def take(self, rows: IntArray) -> QuadratureTilted:
        """The answer of some rows."""
        return QuadratureTilted(self.site.take(rows))


@dataclass(frozen=True, eq=False)
class QuadratureSlopes(TiltedSlopes):
    """Averages of dl/dparameter over N(m, v) t^power by quadrature."""

    site: Site

    def tilted_slopes(self, mean: Array, variance: Array, power: float = 1.0) -> dict[str, Array]:
        return slopes_by_quadrature(self.site, mean, variance, power)


def _endless(site: type[Site]) -> str:
    """Why expectations of a log density do not exist, where they do not."""
    if Property.LIMITED in site.spec.properties:
        return (
            f"the support of y under {site.spec.name} depends on the predictor, so that the "
            "expectation of its log density is -inf under every Gaussian: use laplace or ep"
        )
    return ""


def _jumping(site: type[Site]) -> str:
    """Why the rule does not average a curvature."""
    if Property.CORNERED in site.spec.properties:
        return f"the curvature of {site.spec.name} jumps, and the rule is for smooth sites"
    return ""


def _refusal(site: type[Site]) -> str:
    if site.spec.vector:
        return f"{site.spec.name} is a vector site: quadrature is one-dimensional"
    if not issubclass(site, Pointwise):
        return f"{site.spec.name} gives no derivatives"
    if Property.KINKED in site.spec.properties:
        return f"{site.spec.name} has a kink: it must answer in closed form"
    return ""


@dataclass(frozen=True)
class ExpectedByQuadrature(Bound):
    """f(m, v) = E[l(s)] on a sinh grid of 25 to 100 nodes."""

    spec: ClassVar[BoundSpec] = BoundSpec(
        "quadrature",
        asks=Pointwise,
        gives=Expected,
        guarantee=Guarantee.NUMERICAL,
        error=1e-9,
        summary="Gaussian expectations by quadrature",
        notes=Notes(
            formula="E[log t(s)] under N(m, v), by a trapezoidal rule stretched about the place "
            "where the site bends",
            support="smooth scalar sites, third parties' too",
            advice="taken by itself where a site has no closed form; no gap, to the error that is "
            "stated",
            example="lgm fit logit.lgm data.npz --method natural-gradient --bound quadrature",
            see_also=("jaakkola", "tilted", "natural-gradient", "ep"),
        ),
    )

    def applies_to(self, site: type[Site]) -> str:
        return _refusal(site) or _endless(site) or _jumping(site)

    def lift(self, site: Site) -> QuadratureExpected:
        return QuadratureExpected(site)


@dataclass(frozen=True)
class ExpectedSlopesByQuadrature(ExpectedByQuadrature):
    """E[dl/dparameter] over N(m, v), for families that answer Expected themselves."""

    spec: ClassVar[BoundSpec] = BoundSpec(
        "quadrature",
        asks=Pointwise,
        gives=ExpectedSlopes,
        guarantee=Guarantee.NUMERICAL,
        error=1e-9,
        summary="parameter slopes of expectations by quadrature",
        notes=Notes(
            formula="E[d log t(s) / dparameter] under N(m, v)",
            support="smooth scalar sites",
            advice="for gradients in hyperparameters",
            example="lgm fit logit.lgm data.npz --method natural-gradient --bound quadrature",
            see_also=("jaakkola", "tilted", "natural-gradient", "ep"),
        ),
    )


@dataclass(frozen=True)
class TiltedByQuadrature(Bound):
    """Moments of N(s; m, v) t(s)^power, scanned, shrunk, then trapezoid with a check."""

    spec: ClassVar[BoundSpec] = BoundSpec(
        "quadrature",
        asks=Pointwise,
        gives=Tilted,
        guarantee=Guarantee.NUMERICAL,
        error=1e-9,
        summary="tilted moments by quadrature",
        notes=Notes(
            formula="mass, mean and variance of N(m, v) t(s)^power",
            support="smooth scalar sites",
            advice="what ep asks of a site",
            example="lgm fit logit.lgm data.npz --method ep --bound quadrature",
            see_also=("jaakkola", "tilted", "natural-gradient", "ep"),
        ),
    )

    def applies_to(self, site: type[Site]) -> str:
        return _refusal(site)

    def lift(self, site: Site) -> QuadratureTilted:
        return QuadratureTilted(site)


@dataclass(frozen=True)
class SlopesByQuadrature(Bound):
    """E[dl/dparameter] over N(s; m, v) t(s)^power, on the nodes of `TiltedByQuadrature`."""

    spec: ClassVar[BoundSpec] = BoundSpec(
        "quadrature",
        asks=Pointwise,
        gives=TiltedSlopes,
        guarantee=Guarantee.NUMERICAL,
        error=1e-9,
        summary="parameter slopes under the tilted density by quadrature",
        notes=Notes(
            formula="averages of d log t(s) / dparameter over N(m, v) t(s)^power",
            support="smooth scalar sites",
            advice="for gradients of ep",
            example="lgm fit logit.lgm data.npz --method ep --bound quadrature",
            see_also=("jaakkola", "tilted", "natural-gradient", "ep"),
        ),
    )

    def applies_to(self, site: type[Site]) -> str:
        return _refusal(site)

    def lift(self, site: Site) -> QuadratureSlopes:
        return QuadratureSlopes(site)


# ---- series ------------------------------------------------------------------------------------
# Series of bounds: one for each number of pieces, made when its name is asked for.


@dataclass(frozen=True)
class BoundSeries:
    """Bounds called `stem-R` for R from `fewest` to `most`."""

    stem: str
    fewest: int
    most: int
    make: Callable[[int], Bound]

    def __str__(self) -> str:
        return f"{self.stem}-R (R from {self.fewest} to {self.most})"

    @property
    def middle(self) -> int:
        """The number of pieces of the example."""
        return self.most // 2

    @property
    def example(self) -> Bound:
        """One member: what it gives, and what it applies to, holds for all."""
        return self.make(self.middle)

    def member(self, name: str) -> Bound | None:
        """The bound of that name, None where the name is not of this series."""
        stem, _, size = name.rpartition("-")
        if stem != self.stem or not (size.isascii() and size.isdigit() and len(size) < 4):
            return None
        if str(int(size)) != size or not self.fewest <= int(size) <= self.most:
            return None
        return self.make(int(size))
