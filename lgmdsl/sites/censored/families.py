"""The censored families: NAME.censored for each that takes `event`, `lower` and `upper`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.expectations.expectation import expectations
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.censored.censored import ARGUMENTS, ENDS, CensoredSite
from lgmdsl.sites.formula import Formula, Jets
from lgmdsl.sites.laws import GumbelLaw, Law, Mass, NormalLaw, StudentLaw
from lgmdsl.sites.positive.gamma_tails import LogGammaLaw, log_tail
from lgmdsl.sites.scalar.exponential_rate import GammaLogMean
from lgmdsl.sites.scalar.normal import LognormalMean, NormalMean
from lgmdsl.sites.scalar.student_t import StudentTMean
from lgmdsl.sites.scalar.survival import ExponentialLogRate, WeibullLogScale

# ---- formulas ----------------------------------------------------------------------------------
# Log densities of censored rows in jets: what predictors for their parameters take derivatives of.
#
# One end is a tail of the law; an interval the difference of two tails, on the side where they are
# less, or where it is narrow the integral of the density (Gauss-Legendre), which does not cancel.


_NARROW = -1.0  # the log of the ratio of two tails above which an interval is narrow
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


class CensoredFormula(CensoredSite, Formula):
    """u = direction s + spread X, X of the site's law, with `spread` a jet of the parameters."""

    def spread_jet(self, p: Jets) -> Jet:
        """The scale of X."""
        return jets.constant(self.spread, next(iter(p.values())).order)

    def log_tail(self, u: Array, s: Jet, p: Jets, upper: bool) -> Jet:
        """log P(U > u), or log P(U <= u)."""
        z, law = (u - self.direction * s) / self.spread_jet(p), self.law()
        if not upper:
            return z.compose(*law.below(z.value).parts)
        growth = law.growth(z.value)
        return z.compose(*(part - growth for part in law.above(z.value).parts))

    def log_density_at(self, u: Array, s: Jet, p: Jets) -> Jet:
        """The log density of U at u."""
        spread = self.spread_jet(p)
        z = (u - self.direction * s) / spread
        return z.compose(*self.law().density(z.value).parts) - jets.log(spread)

    def formula(self, s: Jet, p: Jets) -> Jet:
        out = cast(Formula, self.plain).formula(s, p)
        hidden = np.asarray(self.censored, dtype=np.bool_)
        if not hidden.any():
            return out
        low, high = self.ends
        below, above = np.isfinite(low), np.isfinite(high)
        a, b = np.where(below, low, 0.0), np.where(above, high, 0.0)
        out = jets.where(hidden & ~below & ~above, jets.constant(np.zeros(()), s.order), out)
        between = hidden & below & above
        if (hidden & below).any():
            up = self.log_tail(a, s, p, True)
            out = jets.where(hidden & below & ~above, up, out)
        if (hidden & above).any():
            down = self.log_tail(b, s, p, False)
            out = jets.where(hidden & above & ~below, down, out)
        if not between.any():
            return out
        upper = up.value < down.value
        rest = (self.log_tail(b, s, p, True) - up, self.log_tail(a, s, p, False) - down)
        narrow = ~(np.where(upper, rest[0].value, rest[1].value) < _NARROW)
        for one, whole, part in ((upper, up, rest[0]), (~upper, down, rest[1])):
            fall = jets.where(between & one & ~narrow, part, jets.constant(-1.0, s.order))
            out = jets.where(between & one & ~narrow, whole + jets.log1mexp(fall), out)
        if (between & narrow).any():
            out = jets.where(between & narrow, self._integrated(a, b, s, p), out)
        return out

    def _integrated(self, low: Array, high: Array, s: Jet, p: Jets) -> Jet:
        half = 0.5 * np.maximum(high - low, 0.0)
        total: Jet | None = None
        with np.errstate(divide="ignore"):
            width = np.log(half)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            part = self.log_density_at(low + half * (node + 1.0), s, p) + np.log(weight)
            total = part if total is None else jets.logaddexp(total, part)
        return cast(Jet, total) + width


# ---- families ----------------------------------------------------------------------------------

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


# ---- growing -----------------------------------------------------------------------------------
# E[l] of censored sites whose log survivor function falls like an exponential of s.
#
# l = r(s) - e^{(a - direction s) / scale + shift}: the exponential's expectation and derivatives
# are in closed form, as no quadrature could have them (its mass is sd / scale sds from the mean);
# what is left grows linearly at most, and is averaged by quadrature.


def expected_of_growing(
    site: CensoredSite, mean: Array, variance: Array, second: bool
) -> ExpectedAnswer:
    """f and its derivatives, (N,) each; rows observed exactly answer as their family does."""
    out = np.zeros((5, len(mean)))
    free, censored = site.rows
    if len(free):
        observed = cast(Expected, site.observed_rows)
        answer = observed.expected(mean[free], variance[free], second=True)
        assert answer.d_mean_variance is not None and answer.d_variance2 is not None
        out[:, free] = [
            answer.value,
            answer.d_mean,
            answer.d_variance,
            answer.d_mean_variance,
            answer.d_variance2,
        ]
    if len(censored):
        out[:, censored] = _censored(site.censored_rows, mean[censored], variance[censored])
    return ExpectedAnswer(out[0], out[1], out[2], *(out[3:] if second else ()))


def _censored(site: CensoredSite, mean: Array, variance: Array) -> Array:
    rate = -site.direction / site.spread
    sd = np.maximum(np.sqrt(variance), 1e-12 * np.maximum(1.0, np.abs(mean)))
    columns = _columns(site)

    def stacked(rows: IntArray, s: Array, t: Array) -> Array:
        some, by = columns.take(rows), rate[rows][:, None]
        value, first, second, third = some.masses(s).rest.parts
        last = 0.25 * by**3 * third * t / sd[rows][:, None]
        return np.stack([value, by * first, 0.5 * by**2 * second, 0.5 * by**3 * third, last])

    centre, scale = site.landmark()
    rest = expectations(stacked, mean, sd, centre, scale, checked=True)
    low = site.ends[0]
    open_ = np.isneginf(low)
    a = (np.where(open_, 0.0, low) - site.direction * mean) / site.spread
    log_growth = site.law().log_growth(a)
    assert log_growth is not None
    grown = np.where(open_, 0.0, capped_exp(log_growth + 0.5 * rate**2 * variance))
    factors = (1.0, rate, 0.5 * rate**2, 0.5 * rate**3, 0.25 * rate**4)
    return rest - np.stack([factor * grown for factor in factors])


def _columns(site: CensoredSite) -> CensoredSite:
    fields = {f.name: getattr(site, f.name)[:, None] for f in dataclasses.fields(site)}
    return dataclasses.replace(site, **fields)
