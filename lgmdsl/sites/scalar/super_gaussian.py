"""Potentials declared by g alone: log t(s) = g(s^2), g decreasing and convex (Nickisch and Seeger
2009, section 2.1). Everything that a method asks of a site follows from g, g' and g'':

    l = g(x) - log scale,   l' = 2 s g'(x),   l'' = 2 g'(x) + 4 x g''(x),   x = (s / scale)^2

in units of the scale; l''' by differences of l''.
"""

from __future__ import annotations

import copyreg
import math
import sys
from abc import ABCMeta
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, cast

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
        signature=Signature(
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
        ),
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


# ---- even --------------------------------------------------------------------------------------
# What a third party's g promises, checked on a grid: t(s) = exp(g(s^2)), g decreasing and convex.
#
# The grid is in units of the x at which g has fallen by 1 (or by half of all that it falls), so
# that the unit in which s is measured does not matter.


Function = Callable[[Array], Array]

DECADES = 120  # powers of ten of x, up and down, among which g has to fall
REACH = 12  # of them about that place, on the grid
PER_DECADE = 100  # its points
FARTHEST = 1e8  # x at which a site is still finite: |s| of 1e4, in the unit of s and in that of g
LEAST = 1e-60  # x in that unit below which derivatives are those there, to stay finite at a kink
OFF = 1.0123  # places the grid where no round number is
AGREEMENT = 1e-6  # of the integral of a derivative over a cell of the grid, relative
CORNER = 1e-3  # the same, of a cell in which g'' jumps: g' bends there
NOISE = 1e-13  # of g and dg, relative
MOST_CORNERS = 12  # places where g'' may jump
GRID_ROUNDING = 1e-9  # of dg and of its terms, relative
RISE = 1e-3  # of dg from 1e-12 to 1e-16, relative, that shows it has no limit at 0


class Even(NamedTuple):
    """g, g' and g'' as functions of x = s^2 >= 0, each elementwise on arrays."""

    g: Function
    dg: Function
    d2g: Function


@dataclass(frozen=True)
class Profile:
    """What the values of g show: `distance`, the s about which log t bends, `least` the smallest x
    at which derivatives are asked for, whether g' is infinite at 0 (`kinked`), whether g'' jumps
    somewhere (`cornered`), and whether log t is concave."""

    distance: float
    least: float
    kinked: bool
    cornered: bool
    concave: bool


def profile(name: str, even: Even) -> Profile:
    """Profile of a site's g. Raises TypeError, in one sentence, for a promise that is not kept."""
    with np.errstate(all="ignore"):
        unit = _unit(name, even)
        x = OFF * unit * np.logspace(-REACH, REACH, 2 * REACH * PER_DECADE + 1)
        far = np.array([LEAST * unit, FARTHEST * unit, FARTHEST])
        values = [_finite(name, part, getattr(even, part), np.r_[x, far]) for part in Even._fields]
        _elementwise(name, even, x)
        g, dg, d2g = (v[: len(x)] for v in values)
        cornered = _check(name, even, x, g, dg, d2g)
        low, lower = even.dg(unit * np.array([1e-12, 1e-16]))
        kinked = bool(lower < (1.0 + RISE) * low)
        # l'' = 2 g' + 4 x g''
        concave = bool(np.all(2.0 * d2g * x <= (1.0 + GRID_ROUNDING) * -dg))
        distance = math.sqrt(unit)
        if not kinked:
            near = np.array([1e-4 * unit])
            bend = float(even.d2g(near)[0])
            # Student's t bends at its singularity, where x = -g'(0) / g''(0)
            if bend > 0.0:
                distance = min(distance, math.sqrt(float(-even.dg(near)[0]) / bend))
    return Profile(distance, LEAST * unit, kinked, cornered, concave)


def _unit(name: str, even: Even) -> float:
    """The x at which g has fallen by 1, or by half of all that it falls."""
    x = np.logspace(-DECADES, DECADES, 8 * DECADES + 1)
    top = float(_values(name, "g", even.g, np.zeros(1))[0])
    if not math.isfinite(top):
        raise TypeError(f"site {name}: g(0) is {top:g}, and has to be finite")
    fall = top - _values(name, "g", even.g, x)
    known = np.isfinite(fall)
    most = float(np.max(fall[known], initial=0.0))
    if not most > GRID_ROUNDING * (1.0 + abs(top)):
        raise TypeError(f"site {name}: g does not decrease, so that the potential says nothing")
    return float(x[int(np.argmax(known & (fall >= min(1.0, 0.5 * most))))])


def _values(name: str, part: str, f: Function, x: Array) -> Array:
    """f at x, as it is for arrays of floats of x's shape."""
    given = x.copy()
    try:
        out = np.asarray(f(given))
    except Exception as error:
        raise TypeError(
            f"site {name}: {part} does not take an array of x = s^2 ({type(error).__name__}: "
            f"{error})"
        ) from error
    if out.shape != x.shape or out.dtype.kind not in "fiu":
        raise TypeError(
            f"site {name}: {part} of an array of shape {x.shape} is one of shape {out.shape} and "
            f"type {out.dtype}, wanted real numbers of the same shape"
        )
    if not np.array_equal(given, x):
        raise TypeError(f"site {name}: {part} changes the array that it is given")
    return out.astype(np.float64)


