"""Sites whose only bend is an exponential: poisson.log_rate, gamma.log_mean, and others.

l = a + b s - c e^{k s} with k = +1 or -1, so f = a + b m - c exp(k m + v/2): d/dm, d/dv and the
second ones are the same exponential times k, 1/2, k/2, 1/4. Counts of 1e9 would cancel in it, so
about the mode s* = k log(k b / c), where there is one, with x = k (s - s*) and r = |b|:

    l = l(s*) + r (x - expm1 x),    f = l(s*) + r (x_m - expm1(x_m + v/2)),    f_m = -k r expm1(...)

which needs no large terms. Elsewhere l stays as it is.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from scipy import special

from lgmdsl.arrays import AnyArray, Array, BoolArray
from lgmdsl.contract.questions import (
    ConjugateAnswer,
    Decoupled,
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Lifetimes,
    ParameterCurve,
    PointwiseAnswer,
)
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets, stable
from lgmdsl.numerics.counts import log_peak
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.normal_tail import LOG_TWO_PI
from lgmdsl.numerics.stable import EXPONENT_CAP, capped_exp, of_counts, small_counts, stirling_error
from lgmdsl.sites.base import CountSite, ElementwiseSite
from lgmdsl.sites.formula import Formula, Jets
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_LARGEST_RATE = 9e18  # numpy draws Poisson counts as 64-bit integers
_OWN = np.zeros(0, dtype=np.uint8)
_SMALLEST = -745.0  # the log of the smallest double


class ExponentialSite(ElementwiseSite, Expected, ExpectedSlopes, Decoupled):
    """l = constant + linear s - factor e^{sign s}."""

    sign: ClassVar[float]

    @property
    @abstractmethod
    def constant(self) -> Array: ...

    @property
    @abstractmethod
    def linear(self) -> Array: ...

    @property
    @abstractmethod
    def factor(self) -> Array: ...

    @cached_property
    def peaked(self) -> BoolArray:
        """Where l has a mode."""
        return np.asarray((self.sign * self.linear > 0.0) & (self.factor > 0.0))

    @cached_property
    def centre(self) -> Array:
        """s* = k log(k b / c), 0 where there is none."""
        rate = np.where(self.peaked, np.abs(self.linear), 1.0)
        return np.where(self.peaked, self.sign * (np.log(rate) - self.log_factor), 0.0)

    @cached_property
    def peak(self) -> Array:
        """l(s*); families whose terms cancel there write it otherwise."""
        return np.asarray(self.constant + self.linear * self.centre - np.abs(self.linear))

    @cached_property
    def about(self) -> tuple[Array, Array, Array, Array]:
        """The exponential r, l and l' less what varies, and the largest exponent next to r."""
        rate = np.where(self.peaked, np.abs(self.linear), self.factor)
        level = np.where(self.peaked, self.peak, self.constant)
        slope = np.where(self.peaked, 0.0, self.linear)
        return rate, level, slope, EXPONENT_CAP - np.log(np.maximum(rate, 1e-130))

    def _around(self, s: Array, more: Array | float = 0.0) -> tuple[Array, Array]:
        """l and l' with e^{k s + more} for the exponential."""
        rate, level, slope, most = self.about
        away = s - self.centre
        exponent = np.minimum(self.sign * away + more, most)
        if self.peaked.all():
            varying = rate * np.expm1(exponent)
        else:
            varying = rate * np.where(self.peaked, np.expm1(exponent), np.exp(exponent))
        return level + self.linear * away - varying, slope - self.sign * varying

    @property
    def _kinds(self) -> tuple[Self, AnyArray]:
        """Sites of which each row is one, and which of them it is; empty: each is its own."""
        return self, _OWN

    @cached_property
    def _tables(self) -> tuple[AnyArray, tuple[Array, Array, Array, Array, Array, Array, Array]]:
        """Arguments of `exponential_kernels.bent`."""
        kinds, which = self._kinds
        rate, level, flat, most = kinds.about
        linear, peaked = np.ascontiguousarray(kinds.linear), kinds.peaked.astype(np.float64)
        return which, (kinds.centre, rate, level, linear, flat, most, peaked)

    def _many(self, s: Array) -> bool:
        return s.ndim == 1 and s.size == len(self) >= stable.COMPILED_FROM

    def _bent(self, s: Array, more: Array | float = 0.0) -> tuple[Array, Array, Array]:
        """l, l' and the exponential, with e^{k s + more}."""
        if not self._many(s):
            return *self._around(s, more), capped_exp(self.log_factor + self.sign * s + more)
        from lgmdsl.sites.scalar.exponential_kernels import bent

        which, tables = self._tables
        added = np.atleast_1d(np.asarray(more, dtype=np.float64))
        value, slope, exponential = np.empty((3, s.size))
        bent(s, added, which, tables, self.sign, (value, slope, exponential))
        return value, slope, exponential

    @cached_property
    def log_factor(self) -> Array:
        """log c, -inf for 0. Joined to the exponent, so that the cap is on c e^s, not on e^s."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.factor))

    def log_density(self, s: Array) -> Array:
        return self._bent(s)[0] if self._many(s) else self._around(s)[0]

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        value, slope, bend = self._bent(s)
        return PointwiseAnswer(
            value=value,
            slope=slope,
            curvature=-bend,
            third=-self.sign * bend * variance,
        )

    def landmark(self) -> tuple[Array, Array]:
        # Where the exponential balances the linear part, if it ever does. For Tilted only:
        # Expected is in closed form here, as l grows like e^s.
        balance = np.log(np.abs(self.linear) + 0.5) - np.maximum(self.log_factor, _SMALLEST)
        return np.asarray(self.sign * balance), np.full(np.shape(balance), 0.5 * np.pi)

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        value, slope, bend = self._bent(mean, 0.5 * variance)
        return ExpectedAnswer(
            value=value,
            d_mean=slope,
            d_variance=-0.5 * bend,
            d_mean_variance=-0.5 * self.sign * bend if second else None,
            d_variance2=-0.25 * bend if second else None,
        )

    def conjugate(
        self, slope: Array, pull: Array, penalty: Array, centre: Array
    ) -> ConjugateAnswer:
        """The slope fixes the exponential e = c exp(k h + sigma^2 / 2) = k (b - slope), so that
        sigma (e + penalty) = pull + penalty centre (Khan 2014, (21), for every k and c)."""
        e = np.maximum(self.sign * (self.linear - slope), 0.0)
        sigma = (pull + penalty * centre) / (e + penalty)
        flat = self.factor == 0.0  # l is linear, and every h is as good
        with np.errstate(divide="ignore", invalid="ignore"):
            h = self.sign * (np.log(e) - self.log_factor - 0.5 * sigma * sigma)
        h = np.where(flat, 0.0, h)
        value = self.constant - e + pull * sigma - 0.5 * penalty * (sigma - centre) ** 2
        # At the edge of the slopes h is infinite, and (linear - slope) h = k e h tends to 0.
        value += np.where(e > 0.0, self.sign * e * h, 0.0)
        return ConjugateAnswer(h, sigma, value)


@dataclass(frozen=True, eq=False)
class PoissonLogRate(CountSite, ExponentialSite, Formula):
    """y ~ Poisson(exposure e^s): l = y (s + log exposure) - exposure e^s - log y!."""

    y: Array
    exposure: Array
    sign: ClassVar[float] = 1.0
    spec: ClassVar[SiteSpec] = SiteSpec(
        "poisson.log_rate",
        signature=declared("family", "poisson"),
        takes=("exposure",),
        properties=Property.LOG_CONCAVE | Property.BOUNDED | Property.NATURAL,
        link="log",
    )

    @cached_property
    def constant(self) -> Array:
        return np.asarray(special.xlogy(self.y, self.exposure) - self.log_factorial)

    @property
    def _kinds(self) -> tuple[Self, AnyArray]:
        whole = small_counts(self.y)
        if whole is None or not (self.exposure == self.exposure[0]).all():
            return self, _OWN
        counts = np.arange(int(whole.max()) + 1.0)
        return replace(self, y=counts, exposure=np.full(len(counts), self.exposure[0])), whole

    def formula(self, s: Jet, p: Jets) -> Jet:
        x = s + jets.log(p["exposure"])
        return self.y * x - jets.exp(x) - self.log_factorial

    @cached_property
    def peak(self) -> Array:
        """y log y - y - log y!."""
        return of_counts(log_peak, self.y)

    @property
    def linear(self) -> Array:
        return self.y

    @property
    def factor(self) -> Array:
        return self.exposure

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {"exposure": self.y / self.exposure - capped_exp(s)}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        rate = capped_exp(s)
        return {"exposure": ParameterCurve(self.y / self.exposure - rate, -rate, -rate)}

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.parameter_slopes(mean + 0.5 * variance)

    def conditional_mean(self, s: Array) -> Array:
        """exposure e^s."""
        return capped_exp(self.log_factor + s)

    def conditional_variance(self, s: Array) -> Array:
        """exposure e^s."""
        return self.conditional_mean(s)

    def sample(self, s: Array, rng: Generator) -> Array:
        mean = np.minimum(self.conditional_mean(s), _LARGEST_RATE)
        return rng.poisson(mean).astype(np.float64)

    def cdf(self, s: Array) -> Array:
        inside = special.gammaincc(np.maximum(self.y, 0.0) + 1.0, self.conditional_mean(s))
        return np.where(self.y < 0.0, 0.0, inside)


@dataclass(frozen=True, eq=False)
class GammaLogMean(ExponentialSite, Formula, Lifetimes):
    """y ~ Gamma(shape, mean e^s): l = shape log(shape / e^s) + (shape - 1) log y - shape y e^-s -
    log Gamma(shape)."""

    y: Array
    shape: Array
    sign: ClassVar[float] = -1.0
    spec: ClassVar[SiteSpec] = SiteSpec(
        "gamma.log_mean",
        signature=declared("family", "gamma"),
        takes=("shape",),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="log",
    )

    @cached_property
    def constant(self) -> Array:
        k = self.shape
        return np.asarray(k * np.log(k) + (k - 1.0) * np.log(self.y) - special.gammaln(k))

    @cached_property
    def peak(self) -> Array:
        """shape log shape - shape - log Gamma(shape) - log y."""
        k = self.shape
        return np.asarray(0.5 * np.log(k / (2.0 * np.pi)) - stirling_error(k) - np.log(self.y))

    def formula(self, s: Jet, p: Jets) -> Jet:
        log_y = np.log(self.y)
        ratio, k = log_y - s, p["shape"]
        l: Jet = k * (ratio - jets.expm1(ratio)) + jets.log_gamma_excess(k) - log_y
        return l

    @property
    def linear(self) -> Array:
        return -self.shape

    @property
    def factor(self) -> Array:
        return self.shape * self.y

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        constant = np.log(self.shape) + 1.0 + np.log(self.y) - special.digamma(self.shape)
        return {"shape": constant - s - self.y * capped_exp(-s)}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        ratio, slope = self.y * capped_exp(-s), self.parameter_slopes(s)["shape"]
        return {"shape": ParameterCurve(slope, ratio - 1.0, -ratio)}

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        half = 0.5 * variance
        return {"shape": self.parameter_slopes(mean - half)["shape"] - half}

    def conditional_mean(self, s: Array) -> Array:
        """e^s."""
        return capped_exp(s)

    def conditional_variance(self, s: Array) -> Array:
        """e^2s / shape."""
        return np.asarray(capped_exp(s) ** 2 / self.shape)

    def sample(self, s: Array, rng: Generator) -> Array:
        return np.asarray(rng.gamma(self.shape, capped_exp(s) / self.shape))

    def log_survival_at(self, s: Array) -> Array:
        with np.errstate(divide="ignore"):
            beyond = special.gammaincc(self.shape, capped_exp(self.log_factor - s))
            return np.asarray(np.log(beyond))

    def cdf(self, s: Array) -> Array:
        return np.asarray(special.gammainc(self.shape, capped_exp(self.log_factor - s)))


# ---- log variance ------------------------------------------------------------------------------
# normal.log_var: y of a known mean and a modelled log-variance (stochastic volatility).


@dataclass(frozen=True, eq=False)
class NormalLogVar(ExponentialSite):
    """y ~ N(mean, e^s): l = -1/2 log 2 pi - s/2 - (y - mean)^2 e^-s / 2 (stochastic volatility)."""

    y: Array
    mean: Array
    sign: ClassVar[float] = -1.0
    spec: ClassVar[SiteSpec] = SiteSpec(
        "normal.log_var",
        signature=declared("family", "normal"),
        takes=("mean",),
        properties=Property.LOG_CONCAVE,
        link="log",
    )

    @property
    def constant(self) -> Array:
        return np.full_like(self.y, -0.5 * LOG_TWO_PI)

    @property
    def linear(self) -> Array:
        return np.full_like(self.y, -0.5)

    @property
    def factor(self) -> Array:
        return np.asarray(0.5 * (self.y - self.mean) ** 2)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {"mean": (self.y - self.mean) * capped_exp(-s)}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        pull = self.parameter_slopes(s)["mean"]
        return {"mean": ParameterCurve(pull, -pull, pull)}

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.parameter_slopes(mean - 0.5 * variance)

    def conditional_mean(self, s: Array) -> Array:
        """The mean, whatever s."""
        return np.asarray(self.mean + 0.0 * s)

    def conditional_variance(self, s: Array) -> Array:
        """e^s."""
        return capped_exp(s)

    def sample(self, s: Array, rng: Generator) -> Array:
        return np.asarray(self.mean + capped_exp(0.5 * s) * rng.standard_normal(np.shape(s)))

    def cdf(self, s: Array) -> Array:
        return np.asarray(special.ndtr((self.y - self.mean) * capped_exp(-0.5 * s)))
