"""Sites that stand for the rows that share their latents: they are asked what rows are asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from lgmdsl.arrays import Array

if TYPE_CHECKING:
    from lgmdsl.contract.site import Site


class SumsOfRows(ABC):
    """G vector sites with K predictors each, whose log densities are sums over rows,
    L_g(z) = sum_i l_i(a_i'z + c_i)."""

    @abstractmethod
    def by(self, answer: Callable[[Site], object]) -> Self:
        """The same sites, whose rows answer through `answer` of their own."""

    @abstractmethod
    def unit_weights(self) -> Array:
        """(G, K, K) sums of u_i^2 a_i a_i', u_i a power of 2 with u_i a_i about of size one."""

    @abstractmethod
    def working_sd(self, mean: Array, variance: Array, prior: Array | None = None) -> float:
        """The sd of the rows' working residuals at means (G, K) and variances (G, K, K) of z; with
        the prior's means, (G, K), that of the working response about its mean, beyond what the
        prior says. 0 where there is none."""

    @abstractmethod
    def along(self, s: Array, directions: Array, lengths: Array) -> Array:
        """(D, T) sums of l over all rows at z = s + t d: s, (G, K); directions, (D, G, K); lengths,
        (D, T)."""
