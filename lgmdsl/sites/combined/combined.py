"""Families made from other families: a factory for each way, and how such classes are pickled.

A derived family is made once from a base family (`functools.cache` of its factory) and named after
it, `poisson.log_rate.truncated`. Its fields are those of the base and what the combination adds.
No catalogue lists it: the compiler makes it from the arguments that a model gives.
"""

from __future__ import annotations

import copyreg
import dataclasses
from abc import ABCMeta
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import ParameterCurve, Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Site, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.sites.formula import Formula, Jets

Factory = Callable[[type[Site]], type[Site]]


class Combined(ABCMeta):
    """The class of derived families: pickled as the factory and the base that made them."""

    recipe: tuple[Callable[..., Any], tuple[type[Site]]]


def _recipe(cls: Combined) -> str | tuple[Callable[..., Any], tuple[Any, ...]]:
    return cls.recipe if "recipe" in vars(cls) else cls.__qualname__


copyreg.pickle(Combined, _recipe)


class CombinedSite(Site, metaclass=Combined):
    """Sites made from those of `base`; its fields are the base's, then what is added."""

    base: ClassVar[type[Site]]

    @classmethod
    def never(cls, question: type) -> str:
        return cls.base.never(question)

    @cached_property
    def plain(self) -> Site:
        """The sites of the base family, without what was added."""
        return self.base(**self.base_fields())

    def base_fields(self) -> dict[str, Any]:
        """What `plain` is made of."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self.base)}

    @property
    def evaluations(self) -> int:
        return self.plain.evaluations

    def reason(self, row: int) -> str:
        return self.plain.reason(row)

    def landmark(self) -> tuple[Array, Array] | None:
        return self.plain.landmark()

    @property
    def censored(self) -> BoolArray:
        return self.plain.censored

    def conditional_mean(self, s: Array) -> Array:
        return self.plain.conditional_mean(s)

    def conditional_variance(self, s: Array) -> Array:
        return self.plain.conditional_variance(s)

    def sample(self, s: Array, rng: np.random.Generator) -> Array:
        return self.plain.sample(s, rng)

    def cdf(self, s: Array) -> Array:
        return self.plain.cdf(s)

    def endless(self, s: Array) -> Array:
        return self.plain.endless(s)


def derived(
    factory: Factory,
    base: type[Site],
    parts: Sequence[type],
    spec: SiteSpec,
    added: Sequence[str],
    more: Mapping[str, object],
) -> type[Site]:
    """The class of sites with the fields of `base` and those `added`, made of `parts`."""
    fields = [(f.name, Array) for f in dataclasses.fields(base)]
    fields += [(name, Array) for name in added]
    words = spec.name.replace(".", " ").replace("_", " ").title().replace(" ", "")
    namespace = {
        "base": base,
        "spec": spec,
        "broadcasts": base.broadcasts,
        "infinite_in": infinite_in(base),
        "recipe": (factory, (base,)),
        "__module__": __name__,
        "__doc__": spec.summary,
        **more,
    }
    if base.cdf is Site.cdf:  # a family need not have one
        namespace |= {"cdf": Site.cdf, "distribution": Site.distribution}
    made = dataclasses.make_dataclass(
        words, fields, bases=tuple(parts), namespace=namespace, frozen=True, eq=False
    )
    return cast("type[Site]", made)


def infinite_in(base: type[Site]) -> frozenset[str]:
    """`Formula.infinite_in` of a family, none where it has no formula."""
    return base.infinite_in if issubclass(base, Formula) else frozenset()


def spec_of(
    base: type[Site], suffix: str, added: Mapping[str, float | None], **more: Any
) -> SiteSpec:
    """Specification of a family with further parameters, `added`."""
    spec = base.spec
    return dataclasses.replace(
        spec,
        name=f"{spec.name}.{suffix}",
        parameters={**spec.parameters, **added},
        takes=(),
        rewrite="",
        centred="",
        **more,
    )


# ---- formulas ----------------------------------------------------------------------------------
# Formulas, in jets, of families whose zeros are changed: what predictors for their parameters
# (`combined.predictors`) take derivatives of.
#
# The base family is expanded by its formula; one that gives none by its derivatives, as long as its
# parameters are numbers.


def expanded(site: Site, s: Jet, p: Jets) -> Jet:
    """l of a scalar site at the jets of its predictor and parameters.

    Raises TypeError for a family without a formula of which a parameter has a predictor.
    """
    if isinstance(site, Formula):
        return site.formula(s, p)
    moving = {n: p[n] for n in site.spec.parameters if n in p and not p[n].fixed}
    answer = cast(Pointwise, site).pointwise(s.value)
    l = s.compose(answer.value, answer.slope, answer.curvature, answer.third)
    if not moving:
        return l
    curves, step = site.parameter_curves(s.value), s - s.value
    for name, jet in moving.items():
        if any(key[:1] >= (0,) for key in jet.coefficients if key):
            raise TypeError(f"{site.spec.name} gives no formula, which a predictor of {name} needs")
        if name in curves:
            c = curves[name]
            l = l + (jet - jet.value) * (c.value + step * c.slope + 0.5 * step * step * c.curvature)
    return l


class ZerosFormula(Formula, CombinedSite):
    """Formula for counts y whose zeros are changed."""

    y: Array

    @cached_property
    def at_zero(self) -> Site:
        """The base's sites at y = 0."""
        values = {**self.base_fields(), "y": np.zeros_like(self.y)}
        return self.base(**values)


