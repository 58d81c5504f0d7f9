"""How what rows say about the shared latents is a block of vector sites.

It is a quadratic in beta, (p,): where p is small, or most pairs of shared latents are touched by
one group, one site of all p with a p x p curvature. Where pairs are few, each of them is a site,

    -1/2 sum_i h_ii beta_i^2 - sum_{i<j} h_ij beta_i beta_j

of the two latents of the pair, so that engines meet a sparse matrix as they do from any rows:
B'WB of N pairs has N entries. Sites of pairs alone need not be concave; their sum is. Slopes are
those of the sites of one latent, (i, i).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.linear import Predictor
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Sparse

# Pairs are sites of their own where they are no more than this part of all p^2.
SPARSE = 0.25


@dataclass(frozen=True, eq=False)
class SharedLayout:
    """Layout of N sites with K predictors each, over the shared latents of `sizes` (name and length
    of each, p entries together). `codes`, (N,): i p + j of the pairs i <= j, ascending, each (i, i)
    among them; None: one site of all."""

    sizes: tuple[tuple[str, int], ...]
    codes: IntArray | None = None

    @property
    def size(self) -> int:
        """p."""
        return sum(n for _, n in self.sizes)

    @property
    def event(self) -> int:
        """K."""
        return self.size if self.codes is None else 2

    @property
    def numbers(self) -> int:
        """How many numbers a curvature is."""
        return self.size**2 if self.codes is None else len(self.codes)

    @property
    def said(self) -> str:
        """How many pairs a curvature is of, in words."""
        if self.codes is None:
            return f"all {self.numbers:,} pairs are sent"
        return f"{self.numbers:,} pairs that a group touches are sent"

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray, IntArray]:
        """The two latents of each site, and the sites of one, in their order."""
        assert self.codes is not None, "sites of pairs"
        low, high = np.divmod(self.codes, self.size)
        return low, high, np.flatnonzero(low == high)

    def predictor(self) -> Predictor:
        """The predictors of the sites."""
        p = self.size
        at, event = np.arange(p), p
        if self.codes is not None:
            low, high, _ = self._pairs
            at, event = np.stack([low, high], axis=1).reshape(-1), 2
        columns: dict[str, Operator] = {}
        whole = sp.csc_array((np.ones(len(at)), (np.arange(len(at)), at)), shape=(len(at), p))
        start = 0
        for name, n in self.sizes:
            columns[name] = Sparse(sp.csr_array(whole[:, start : start + n]))
            start += n
        return Predictor(columns, np.zeros(len(at)), event)

    def lifted(self, beta: Array) -> Array:
        """(N, K): the predictors at beta, (p,)."""
        if self.codes is None:
            return beta[None]
        low, high, _ = self._pairs
        return np.stack([beta[low], beta[high]], axis=1)

    def shared(self, s: Array) -> Array:
        """(p,): beta of the predictors, (N, K)."""
        return np.asarray(s[0] if self.codes is None else s[self._pairs[2], 0])

    def placed(self, slope: Array) -> Array:
        """(N, K): a slope in beta, (p,), as slopes in the predictors."""
        if self.codes is None:
            return slope[None]
        out = np.zeros((len(self.codes), 2))
        out[self._pairs[2]] = 0.5 * slope[:, None]
        return out

    def once(self, value: float) -> Array:
        """(N,): a value of all sites together, at the first."""
        out = np.zeros(1 if self.codes is None else len(self.codes))
        out[0] = value
        return out

    def weights(self, information: Array) -> Array:
        """(N, K, K): an information about beta, (p, p) or (N,), as weights."""
        if self.codes is None:
            return information[None]
        own, out = self._pairs[2], np.zeros((len(information), 2, 2))
        out[:, 0, 1] = out[:, 1, 0] = information
        out[own] = 0.5 * information[own, None, None] * np.eye(2)
        return out

    def entries(self, variance: Array) -> Array:
        """A covariance of beta, (p, p) or (N,), of the covariances of the predictors, (N, K, K)."""
        return np.asarray(variance[0] if self.codes is None else variance[:, 0, 1])

    def total(self, parts: Sequence[Array], codes: Sequence[IntArray | None]) -> Array:
        """(p, p) or (N,): the sum of the informations of shards, first to last, each over the pairs
        `codes`, None for all of them."""
        p = self.size
        out = np.zeros((p, p) if self.codes is None else len(self.codes))
        for part, of in zip(parts, codes, strict=True):
            if of is None:
                out += part
                continue
            where, mirrored = self._where(of)
            out[where] += part
            if mirrored is not None:
                apart = mirrored[0] != mirrored[1]
                out[mirrored[0][apart], mirrored[1][apart]] += part[apart]
        return out

    def part(self, covariance: Array, codes: IntArray | None) -> Array:
        """The entries of a covariance, (p, p) or (N,), at the pairs `codes` of a shard."""
        return (
            covariance if codes is None else np.ascontiguousarray(covariance[self._where(codes)[0]])
        )

    def _where(self, codes: IntArray) -> tuple[Any, tuple[IntArray, IntArray] | None]:
        """Where pairs are, and their mirror images where these have places of their own."""
        if self.codes is not None:
            return np.searchsorted(self.codes, codes), None
        low, high = np.divmod(codes, self.size)
        return (low, high), (high, low)


def pairs_of(parts: Sequence[IntArray | None], size: int) -> IntArray | None:
    """`codes` of p = `size` shared latents for shards that touch the pairs `parts`, None for all;
    None where they are many."""
    codes = np.arange(size, dtype=np.int64) * (size + 1)
    for part in parts:
        if part is None or len(codes) > SPARSE * size * size:
            return None
        codes = np.union1d(codes, part)
    return codes if len(codes) <= SPARSE * size * size else None