def _finite(name: str, part: str, f: Function, x: Array) -> Array:
    """f at x. Raises TypeError where it is not finite."""
    out = _values(name, part, f, x)
    bad = np.flatnonzero(~np.isfinite(out))
    if len(bad):
        at = float(x[bad[0]])
        raise TypeError(
            f"site {name}: {part} is {out[bad[0]]:g} at x = {at:.3g}, and has to be finite "
            f"wherever |s| = sqrt(x) is up to {math.sqrt(max(FARTHEST, float(x.max()))):.3g}"
        )
    return out


def _elementwise(name: str, even: Even, x: Array) -> None:
    """Raises TypeError for a function whose value at one x depends on the others."""
    some = x[::7]
    half = len(some) // 4 * 2
    for part, f in zip(Even._fields, even, strict=True):
        whole = _values(name, part, f, some)[:half]
        table = _values(name, part, f, some[:half][::-1].reshape(2, -1)).reshape(-1)[::-1]
        if not np.allclose(whole, table, rtol=1e-10, atol=0.0):
            raise TypeError(
                f"site {name}: {part} is not elementwise: its value at one x depends on the others"
            )


def _check(name: str, even: Even, x: Array, g: Array, dg: Array, d2g: Array) -> bool:
    """Whether g'' jumps somewhere. Raises TypeError where g is not decreasing or not convex, or dg
    or d2g is not a derivative."""
    k = int(np.argmax(dg))
    if dg[k] > 0.0:
        raise TypeError(f"site {name}: g is not decreasing: dg is {dg[k]:.6g} at x = {x[k]:.4g}")
    top = abs(float(even.g(np.zeros(1))[0]))
    noise = NOISE * (np.abs(g[1:]) + top)
    bends = _apart(x, g, even.dg, AGREEMENT, noise)
    if _many(bends) or len(_apart(x, g, even.dg, CORNER, noise)):
        raise TypeError(f"site {name}: " + _wrong("dg", "g", x, g, even.dg, bends))
    corners = _apart(x, dg, even.d2g, AGREEMENT, NOISE * np.abs(dg[:-1]))
    if _many(corners):
        raise TypeError(f"site {name}: " + _wrong("d2g", "dg", x, dg, even.d2g, corners))
    k = int(np.argmin(d2g * x - GRID_ROUNDING * dg))
    if d2g[k] * x[k] < GRID_ROUNDING * dg[k]:  # dg <= 0
        raise TypeError(f"site {name}: g is not convex: d2g is {d2g[k]:.6g} at x = {x[k]:.4g}")
    falls = np.flatnonzero(np.diff(dg) < GRID_ROUNDING * dg[:-1])
    if len(falls):
        k = int(falls[0])
        raise TypeError(
            f"site {name}: g is not convex: dg falls from {dg[k]:.12g} at x = {x[k]:.4g} to "
            f"{dg[k + 1]:.12g} at x = {x[k + 1]:.4g}"
        )
    return bool(len(corners))


def _apart(x: Array, f: Array, slope: Function, agreement: float, noise: Array) -> IntArray:
    """Cells of the grid x over which f changes by something else than the integral of `slope`."""
    change = np.diff(f)
    off = np.abs(change - _integrals(x, slope))
    return np.flatnonzero(~(off <= agreement * np.abs(change) + noise))


def _many(cells: IntArray) -> bool:
    """Whether there are more cells than those of a few places where the integrand is not smooth."""
    return len(cells) > MOST_CORNERS or bool(np.any(np.diff(cells) == 1))


def _integrals(x: Array, slope: Function) -> Array:
    """Integrals of `slope` over the cells of the grid, by four-point Gauss-Legendre in log x."""
    nodes, weights = np.polynomial.legendre.leggauss(4)
    half = 0.5 * np.diff(np.log(x))
    points = np.sqrt(x[:-1] * x[1:])[:, None] * np.exp(half[:, None] * nodes)
    return np.asarray(half * ((points * slope(points)) @ weights))


def _wrong(part: str, of: str, x: Array, f: Array, slope: Function, cells: IntArray) -> str:
    """Which function is no derivative of which, and where."""
    change, integral = np.diff(f), _integrals(x, slope)
    share = np.abs(change - integral)[cells] / (np.abs(change[cells]) + 1e-300)
    k = int(cells[int(np.argmax(share))])
    width = x[k + 1] - x[k]
    return (
        f"{part} is not the derivative of {of}: about x = {x[k]:.4g}, {part} is "
        f"{integral[k] / width:.9g} and differences of {of} give {change[k] / width:.9g}"
    )
