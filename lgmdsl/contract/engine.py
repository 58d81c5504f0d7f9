"""Engines: condition the linear-Gaussian model on site weights and shifts.

    log_normaliser(W, b) = log int p(z) exp(-1/2 s'Ws + b's) dz,   s = Bz + c

Statistics of the site blocks come as tuples, one array for each block: (N,) or (N, K) for means
and shifts, (N,) or (N, K, K) for variances and weights (`Rows`). Weights may be signed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from lgmdsl.arrays import Array, Matrix
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.rows import Rows as Rows
from lgmdsl.contract.rows import inner, quadratic, summed
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.vocabulary.notes import NO_NOTES, Notes

if TYPE_CHECKING:
    from numpy.random import Generator

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Estimate:
    """`flops` of one conditioning with variances, `doubles` held at once; the engine itself where
    it had to be built to know."""

    flops: float
    doubles: float
    engine: Engine | None = None


@dataclass(frozen=True)
class Adjoints:
    """Derivatives of F = log_normaliser, or of F = log_normaliser + t'E[s], at fixed (W, b, t).

    `offset`: alpha = b - Wm for each site block, flattened (P,); a tilt adds t - W Cov(s) t.
    `operator[k][name]`: dF/dB of site block k and latent block name, (P, n_b) dense, or csr on B's
    pattern.
    `mean[name]`: (n_b,). `covariance[name]` or `precision[name]`: dF/dK or dF/dQ,
    (n_b, n_b), the latter dense or csr on Q's pattern. `factors[name]`, where an engine has it at
    less cost: dF/dK_f of each factor of K = K_1 (x) K_2 (x) ..., None for those without arguments.
    """

    offset: Rows
    operator: tuple[Mapping[str, object], ...]
    mean: Mapping[str, Array]
    covariance: Mapping[str, Array] = field(default_factory=dict)
    precision: Mapping[str, Matrix] = field(default_factory=dict)
    factors: Mapping[str, Sequence[Array | None]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Draws:
    """Exact joint draws of z, (size, n), and how far out each of them lies.

    `radius`, (size,): the squared Mahalanobis distance (z - E z)'Cov^+(z - E z), a chi-square with
    `rank` degrees of freedom, `rank` being that of Cov.
    """

    z: Array
    radius: Array
    rank: int


@dataclass(frozen=True)
class Errors:
    """Monte Carlo standard errors of log_normaliser and of `variance`."""

    log_normaliser: float
    variance: Rows


@dataclass(frozen=True, eq=False)
class Leftover:
    """What an iterative solution of A d = h leaves: Q d = B'alpha - residual, d = E[z] - mu.

    Both (n,). Where d moves along a line, so does what is left.
    """

    delta: Array
    residual: Array

    def towards(self, end: Leftover, t: float) -> Leftover:
        """(1 - t) self + t end."""
        return Leftover(
            self.delta + t * (end.delta - self.delta),
            self.residual + t * (end.residual - self.residual),
        )


def _exponent(weight: Array, shift: Array, mean: Array) -> Array:
    return 0.5 * quadratic(weight, mean) - inner(shift, mean)


def _sizes(weight: Array, shift: Array, mean: Array) -> Array:
    return np.abs(quadratic(weight, mean)) + np.abs(inner(shift, mean))


class Conditioned(ABC):
    """The Gaussian q(z) proportional to p(z) exp(-1/2 s'Ws + b's), conditioned on constraints.

    Lazy: means and log_normaliser come with the factorisation, variances when first asked for.
    """

    log_normaliser: float
    weight: Rows
    shift: Rows

    @property
    def centred(self) -> float:
        """log_normaliser + 1/2 m'Wm - b'm = -1/2 (m_z - mu)'K^-1 (m_z - mu) - 1/2 log|I + KB'WB|:
        what is left of an evidence when weights are so large that those terms cancel."""
        value = self.log_normaliser
        for w, b, m in zip(self.weight, self.shift, self.mean, strict=True):
            value += summed(_exponent, w, b, m)
        return value

    @property
    def lost(self) -> float:
        """About how many nats any evidence may have lost to the cancellation of its terms, which
        grow with m'Wm and b'm."""
        value = 0.0
        for w, b, m in zip(self.weight, self.shift, self.mean, strict=True):
            value += summed(_sizes, w, b, m)
        return value * EPSILON

    @abstractmethod
    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        """The Gaussian at these weights and another shift; engines need no second factorisation."""

    @property
    @abstractmethod
    def mean(self) -> Rows:
        """m = E_q[s] for each site block."""

    @property
    @abstractmethod
    def variance(self) -> Rows:
        """Var_q[s]: (N,), or the (N, K, K) blocks of vector sites."""

    @property
    @abstractmethod
    def latent_mean(self) -> Array:
        """(n,) E_q[z], blocks in order."""

    @property
    @abstractmethod
    def latent_variance(self) -> Array:
        """(n,) diagonal of Cov_q[z]."""

    @abstractmethod
    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        """Mean and variance (P,), or with `full` covariance (P, P), of any affine functional."""

    @abstractmethod
    def solve(self, rhs: Array) -> Array:
        """Cov_q[z] rhs for rhs of shape (n,) or (n, k)."""

    @abstractmethod
    def sample(self, rng: Generator, size: int) -> Array:
        """(size, n) exact joint draws of z."""

    @abstractmethod
    def draw(self, rng: Generator, size: int) -> Draws:
        """The draws of `sample`, from the same random numbers, with their distances."""

    @abstractmethod
    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """Derivatives of log_normaliser in B, c, the prior means and K (or Q); with a `tilt` t,
        shaped like the shifts, those of log_normaliser + t'E[s], for one more solve.

        E[s] is the derivative of log_normaliser in b, and all adjoints are quadratic in b: theirs
        along t is what a tilt adds.
        """

    def squared_length(self, slope: Array) -> float:
        """g'Cov_q[z] g for g of shape (n,); engines that iterate need not take it to all digits."""
        return float(slope @ self.solve(slope))

    @property
    def unconfined(self) -> Conditioned:
        """p(z) exp(-1/2 s'Ws + b's), normalised: this very Gaussian, except under a `confinement`
        of q. Importance weights and cavities, which divide by q, are of this one."""
        return self

    @property
    def confinement(self) -> Confinement | None:
        """What q is kept to; None: any Gaussian."""
        return None

    @property
    def leftover(self) -> Leftover | None:
        """What the mean lacks; None where it is exact to rounding."""
        return None

    @property
    def errors(self) -> Errors | None:
        """Standard errors of answers that are estimates; None where they are exact."""
        return None

    @property
    def latent_variance_error(self) -> Array | None:
        """(n,) standard errors of `latent_variance`; None where it is exact."""
        return None

    @property
    def reported(self) -> Conditioned:
        """The posterior that a run hands on: itself, but where what drove the run is not what may
        be reported (variances from Lanczos vectors, which are too small)."""
        return self

    @property
    def remark(self) -> str:
        """What a fit says of how it came about; "" (the default) where there is nothing to say."""
        return ""

    @property
    def doubt(self) -> str:
        """Why a run that ended at it has not converged, whatever its residual; "" (the default)
        where it has."""
        return ""


