"""Potentials declared by g alone: log t(s) = g(s^2), g decreasing and convex (Nickisch and Seeger
2009, section 2.1). Everything that a method asks of a site follows from g, g' and g'':

    l = g(x) - log scale,   l' = 2 s g'(x),   l'' = 2 g'(x) + 4 x g''(x),   x = (s / scale)^2

in units of the scale; l''' by differences of l''.
"""

from __future__ import annotations

import copyreg
import sys
from abc import ABCMeta
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    ParameterCurve,
    PointwiseAnswer,
    SuperGaussian,
    Tilted,
)
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.numerics.expectations.expectation import expectations
from lgmdsl.sites.base import LocationSite, scale_curve
from lgmdsl.sites.quadrature import NodeSites, slopes_by_quadrature
from lgmdsl.sites.scalar.even import Even, Function, Profile, profile
from lgmdsl.vocabulary.examples import SD, sparse
from lgmdsl.vocabulary.signature import Parameter, Signature

STEP = 1e-3  # of differences of l'', in units of the distance over which it bends
NARROW = 1e-7  # sds, in units of the scale, below which expectations are those at this one
ROUNDING = 1e-12  # of 2 g' and 4 x g'', which cancel where log t is straight


class Declared(ABCMeta):
    """The class of classes made by `SuperGaussianSite`: pickled as the variable of a module that
    holds one, or as what it was made of."""

    recipe: tuple[Any, ...]


def _pickled(cls: Declared) -> str | tuple[Callable[..., Any], tuple[Any, ...]]:
    module = sys.modules.get(cls.__module__)
    for name, value in list(vars(module).items()) if module is not None else ():
        if value is cls:
            return name
    return _made, cls.recipe


copyreg.pickle(Declared, _pickled)


@dataclass(frozen=True, eq=False)
class EvenPotential(LocationSite, SuperGaussian, metaclass=Declared):
    """t(s) = exp(g((s / scale)^2)) / scale for the g of a subclass; scale (N,), 1 where it is left
    out."""

    scale: Array
    normalised: ClassVar[bool] = False
    guessed: ClassVar[bool] = True  # nothing says where g is singular
    even: ClassVar[Even]
    profile: ClassVar[Profile]

    @classmethod
    def never(cls, question: type) -> str:
        if cls.profile.kinked and question in (Expected, Tilted):
            return (
                f"{cls.spec.name} has a kink at 0, where g' is infinite: no rule averages over it "
                "from g alone"
            )
        return ""

    def log_density(self, s: Array) -> Array:
        u = s / self.scale
        return np.asarray(self.even.g(u * u) - np.log(self.scale))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """At a kink the slope is 0, and higher derivatives are those next to it."""
        u = s / self.scale
        slope, curvature = self._bend(u)
        step = STEP * self.profile.distance
        h = np.full_like(u, step)
        if self.profile.kinked:
            h = np.maximum(np.minimum(h, STEP * np.abs(u)), STEP * self.profile.least**0.5)
        low2, low, high, high2 = (self._bend(u + k * h)[1] for k in (-2, -1, 1, 2))
        third = (low2 - 8.0 * low + 8.0 * high - high2) / (12.0 * h)
        return PointwiseAnswer(
            value=self.log_density(s),
            slope=slope / self.scale,
            curvature=curvature / self.scale**2,
            third=third / self.scale**3 * variance,
        )

    def _bend(self, u: Array) -> tuple[Array, Array]:
        """dg(u^2)/du and its derivative."""
        x = np.maximum(u * u, self.profile.least)
        first, second = 2.0 * self.even.dg(x), 4.0 * x * self.even.d2g(x)
        curvature = first + second
        curvature = np.where(np.abs(curvature) <= ROUNDING * np.abs(first), 0.0, curvature)
        if Property.LOG_CONCAVE in self.spec.properties:
            curvature = np.minimum(curvature, 0.0)
        return np.asarray(u * first), curvature

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        u = s / self.scale
        return {"scale": -(1.0 + u * self._bend(u)[0]) / self.scale}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        return {"scale": scale_curve(self.pointwise(s), s, self.scale)}

    def landmark(self) -> tuple[Array, Array]:
        return np.zeros_like(self.scale), self.profile.distance * self.scale

    @property
    def beta(self) -> Array:
        return np.zeros_like(self.scale)

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        square = self.scale**2
        u = x / square
        near = np.maximum(u, self.profile.least)
        value = self.even.g(u) - np.log(self.scale)
        return value, self.even.dg(near) / square, self.even.d2g(near) / square**2


