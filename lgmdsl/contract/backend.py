"""Back ends iterate between site answers and engine. Frozen dataclasses: options are fields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from lgmdsl.contract.engine import Confinement, Failed, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Expected, Pointwise, Widths
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.vocabulary.notes import NO_NOTES, Notes


@dataclass(frozen=True)
class BackendSpec:
    """`needs`: the question types it asks of every site. `requires`: properties every site must
    have; `forbids`: properties none may have (Laplace forbids KINKED, code E502).
    `monotone`: every step raises the objective (watched by the driver). `ranks`: of two runs that
    converged the one with the higher objective is the better, though a step need not raise it.
    `warm`: the method whose fit is a better start than its own, where it can run.
    `scout`: a cheaper method whose evidence has its modes in the hyperparameters where this one's
    are, or near, for sites that are log-concave.
    `guarantee`: what its log evidence is when every site answers exactly. `evidence`: whether it
    has one at all; without, a posterior's is nan where not all sites are Gaussian.
    `confined`: whether its q may be less than any Gaussian (`Backend.confinement`), so that its
    answer need not be exact where all sites are Gaussian.
    `additive`: whether its answer depends on the sites through the sum of log t alone, so that m
    sites that are alike and one of t^m have the same.
    `eliminates`: whether its answer is that of the whole model where sites have latents of their
    own: at their mode, of a method that needs Pointwise (`PointwiseAnswer.eliminated`); at their
    best distribution given the predictors, of others.
    `row_sites`: whether it takes sums over rows whose rows can have Gaussian sites of their own
    (`SumsOfRows.row_sites`), though its answer does not depend on the sums alone.
    `any_variances`: whether its bound holds whatever variances it is driven by, as those of few
    Lanczos vectors.
    `row_by_row`: whether its steps are of single rows, so that sites are asked some at a time.
    `notes`: what else its page in the manual says."""

    name: str
    needs: type
    requires: Property = Property.NONE
    forbids: Property = Property.NONE
    guarantee: Guarantee = Guarantee.APPROXIMATE
    monotone: bool = False
    ranks: bool = False
    vector: bool = True  #: whether vector-valued sites are taken
    only_scalar: str = ""  #: why not, where they are not
    evidence: bool = True
    confined: bool = False
    additive: bool = False
    eliminates: bool = False
    row_sites: bool = False
    any_variances: bool = False
    row_by_row: bool = False
    warm: str = ""
    scout: str = ""
    max_steps: int = 100
    paper: str = ""
    summary: str = ""
    notes: Notes = NO_NOTES

    @property
    def from_sums(self) -> bool:
        """Whether what it needs of single rows follows from their sums, of which rows can be asked
        again."""
        return self.needs in (Pointwise, Expected, Widths)

    @property
    def takes_sums(self) -> bool:
        """Whether it takes sites that are sums over rows."""
        known = self.from_sums and not self.row_by_row
        return self.row_sites or (known and self.additive and self.vector)

    @property
    def comparable(self) -> bool:
        """Whether the objective tells which of two fixed points is the better."""
        return self.monotone or self.ranks


@runtime_checkable
class State(Protocol):
    """What the driver reads of a back end's state."""

    @property
    def objective(self) -> float:
        """The evidence (or bound) at this state; compared between steps."""

    @property
    def failed(self) -> Status | None:
        """Set where the last step could not be made: stalled, diverged or numerical_error."""


S = TypeVar("S", bound=State)


