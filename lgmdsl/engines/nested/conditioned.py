"""q(z) of the nested engine: V within groups, between them and the border, and on the border."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, Matrix, SparseMatrix
from lgmdsl.contract.engine import Adjoints, Conditioned, Draws, Failed, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.stacked import row_slices, split_like
from lgmdsl.engines.nested.elimination import Elimination
from lgmdsl.engines.shared.conditioned import CHUNK, Lazy, RowConditioned
from lgmdsl.engines.shared.design import sparse_rows
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.engines.shared.prior_entries import constrained_entries, covariance_entries
from lgmdsl.engines.shared.shift_derivatives import Outer, Turn
from lgmdsl.engines.shared.weights import SiteWeight
from lgmdsl.numerics.sparse.base import times

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.engines.nested.engine import NestedEngine


class NestedConditioned(RowConditioned):
    """q(z) = N(mu + delta, V), V the elimination's."""

    def __init__(
        self,
        engine: NestedEngine,
        weight: Rows,
        shift: Rows,
        site_weight: SiteWeight,
        known: Elimination,
        z: Array,
        delta: Array,
        rows: Array,
        log_normaliser: float,
    ) -> None:
        self.engine, self.linear = engine, engine.linear
        self.weight, self.shift, self.site_weight = weight, shift, site_weight
        self.known, self.log_normaliser = known, log_normaliser
        self._z, self._delta, self._mean = z, delta, rows

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        return self.engine.moved(self.weight, shift, self.known)

    @cached_property
    def flat_mean(self) -> Array:
        return self._mean

    @cached_property
    def latent_mean(self) -> Array:
        return self._z

    def _latent_variance(self) -> Array:
        nest, known = self.engine.nest, self.known.covariances
        places = np.arange(len(nest.inner))
        on_border = known.border[self.engine.border.pattern.on_diagonal]
        return self.engine.joined(known.own[nest.in_group(places, places)], on_border)

    def _variance(self) -> Sequence[Array]:
        return split_like(self.known.row_variances(sum(w.size for w in self.weight)), self.weight)

    def solve(self, rhs: Array) -> Array:
        x = rhs[:, None] if rhs.ndim == 1 else rhs
        nest = self.engine.nest
        out = self.engine.joined(*self.known.solve(x[nest.inner], x[nest.border]))
        return np.asarray(out[:, 0] if rhs.ndim == 1 else out)

    def _project(self, predictor: Predictor, full: bool) -> tuple[Array, Array]:
        x = sparse_rows(predictor, self.linear)
        mean = times(x, self.latent_mean) + predictor.offset
        if full:
            square = times(x, self.solve(x.toarray().T))
            return mean, np.asarray(0.5 * (square + square.T))
        nest, variance = self.engine.nest, np.full(predictor.rows, np.nan)
        if len(nest.lines.columns):
            variance = self.known.by_pairs(x)
        far = np.flatnonzero(np.isnan(variance))
        step = max(1, CHUNK // max(len(nest.border), 1))
        for start in range(0, len(far), step):
            some = far[start : start + step]
            variance[some] = self.known.functional(sp.csr_array(x[some]))
        return mean, variance

    def sample(self, rng: Generator, size: int) -> Array:
        return self.latent_mean + self.engine.joined(*self.known.draws(rng, size)).T

    def draw(self, rng: Generator, size: int) -> Draws:
        away = self.engine.joined(*self.known.draws(rng, size))
        raised = self.engine.lifted(away)
        radius = np.einsum("ij,ij->j", raised, self.site_weight.times(raised))
        radius += np.einsum("ij,ij->j", away, self.engine.prior_times(away))
        rank = self.linear.size - self.engine.prior.rows.shape[0]
        return Draws(self.latent_mean + away.T, np.maximum(radius, 0.0), rank)

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """dmu = Q(m - mu_c); dQ = (K_c - V - (m - mu)(m - mu)' + (mu_c - mu)(mu_c - mu)')/2 on Q's
        pattern, mu_c and K_c being the constrained prior's."""
        engine, turn = self.engine, self.turn(tilt)
        pull = engine.prior_times(self.latent_mean - engine.prior_centre + turn.latent)
        makers: dict[str, Callable[[], Matrix]] = {}
        for b in engine.inner_blocks:
            makers[b.name] = self._inner_adjoint(b, turn)
        for b in engine.prior.blocks:
            if not b.flat:
                makers[b.name] = self._border_adjoint(b, turn)
        return Adjoints(
            offset=self.offset_adjoints(turn),
            operator=self.operator_adjoints(turn),
            mean={n: pull[where] for n, where in self.linear.slices.items()},
            precision=Lazy(makers),
        )

    def _inner_adjoint(self, block: BlockPrior, turn: Turn) -> Callable[[], Matrix]:
        def make() -> Matrix:
            nest, q = self.engine.nest, block.sparse_precision
            rows, columns = _entries_of(q)
            values = covariance_entries(block.block, rows, columns)
            rows, columns = rows + block.where.start, columns + block.where.start
            at = nest.in_group(nest.position[rows], nest.position[columns])
            values = values - self.known.covariances.own[at]
            values -= turn.squared(self._delta, rows, columns)
            return sp.csr_array((0.5 * values, q.indices, q.indptr), shape=q.shape)

        return make

    def _border_adjoint(self, block: BlockPrior, turn: Turn) -> Callable[[], Matrix]:
        def make() -> Matrix:
            engine, prior, q = self.engine, self.engine.prior, block.sparse_precision
            rows, columns = _entries_of(q)
            values = constrained_entries(prior, block, rows, columns)
            own = rows + block.where.start, columns + block.where.start
            away = prior.mean - prior.mu
            values = values - self.known.covariances.border[engine.border.pattern.find(*own)]
            first = self.linear.starts[block.name]
            values += away[own[0]] * away[own[1]]
            values -= turn.squared(self._delta, rows + first, columns + first)
            return sp.csr_array((0.5 * values, q.indices, q.indptr), shape=q.shape)

        return make

    def _operator_adjoint(self, k: int, first: int, name: str, product: Outer) -> object:
        p, where = self.linear.predictors[k], self.linear.slices[name]
        operator, rows = p.columns[name], row_slices(self.linear.predictors)[k]
        weight = np.concatenate([w.reshape(-1) for w in self.weight])
        if operator.is_sparse:
            pattern = sp.csr_array(operator.sparse())
            line, columns = _entries_of(pattern)
            starts = pattern.indptr.astype(np.int64)
        else:
            line, columns = (i.reshape(-1) for i in np.indices(operator.shape))
            starts = np.arange(p.rows + 1) * operator.shape[1]
        nest = self.engine.nest
        codes = nest.position[where][columns]
        first_site = sum(q.rows // max(q.event, 1) for q in self.linear.predictors[:k])
        places = nest.among(first_site + line // max(p.event, 1), np.maximum(-1 - codes, 0))
        crossed = self.known.crossed(weight, rows, starts, codes, places)
        if not operator.is_sparse:
            return product.dense(rows, where) - crossed.reshape(operator.shape)
        values = product.entries(line + first, columns + where.start) - crossed
        return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)


def _entries_of(m: SparseMatrix) -> tuple[IntArray, IntArray]:
    """Rows and columns of the stored entries."""
    rows = np.repeat(np.arange(m.shape[0]), np.diff(m.indptr))
    return rows, m.indices.astype(np.int64)
