"""The base class of a site family: N sites bound to observations and parameters."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.questions import ParameterCurve, Pointwise

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.vocabulary.signature import Parameter, Signature


class Property(Flag):
    """Declared properties of a family: promises about l(s), by which methods, bounds and rules of
    quadrature are chosen.

    `lgmdsl.testing.site_checks.check_site` tests LOG_CONCAVE, SUPER_GAUSSIAN, GAUSSIAN, BOUNDED and
    NATURAL on a grid. It leaves out points at the kinks of KINKED and CORNERED families, and lets l
    of LIMITED ones be -inf. It does not test LATE_CONCAVE.
    """

    NONE = 0
    LOG_CONCAVE = auto()  #: l'' <= 0 everywhere
    SUPER_GAUSSIAN = auto()  #: t = e^{beta x} e^{g(x^2)}, g convex decreasing, x = s - a centre
    GAUSSIAN = auto()  #: l is quadratic in s
    KINKED = auto()  #: l is not differentiable somewhere
    BOUNDED = auto()  #: sup over s of l is finite for all data
    NATURAL = auto()  #: l = c(y) + y s - A(s): a natural exponential family of counts
    LATE_CONCAVE = auto()  #: l - log P(Y > t | s) is concave for each t below y, of censored y too
    #: l is -inf for some s, as the support of y moves with s: E[l] is then -inf for every Gaussian
    LIMITED = auto()
    CORNERED = auto()  #: l'' jumps somewhere, so that rules of quadrature average it to few digits


@dataclass(frozen=True)
class SiteSpec:
    """`name` is family.argument (`poisson.log_rate`), perhaps with what sets a variant apart
    (`normal.mean.censored`). `signature` declares the family to the language; `takes` names those
    of its arguments that are parameters of the site, whose types and defaults stand there.

    From the signature come, unless they are given: `parameters`, which maps the names in `takes` to
    their defaults (None: required); `observed`, the data type, empty for potentials; `summary`.
    """

    name: str
    parameters: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    properties: Property = Property.NONE
    observed: tuple[str, ...] = ()
    vector: bool = False
    wide: tuple[str, ...] = ()  #: fields with one value for each class, (N, K): of vector sites
    headed: bool = False  #: whether there is always one class more than predictors
    #: The arguments that are the predictors of a vector site, in their order, where these are
    #: arguments of their own and no classes: `mean`, `log_sd`.
    predictors: tuple[str, ...] = ()
    link: str = ""  #: how s reaches the mean of y: "logit", "log", "identity", ...
    summary: str = ""
    signature: Signature | None = None
    #: Parameters with an index of their own, such as the cuts between ordered classes: fields
    #: (N, L), whose entries have the slopes `cuts[0]`, `cuts[1]`, ...
    indexed: tuple[str, ...] = ()
    #: Parameters that all sites share, such as the topics of a mixture: fields without an axis of
    #: rows, whose slopes are sums over the sites, of the field's shape.
    shared: tuple[str, ...] = ()
    #: Fields on the predictor's own axis, of families whose density is f((s - place) / scale) /
    #: scale: `places` move with s, `scales` are measured in its unit. Empty where there is no such
    #: axis (counts, classes): then the unit of s is not free.
    places: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    #: The parameter that is the sd of a Gaussian in s, or, of a family that answers Augmented, the
    #: scale of a mixture of Gaussians: hypers in it are learned in closed form.
    gaussian_scale: str = ""
    #: The parameter among `shared` that holds probabilities of which the density is a mixture.
    mixture: str = ""
    #: The potential that the compiler puts on s - y in place of the family.
    centred: str = ""
    #: What `lgm explain` says of how the compiler takes the family.
    rewrite: str = ""

    def __post_init__(self) -> None:
        signature = self.signature
        if signature is None:
            return
        if not self.observed and signature.category == "family":
            object.__setattr__(self, "observed", signature.observed[:1])
        if self.takes:
            known = {n: self._declared(n).left_out for n in self.takes}
            object.__setattr__(self, "parameters", known)
        if not self.summary:
            link = self.name.partition(".")[2]
            object.__setattr__(self, "summary", signature.formula(link) or signature.summary)

    def _declared(self, name: str) -> Parameter:
        form = self.form
        known = None if form is None else form.parameter(name)
        if known is None:
            raise ValueError(f"the signature of `{self.name}` has no argument `{name}`")
        return known

    @property
    def form(self) -> Signature | None:
        """The form of the signature that has the argument which is affine in the latents."""
        if self.signature is None or self.potential:
            return self.signature
        return self.signature.linking(self.argument)

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def argument(self) -> str:
        """The argument that is affine in the latents; `value` for potentials."""
        return self.name.split(".")[1] if "." in self.name else "value"

    @property
    def potential(self) -> bool:
        """Whether it observes nothing."""
        return not self.observed

    @property
    def discrete(self) -> bool:
        """Whether y takes whole values alone."""
        return bool({"binary", "count", "integer", "index"} & set(self.observed))


def entry_name(parameter: str, k: int) -> str:
    """What entry k of an indexed parameter is called among slopes: `cuts[1]`."""
    return f"{parameter}[{k}]"


@dataclass(frozen=True, eq=False)
class Site(ABC):
    """N sites l_i(s_i) of one family. Fields are float64 arrays of length N, the observation first;
    those that `spec.indexed` names are (N, L), those that `spec.wide` names (N, K) over K classes;
    those that `spec.shared` names have no axis of rows.

    Subclasses are frozen dataclasses whose fields are named as in `spec.parameters`, preceded by
    `y` for families that observe. They inherit from the questions that they answer in closed form.

    A family from outside: y ~ geometric(logit = s), l(s) = s - (1 + y) log(1 + e^s). With Pointwise
    it runs on laplace; quadrature lifts it to the questions of the other methods.

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> import numpy as np
    >>> from scipy import special
    >>> import lgmdsl as lgm
    >>> from lgmdsl.extend import (Array, Parameter, Pointwise, PointwiseAnswer, Property,
    ...     Signature, Site, SiteSpec)
    >>> @lgm.register
    ... @dataclass(frozen=True, eq=False)
    ... class Geometric(Site, Pointwise):
    ...     y: Array
    ...     spec: ClassVar[SiteSpec] = SiteSpec(
    ...         "geometric.logit", properties=Property.LOG_CONCAVE | Property.BOUNDED,
    ...         link="logit", signature=Signature(
    ...             "geometric", "family", (Parameter("logit", "latent"),), observed=("count",),
    ...             summary="failures before the first success"))
    ...     def log_density(self, s):
    ...         return s - (1 + self.y) * np.logaddexp(0, s)
    ...     def pointwise(self, s, variance=1.0):
    ...         p, n = special.expit(s), 1 + self.y
    ...         bent = -n * p * (1 - p)
    ...         return PointwiseAnswer(self.log_density(s), 1 - n * p, bent,
    ...                                bent * (1 - 2 * p) * variance)
    ...     def parameter_slopes(self, s):
    ...         return {}
    ...     def conditional_mean(self, s):  # for predictions; sample is for lgm simulate
    ...         return np.exp(-s)
    ...     def sample(self, s, rng):
    ...         return rng.geometric(special.expit(s)) - 1.0
    >>> m = lgm.Model()
    >>> obs = m.index("obs")
    >>> y = m.data("y", obs, "count")
    >>> a = m.latent("a", [], lgm.normal(sd=2))
    >>> m.observe(y, lgm.geometric(logit=m.let("eta", obs, a)))
    >>> fit = lgm.fit(m, {"y": [0, 1, 0, 3, 2, 0]}, method="laplace")
    >>> print(fit.status, round(float(fit.mean("a")), 3))
    converged 0.0
    """

    spec: ClassVar[SiteSpec]
    #: log_density and pointwise also take s (N, k) where the fields are (N, 1): quadrature then
    #: computes what depends on the fields alone once for each site, not for each node.
    broadcasts: ClassVar[bool] = False
    #: Of a potential: whether t(s) integrates to one over s.
    normalised: ClassVar[bool] = True
    #: landmark() is only where to start: quadrature refines until two rules agree all the same.
    guessed: ClassVar[bool] = False

    def landmark(self) -> tuple[Array, Array] | None:
        """Where l bends and how near its complex singularities are: centre, distance, (N,) each.

        Quadrature puts its nodes by them and trusts them, so declare them only where l grows no
        faster than a polynomial. None (the default): not known; it tries (0, 1) and refines until
        two rules agree.
        """
        return None

    @classmethod
    def never(cls, question: type) -> str:
        """Why nothing can answer a question for the family; "" (the default) where a rule may."""
        return ""

    def reason(self, row: int) -> str:
        """Why the observation of a row cannot occur: a clause with its remedy after a colon. Empty
        (the default) where its values say enough."""
        return ""

    def contrasts(self, predictors: int) -> Array | None:
        """Contrasts of a vector site, C such that l(s) depends on C's alone: (K, r), or (N, K, r)
        where rows differ, zero columns last. None (the default): on all K predictors."""
        return None

    def __len__(self) -> int:
        return len(getattr(self, dataclasses.fields(self)[0].name))

    @property
    def evaluations(self) -> int:
        """Logarithms and exponentials that the densities of all sites take, about."""
        return len(self)

    def take(self, rows: IntArray | BoolArray) -> Self:
        """The sites of some rows, by positions or by a mask (N,)."""
        return dataclasses.replace(
            self,
            **{
                f.name: getattr(self, f.name)[rows]
                for f in dataclasses.fields(self)
                if f.name not in self.spec.shared
            },
        )

    def measured(self, origin: Array, unit: float) -> tuple[Self, float]:
        """The sites as functions of (s - origin) / unit, and what log_density, summed, has in
        addition to theirs: -log unit for each density, nothing for the mass of an interval.
        `spec.scales` names some field; where `spec.places` names none, `origin` is 0."""
        changed: dict[str, Any] = {n: (getattr(self, n) - origin) / unit for n in self.spec.places}
        changed |= {n: getattr(self, n) / unit for n in self.spec.scales}
        densities = len(self) - int(np.count_nonzero(self.censored))
        return dataclasses.replace(self, **changed), -densities * math.log(unit)

    @property
    def log_scales(self) -> tuple[int, ...]:
        """Predictors of a vector site that are logarithms of a scale, the density being f((s_0 -
        place) / scale) / scale with no scale a parameter: in another unit of s_0 they lack its
        logarithm. Empty where there is no such axis."""
        return ()

    @property
    def places(self) -> tuple[Array, ...]:
        """The fields of `spec.places`; of a vector site with `log_scales`, those that move with its
        first predictor."""
        return tuple(getattr(self, name) for name in self.spec.places)

    def parameter(self, name: str) -> Array:
        """A parameter, (N,), or one entry of an indexed one: `cuts[1]`."""
        whole, _, entry = name.partition("[")
        values: Array = getattr(self, whole)
        return values[..., int(entry[:-1])] if entry else values

    def with_parameter(self, name: str, value: Array) -> Self:
        """The sites with another value of what `parameter(name)` gives."""
        whole, _, entry = name.partition("[")
        if entry:
            array = np.array(getattr(self, whole))
            array[..., int(entry[:-1])] = value
            value = array
        changed: dict[str, Any] = {whole: value}
        return dataclasses.replace(self, **changed)

    @abstractmethod
    def log_density(self, s: Array) -> Array:
        """l(s), (N,), normalised over y for families that observe; finite for |s| <= 1e4."""

    @abstractmethod
    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        """dl/dparameter at s for each continuous parameter, (N,) each; for each entry of those in
        `spec.indexed` (`entry_name`); summed over the sites for those in `spec.shared`."""

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        """dl/dparameter at s with its first two derivatives in s, for each continuous parameter
        of a family that answers Pointwise (the gradient of Laplace's evidence asks).

        The default takes differences of `pointwise` in the parameter, good to about 1e-10.
        """

        return curves_by_differences(self, self.parameter_slopes(s), s)

    def moved_slopes(self, s: Array, variance: Array, move: Array) -> dict[str, Array]:
        """d(l + tr(variance l'') / 2 + move'l')/dparameter at s, summed over the sites, of those in
        `spec.shared` (the gradient of Laplace's evidence asks families that have any)."""
        raise NotImplementedError(f"{self.spec.name} has no parameter that all rows share")

    def conditional_mean(self, s: Array) -> Array:
        """E[y | s], (N,) (for potentials there is none: raises TypeError)."""
        raise TypeError(f"{self.spec.name} has no mean of y")

    def conditional_variance(self, s: Array) -> Array:
        """Var[y | s], (N,), inf where it does not exist (for potentials: raises TypeError)."""
        raise TypeError(f"{self.spec.name} has no variance of y")

    def sample(self, s: Array, rng: Generator) -> Array:
        """One draw of y given s, (N,) (for potentials: raises TypeError)."""
        raise TypeError(f"{self.spec.name} observes nothing")

    def cdf(self, s: Array) -> Array:
        """P(Y <= y | s), (N,), 0 below the support (raises TypeError where a family, or a
        potential, has none). Of rows that are censored too: it is a function of y alone."""
        raise TypeError(f"{self.spec.name} gives no distribution function of y")

    def endless(self, s: Array) -> Array:
        """P(Y = inf | s), (N,): of lifetimes of which some never end. 0 of others (the default)."""
        return np.zeros(len(self))

    def distribution(self, s: Array) -> tuple[Array, Array]:
        """P(Y < y | s) and P(Y <= y | s), (N,) each: equal where y is continuous.

        Raises TypeError where there is no `cdf`.
        """
        upto = self.cdf(s)
        if not self.spec.discrete:
            return upto, upto
        before: dict[str, Any] = {"y": getattr(self, "y") - 1.0}  # noqa: B009
        return dataclasses.replace(self, **before).cdf(s), upto

    def known_between(self, s: Array) -> tuple[Array, Array]:
        """P(Y < a | s) and P(Y <= b | s), (N,) each, of what is known of each response: that it is
        y, a = b, or where it is censored that it lies between a and b: beyond y (`event` 0), or
        between `lower` and `upper`, of which one may be open.

        Raises TypeError where there is no `cdf`.
        """
        low, high = self.distribution(s)
        high = np.maximum(low, high)
        if not np.any(self.censored):
            return low, high
        fields: dict[str, Array] = vars(self)
        y = fields["y"]
        nothing = np.full(np.shape(y), np.nan)
        late = fields.get("event", np.ones(np.shape(y))) == 0.0
        begin = np.where(late, y, fields.get("lower", nothing))
        end = np.where(late, np.nan, fields.get("upper", nothing))
        if self.spec.observed[:1] == ("positive",):
            begin = np.where(begin > 0.0, begin, np.nan)

        def up_to(ends: Array, open_: float) -> Array:
            at: dict[str, Any] = {"y": np.where(np.isfinite(ends), ends, y)}
            return np.where(np.isfinite(ends), dataclasses.replace(self, **at).cdf(s), open_)

        below = np.where(self.censored, up_to(begin, 0.0), low)
        return below, np.maximum(below, np.where(self.censored, up_to(end, 1.0), high))

    @property
    def censored(self) -> BoolArray:
        """Which rows are censored, so that y is not what was observed, (N,)."""
        return np.zeros(np.shape(getattr(self, dataclasses.fields(self)[0].name)), dtype=np.bool_)


def log_concave(sites: Iterable[Site | type[Site]]) -> bool:
    """Whether all of them are, so that a posterior has one mode."""
    return all(Property.LOG_CONCAVE in site.spec.properties for site in sites)


# ---- curves ------------------------------------------------------------------------------------
# Derivatives of a site's log density in s and a parameter, by differences of what is known.


# Central differences of order 8 (Fornberg 1988, table 1) at relative steps: for functions that bend
# over the size of the parameter both their error and rounding's are below 1e-11.
_WEIGHTS = (4.0 / 5.0, -1.0 / 5.0, 4.0 / 105.0, -1.0 / 280.0)
_STEP = 0.01


def curves_by_differences(
    site: Site, slopes: dict[str, Array], s: Array
) -> dict[str, ParameterCurve]:
    """l' and l'' differenced in each parameter that `slopes` names, for a site that answers
    Pointwise; steps are shares of the parameter, so that its sign stays, or 0.01 at 0."""
    out = {}
    for name, value in slopes.items():
        centre = site.parameter(name)
        step = np.where(centre == 0.0, _STEP, _STEP * np.abs(centre))
        slope, curvature = np.zeros(1), np.zeros(1)
        for k, weight in enumerate(_WEIGHTS, start=1):
            neighbours = (
                site.with_parameter(name, centre + sign * k * step) for sign in (1.0, -1.0)
            )
            far, near = (cast(Pointwise, m).pointwise(s) for m in neighbours)
            slope = slope + weight * (far.slope - near.slope)
            curvature = curvature + weight * (far.curvature - near.curvature)
        out[name] = ParameterCurve(value, _shared(slope, step), _shared(curvature, step))
    return out


def _shared(difference: Array, step: Array) -> Array:
    """A difference for each site over that site's step, whatever the axes after the first."""
    return np.asarray(difference / step.reshape(-1, *(1,) * (difference.ndim - 1)))
