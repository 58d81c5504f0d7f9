"""Families of which a parameter has a predictor of its own: `normal(mean, log_sd)`.

    l(s) = l_base(s_0; parameter_k = inverse link of s_k),   s (N, K), K = 2 or more

One factory makes them all, from a scalar family and what its signature says of the argument
(`Parameter.of`, `Parameter.link`). Derivatives come from the base's formula in jets (`Formula`);
moments, draws and distribution function are the base's at those parameters.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import (
    Expected,
    ExpectedSlopes,
    ParameterCurve,
    Pointwise,
    PointwiseAnswer,
)
from lgmdsl.contract.site import Site, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.sites.combined.combined import CombinedSite, expanded, infinite_in
from lgmdsl.sites.formula import Formula

if TYPE_CHECKING:
    from numpy.random import Generator

# Logarithms and logits of parameters beyond this are taken as this: e^100 squared is a double.
FARTHEST = 100.0
LARGEST = 1e300  # of a derivative at predictors beyond that


@dataclass(frozen=True)
class Second:
    """An argument that is a predictor of a parameter of the family, and its link."""

    argument: str
    parameter: str
    link: str

    def value(self, s: Array) -> Array:
        """The parameter at the predictor."""
        inside = np.clip(s, -FARTHEST, FARTHEST)
        return np.asarray(np.exp(inside) if self.link == "log" else special.expit(inside))

    def jet(self, s: Array, number: int, order: int) -> Jet:
        """The parameter as a function of the predictor, the variable of that number."""
        inside = jets.variable(np.clip(s, -FARTHEST, FARTHEST), number, order)
        return jets.exp(inside) if self.link == "log" else jets.sigmoid(inside)


class PredictorsSite(CombinedSite, Pointwise):
    """The sites of `base` with predictors for some of its parameters, `seconds`."""

    seconds: ClassVar[tuple[Second, ...]]
    y: Array

    @cached_property
    def plain(self) -> Site:
        """The base's sites, the parameters that have predictors at 1/2: of use for the others."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        blank = {x.parameter: np.full(len(self), 0.5) for x in self.seconds}
        return self.base(**fields, **blank)

    @cached_property
    def apart(self) -> tuple[int, BoolArray] | None:
        """A predictor, and the rows in which l is a function of it alone plus one of the others."""
        plain = self.plain
        known = plain.apart() if isinstance(plain, Formula) else {}
        for k, second in enumerate(self.seconds, start=1):
            if second.parameter in known:
                return k, known[second.parameter]
        return None

    @classmethod
    def never(cls, question: type) -> str:
        moving = {x.parameter for x in cls.seconds} & infinite_in(cls.base)
        if not moving or not issubclass(question, Expected | ExpectedSlopes):
            return super().never(question)
        return (
            f"log t of {cls.spec.name} has no average over a Gaussian: it falls like the "
            f"exponential of {min(moving)}, itself the exponential of a predictor"
        )

    def landmark(self) -> None:
        return None

    @property
    def log_scales(self) -> tuple[int, ...]:
        spec = self.base.spec
        known = {x.parameter: k for k, x in enumerate(self.seconds, start=1) if x.link == "log"}
        if not spec.scales or not spec.places or not known.keys() >= set(spec.scales):
            return ()
        return tuple(known[name] for name in spec.scales)

    @property
    def places(self) -> tuple[Array, ...]:
        return tuple(getattr(self, name) for name in self.base.spec.places)

    def measured(self, origin: Array, unit: float) -> tuple[Any, float]:
        """The sites as functions of (s_0 - origin) / unit and of the `log_scales` less log unit,
        and -log unit summed over the densities."""
        values = {n: (getattr(self, n) - origin) / unit for n in self.base.spec.places}
        densities = len(self) - int(np.count_nonzero(self.censored))
        changed: dict[str, Any] = {**values}
        return dataclasses.replace(self, **changed), -densities * math.log(unit)

    def at(self, s: Array) -> Site:
        """The base's sites with the parameters that the predictors s, (N, K), give."""
        values: dict[str, Any] = {
            x.parameter: x.value(s[:, k]) for k, x in enumerate(self.seconds, start=1)
        }
        return dataclasses.replace(self.plain, **values)

    @np.errstate(all="ignore")
    def expand(self, s: Array, order: int, moving: Iterable[str] = ()) -> Jet:
        """l in the variables 0 to K - 1, the predictors; parameters in `moving` are -1, -2, ..."""
        base = self.plain
        p = {n: jets.constant(getattr(base, n), order) for n in base.spec.parameters}
        for k, second in enumerate(self.seconds, start=1):
            p[second.parameter] = second.jet(s[:, k], k, order)
        for k, name in enumerate(moving, start=1):
            p[name] = jets.variable(getattr(self, name), -k, order)
        return expanded(base, jets.variable(s[:, 0], 0, order), p)

    def log_density(self, s: Array) -> Array:
        return np.asarray(self.expand(s, 0).value + np.zeros(len(s)))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """A variance that is a number is times the identity."""
        return self.to_order(s, 3, variance)

    def to_order(self, s: Array, order: int, variance: Array | float = 1.0) -> PointwiseAnswer:
        """`pointwise`, with derivatives up to an order alone, 2 or 3: zeros beyond."""
        l, (n, k) = self.expand(s, order), s.shape
        slope, curvature, third = np.empty((n, k)), np.empty((n, k, k)), np.zeros((n, k))
        v = variance * np.eye(k)[None] if np.ndim(variance) == 0 else np.asarray(variance)
        for i in range(k):
            slope[:, i] = l.derivative(i)
            for j in range(i, k):
                curvature[:, i, j] = curvature[:, j, i] = l.derivative(i, j)
        if order > 2:
            for i, j, m in product(range(k), repeat=3):
                third[:, i] += l.derivative(i, j, m) * v[:, j, m]
        far = np.flatnonzero(np.abs(s).max(axis=1, initial=0.0) > FARTHEST)
        for part in (slope, curvature, third):
            part[far] = np.nan_to_num(part[far], posinf=LARGEST, neginf=-LARGEST)  # 0 e^340 cubed
        return PointwiseAnswer(np.asarray(l.value + np.zeros(n)), slope, curvature, third)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        moving = {x.parameter for x in self.seconds}
        slopes = self.at(s).parameter_slopes(s[:, 0])
        return {name: slope for name, slope in slopes.items() if name not in moving}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        (n, k), out = s.shape, {}
        for name in self.parameter_slopes(s):
            l = self.expand(s, 3, (name,))
            slope, curvature = np.empty((n, k)), np.empty((n, k, k))
            for i in range(k):
                slope[:, i] = l.derivative(-1, i)
                for j in range(k):
                    curvature[:, i, j] = l.derivative(-1, i, j)
            out[name] = ParameterCurve(l.derivative(-1) + np.zeros(n), slope, curvature)
        return out

    def conditional_mean(self, s: Array) -> Array:
        return self.at(s).conditional_mean(s[:, 0])

    def conditional_variance(self, s: Array) -> Array:
        return self.at(s).conditional_variance(s[:, 0])

    def sample(self, s: Array, rng: Generator) -> Array:
        return self.at(s).sample(s[:, 0], rng)

    def cdf(self, s: Array) -> Array:
        return self.at(s).cdf(s[:, 0])

    def endless(self, s: Array) -> Array:
        return self.at(s).endless(s[:, 0])

    def distribution(self, s: Array) -> tuple[Array, Array]:
        return self.at(s).distribution(s[:, 0])


