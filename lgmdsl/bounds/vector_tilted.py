"""The rule `quadrature` of vector sites for expectation propagation: moments of N(m, V) t^power."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.bound import Bound, BoundSpec
from lgmdsl.contract.questions import Pointwise, Tilted, TiltedAnswer, TiltedSlopes
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.sites.vector.tilted import slopes_by_lattice, tilted_by_lattice
from lgmdsl.vocabulary.notes import Notes

NOTES = Notes(
    formula="mass, mean and covariance of N(m, V) t(s)^power, over the directions of s in which t "
    "changes, by the trapezoidal rule about the peak, or by cells",
    support="smooth vector sites, third parties' too, whose parameters are not shared by all rows",
    advice="taken by itself; up to three predictors, or four classes",
    example="lgm fit classes.lgm classes.npz --method ep --bound quadrature",
    see_also=("ep", "tilted", "natural-gradient"),
)


@dataclass(frozen=True, eq=False)
class VectorMoments(Tilted):
    """Mass and moments of N(m, V) t^power by quadrature."""

    site: Site

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        return tilted_by_lattice(self.site, mean, variance, power)

    def take(self, rows: IntArray) -> VectorMoments:
        """The answer of some rows."""
        return VectorMoments(self.site.take(rows))


@dataclass(frozen=True, eq=False)
class VectorSlopes(TiltedSlopes):
    """Averages of dl/dparameter over N(m, V) t^power by quadrature."""

    site: Site

    def tilted_slopes(self, mean: Array, variance: Array, power: float = 1.0) -> dict[str, Array]:
        return slopes_by_lattice(self.site, mean, variance, power)


def _refusal(site: type[Site]) -> str:
    if not site.spec.vector:
        return f"{site.spec.name} has one predictor"
    if not issubclass(site, Pointwise):
        return f"{site.spec.name} gives no derivatives"
    if Property.KINKED in site.spec.properties:
        return f"{site.spec.name} has a kink: it must answer in closed form"
    if site.spec.shared:
        return (
            f"`{site.spec.shared[0]}` of {site.spec.name} is shared by all rows, and each would "
            "weigh it differently"
        )
    return ""


@dataclass(frozen=True)
class VectorTilted(Bound):
    """Moments of N(s; m, V) t(s)^power of K predictors."""

    spec: ClassVar[BoundSpec] = BoundSpec(
        "quadrature",
        asks=Pointwise,
        gives=Tilted,
        guarantee=Guarantee.NUMERICAL,
        error=1e-7,
        summary="tilted moments of up to three predictors, or four classes",
        notes=NOTES,
    )

    def applies_to(self, site: type[Site]) -> str:
        return _refusal(site)

    def lift(self, site: Site) -> VectorMoments:
        return VectorMoments(site)


@dataclass(frozen=True)
class VectorTiltedSlopes(Bound):
    """E[dl/dparameter] over N(s; m, V) t(s)^power, on the nodes of `VectorTilted`."""

    spec: ClassVar[BoundSpec] = BoundSpec(
        "quadrature",
        asks=Pointwise,
        gives=TiltedSlopes,
        guarantee=Guarantee.NUMERICAL,
        error=1e-7,
        summary="parameter slopes of vector sites under the tilted density",
        notes=NOTES,
    )

    def applies_to(self, site: type[Site]) -> str:
        return _refusal(site)

    def lift(self, site: Site) -> VectorSlopes:
        return VectorSlopes(site)
