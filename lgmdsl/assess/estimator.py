"""What every estimator of an exact posterior declares: what it applies to, what it costs, and what
it yields, an evidence, draws or both. `ladder` has them in order."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lgmdsl.accuracy.limits import R_HAT
from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.site import Site


class NotEstimated(Exception):
    """An estimator cannot be had where it seemed to apply: why, in words."""


@dataclass(frozen=True, eq=False)
class MixturePoint:
    """A hyperparameter point of a posterior: its `share`, the problem there, its Gaussian, and
    `level`, the log evidence that the shares were made with; `problem`: its engine too, for an
    estimator that asks for one. A fit at fixed hyperparameters is one point of share 1 and level 0.
    """

    share: float
    sites: Sequence[Site]
    linear: LinearGaussian
    condition: Callable[[], Conditioned]
    level: float = 0.0
    problem: Callable[[], Problem] | None = None

    @classmethod
    def of(cls, problem: Problem, q: Conditioned) -> MixturePoint:
        """A problem with its Gaussian."""
        at = problem.sites, problem.engine.linear
        return cls(1.0, *at, lambda: q, problem=lambda: problem)

    @cached_property
    def q(self) -> Conditioned:
        """The Gaussian, conditioned once."""
        return self.condition()


@dataclass(frozen=True, eq=False)
class ExactDraws:
    """Equally weighted draws of p(z | y), (draws, n), point after point; `point`, (draws,): the
    hyperparameter point of each. `chains`: that they come in; 1 of weighted draws of one density.
    `ess`: as many independent draws give the means, squares and 5 and 95 % points of latents and
    predictors with the same error, at worst. `r_hat`: how far chains disagree, above about 1.05 so
    much that nothing should be made of the draws. `operations`: counted. `basis`, `made`: how the
    accuracy and the page name them. `log_evidence`: log p(y | theta) of the first point, NaN where
    that is not known.
    """

    z: Array
    point: IntArray
    chains: int
    ess: float
    r_hat: float
    operations: float
    basis: str
    made: str = ""
    log_evidence: float = math.nan

    @property
    def agree(self) -> bool:
        """Whether chains do not disagree."""
        return self.r_hat <= R_HAT


def allotted(shares: Sequence[float], n: int) -> IntArray:
    """n draws in proportion to the shares."""
    ends = np.round(np.cumsum(shares) / np.sum(shares) * n).astype(np.int64)
    return np.asarray(np.diff(ends, prepend=0))


@dataclass
class Drawing:
    """Draws of a mixture under way: `counts` of all points, the `number` of the one that is drawn
    from, the `budget` in operations and what of it is `spent`."""

    shares: Sequence[float]
    counts: IntArray
    seed: int
    budget: float
    number: int = -1
    spent: float = 0.0

    @property
    def count(self) -> int:
        """Draws of this point."""
        return int(self.counts[self.number])

    @property
    def first(self) -> bool:
        """Whether nothing is drawn yet."""
        return not self.counts[: self.number].any()

    @property
    def shares_left(self) -> Array:
        """Shares of this point and of those after it, 0 of points without draws."""
        return np.where(self.counts > 0, self.shares, 0.0)[self.number :]


class Estimator(ABC):
    """One way to an exact posterior, by the `seed` of its draws. What it cannot yield it leaves."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    @abstractmethod
    def applies(self, point: MixturePoint) -> bool:
        """Whether a posterior is of the kind that it is for, as far as that is seen at once."""

    def cost(self, point: MixturePoint) -> float:
        """Operations of an evidence at a point, about; infinite where there is none."""
        return math.inf

    def log_evidence(self, point: MixturePoint) -> float:
        """log p(y | theta) at a point; NaN where it cannot be had."""
        return math.nan

    def at(self, point: MixturePoint, drawing: Drawing) -> ExactDraws | None:
        """Draws of one point, as many as `drawing` says; None where the budget does not reach."""
        return None

    def draws(
        self,
        points: Iterable[MixturePoint],
        shares: Sequence[float],
        count: int,
        budget: float = math.inf,
    ) -> ExactDraws | None:
        """Draws of sum_k share_k p(z | y, theta_k), of each point in proportion to its share; none
        of points with less than half a draw. Their effective size is that of the stratified mean,
        and r_hat^2 = sum share_k r_hat_k^2. None where `budget`, in operations, does not reach. The
        same arguments give the same draws. Raises NotEstimated."""
        drawing = Drawing(shares, allotted(shares, count), self.seed, budget)
        parts = list[ExactDraws]()
        whole = inverse = squares = 0.0
        for drawing.number, point in enumerate(points):
            if not drawing.count:
                continue
            part = self.at(point, drawing)
            if part is None:
                return None
            parts.append(replace(part, point=np.full(len(part.z), drawing.number)))
            drawing.spent += part.operations
            whole += point.share
            inverse += point.share**2 / max(min(part.ess, len(part.z)), 1e-300)
            squares += point.share * part.r_hat**2
        if not parts:
            return None
        return replace(
            parts[0],
            z=np.concatenate([p.z for p in parts]),
            point=np.concatenate([p.point for p in parts]),
            ess=whole**2 / inverse,
            r_hat=math.sqrt(squares / whole),
            operations=drawing.spent,
        )