@cache
def with_predictors(base: type[Site], seconds: tuple[Second, ...]) -> type[Site]:
    """The family with predictors for those parameters: `normal.mean.log_sd`."""
    spec, moving = base.spec, {x.parameter for x in seconds}
    parameters = {n: d for n, d in spec.parameters.items() if n not in moving}
    arguments = tuple(x.argument for x in seconds)
    inside: dict[str, Any] = {
        "base": base,
        "seconds": seconds,
        "recipe": (with_predictors, (base, seconds)),
        "spec": SiteSpec(
            ".".join((spec.name, *arguments)),
            parameters=parameters,
            observed=spec.observed,
            vector=True,
            predictors=(spec.argument, *arguments),
            link=spec.link,
            summary=f"{spec.summary}, with a predictor for {' and '.join(sorted(moving))}",
            signature=spec.signature,
        ),
        "__doc__": f"{base.__name__} with predictors for {' and '.join(sorted(moving))}.",
        "__module__": __name__,
    }
    if base.cdf is Site.cdf:  # a family need not have one
        inside |= {"cdf": Site.cdf, "distribution": Site.distribution}
    mixins = base.closed_forms(frozenset(moving)) if issubclass(base, Formula) else ()
    return dataclasses.make_dataclass(
        "".join((base.__name__, *(_camel(a) for a in arguments))),
        [(name, Array) for name in ("y", *parameters)],
        bases=(*mixins, PredictorsSite),
        namespace=inside,
        frozen=True,
        eq=False,
    )


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
