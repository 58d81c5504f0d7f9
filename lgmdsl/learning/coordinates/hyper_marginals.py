"""What a fit asks of the posterior of its hyperparameters, however they were learned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.hypers import HyperBlock

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True)
class Stored:
    """What a result file keeps of marginals: attributes and arrays by name."""

    attributes: Mapping[str, str | int | float] = field(default_factory=dict)
    arrays: Mapping[str, AnyArray] = field(default_factory=dict)


@dataclass(frozen=True)
class OneHyper:
    """A hyperparameter as a function of all, whose values at many places are found at once."""

    name: str

    def __call__(self, theta: Theta) -> Array:
        return np.asarray(theta[self.name], dtype=np.float64)


class HyperMarginals(ABC):
    """Marginals of functions of the hyperparameters, entry by entry of the function's value.

    Functions take all hyperparameters by name. Those who know no more than marginals leave `draws`,
    `places` and `nodes` as they are: draws then have the hyperparameters of the mixture's points.
    """

    def __repr__(self) -> str:
        return f"<lgmdsl.{type(self).__name__} of the hyperparameters>"

    @abstractmethod
    def mean(self, of: Callable[[Theta], Array]) -> Array:
        """Posterior mean, of the function's shape."""

    @abstractmethod
    def sd(self, of: Callable[[Theta], Array]) -> Array:
        """Posterior sd, of the function's shape; NaN where it is not known."""

    @abstractmethod
    def quantile(
        self, of: Callable[[Theta], Array], levels: Array, ends: Ends | None = None
    ) -> Array:
        """(Q, ...) quantiles, between the `ends` of the function's range."""

    @abstractmethod
    def density(
        self, of: Callable[[Theta], Array], size: int, ends: Ends | None = None
    ) -> tuple[Array, Array]:
        """(..., size) points between the `ends` of the function's range, and the density there."""

    @abstractmethod
    def record(self) -> Stored:
        """What a result file keeps, from which they are read again."""

    def draws(
        self, points: Sequence[Theta], shares: Array, chosen: IntArray, rng: Generator
    ) -> tuple[Theta, ...]:
        """Every hyperparameter in draws that belong to those of a mixture's points of `shares`
        (k,), of which `chosen` (size,) were drawn; none where they have those of their points."""
        return ()

    def alone(self, size: int, rng: np.random.Generator) -> tuple[Theta, ...]:
        """Draws for a model without latents, whose whole posterior this is; none where its
        width is not known."""
        return ()

    def places(self, thetas: Sequence[Theta]) -> Array | None:
        """(k, d) where hyperparameters lie, in the coordinates along which latents are shifted with
        those of their draw; None where they are not."""
        return None

    def nodes(
        self, rows: Callable[[Theta], Array], together: bool = False
    ) -> tuple[tuple[Theta, ...], Array]:
        """Values of the hyperparameters and their weights, to average over what is made of each
        row of `rows` (N, P), or of all of them `together`, where one q(z) stands for all of them.
        None where no row depends on such a hyperparameter."""
        return (), np.zeros(0)

    def factored(self, names: AbstractSet[str]) -> bool:
        """Whether one q(z) stands for all values of some of these, so that what is made of them and
        of latents is known by draws of both alone."""
        return False


# ---- ranges ------------------------------------------------------------------------------------
# The range of every entry of a hyperparameter: what its type and its prior leave.


Ends: TypeAlias = tuple[Array, Array]

_OF_TYPE = {"positive": (0.0, np.inf), "unit": (0.0, 1.0), "simplex": (0.0, 1.0),
            "correlation": (-1.0, 1.0)}  # fmt: skip


def prior_ends(block: HyperBlock) -> Ends:
    """Lower and upper ends, of the block's shape, where the prior leaves less than the type; NaN
    elsewhere, and for bounds that are other hypers."""
    nothing = np.full(block.sizes, np.nan)
    scalar = block.type in ("real", "positive", "unit", "correlation")
    if not scalar or block.prior is None or block.prior.depends:
        return nothing, nothing
    typed = _OF_TYPE.get(block.type, (-np.inf, np.inf))
    lower, upper = (np.broadcast_to(end, block.sizes) for end in block.prior.at({}).bounds)
    return np.where(lower > typed[0], lower, np.nan), np.where(upper < typed[1], upper, np.nan)


def entry_ends(block: HyperBlock) -> Ends:
    """Lower and upper ends of the block's shape. Bounds of a prior that are other hypers are not
    used, nor the order of an ordered one."""
    if block.type == "covariance":
        diagonal = np.broadcast_to(np.eye(block.sizes[-1], dtype=bool), block.sizes)
        return np.where(diagonal, 0.0, -np.inf), np.full(block.sizes, np.inf)
    lower, upper = (
        np.full(block.sizes, end) for end in _OF_TYPE.get(block.type, (-np.inf, np.inf))
    )
    if block.type in ("simplex", "ordered") or block.prior is None or block.prior.depends:
        return lower, upper
    bounds = block.prior.at({}).bounds
    return np.maximum(lower, bounds[0]), np.minimum(upper, bounds[1])


def ends_of_values(values: Array) -> Ends:
    """Ends for entries of values (m, ...) of which no type tells: above 0 where all are."""
    lower = np.where((values > 0.0).all(axis=0), 0.0, -np.inf)
    return lower, np.full(lower.shape, np.inf)
