"""q(z) of the sparse engine: the covariance on A's pattern by the selected inverse, else by solves.

A functional whose rows each touch latents that are neighbours in A needs the selected inverse only;
another one takes a triangular solve for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, Matrix, SparseMatrix
from lgmdsl.contract.engine import EPSILON, Adjoints, Conditioned, Draws, Failed, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.engines.shared.conditioned import CHUNK, Lazy, RowConditioned
from lgmdsl.engines.shared.constraints import left
from lgmdsl.engines.shared.design import sparse_rows
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.engines.shared.prior_entries import constrained_entries
from lgmdsl.engines.shared.restriction import Restriction
from lgmdsl.engines.shared.shift_derivatives import Outer, Turn
from lgmdsl.engines.shared.weights import SiteWeight
from lgmdsl.engines.sparse.pair_table import table_of
from lgmdsl.numerics.sparse.base import filled, times

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.engines.sparse.engine import SparseEngine


NARROW = 32  # latents in a row of a functional


class SparseConditioned(RowConditioned):
    """q(z) = N(mu + delta, V), V the restriction's."""

    def __init__(
        self,
        engine: SparseEngine,
        weight: Rows,
        shift: Rows,
        site_weight: SiteWeight,
        restriction: Restriction,
        z: Array,
        delta: Array,
        rows: Array,
        log_normaliser: float,
    ) -> None:
        self.engine, self.linear = engine, engine.linear
        self.weight, self.shift, self.site_weight = weight, shift, site_weight
        self.restriction, self.log_normaliser = restriction, log_normaliser
        self._z, self._delta, self._mean = z, delta, rows

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        return self.engine.moved(self.weight, shift, self.restriction)

    @cached_property
    def flat_mean(self) -> Array:
        return self._mean

    @cached_property
    def latent_mean(self) -> Array:
        return self._z

    @cached_property
    def lost(self) -> float:
        """About how many nats an evidence may have lost to cancellation, including that of
        precisions: Q_ii V_ii is 1 or more, and 1e7 in a second order walk of thousands of steps,
        whose log determinant has so many digits less."""
        diagonal = self.engine.prior_values[self.engine.table.pattern.on_diagonal]
        sizes = np.abs(diagonal) * self.latent_variance
        return super().lost + EPSILON * float(np.sum(sizes))

    @cached_property
    def _covariance(self) -> Array:
        """(nnz,) V on A's pattern."""
        return self.restriction.on_pattern(self.engine.table.pattern)

    def _variance(self) -> Sequence[Array]:
        return tuple(self.engine.table.variance(self._covariance))

    def _latent_variance(self) -> Array:
        return self._covariance[self.engine.table.pattern.on_diagonal]

    def solve(self, rhs: Array) -> Array:
        x = rhs[:, None] if rhs.ndim == 1 else rhs
        out = self.restriction.solve(np.ascontiguousarray(x))
        return np.asarray(out[:, 0] if rhs.ndim == 1 else out)

    def _project(self, predictor: Predictor, full: bool) -> tuple[Array, Array]:
        x = sparse_rows(predictor, self.linear)
        mean = times(x, self.latent_mean) + predictor.offset
        if full:
            columns = np.ascontiguousarray(x.toarray().T)
            square = times(x, self.restriction.solve(columns))
            return mean, np.asarray(0.5 * (square + square.T))
        variance = self._by_pattern(x)
        far = np.flatnonzero(np.isnan(variance))
        step = max(1, CHUNK // max(self.linear.size, 1))
        for start in range(0, len(far), step):
            some = far[start : start + step]
            part = sp.csr_array(x[some])
            half = self.restriction.factor.forward(np.ascontiguousarray(part.toarray().T))
            free = np.einsum("ij,ij->j", half, half)
            variance[some] = left(free, self.restriction.lost(part))
        return mean, variance

    def _by_pattern(self, x: SparseMatrix) -> Array:
        """diag(XVX') from entries of V that the factor's pattern holds; NaN where one is not, and
        for rows so wide that a solve is cheaper."""
        n, out = x.shape[1], np.full(x.shape[0], np.nan)
        narrow = np.flatnonzero(np.diff(x.indptr) <= NARROW)
        pairs, lines = table_of(sp.csr_array(x[narrow]), [Predictor({}, np.empty(len(narrow)))])
        keys, place = np.unique(pairs.key, return_inverse=True)
        columns, rows = np.divmod(keys, n)
        free = self.restriction.factor.entries(rows, columns)
        lost = self.restriction.entries_lost(rows, columns)
        whole, gone = pairs.value * free[place], pairs.value * lost[place]
        sums = np.bincount(pairs.line, whole, lines), np.bincount(pairs.line, gone, lines)
        out[narrow] = left(np.asarray(sums[0], np.float64), np.asarray(sums[1], np.float64))
        return out

    def sample(self, rng: Generator, size: int) -> Array:
        return self.latent_mean + self.restriction.draws(rng, size).T

    def draw(self, rng: Generator, size: int) -> Draws:
        away = self.restriction.draws(rng, size)
        lift = times(self.engine.b, away)
        radius = np.einsum("ij,ij->j", lift, self.site_weight.times(lift))
        radius += np.einsum("ij,ij->j", away, times(self.engine.prior.precision, away))
        rank = self.linear.size - self.engine.prior.rows.shape[0]
        return Draws(self.latent_mean + away.T, np.maximum(radius, 0.0), rank)

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """dmu = Q(m - mu_c); dQ = (K_c - V - (m - mu)(m - mu)' + (mu_c - mu)(mu_c - mu)')/2 on Q's
        pattern, mu_c and K_c being the constrained prior's."""
        prior, turn = self.engine.prior, self.turn(tilt)
        pull = times(prior.precision, self.latent_mean - prior.mean + turn.latent)
        makers = {b.name: self._precision_adjoint(b, turn) for b in prior.blocks if not b.flat}
        return Adjoints(
            offset=self.offset_adjoints(turn),
            operator=self.operator_adjoints(turn),
            mean={b.name: pull[b.where] for b in prior.blocks},
            precision=Lazy(makers),
        )

    def _precision_adjoint(self, block: BlockPrior, turn: Turn) -> Callable[[], Matrix]:
        def make() -> Matrix:
            prior, q = self.engine.prior, block.sparse_precision
            rows = np.repeat(np.arange(block.size), np.diff(q.indptr))
            columns = q.indices.astype(np.int64)
            values = constrained_entries(prior, block, rows, columns)
            rows, columns = rows + block.where.start, columns + block.where.start
            away = prior.mean - prior.mu
            values -= self._covariance[self.engine.table.pattern.find(rows, columns)]
            values += away[rows] * away[columns] - turn.squared(self._delta, rows, columns)
            return filled(q, 0.5 * values)

        return make

    def _operator_adjoint(self, k: int, first: int, name: str, product: Outer) -> object:
        p, where = self.linear.predictors[k], self.linear.slices[name]
        operator, rows = p.columns[name], slice(first, first + p.rows)
        weight = SiteWeight((p,), (self.weight[k],))
        if not operator.is_sparse:  # its zeros may be hyperparameters, and are not in A
            dense = self.solve(sparse_rows(p, self.linear).toarray().T)[where].T
            return product.dense(rows, where) - weight.times(np.ascontiguousarray(dense))
        pattern = operator.sparse()
        line = np.repeat(np.arange(p.rows), np.diff(pattern.indptr))
        if self._products is not None and pattern.has_canonical_format:
            values = product.entries(line + first, pattern.indices + where.start)
            values -= self.weight[k][line] * self._products[self._places(rows, where)]
            return filled(pattern, values)
        weighted = sp.csr_array(weight.sparse() @ self.engine.b[rows])
        products = sp.csr_array(weighted @ self._neighbouring[:, where])
        values = product.entries(line + first, pattern.indices + where.start)
        values -= np.asarray(products[line, pattern.indices]).reshape(-1)
        return filled(pattern, values)

    @cached_property
    def _products(self) -> Array | None:
        """(nnz of B,) BV at B's places; None where sites are vectors, or B is large."""
        table = self.engine.table
        scalar = not any(p.event for p in self.linear.predictors)
        return table.product(self._covariance) if scalar and table.small else None

    def _places(self, rows: slice, columns: slice) -> IntArray:
        """Where B's entries of some rows and columns stand, in order."""
        b = self.engine.b
        start, stop = b.indptr[rows.start], b.indptr[rows.stop]
        index = b.indices[start:stop]
        inside = (index >= columns.start) & (index < columns.stop)
        return np.asarray(start + np.flatnonzero(inside))

    @cached_property
    def _neighbouring(self) -> SparseMatrix:
        """V on A's pattern, csr: the products that the adjoints of B take from it are complete."""
        return self.engine.table.pattern.matrix(self._covariance)