@dataclass(frozen=True, eq=False)
class CorneredPotential(EvenPotential, Expected, ExpectedSlopes):
    """One whose g'' jumps: expectations of l'' by Stein's identity, from l' alone."""

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        """d/dv = E[l' t] / (2 sd), t = (s - mean) / sd; second derivatives, on request, from l'',
        to some 1e-4."""
        nodes, sd = NodeSites(self), np.sqrt(variance)
        centre, scale = self.landmark()
        safe = np.maximum(sd, NARROW * np.maximum(scale, np.abs(mean)))

        def first(rows: IntArray, s: Array, t: Array) -> Array:
            a = nodes.pointwise(rows, s)
            return np.stack([a.value, a.slope, 0.5 * a.slope * t / safe[rows][:, None]])

        def bends(rows: IntArray, s: Array, t: Array) -> Array:
            by_t = 0.5 * nodes.pointwise(rows, s).curvature / safe[rows][:, None]
            return np.stack([by_t * t, 0.5 * by_t * (t * t - 1.0) / safe[rows][:, None]])

        out = expectations(first, mean, safe, centre, scale, checked=True)
        more = expectations(bends, mean, safe, centre, scale, checked=True) if second else ()
        return ExpectedAnswer(*out, *more)

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return slopes_by_quadrature(self, mean, variance, 0.0)


def SuperGaussianSite(
    name: str,
    g: Function,
    dg: Function,
    d2g: Function,
    *,
    summary: str = "",
    formula: str = "",
    source: str = "",
) -> type[Site]:
    """The potential `name`, log t(s) = g(s^2), from g, its derivative and its second derivative.

    Each takes an array of x = s^2 >= 0 and returns one of the same shape, entry by entry. g has to
    be finite, decreasing and convex; g' may be infinite at 0 (a kink of t), and is never asked for
    there. What is returned is a site class, for `lgm.register` or an entry point of the group
    `lgmdsl.sites`; models write `potential expression ~ name()`. In other units than those of g,
    `name(scale = 0.5)` is t(s) = exp(g((s / scale)^2)) / scale, and the scale may be a hyper. The
    other arguments are for its page in `lgm help`. t need not integrate to one: log evidences then
    differ by a constant for each site.

    The methods whose conditions t meets run it: double-loop, coordinate-descent and map always;
    laplace, natural-gradient and ep where g' is finite at 0; those that want log-concave sites
    where 2 g' + 4 x g'' <= 0.

    Raises TypeError, with the promise that fails, where a grid of x shows that a function is not
    elementwise or not finite, that g is not decreasing or not convex, or that dg or d2g is not a
    derivative.

    A Cauchy density, (1 + s^2)^-1 but for 1/pi:

    >>> import numpy as np
    >>> import lgmdsl as lgm
    >>> from lgmdsl.extend import SuperGaussianSite
    >>> lgm.register(SuperGaussianSite(
    ...     "cauchy", lambda x: -np.log1p(x), lambda x: -1 / (1 + x), lambda x: (1 + x) ** -2.0))
    >>> m = lgm.Model()
    >>> obs = m.index("obs")
    >>> y = m.data("y", obs, "real")
    >>> a = m.latent("a", [], lgm.normal(sd=10))
    >>> m.potential(y - m.let("eta", obs, a), lgm.cauchy())
    >>> fit = lgm.fit(m, {"y": [0.3, -0.1, 0.2, 40.0]}, method="double-loop")
    >>> print(fit.status, abs(float(fit.mean("a"))) < 1)
    converged True
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a site is a word, not {name!r}")
    for part, f in zip(Even._fields, (g, dg, d2g), strict=True):
        if not callable(f):
            raise TypeError(f"site {name}: {part} is {f!r}, wanted a function of x = s^2")
    return _made(name, g, dg, d2g, summary, formula, source)


@cache  # so that what comes back from a pickle is the class that is registered
def _made(
    name: str, g: Function, dg: Function, d2g: Function, summary: str, formula: str, source: str
) -> type[Site]:
    even = Even(g, dg, d2g)
    shown = profile(name, even)
    properties = Property.SUPER_GAUSSIAN | Property.BOUNDED
    if shown.kinked:
        properties |= Property.KINKED
    if shown.cornered:
        properties |= Property.CORNERED
    if shown.concave:
        properties |= Property.LOG_CONCAVE
    spec = SiteSpec(
        name,
        signature=_signature(name, summary, formula, source),
        takes=("scale",),
        properties=properties,
        scales=("scale",),
    )
    namespace = {
        "__module__": getattr(g, "__module__", None) or __name__,
        "__doc__": spec.summary,
        "spec": spec,
        "even": even,
        "profile": shown,
        "recipe": (name, g, dg, d2g, summary, formula, source),
    }
    words = name.replace("_", " ").title().replace(" ", "")
    smooth_at_zero = shown.cornered and not shown.kinked
    base = CorneredPotential if smooth_at_zero else EvenPotential
    return cast("type[Site]", Declared(words, (base,), namespace))


def _signature(name: str, summary: str, formula: str, source: str) -> Signature:
    return Signature(
        name,
        "potential",
        (
            Parameter(
                "scale",
                "positive",
                required=False,
                default=1.0,
                meaning="in the unit of the expression; 1 is the unit of g",
            ),
        ),
        summary=summary or "a super-Gaussian potential, declared by its g",
        formulas=(("", formula or "exp(g((s / scale)^2)) / scale, g decreasing and convex"),),
        scale="scale is the s at which the potential is what it is at 1 in the unit of its g",
        support="s, any affine expression of the latents, any number",
        example=sparse(f"{name}(scale = s)", SD),
        see_also=("potential", "double-loop", "laplace", "student_t"),
        source=source,
        without=() if source else ("source",),
    )
