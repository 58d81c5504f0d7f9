"""Engine for groups that share a border: every row touches the latents of one group, u_g, and some
of a border, beta (fixed effects, a few crossed or smooth latents). With s = Zu + X beta + c,

    D_g = Q_g + Z'WZ,   C_g = Z'WX,   S = Q + X'WX - sum_g C_g'D_g^-1 C_g

Groups are eliminated one by one in one compiled pass over the rows, S is factored on its pattern
(dense, or sparse for crossed and smooth latents), B'WB is never formed. Constraints may touch the
border, where improper priors belong too. (A block elimination, as lme4's for one factor: Bates,
Maechler, Bolker and Walker 2015, section 3.)
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Failed, Failure, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import flatten
from lgmdsl.engines.nested.border import MOST_SLOTS, border_of, cliques, is_dense
from lgmdsl.engines.nested.factor import NestedFactor, eliminated
from lgmdsl.engines.nested.grouping import declared, plain_refusal
from lgmdsl.engines.nested.nest import Nest, nest_of
from lgmdsl.engines.shared.by_precision import ByPrecision, PrecisionFactor
from lgmdsl.engines.shared.kept import by_operators
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.engines.shared.prior_precision import block_diagonal, sparse_prior
from lgmdsl.numerics.sparse.base import times
from lgmdsl.vocabulary.notes import Notes


class NestedEngine(ByPrecision):
    """Proper inner blocks that split into groups, a border with sparse precisions."""

    name: ClassVar[str] = "nested"
    summary: ClassVar[str] = (
        "groups of latents and a border that they share, one compiled pass over the rows"
    )
    notes: ClassVar[Notes] = Notes(
        formula="S = Q + X' W X - sum_g C_g' D_g^-1 C_g of the border, the latents of each group g "
        "being eliminated as its rows are read",
        support="rows that each touch one group of proper latents, and a border with sparse "
        "precisions: fixed effects, crossed factors, smooths, maps; constraints on the border",
        advice="for mixed models of many rows; auto takes it from some ten thousand rows on",
        example="lgm fit model.lgm data.npz --option engine=nested",
        see_also=("sparse", "batched"),
    )

    def __init__(self, linear: LinearGaussian) -> None:
        super().__init__(linear)
        nest = nested(linear)
        assert isinstance(nest, Nest), "refuses asks for a nest"
        self.nest = nest
        known = {b.name: b for b in linear.blocks}
        self.prior = sparse_prior(
            LinearGaussian(tuple(known[n] for n in nest.border_blocks), (), linear.constraints)
        )
        self.border = border_of(nest, self.prior.precision)
        self.prior_values = self.border.values(self.prior.precision)
        self.blocks = [BlockPrior(b, linear.starts[b.name]) for b in linear.blocks]
        placed = {b.name: b for b in self.blocks}
        self.inner_blocks = [placed[n] for n in nest.inner_blocks]
        self.mu = np.concatenate([b.mean for b in self.blocks])
        # Q of the inner latents, in the order of the groups.
        rank = np.searchsorted(np.sort(nest.inner), nest.inner)
        q = block_diagonal([b.sparse_precision for b in self.inner_blocks])
        self.inner_precision = q if _is_range(rank) else q[rank][:, rank]
        self.groups_prior = self._by_group()

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        reason = plain_refusal(linear)
        if reason:
            return reason
        nest = nested(linear)
        if isinstance(nest, str):
            return nest
        if not is_dense(nest) and cliques(nest) > MOST_SLOTS:
            return "groups join too many pairs of latents on the border"
        return ""

    def _by_group(self) -> Array:
        """Q_g of each group, (r, r), in a row."""
        nest, q = self.nest, self.inner_precision
        out = np.zeros(nest.square_start[-1])
        rows = np.repeat(np.arange(len(nest.inner)), np.diff(q.indptr))
        out[nest.in_group(rows, q.indices.astype(np.int64))] = q.data
        return out

    def lifted(self, z: Array) -> Array:
        from lgmdsl.engines.nested.plain_kernels import lift

        columns = z.reshape(self.linear.size, -1).T
        out = np.zeros((len(columns), self.linear.rows))
        for x, into in zip(columns, out, strict=True):
            lift(self.nest.lines, x[self.nest.inner], x[self.nest.border], into)
        return out[0] if z.ndim == 1 else out.T

    def pulled(self, y: Array) -> Array:
        from lgmdsl.engines.nested.plain_kernels import pull

        inner, border = np.zeros(len(self.nest.inner)), np.zeros(len(self.nest.border))
        pull(self.nest.lines, np.ascontiguousarray(y), inner, border)
        return self.nest.joined(inner, border)

    def prior_times(self, x: Array) -> Array:
        return self.nest.joined(
            times(self.inner_precision, x[self.nest.inner]),
            times(self.prior.precision, x[self.nest.border]),
        )

    @cached_property
    def prior_diagonal(self) -> Array:
        inner, border = self.inner_precision.diagonal(), self.prior.precision.diagonal()
        return self.nest.joined(inner, border)

    @cached_property
    def constant(self) -> float:
        return self.prior.constant + 0.5 * sum(b.log_det_precision for b in self.inner_blocks)

    @cached_property
    def prior_centre(self) -> Array:
        out = self.mu.copy()
        out[self.nest.border] = self.prior.mean
        return out

    def factored(self, weight: Rows) -> PrecisionFactor | Failed:
        """All groups eliminated, and S factored."""
        flat = _flat(weight)
        groups = eliminated(self.nest, self.border, self.groups_prior, flat)
        if groups is None:
            negative = bool((flat < 0.0).any())
            return Failed(kind=Failure.NEGATIVE_WEIGHTS if negative else Failure.INDEFINITE)
        self.flops += self.border.symbolic.flops + 2.0 * self.nest.pairs
        symbolic, prior = self.border.symbolic, self.prior_values
        known = self.restricted(symbolic, prior, groups.data, groups.total)
        return known if isinstance(known, Failed) else NestedFactor(self, weight, groups, known)


nested = by_operators(nest_of, also=declared)


def _flat(weight: Rows) -> Array:
    """W by sites, (K, K) blocks of vector sites in a row."""
    return flatten(tuple(np.asarray(w, dtype=np.float64).reshape(-1) for w in weight))


def _is_range(order: IntArray) -> bool:
    return bool((np.diff(order) == 1).all())