class Engine(ABC):
    """Linear-Gaussian algebra for one structure of prior and operators.

    `exact`: whether variances and normalisers are, to rounding; else they are estimates.
    `estimates`: by what, as values of the option `variances`, of which `estimating` makes another.
    `summary`, one sentence, and `notes` are for its page in the manual.

    One from outside: `help(lgmdsl.extend)`.
    """

    name: ClassVar[str]
    exact: ClassVar[bool] = True
    estimates: ClassVar[tuple[str, ...]] = ()
    summary: ClassVar[str] = ""
    notes: ClassVar[Notes] = NO_NOTES
    linear: LinearGaussian

    def __init__(self, linear: LinearGaussian) -> None:
        self.linear = linear

    @property
    def unconfined(self) -> Engine:
        """The engine of all Gaussians: this one, except where it confines q."""
        return self

    @property
    @abstractmethod
    def prior_mean(self) -> Rows:
        """s0 = E[s] under the (constrained) prior, for each site block; flat blocks count as 0."""

    def pulled_back(self, rows: Rows) -> Array:
        """B'x for x given by site blocks, (n,)."""
        return StackedPredictors(self.linear).pulled(rows)

    @abstractmethod
    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        """Factorise once. An indefinite or singular posterior is `Failed`, never jittered."""

    def estimating(self, variances: str, count: int) -> Engine:
        """This engine with variances by one of `estimates` from `count` samples or vectors; 0: as
        many as it takes by itself."""
        return self

    def strain(self, weight: Rows) -> float:
        """About how many nats log_normaliser loses at such weights because priors are wide in
        their units; 0 of engines whose digits do not depend on that."""
        return 0.0

    def remade(self, linear: LinearGaussian) -> Engine:
        """An engine with the same settings for the same model in other units."""
        return type(self)(linear)

    def patient(self) -> Engine:
        """This engine where it was asked for by its name: it refuses nothing for its time."""
        return self

    def expect(self, steps: float, fits: float) -> Engine:
        """The engine, with what lies ahead: about how many conditionings in a fit, and how many
        such fits. One that would not end refuses them at the first."""
        return self

    def approach(
        self, weight: Rows, shift: Rows, begin: Leftover | None, share: float
    ) -> Conditioned | Failed:
        """Factorise once as `condition` does; an engine that iterates may start its mean at `begin`
        and stop where the residual is `share` of what it was there: an inexact Newton step."""
        return self.condition(weight, shift)

    @classmethod
    @abstractmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        """Why this engine cannot take the model, in one sentence; empty where it can."""

    @classmethod
    def cost(cls, linear: LinearGaussian) -> Estimate:
        """What one conditioning costs: the engines that take a model are compared by it."""
        raise NotImplementedError(f"{cls.__name__} declares no cost")

    @classmethod
    def build(cls, linear: LinearGaussian, seed: int) -> Engine:
        """The engine of a model; `seed` is for engines that estimate. By default `cls(linear)`."""
        make: Callable[[LinearGaussian], Engine] = cls
        return make(linear)


