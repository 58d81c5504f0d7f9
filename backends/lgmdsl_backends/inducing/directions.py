"""Gaussians q(z) = p(z | u) q(u), u = P_b z_b a few latents of each block, as a confinement of q.

With K = RR' + D, R (n, k) the first k columns of a pivoted Cholesky factor of K, and x ~ N(0, I_k),

    z = mu + R x + e,   e ~ N(0, D) independent of x,   u = P z <-> x one to one

since R = K P'L^-T with LL' = PKP', and D = K - K P'(PKP')^-1 P K = Cov(z | u). q changes the
distribution of x alone, so that KL(q || p) = KL(q(x) || N(0, I)), and Cov_q[z] = K - R (I - V) R'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Confinement, Engine, MakeEngine
from lgmdsl.contract.linear import LinearGaussian, PriorBlock
from lgmdsl.contract.structure import Shape
from lgmdsl.numerics.cholesky import partial_root
from lgmdsl_backends.inducing.engine import DirectionsEngine

# Blocks of such a shape are kept whole: precisions that are sparse, and what has no covariance.
KEPT = Shape.DIAGONAL | Shape.SPARSE | Shape.IMPROPER


@dataclass(frozen=True, eq=False)
class Reduced:
    """One block: K, R (n, k) and the latents that P picks, in the order of the columns of R."""

    block: PriorBlock
    count: int

    @cached_property
    def covariance(self) -> Array:
        """K."""
        first, *others = (f.covariance() for f in self.block.factors)
        for factor in others:
            first = np.asarray(np.kron(first, factor))
        return first

    @cached_property
    def ranks(self) -> IntArray:
        """(n,): an order of the latents that rows in another order do not change, where members
        have coordinates."""
        keys = np.zeros((1, 0))
        for factor in self.block.factors:
            at = factor.coordinates
            own = np.arange(factor.size)[:, None] if at is None else at
            pairs = len(keys), len(own)
            left, right = np.repeat(keys, pairs[1], axis=0), np.tile(own, (pairs[0], 1))
            keys = np.hstack([left, right])
        ranks = np.empty(len(keys), dtype=np.int64)
        ranks[np.lexsort(keys.T[::-1])] = np.arange(len(keys))
        return ranks

    @cached_property
    def _found(self) -> tuple[Array, IntArray]:
        return partial_root(self.covariance, self.count, self.ranks)

    @property
    def root(self) -> Array:
        return self._found[0]

    @property
    def picked(self) -> IntArray:
        return self._found[1]

    @cached_property
    def left(self) -> Array:
        """D = K - RR'; exactly 0 at the latents that were picked."""
        rest = self.covariance - self.root @ self.root.T
        rest[self.picked] = 0.0
        rest[:, self.picked] = 0.0
        return rest

    @cached_property
    def rest(self) -> Array:
        """E with EE' = D: the further columns of the factor."""
        every, _ = partial_root(self.covariance, self.block.size, self.ranks)
        return every[:, self.root.shape[1] :]


@dataclass(frozen=True)
class Directions(Confinement):
    """`count` directions of each of the blocks `names`, the others whole."""

    count: int
    names: tuple[str, ...]

    @property
    def note(self) -> str:
        latents = ", ".join(dict.fromkeys(n.partition(".")[0] for n in self.names))
        wide = "in all others as wide as the prior"
        return f"q is free in {self.count} directions of {latents}, {wide}"

    def engine(self, whole: Engine, make: MakeEngine) -> Engine:
        reduced: Mapping[str, Reduced] = {
            b.name: Reduced(b, self.count) for b in whole.linear.blocks if b.name in self.names
        }
        return DirectionsEngine(whole, make, reduced, self)


def directions_of(count: int, linear: LinearGaussian) -> Directions | None:
    """The directions of a model; None where every block has as many latents at most, or is kept."""
    names = tuple(b.name for b in linear.blocks if b.size > count and _is_dense(b))
    tied = () if linear.constraints is None else tuple(linear.constraints.columns)
    names = tuple(n for n in names if n not in tied)
    return Directions(count, names) if names else None


def _is_dense(block: PriorBlock) -> bool:
    if Shape.COVARIANCE not in block.shape or block.shape & KEPT:
        return False
    return not any(f.constraints().shape[0] for f in block.factors)
