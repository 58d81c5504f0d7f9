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
from lgmdsl.contract.engine import (
    EPSILON,
    Conditioned,
    Direction,
    Engine,
    Failed,
    Failure,
    Rows,
    Term,
)
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import flatten, split
from lgmdsl.engines.nested.border import MOST_SLOTS, border_of, cliques, is_dense
from lgmdsl.engines.nested.conditioned import NestedConditioned
from lgmdsl.engines.nested.elimination import Elimination
from lgmdsl.engines.nested.grouping import declared, plain_refusal
from lgmdsl.engines.nested.nest import Nest, nest_of
from lgmdsl.engines.shared.directions import loosest
from lgmdsl.engines.shared.kept import by_operators
from lgmdsl.engines.shared.loosened import Loosened
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.engines.shared.prior_precision import block_diagonal, sparse_prior
from lgmdsl.engines.shared.restriction import restrict
from lgmdsl.engines.shared.weights import SiteWeight, far
from lgmdsl.numerics.sparse.base import times
from lgmdsl.vocabulary.notes import Notes


class NestedEngine(Engine):
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
        reason = self.refuses(linear)
        if reason:
            raise TypeError(reason)
        self.linear = linear
        nest = nested(linear)
        assert isinstance(nest, Nest), "refuses asks for a nest"
        self.nest = nest
        known = {b.name: b for b in linear.blocks}
        self.on_border = LinearGaussian(
            tuple(known[n] for n in nest.border_blocks), (), linear.constraints
        )
        self.prior = sparse_prior(self.on_border)
        self.border = border_of(nest, self.prior.precision)
        self.prior_values = self.border.values(self.prior.precision)
        self.inner_blocks = [BlockPrior(known[n], linear.starts[n]) for n in nest.inner_blocks]
        self.mu = np.empty(linear.size)
        for b in self.inner_blocks:
            self.mu[b.where] = b.mean
        self.mu[nest.border] = self.prior.mu
        # Q of the inner latents, in the order of the groups.
        rank = np.searchsorted(np.sort(nest.inner), nest.inner)
        q = block_diagonal([b.sparse_precision for b in self.inner_blocks])
        self.inner_precision = q if _is_range(rank) else q[rank][:, rank]
        self.groups_prior = self._by_group()
        self.offset = flatten(tuple(p.offset for p in linear.predictors))
        self.start = self.lifted(self.mu) + self.offset if self.mu.any() else self.offset
        self.target = self.prior.values - times(self.prior.rows, self.prior.mu)
        self.flops = 0.0

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
        """B z for (n,) or (n, m)."""
        from lgmdsl.engines.nested.plain_kernels import lift

        columns = z.reshape(self.linear.size, -1).T
        out = np.zeros((len(columns), self.linear.rows))
        for x, into in zip(columns, out, strict=True):
            lift(self.nest.lines, x[self.nest.inner], x[self.nest.border], into)
        return out[0] if z.ndim == 1 else out.T

    def pulled(self, y: Array) -> tuple[Array, Array]:
        """B'y of (P,), among the inner latents and on the border."""
        from lgmdsl.engines.nested.plain_kernels import pull

        inner, border = np.zeros(len(self.nest.inner)), np.zeros(len(self.nest.border))
        pull(self.nest.lines, np.ascontiguousarray(y), inner, border)
        return inner, border

    def joined(self, inner: Array, border: Array) -> Array:
        """(n,) or (n, m) of all latents, in the model's order."""
        out = np.empty((self.linear.size, *inner.shape[1:]))
        out[self.nest.inner], out[self.nest.border] = inner, border
        return out

    def prior_times(self, x: Array) -> Array:
        """Q x for (n,) or (n, m)."""
        return self.joined(
            times(self.inner_precision, x[self.nest.inner]),
            times(self.prior.precision, x[self.nest.border]),
        )

    @cached_property
    def constant(self) -> float:
        """What log_normaliser gains from the prior."""
        return self.prior.constant + 0.5 * sum(b.log_det_precision for b in self.inner_blocks)

    @cached_property
    def prior_centre(self) -> Array:
        """(n,) mean of the constrained prior."""
        out = self.mu.copy()
        out[self.nest.border] = self.prior.mean
        return out

    @cached_property
    def prior_mean(self) -> Rows:
        if not self.prior.asked:
            return split(self.start, self.linear.predictors)
        return split(self.lifted(self.prior_centre) + self.offset, self.linear.predictors)

    @cached_property
    def loosened(self) -> Loosened | None:
        """The model for priors so stiff that their free directions are hidden."""
        return Loosened.of(self.linear, NestedEngine)

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        if self.prior.broken is not None:
            return self.prior.broken
        if self.loosened is not None and (q := self.loosened.instead(weight, shift)) is not None:
            return q
        eliminated = self._eliminated(weight)
        if isinstance(eliminated, Failed):
            return eliminated
        return self.moved(weight, shift, eliminated)

    def moved(self, weight: Rows, shift: Rows, known: Elimination) -> Conditioned:
        """The posterior for a shift, its elimination being known."""
        w, b = SiteWeight(self.linear.predictors, weight), flatten(shift)
        delta = self.joined(*known.mean(*self.pulled(b - w.times(self.start)), self.target))
        z = self.mu + delta
        rows = self.lifted(z) + self.offset
        if not len(self.target) and far(self.start, w):
            gap = self.joined(*self.pulled(b - w.times(rows))) - self.prior_times(z - self.mu)
            inner, border = gap[self.nest.inner, None], gap[self.nest.border, None]
            z = z + self.joined(*known.solve(inner, border))[:, 0]
            delta, rows = z - self.mu, self.lifted(z) + self.offset
        exponent = float((b - 0.5 * w.times(rows)) @ rows)
        exponent -= 0.5 * float(delta @ self.prior_times(delta))
        value = exponent - known.half_log_det + self.constant
        return NestedConditioned(self, weight, shift, w, known, z, delta, rows, value)

    def _eliminated(self, weight: Rows) -> Elimination | Failed:
        """All groups eliminated, S with its pins factored and conditioned on the constraints."""
        flat = _flat(weight)
        groups = Elimination.begin(self.nest, self.border, self.groups_prior, flat)
        if groups is None:
            negative = bool((flat < 0.0).any())
            return Failed(kind=Failure.NEGATIVE_WEIGHTS if negative else Failure.INDEFINITE)
        data = groups.data
        values = self.prior_values + data
        pins, diagonal = self.prior.pins, self.border.pattern.on_diagonal
        tau = np.maximum(np.abs(values[diagonal[pins]]), self.prior.tau(pins))
        values[diagonal[pins]] += tau
        self.flops += self.border.symbolic.flops + 2.0 * self.nest.pairs
        factor = self.border.symbolic.factor(values)
        failed = self._swallowed(groups, values)
        if failed is None and (self.prior.improper or factor is None):
            failed = loosest(self.border.symbolic, values, data, factor, self.on_border)
        if failed is not None:
            return failed
        if factor is None:
            return Failed(kind=Failure.INDEFINITE)
        restriction = restrict(factor, self.prior.rows, pins, tau, self.prior.columns)
        if restriction is None:
            return Failed(kind=Failure.INDEFINITE_ON_CONSTRAINTS)
        return groups.finished(restriction)

    def _swallowed(self, groups: Elimination, values: Array) -> Failed | None:
        """Where the groups take all that data say of a latent on the border, but for rounding."""
        diagonal = values[self.border.pattern.on_diagonal]
        before = groups.total + self.prior_values[self.border.pattern.on_diagonal]
        noise = 50.0 * self.linear.size**0.5 * EPSILON * before
        hidden = np.flatnonzero((before > 0.0) & (np.abs(diagonal) <= noise))
        if not len(hidden):
            return None
        names = [(b.name, i) for b in self.on_border.blocks for i in range(b.size)]
        return Failed(kind=Failure.HIDDEN, direction=Direction((Term(*names[int(hidden[0])]),)))


nested = by_operators(nest_of, also=declared)


def _flat(weight: Rows) -> Array:
    """W by sites, (K, K) blocks of vector sites in a row."""
    return flatten(tuple(np.asarray(w, dtype=np.float64).reshape(-1) for w in weight))


def _is_range(order: IntArray) -> bool:
    return bool((np.diff(order) == 1).all())