#: The engine of a model, or of a part of one. Raises MethodError where there is none.
MakeEngine: TypeAlias = Callable[[LinearGaussian], Engine]


class Confinement(ABC):
    """A set of Gaussians. Of sites (W, b), q is its member nearest to p(z) exp(-1/2 s'Ws + b's):

        log_normaliser(W, b) = max over q of E_q[log p(z) - 1/2 s'Ws + b's - log q(z)]

    in KL(q || .). That is at most the log normaliser of all Gaussians. Its derivatives are E_q[s]
    in b and -1/2 E_q[ss'] in W, and those in the prior and in B are partial ones at fixed q: an
    evidence made of it is a lower bound with the gradients that back ends and learning take, and
    objectives of (W, b) hold as they are. What does not is that q is p(z) exp(-1/2 s'Ws + b's) up
    to a constant: that Gaussian is `Conditioned.unconfined`.
    """

    @property
    @abstractmethod
    def note(self) -> str:
        """What every fit says of q, in one clause."""

    @abstractmethod
    def engine(self, whole: Engine, make: MakeEngine) -> Engine:
        """The engine that conditions under it, for the model of `whole`, whose answers are exact;
        `make` gives engines of parts of that model."""


# ---- failed ------------------------------------------------------------------------------------
# Why a posterior could not be conditioned: a value with a kind and what it is about.
#
# What reads a failure asks for its kind and its latents. The sentence is made of them: with an
# engine's own `name[entry]` in `Failed.reason`, with the user's labels in `Failed.worded`.


