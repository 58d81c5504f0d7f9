"""The censored families: NAME.censored for each that takes `event`, `lower` and `upper`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.sites.censored.censored import ARGUMENTS, ENDS, CensoredSite
from lgmdsl.sites.censored.formulas import CensoredFormula
from lgmdsl.sites.censored.growing import expected_of_growing
from lgmdsl.sites.formula import Jets
from lgmdsl.sites.laws.gumbel import GumbelLaw
from lgmdsl.sites.laws.law import Law, Mass
from lgmdsl.sites.laws.log_gamma import LogGammaLaw
from lgmdsl.sites.laws.normal import NormalLaw
from lgmdsl.sites.laws.student import StudentLaw
from lgmdsl.sites.positive.gamma_tails import log_tail
from lgmdsl.sites.scalar.exponential_rate import GammaLogMean
from lgmdsl.sites.scalar.lognormal import LognormalMean
from lgmdsl.sites.scalar.normal import NormalMean
from lgmdsl.sites.scalar.student_t import StudentTMean
from lgmdsl.sites.scalar.survival import ExponentialLogRate, WeibullLogScale

_BOUNDED = Property.BOUNDED
_CONCAVE = Property.LOG_CONCAVE | Property.BOUNDED
# The law of log y given y > entry is an exponential family in s, or of proportional hazards.
_LATE = _CONCAVE | Property.LATE_CONCAVE


def censored_spec(family: type[Site], properties: Property) -> SiteSpec:
    """Specification of `family` with `event`, `lower` and `upper`; both ends are places if y is."""
    plain = family.spec
    places = (*plain.places, *ENDS) if plain.places else ()
    parameters = tuple(n for n in plain.parameters if n not in ARGUMENTS)
    return SiteSpec(
        f"{plain.name}.censored",
        signature=plain.signature,
        takes=(*parameters, *ARGUMENTS),
        properties=properties,
        link=plain.link,
        summary=f"{plain.family}, known up to an interval in some rows",
        places=places,
        scales=plain.scales,
    )


@dataclass(frozen=True, eq=False)
class NormalCensored(CensoredFormula):
    """y ~ N(s, sd^2), censored. Log-concave, as the mass of an interval is (Prekopa)."""

    y: Array
    sd: Array
    event: Array
    lower: Array
    upper: Array
    family: ClassVar[type[Site]] = NormalMean
    spec: ClassVar[SiteSpec] = censored_spec(NormalMean, _CONCAVE)

    @property
    def spread(self) -> Array:
        return self.sd

    def spread_jet(self, p: Jets) -> Jet:
        return p["sd"]

    def law(self) -> Law:
        return NormalLaw()

    def interval_slopes(self, s: Array, mass: Mass, by_spread: Array) -> dict[str, Array]:
        return {"sd": by_spread}


@dataclass(frozen=True, eq=False)
class LognormalCensored(NormalCensored):
    """log y ~ N(s, sd^2), censored."""

    family: ClassVar[type[Site]] = LognormalMean
    positive: ClassVar[bool] = True
    spec: ClassVar[SiteSpec] = censored_spec(LognormalMean, _LATE)


@dataclass(frozen=True, eq=False)
class StudentTCensored(CensoredFormula):
    """y = s + scale t_df, censored."""

    y: Array
    scale: Array
    df: Array
    event: Array
    lower: Array
    upper: Array
    family: ClassVar[type[Site]] = StudentTMean
    spec: ClassVar[SiteSpec] = censored_spec(StudentTMean, _BOUNDED)

    @property
    def spread(self) -> Array:
        return self.scale

    def spread_jet(self, p: Jets) -> Jet:
        return p["scale"]

    def law(self) -> Law:
        return StudentLaw(self.df)

    def interval_slopes(self, s: Array, mass: Mass, by_spread: Array) -> dict[str, Array]:
        return {"scale": by_spread, "df": self.differences(s, "df")}


class GrowingCensored(CensoredSite, Expected):
    """log P(Y > y) falls like an exponential of s, whose expectation is in closed form."""

    positive: ClassVar[bool] = True

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        return expected_of_growing(self, mean, variance, second)


@dataclass(frozen=True, eq=False)
class GammaCensored(CensoredFormula, GrowingCensored):
    """y ~ Gamma(shape, mean e^s), censored."""

    y: Array
    shape: Array
    event: Array
    lower: Array
    upper: Array
    family: ClassVar[type[Site]] = GammaLogMean
    spec: ClassVar[SiteSpec] = censored_spec(GammaLogMean, _CONCAVE)

    @property
    def spread(self) -> Array:
        return np.ones_like(self.y)

    def log_tail(self, u: Array, s: Jet, p: Jets, upper: bool) -> Jet:
        """In Prentice's terms: (log y - s) / q with q = shape^(-1/2)."""
        q = jets.power(p["shape"], -0.5)
        return log_tail((u - s) / q, q, upper)

    def log_density_at(self, u: Array, s: Jet, p: Jets) -> Jet:
        x, k = u - s, p["shape"]
        return k * (jets.log(k) + x - jets.exp(x)) - jets.gammaln(k)

    def law(self) -> Law:
        return LogGammaLaw(self.shape)

    def interval_slopes(self, s: Array, mass: Mass, by_spread: Array) -> dict[str, Array]:
        return {"shape": self.differences(s, "shape")}


@dataclass(frozen=True, eq=False)
class WeibullCensored(CensoredFormula, GrowingCensored):
    """P(Y > y | s) = exp(-(y / e^s)^shape), censored."""

    y: Array
    shape: Array
    event: Array
    lower: Array
    upper: Array
    family: ClassVar[type[Site]] = WeibullLogScale
    infinite_in: ClassVar[frozenset[str]] = WeibullLogScale.infinite_in
    spec: ClassVar[SiteSpec] = censored_spec(WeibullLogScale, _LATE)

    @property
    def spread(self) -> Array:
        return np.asarray(1.0 / self.shape)

    def spread_jet(self, p: Jets) -> Jet:
        return jets.reciprocal(p["shape"])

    def law(self) -> Law:
        return GumbelLaw()

    def interval_slopes(self, s: Array, mass: Mass, by_spread: Array) -> dict[str, Array]:
        return {"shape": -by_spread / self.shape**2}


@dataclass(frozen=True, eq=False)
class ExponentialCensored(GrowingCensored):
    """y ~ Exponential(rate e^s), censored."""

    y: Array
    event: Array
    lower: Array
    upper: Array
    family: ClassVar[type[Site]] = ExponentialLogRate
    direction: ClassVar[float] = -1.0
    spec: ClassVar[SiteSpec] = censored_spec(ExponentialLogRate, _LATE)

    @property
    def spread(self) -> Array:
        return np.ones_like(self.y)

    def law(self) -> Law:
        return GumbelLaw()

    def interval_slopes(self, s: Array, mass: Mass, by_spread: Array) -> dict[str, Array]:
        return {}
