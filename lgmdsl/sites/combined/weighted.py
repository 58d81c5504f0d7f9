"""Sites with a weight: log t times `weight`, for any family.

Every answer of the base family is one of t^w: derivatives, expectations and slopes in parameters
are multiplied by w; t >= exp(b s - s^2 / (2 gamma) - h / 2) gives the width gamma / w, and an
auxiliary Gaussian w times its precision; the tilted mass is that of the power w. Moments, draws and
the distribution function of y are those of the family without the weight.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import (
    Augmented,
    AugmentedAnswer,
    ConjugateAnswer,
    Decoupled,
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    ParameterCurve,
    Pointwise,
    PointwiseAnswer,
    Radial,
    Sloped,
    Stretch,
    SuperGaussian,
    Tilted,
    TiltedAnswer,
    TiltedSlopes,
    Widths,
    WidthsAnswer,
)
from lgmdsl.contract.site import Site
from lgmdsl.sites.combined.combined import CombinedSite, derived, spec_of


def times(weight: Array, value: Array) -> Array:
    """weight (N,) times an array whose first axis is that of the sites; 0 where the weight is, even
    of what is not finite."""
    more = max(np.ndim(value) - np.ndim(weight), 0)
    each = weight.reshape(*np.shape(weight), *(1,) * more)
    with np.errstate(invalid="ignore"):
        return np.where(each == 0.0, 0.0, each * value)


class WeightedSite(CombinedSite):
    """t^weight."""

    weight: Array

    def contrasts(self, predictors: int) -> Array | None:
        return self.plain.contrasts(predictors)

    def log_density(self, s: Array) -> Array:
        value = self.plain.log_density(s)
        return np.where(self.weight > 0.0, self.weight * value, 0.0)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        slopes = self.plain.parameter_slopes(s)
        out = {n: times(self.weight, v) for n, v in slopes.items() if n not in self.spec.shared}
        for name in self.spec.shared:  # sums over the sites
            out[name] = self._summed(
                slopes[name], lambda site, rows, name=name: site.parameter_slopes(s[rows])[name]
            )
        return out

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        curves = self.plain.parameter_curves(s)
        return {
            name: ParameterCurve(*(times(self.weight, part) for part in curve))
            for name, curve in curves.items()
        }

    def moved_slopes(self, s: Array, variance: Array, move: Array) -> dict[str, Array]:
        return {
            name: self._summed(
                getattr(self, name),
                lambda site, rows, name=name: site.moved_slopes(
                    s[rows], variance[rows], move[rows]
                )[name],
            )
            for name in self.spec.shared
        }

    def distribution(self, s: Array) -> tuple[Array, Array]:
        return self.plain.distribution(s)

    def _summed(self, like: Array, each: Any) -> Array:
        """The sum over the sites, those of equal weights together."""
        total = np.zeros(np.shape(like))
        for weight, rows in self._groups():
            total += weight * each(self.plain.take(rows), rows)
        return total

    def _groups(self) -> Iterator[tuple[float, IntArray]]:
        values, which = np.unique(self.weight, return_inverse=True)
        for k, value in enumerate(values):
            yield float(value), np.flatnonzero(which == k)

    @property
    def log_scales(self) -> tuple[int, ...]:
        return self.plain.log_scales

    @property
    def places(self) -> tuple[Array, ...]:
        return self.plain.places

    def measured(self, origin: Array, unit: float) -> tuple[Any, float]:
        plain, _ = self.plain.measured(origin, unit)
        values: dict[str, Any] = {
            f.name: getattr(plain, f.name) for f in dataclasses.fields(self.base)
        }
        densities = float(self.weight[~self.censored].sum())
        return dataclasses.replace(self, **values), -densities * math.log(unit)


class _Pointwise(Pointwise):
    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        site = cast(WeightedSite, self)
        a = cast(Pointwise, site.plain).pointwise(s, variance)
        parts = (a.value, a.slope, a.curvature, a.third)
        return PointwiseAnswer(*(times(site.weight, part) for part in parts))


class _Sloped(Sloped):
    def sloped(self, s: Array) -> tuple[Array, Array]:
        site = cast(WeightedSite, self)
        value, slope = cast(Sloped, site.plain).sloped(s)
        return site.weight * value, site.weight[:, None] * slope


class _Expected(Expected):
    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        site = cast(WeightedSite, self)
        return weighted_expected(
            site.weight, cast(Expected, site.plain).expected(mean, variance, second)
        )


class _ExpectedSlopes(ExpectedSlopes):
    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        site = cast(WeightedSite, self)
        slopes = cast(ExpectedSlopes, site.plain).expected_slopes(mean, variance)
        return {name: times(site.weight, slope) for name, slope in slopes.items()}


class _Decoupled(Decoupled):
    def conjugate(
        self, slope: Array, pull: Array, penalty: Array, centre: Array
    ) -> ConjugateAnswer:
        site = cast(WeightedSite, self)
        w = site.weight
        a = cast(Decoupled, site.plain).conjugate(slope / w, pull / w, penalty / w, centre)
        return ConjugateAnswer(a.h, a.sigma, w * a.value)


class _Tilted(Tilted):
    """Tilted moments for base families whose closed form takes a power of each row
    (`Tilted.powers`)."""

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        site = cast(WeightedSite, self)
        each: Any = power * site.weight
        return cast(Tilted, site.plain).tilted(mean, variance, each)


class _TiltedSlopes(TiltedSlopes):
    def tilted_slopes(self, mean: Array, variance: Array, power: float = 1.0) -> dict[str, Array]:
        site = cast(WeightedSite, self)
        each: Any = power * site.weight
        slopes = cast(TiltedSlopes, site.plain).tilted_slopes(mean, variance, each)
        return {name: site.weight * slope for name, slope in slopes.items()}


class _Widths(Widths):
    def widths(self, s: Array, z: Array) -> WidthsAnswer:
        site = cast(WeightedSite, self)
        a, w = cast(Widths, site.plain).widths(s, z), site.weight
        penalty, slope, curvature = (times(w, part) for part in (a.penalty, a.slope, a.curvature))
        return WidthsAnswer(penalty, slope, curvature, a.width / w, w * a.h, times(w, a.shift))

    def width_slopes(self, s: Array, z: Array) -> dict[str, Array]:
        site = cast(WeightedSite, self)
        slopes = cast(Widths, site.plain).width_slopes(s, z)
        return {name: site.weight * slope for name, slope in slopes.items()}


class _SuperGaussian(_Widths, SuperGaussian):
    @property
    def beta(self) -> Array:
        site = cast(WeightedSite, self)
        return site.weight * cast(SuperGaussian, site.plain).beta

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        site = cast(WeightedSite, self)
        g, g1, g2 = cast(SuperGaussian, site.plain).g(x)
        return site.weight * g, site.weight * g1, site.weight * g2


class _Radial(_SuperGaussian, Radial):
    """Norms: a weight for each group."""


class _Augmented(Augmented):
    def weights(self, mean: Array, variance: Array) -> AugmentedAnswer:
        site = cast(WeightedSite, self)
        a, w = cast(Augmented, site.plain).weights(mean, variance), site.weight
        stretch = None
        if a.stretch is not None:
            parts = (a.stretch.pull, a.stretch.count, a.stretch.slope, a.stretch.square)
            stretch = Stretch(*(w * part for part in parts))
        return AugmentedAnswer(w * a.precision, w * a.shift, w * a.correction, stretch)

    def weight_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        site = cast(WeightedSite, self)
        slopes = cast(Augmented, site.plain).weight_slopes(mean, variance)
        return {name: site.weight * slope for name, slope in slopes.items()}


def weighted_expected(weight: Array, a: ExpectedAnswer) -> ExpectedAnswer:
    """`weight` times an expectation and its derivatives."""
    first = (times(weight, part) for part in (a.value, a.d_mean, a.d_variance))
    second = (a.d_mean_variance, a.d_variance2, a.d_mean2)
    return ExpectedAnswer(*first, *(None if p is None else times(weight, p) for p in second))


# Each question that is answered from the base's answer, the narrower ones first.
_PARTS: tuple[tuple[type, type], ...] = (
    (Pointwise, _Pointwise),
    (Sloped, _Sloped),
    (Expected, _Expected),
    (ExpectedSlopes, _ExpectedSlopes),
    (Decoupled, _Decoupled),
    (Radial, _Radial),
    (SuperGaussian, _SuperGaussian),
    (Widths, _Widths),
    (Augmented, _Augmented),
)
_OF_POWERS: tuple[tuple[type, type], ...] = ((Tilted, _Tilted), (TiltedSlopes, _TiltedSlopes))


@cache
def weighted(base: type[Site]) -> type[Site]:
    """The family of t^weight: sites of `base` with one more parameter, `weight`.

    It answers what the base answers, Tilted only where the base's closed form takes a power of each
    row; quadrature lifts it to the rest.
    """
    parts = [part for question, part in _PARTS if issubclass(base, question)]
    if issubclass(base, Radial):
        parts.remove(_SuperGaussian)
    if issubclass(base, SuperGaussian):
        parts.remove(_Widths)
    if issubclass(base, Tilted) and base.powers:
        parts += [part for question, part in _OF_POWERS if issubclass(base, question)]
    spec = spec_of(base, "weighted", {"weight": 1.0})
    more = {"guessed": base.guessed}
    return derived(weighted, base, (WeightedSite, *parts), spec, ("weight",), more)