class TruncatedFormula(ZerosFormula):
    """l = log f(y) - log(1 - f(0))."""

    def formula(self, s: Jet, p: Jets) -> Jet:
        zero = expanded(self.at_zero, s, p)
        return expanded(self.plain, s, p) - jets.log1mexp(zero)


class ZeroInflatedFormula(ZerosFormula):
    """l = log(p + (1 - p) f(0)) where y = 0, log(1 - p) + log f(y) elsewhere."""

    def apart(self) -> dict[str, BoolArray]:
        return {"zero_inflation": np.asarray(self.y > 0.0)}

    def formula(self, s: Jet, p: Jets) -> Jet:
        odds = jets.log_odds(p["zero_inflation"])
        kept = -jets.softplus(odds)
        if (self.y > 0.0).all():
            return kept + expanded(self.plain, s, p)
        at_zero = kept + jets.logaddexp(odds, expanded(self.at_zero, s, p))
        if not (self.y > 0.0).any():
            return at_zero
        return jets.where(self.y > 0.0, kept + expanded(self.plain, s, p), at_zero)


class HurdleFormula(Formula, CombinedSite):
    """l = log p where y = 0, log(1 - p) + log of the density above 0 elsewhere."""

    y: Array

    def apart(self) -> dict[str, BoolArray]:
        return {"hurdle": np.ones(len(self.y), dtype=np.bool_)}

    def formula(self, s: Jet, p: Jets) -> Jet:
        odds = jets.log_odds(p["hurdle"])
        above = expanded(self.plain, s, p) - jets.softplus(odds)
        return jets.where(self.y > 0.0, above, -jets.softplus(-odds))


# ---- chain -------------------------------------------------------------------------------------


class Outer(NamedTuple):
    """f, f', f'', f''' at u, arrays of its shape."""

    value: Array
    first: Array
    second: Array
    third: Array


@np.errstate(all="ignore")  # where it is not finite, it is not used
def chained(f: Outer, u: PointwiseAnswer) -> PointwiseAnswer:
    """f(u(s)) with three derivatives in s (`u.third` is the plain one). Where f' is 0, so are all:
    u may be as large as doubles get there."""
    flat = f.first == 0.0
    u1, u2, u3 = (np.where(flat, 0.0, part) for part in (u.slope, u.curvature, u.third))
    bend = f.second * u1  # products: a cube by `**` takes 20 times as long
    return PointwiseAnswer(
        f.value,
        f.first * u1,
        bend * u1 + f.first * u2,
        f.third * u1 * u1 * u1 + 3.0 * bend * u2 + f.first * u3,
    )


@np.errstate(all="ignore")
def chained_curve(f: Outer, u: PointwiseAnswer, by: ParameterCurve) -> ParameterCurve:
    """d f(u(s)) / dparameter with two derivatives in s, from those of u, `by`."""
    flat = f.first == 0.0
    u1, u2 = (np.where(flat, 0.0, part) for part in (u.slope, u.curvature))
    b0, b1, b2 = (np.where(flat, 0.0, part) for part in by)
    return ParameterCurve(
        f.first * b0,
        f.second * u1 * b0 + f.first * b1,
        f.third * u1**2 * b0 + f.second * (u2 * b0 + 2.0 * u1 * b1) + f.first * b2,
    )


def minus(a: PointwiseAnswer, b: PointwiseAnswer, variance: Array | float) -> PointwiseAnswer:
    """a - b, both with the plain third derivative, contracted with `variance` now."""
    return PointwiseAnswer(
        a.value - b.value,
        a.slope - b.slope,
        a.curvature - b.curvature,
        (a.third - b.third) * variance,
    )