class Backend(ABC, Generic[S]):
    """One inference method. The driver calls `start`, then `step` until `residual` and the change
    of the objective meet their tolerances, then `posterior`.

    From outside, Laplace by s <- (1 - damping) s + damping E_q[s]:

    >>> from dataclasses import dataclass
    >>> from typing import Any, ClassVar
    >>> import lgmdsl as lgm
    >>> from lgmdsl.extend import (Backend, BackendSpec, Failed, GaussianPosterior, Guarantee,
    ...     Pointwise, Rows, Status, rows)
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     s: Rows
    ...     q: Any
    ...     objective: float = float("-inf")
    ...     failed: Status | None = None
    >>> @lgm.register
    ... @dataclass(frozen=True)
    ... class FixedPoint(Backend[Point]):
    ...     damping: float = 1.0
    ...     spec: ClassVar[BackendSpec] = BackendSpec(name="fixed-point", needs=Pointwise)
    ...     def start(self, problem, warm=None):
    ...         return self.at(problem, problem.engine.prior_mean if warm is None
    ...                        else warm.conditioned.mean)
    ...     def step(self, problem, state):
    ...         return self.at(problem, rows.interpolate(state.s, state.q.mean, self.damping))
    ...     def residual(self, problem, state):
    ...         q = state.q
    ...         return max(float(max(abs(m - s) / v**0.5))
    ...                    for m, s, v in zip(q.mean, state.s, q.variance))
    ...     def posterior(self, problem, state):
    ...         q = state.q
    ...         return GaussianPosterior(q.weight, q.shift, q, state.objective,
    ...                                  Guarantee.APPROXIMATE)
    ...     def at(self, problem, s):
    ...         answers = problem.pointwise(s)
    ...         w = tuple(-a.curvature for a in answers)
    ...         b = rows.shift_of(tuple(a.slope for a in answers), w, s)
    ...         q = problem.engine.condition(w, b)
    ...         if isinstance(q, Failed):
    ...             return Point(s, None, failed=Status.numerical_error)
    ...         left = tuple(a.value + rows.quadratic(k, x) / 2 - rows.inner(c, x)
    ...                      for a, k, c, x in zip(answers, w, b, s))
    ...         return Point(s, q, q.log_normaliser + rows.total(left))
    >>> m = lgm.Model()
    >>> obs = m.index("obs")
    >>> y = m.data("y", obs, "count")
    >>> a = m.latent("a", [], lgm.normal(sd=1))
    >>> m.observe(y, lgm.poisson(log_rate=m.let("eta", obs, a)))
    >>> fits = [lgm.fit(m, {"y": [1, 3, 0, 2]}, method=k) for k in ("fixed-point", "laplace")]
    >>> print(*(f"{fit.status} {fit.log_evidence:.4f}" for fit in fits))
    converged -7.0700 converged -7.0700
    """

    spec: ClassVar[BackendSpec]

    def confinement(self, linear: LinearGaussian) -> Confinement | None:
        """What it keeps q in for this model; None: all Gaussians. The problem's engine conditions
        in it. Raises MethodError where an option does not suit the model."""
        return None

    @property
    def further(self) -> tuple[type, ...]:
        """Questions that its options ask of sites in addition to `spec.needs`."""
        return ()

    @abstractmethod
    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> S:
        """The first state; `warm` is an earlier posterior of a problem with the same layout."""

    @abstractmethod
    def step(self, problem: Problem, state: S) -> S: ...

    @abstractmethod
    def residual(self, problem: Problem, state: S) -> float:
        """Distance from the fixed point, in posterior sds of the means (never the last move)."""

    @abstractmethod
    def posterior(self, problem: Problem, state: S) -> GaussianPosterior: ...


# ---- options -----------------------------------------------------------------------------------
# A back end's options: what each means, and ranges for its `__post_init__` (the caller names
# method and option).


T = TypeVar("T")
MEANING, CHOICES = "meaning", "choices"


def option(default: T, meaning: str, choices: Iterable[str] = ()) -> T:
    """A field of a back end that is an option: its default, what it means (with unit and range) for
    the manual, and its values where it is a word."""
    metadata: Mapping[str, Any] = {MEANING: meaning, CHOICES: tuple(choices)}
    return field(default=default, metadata=metadata)


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raises ValueError where value is outside [least, most], or no number."""
    if not least <= value <= most:
        raise ValueError(f"{name} lies in [{least:g}, {most:g}], not {value:g}")


def check_least(name: str, value: int, least: int) -> None:
    """Raises ValueError where value is below `least`."""
    if value < least:
        raise ValueError(f"{name} is at least {least}, not {value}")


# ---- iterated ----------------------------------------------------------------------------------
# Back ends whose rounds are a map of (W, b) without memory: its derivative is their rate.


# (W, b) after one round from (W, b).
Round: TypeAlias = Callable[[Problem, Rows, Rows], tuple[Rows, Rows] | Failed]


@runtime_checkable
class Iterated(Protocol):
    """A back end that converges linearly, at the rate that its round's derivative says."""

    def rounds(self) -> Mapping[str, Round]:
        """Rounds of the back end by name, its own first, then variants with the same fixed
        point."""