class Failure(Enum):
    """Kinds of failures; the value is the sentence, with the failure's `direction` or `number`."""

    UNDETERMINED = "no datum or prior determines {direction}"
    HIDDEN = "the prior is so stiff that rounding hides what the data say of {direction}"
    CONTRADICTION = "the constraints contradict one another, or the prior"
    AGAINST_PRIOR = "the constraints contradict the prior, which holds that combination fixed"
    SINGULAR_CONSTRAINTS = "the prior covariance of the constraints is singular"
    SINGULAR_ON_CONSTRAINTS = "the posterior covariance of the constraints is singular"
    INDEFINITE_ON_CONSTRAINTS = "the posterior is not positive definite on the constraints"
    INDEFINITE = "the posterior precision is not positive definite"
    NEGATIVE_WEIGHTS = "the posterior precision is not positive definite (negative site weights)"
    NO_NEGATIVE_WEIGHTS = "the iterative engine takes no negative site weights"
    NOT_FINITE = "the posterior precision is not finite"
    WEIGHT_NOT_FINITE = "a site weight is not finite"
    PRIOR_NOT_FINITE = (
        "the prior covariance of the predictors is not finite, or not positive semidefinite"
    )
    ILL_CONDITIONED = "the posterior precision is too badly conditioned for conjugate gradients"
    INACCURATE = (
        "the posterior precision is too badly conditioned for conjugate gradients: "
        "means may be {number:.2g} posterior sds off"
    )
    NOT_CONVERGED = "conjugate gradients did not converge in {number:.0f} iterations"

    @property
    def contradicts(self) -> bool:
        """Whether no value of the latents satisfies every constraint."""
        return self in (Failure.CONTRADICTION, Failure.AGAINST_PRIOR)

    @property
    def rounding(self) -> bool:
        """Whether the posterior exists, and double precision cannot hold it."""
        return self in (Failure.HIDDEN, Failure.ILL_CONDITIONED, Failure.INACCURATE)


@dataclass(frozen=True)
class Term:
    """`coefficient` times the entry `entry` (row-major) of the latent block `latent`."""

    latent: str
    entry: int
    coefficient: float = 1.0


@dataclass(frozen=True)
class Direction:
    """A combination of latents, the largest terms first; `more`: whether others are left out."""

    terms: tuple[Term, ...]
    more: bool = False

    def worded(self, label: Callable[[str, int], str]) -> str:
        """`b0[0]`; `a direction of b0[0]`; `the direction b0[0] - 0.5 a[3] + ...`."""
        first, *others = (label(t.latent, t.entry) for t in self.terms)
        if not others:
            return f"a direction of {first}" if self.more else first
        sign = -1.0 if self.terms[0].coefficient < 0.0 else 1.0
        text = _size(self.terms[0].coefficient) + first
        for term, name in zip(self.terms[1:], others, strict=True):
            join = " - " if sign * term.coefficient < 0.0 else " + "
            text += join + _size(term.coefficient) + name
        return f"the direction {text}{' + ...' if self.more else ''}"


def _size(coefficient: float) -> str:
    return "" if abs(abs(coefficient) - 1.0) < 5e-4 else f"{abs(coefficient):.3g} "


def entry_name(latent: str, entry: int) -> str:
    """The label that an engine has for an entry of a latent block."""
    return f"{latent}[{entry}]"


@dataclass(frozen=True)
class Failed:
    """A factorisation that does not exist (indefinite posterior, improper model): a value.

    `rounding` says that the posterior exists, and double precision cannot hold it. `kind`: what
    failed, None where the `reason` alone says it; `direction`: the combination of latents that a
    kind is about; `number`: what its sentence counts or measures. The reason of a kind is its
    sentence, where none is given.
    """

    reason: str = ""
    rounding: bool = False
    kind: Failure | None = None
    direction: Direction | None = None
    number: float = 0.0

    def __post_init__(self) -> None:
        if self.kind is not None:
            object.__setattr__(self, "rounding", self.rounding or self.kind.rounding)
            object.__setattr__(self, "reason", self.reason or self.worded(entry_name))

    @property
    def latents(self) -> tuple[str, ...]:
        """The latent blocks of the direction, each once, in order."""
        terms = () if self.direction is None else self.direction.terms
        return tuple(dict.fromkeys(t.latent for t in terms))

    def worded(self, label: Callable[[str, int], str]) -> str:
        """The sentence, where the entry i of a latent block is called label(block, i)."""
        if self.kind is None:
            return self.reason
        direction = "" if self.direction is None else self.direction.worded(label)
        return self.kind.value.format(direction=direction, number=self.number)
