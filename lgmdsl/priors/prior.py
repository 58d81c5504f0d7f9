"""The base classes of hyperpriors: densities on the natural scale of the declared type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.errors import Diagnostic, LgmError
from lgmdsl.vocabulary.lookup import declared
from lgmdsl.vocabulary.signature import Part

if TYPE_CHECKING:
    from numpy.random import Generator

VALUE = "value"  # the key of d log density / d value among the slopes in the arguments
TINIEST = 2.0**-54


class Bounds(NamedTuple):
    """The interval that a prior leaves of a real line; infinite where it has no end."""

    lower: Array
    upper: Array


class Scatter(NamedTuple):
    """|S|^(-(df + k + 1)/2) exp(-tr(scale S^-1)/2), up to its constant."""

    df: Array
    scale: Array


class GammaPower(NamedTuple):
    """h^(-2 exponent) ~ gamma(shape, rate)."""

    exponent: float
    shape: Array
    rate: Array


@dataclass(frozen=True, eq=False)
class Prior(Part, ABC):
    """A prior at the values of its arguments, which are its fields: float64 arrays.

    A prior whose density depends on the hyper's type has the field `type` as well. Arguments
    broadcast over the value, entry by entry; those of a matrix or a simplex hyper are single
    numbers unless the class says otherwise.

    A third party's class gives the `signature` by which the language knows it; `observed` there
    are the hyper types that it is for. Arguments are checked against the types it declares.
    `Elementwise` shows one where entries are independent.
    """

    normalised: ClassVar[bool] = True  #: False: the constant is not known
    improper: ClassVar[bool] = False  #: True: cannot be drawn from, whatever its arguments
    constant: ClassVar[bool] = False  #: True: the density is the same everywhere
    #: Of covariances: whether entries of the inverse are exactly 0 at the mode; whether the density
    #: is one of standard deviations and correlations. Both choose the coordinates of a search.
    sparse: ClassVar[bool] = False
    separated: ClassVar[bool] = False

    def __post_init__(self) -> None:
        types = {p.name: p.type for p in self.signature.parameters} if self.signature else {}
        for one in fields(self):
            if one.name != "type":
                value = np.asarray(getattr(self, one.name), dtype=np.float64)
                object.__setattr__(self, one.name, value)
                require(np.isfinite(value), self.name, one.name, value, "finite")
                if types.get(one.name) == "positive":
                    positive(self, one.name)
                elif types.get(one.name) == "unit":
                    probability(self, one.name)
        self.check()

    def check(self) -> None:
        """Raise Unsuitable (E303) for arguments that the prior cannot take."""

    @property
    def proper(self) -> bool:
        """Whether the prior can be drawn from."""
        return not self.improper

    @property
    @abstractmethod
    def bounds(self) -> Bounds:
        """The interval of each entry; (-inf, inf) for matrices."""

    # Closed forms that learning asks for; None where the density is not of that form.

    @property
    def weights(self) -> Array | None:
        """alpha of a density of probabilities, proportional to prod p_k^(alpha_k - 1)."""
        return None

    @property
    def scatter(self) -> Scatter | None:
        """Parameters of an inverse Wishart density of covariances; None of other densities."""
        return None

    @property
    def gamma_power(self) -> GammaPower | None:
        """Law of a positive hyper a power of which is gamma distributed; None of other priors."""
        return None

    @property
    def bend(self) -> Array | None:
        """Minus the second derivative of the log density, where it is constant."""
        return None

    @property
    def penalty(self) -> Array | None:
        """rate of a density of precision matrices, proportional to exp(-rate/2 sum |P_ij|)."""
        return None

    def pull_bounds(self, lower: Array, upper: Array) -> dict[str, Array]:
        """dF/dargument from dF/dlower and dF/dupper, where arguments set the bounds."""
        return {}

    @abstractmethod
    def log_density(self, value: Array) -> float:
        """The log density, summed over entries; -inf outside the support."""

    @abstractmethod
    def gradient(self, value: Array) -> dict[str, Array]:
        """d log density / d value under "value", and d / d argument under each argument's name.

        Each has its argument's shape. A covariance's is symmetric: d log p = sum_ij G_ij dS_ij.
        """

    @abstractmethod
    def sample(self, rng: Generator, shape: tuple[int, ...] = ()) -> Array:
        """One draw of a value of that shape. Raises TypeError unless `proper`."""

    @abstractmethod
    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        """A value of that shape in the middle of the prior, where an optimiser may start."""


def left_out(name: str, argument: str) -> Callable[[], Array]:
    """What makes the value that the language declares for an argument that is left out."""
    known = declared("prior", name).parameter(argument)
    assert known is not None and known.left_out is not None
    value = known.left_out
    return lambda: np.array(value)


class Terms(NamedTuple):
    """Entry by entry: the log density and its slopes in the value and in the arguments."""

    log_density: Array
    slope: Array
    arguments: dict[str, Array]


class Elementwise(Prior):
    """Entries are independent, each with a density, and a distribution function to invert.

    From outside, (shape / scale) (1 + x / scale)^(-shape - 1) on x > 0:

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> import numpy as np
    >>> import lgmdsl as lgm
    >>> from lgmdsl.extend import (Array, Elementwise, Parameter, Signature, Terms,
    ...     natural_bounds)
    >>> @lgm.register
    ... @dataclass(frozen=True, eq=False)
    ... class Lomax(Elementwise):
    ...     shape: Array
    ...     scale: Array
    ...     signature: ClassVar[Signature] = Signature(
    ...         "lomax", "prior",
    ...         (Parameter("shape", "positive"),
    ...          Parameter("scale", "positive", required=False, default=1.0)),
    ...         observed=("positive",), summary="Pareto of the second kind")
    ...     @property
    ...     def bounds(self):
    ...         return natural_bounds("positive")
    ...     def terms(self, value):
    ...         a, b, log = self.shape, self.scale, np.log1p(value / self.scale)
    ...         return Terms(np.log(a / b) - (a + 1) * log, -(a + 1) / (b + value),
    ...                      {"shape": 1 / a - log, "scale": (a * value / b - 1) / (b + value)})
    ...     def quantile(self, p):
    ...         return self.scale * np.expm1(-np.log1p(-p) / self.shape)
    >>> m = lgm.Model()
    >>> obs = m.index("obs")
    >>> y = m.data("y", obs, "real")
    >>> s = m.hyper("s", "positive", lgm.lomax(shape=2))
    >>> a = m.latent("a", [], lgm.normal(sd=1))
    >>> m.observe(y, lgm.normal(mean=m.let("eta", obs, a), sd=s))
    >>> fit = lgm.fit(m, {"y": [0.2, -0.4, 1.1, 0.3, 0.8]}, hyper="map")
    >>> print(fit.status, round(float(fit.mean("s")), 2))
    converged 0.51
    """

    @abstractmethod
    def terms(self, value: Array) -> Terms:
        """The terms at a value within the bounds."""

    @abstractmethod
    def quantile(self, p: Array) -> Array:
        """The value that lies above a share p of the prior, 0 < p < 1."""

    def log_density(self, value: Array) -> float:
        value = np.asarray(value, dtype=np.float64)
        lower, upper = self.bounds
        logs = self._terms(value).log_density
        # an edge where the density has no end is left out
        inside = (value >= lower) & (value <= upper) & ~np.isnan(logs)
        return float(np.where(inside, logs, -np.inf).sum())

    def gradient(self, value: Array) -> dict[str, Array]:
        value = np.asarray(value, dtype=np.float64)
        terms = self._terms(value)
        out = {k: summed_to(s, value, getattr(self, k).shape) for k, s in terms.arguments.items()}
        return {VALUE: np.array(np.broadcast_to(terms.slope, value.shape)), **out}

    def _terms(self, value: Array) -> Terms:
        """The terms; those of the latest value are kept, as its gradient follows its density."""
        terms = self._latest.get(key := (value.shape, value.tobytes()))
        if terms is None:
            with np.errstate(all="ignore"):
                terms = self.terms(value)
            self._latest.clear()
            self._latest[key] = terms
        return terms

    @cached_property
    def _latest(self) -> dict[tuple[tuple[int, ...], bytes], Terms]:
        return {}

    def sample(self, rng: Generator, shape: tuple[int, ...] = ()) -> Array:
        return self._within(self.quantile(np.maximum(rng.random(shape), TINIEST)), shape)

    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        middle = self._middles.get(shape)  # a quantile may be sought by bisection
        if middle is None:
            middle = self._within(self.quantile(np.full(shape, 0.5)), shape)
            self._middles[shape] = middle
        return middle.copy()

    @cached_property
    def _middles(self) -> dict[tuple[int, ...], Array]:
        return {}

    def _within(self, value: Array, shape: tuple[int, ...]) -> Array:
        """Rounding may put a quantile on the edge of an open interval."""
        lower, upper = self.bounds
        inside = np.clip(value, np.nextafter(lower, np.inf), np.nextafter(upper, -np.inf))
        return np.array(np.broadcast_to(inside, shape))


class InLogits(Elementwise):
    """A share's prior with so long a tail near 1 that half its mass may lie beyond the last double
    before it: searches go along 2 sinh(x) = logit(share), by the density there."""

    @abstractmethod
    def in_logits(self, logit: Array) -> Terms:
        """log density of L = logit(share) and its slope in L, exact where the share rounds to 1."""


def summed_to(slopes: Array, value: Array, shape: tuple[int, ...]) -> Array:
    """Slopes entry by entry, summed over the entries that share an argument of that shape."""
    slopes = np.broadcast_to(slopes, np.broadcast_shapes(np.shape(slopes), value.shape))
    lead = slopes.ndim - len(shape)
    slopes = slopes.sum(axis=tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and slopes.shape[i] != 1)
    return np.asarray(slopes.sum(axis=axes, keepdims=True))


def positive(prior: Prior, *arguments: str) -> None:
    """Require that arguments are positive."""
    for argument in arguments:
        value = getattr(prior, argument)
        require(value > 0.0, prior.name, argument, value, "positive")


def probability(prior: Prior, *arguments: str) -> None:
    """Require that arguments lie strictly between 0 and 1."""
    for argument in arguments:
        value = getattr(prior, argument)
        fine = (value > 0.0) & (value < 1.0)
        require(
            fine,
            prior.name,
            argument,
            value,
            "between 0 and 1, both excluded",
            f"give a probability, e.g. {argument} = 0.05",
        )


POSITIVE = Bounds(np.array(0.0), np.array(np.inf))
UNIT = Bounds(np.array(0.0), np.array(1.0))
CORRELATION = Bounds(np.array(-1.0), np.array(1.0))
REAL = Bounds(np.array(-np.inf), np.array(np.inf))


def natural_bounds(type_: str) -> Bounds:
    """The interval of a hyper type's entries."""
    known = {"positive": POSITIVE, "unit": UNIT, "simplex": UNIT, "correlation": CORRELATION}
    return known.get(type_, REAL)


# ---- refusals ----------------------------------------------------------------------------------
# What a prior refuses: an argument, what is wanted of it, and a remedy.
#
# A prior knows nothing of the model's text; the canonical form adds the place.


class Unsuitable(LgmError):
    """E303: an argument that a prior cannot take."""

    def __init__(self, argument: str, message: str, label: str = "", help: str = "") -> None:
        self.argument = argument
        self.diagnostic = Diagnostic("E303", message, label=label, help=help)
        super().__init__(Diagnostic("E303", message, details=(label,) if label else (), help=help))


def require(
    fine: BoolArray | bool, prior: str, argument: str, value: Array, wanted: str, help: str = ""
) -> None:
    """Raise Unsuitable, with the first entry of `value` at fault, unless all of `fine` holds."""
    whole = np.broadcast_arrays(np.asarray(fine), value)
    if whole[0].all():
        return
    worst = float(whole[1][~whole[0]].reshape(-1)[0])
    raise Unsuitable(
        argument,
        f"`{argument}` of `{prior}` must be {wanted}",
        f"is {worst:g}",
        help or f"give {argument} a value that is {wanted}",
    )
