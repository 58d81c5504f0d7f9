"""The posterior of `batched`: a Gaussian whose covariance is block diagonal, (N, L, L)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.engine import Adjoints, Conditioned, Draws, Failed, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.engines.conditioned import Lazy, RowConditioned
from lgmdsl.engines.prior import BlockPrior
from lgmdsl.engines.prior_entries import covariance_entries
from lgmdsl.engines.turn import Outer, Turn
from lgmdsl.engines.weights import SiteWeight, flatten, site_blocks, split
from lgmdsl.numerics.sparse.base import times

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.engines.batched import BatchedEngine

CHUNK = 1 << 22  # entries of one dense temporary


class BatchedConditioned(RowConditioned):
    """q(z) = N(mu + A^-1 h, A^-1), `inverse_root` being R^-1 with RR' = A: (N, L, L), or (1, L, L)
    where all groups share it."""

    def __init__(
        self, engine: BatchedEngine, weight: Rows, shift: Rows, site_weight: SiteWeight,
        inverse_root: Array,
    ) -> None:  # fmt: skip
        self.engine, self.linear, self.plates = engine, engine.linear, engine.plates
        self.weight, self.shift, self.site_weight = weight, shift, site_weight
        self.own_root = inverse_root
        width = inverse_root.shape[1]
        inverse_root = np.broadcast_to(inverse_root, (engine.plates.groups, width, width))
        self.inverse_root = inverse_root
        b, start = flatten(shift), engine.start
        weighted = site_weight.times(start)
        half = np.einsum("nij,nj->ni", inverse_root, engine.transposed(b - weighted))
        self.delta = self.plates.gathered(np.einsum("nji,nj->ni", inverse_root, half))
        self.lift = times(engine.b, self.delta)
        index = np.arange(self.plates.width)
        half_log_det = -float(np.log(inverse_root[:, index, index]).sum())
        exponent = float(b @ start) - 0.5 * float(start @ weighted) + 0.5 * float((half**2).sum())
        self.log_normaliser = exponent - half_log_det + 0.5 * engine.log_det

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        return BatchedConditioned(self.engine, self.weight, shift, self.site_weight, self.own_root)

    @cached_property
    def flat_mean(self) -> Array:
        return self.engine.start + self.lift

    @cached_property
    def latent_mean(self) -> Array:
        return self.engine.mu + self.delta

    @cached_property
    def covariance(self) -> Array:
        """(N, L, L) Cov(z) by groups."""
        own = self.own_root.transpose(0, 2, 1) @ self.own_root
        return np.broadcast_to(own, self.inverse_root.shape)

    @cached_property
    def latent_variance(self) -> Array:
        return self.plates.gathered(np.einsum("nii->ni", self.covariance))

    @cached_property
    def spread_rows(self) -> Array:
        """(P, L) B Cov(z), each row in its group; it is zero elsewhere."""
        return self.plates.by_row(self.engine.rows_by_group @ self.covariance)

    @cached_property
    def variance(self) -> Rows:
        local, spread = self.engine.local, self.spread_rows
        if self.site_weight.diagonal is not None:
            flat = np.einsum("pl,pl->p", local, spread)
            return split(flat, self.linear.predictors)
        return tuple(site_blocks(local.T, spread.T, self.linear.predictors))

    def solve(self, rhs: Array) -> Array:
        x = rhs[:, None] if rhs.ndim == 1 else rhs
        out = self.plates.gathered(self.covariance @ self.plates.spread(x))
        return out[:, 0] if rhs.ndim == 1 else out

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        x = self._rows(predictor)
        mean = times(x, self.latent_mean) + predictor.offset
        if full:
            square = times(x, self.solve(x.toarray().T))
            return mean, np.asarray(0.5 * (square + square.T))
        variance, step = np.zeros(predictor.rows), max(1, CHUNK // self.plates.width**2)
        line = np.repeat(np.arange(predictor.rows), np.diff(x.indptr))
        # A row may reach into several groups: one piece for each.
        keys, piece = np.unique(
            line * self.plates.groups + self.plates.group[x.indices], return_inverse=True
        )
        row, group = np.divmod(keys, self.plates.groups)
        local = np.zeros((len(keys), self.plates.width))
        local[piece, self.plates.place[x.indices]] = x.data
        for at in range(0, len(keys), step):
            some = slice(at, at + step)
            half = np.einsum("pij,pj->pi", self.inverse_root[group[some]], local[some])
            np.add.at(variance, row[some], np.einsum("pi,pi->p", half, half))
        return mean, variance

    def _rows(self, predictor: Predictor) -> SparseMatrix:
        """(P, n) csr of an affine functional, without duplicates."""
        pieces = [
            predictor.columns[b.name].sparse() if b.name in predictor.columns
            else sp.csr_array((predictor.rows, b.size)) for b in self.linear.blocks
        ]  # fmt: skip
        x = sp.csr_array(sp.hstack(pieces, format="csr"))
        x.sum_duplicates()
        return x

    def sample(self, rng: Generator, size: int) -> Array:
        return self._drawn(rng, size)[0]

    def draw(self, rng: Generator, size: int) -> Draws:
        z, noise = self._drawn(rng, size)
        return Draws(z, np.asarray(np.einsum("ij,ij->i", noise, noise)), self.linear.size)

    def _drawn(self, rng: Generator, size: int) -> tuple[Array, Array]:
        """Draws and the white noise they are made of, both (size, n)."""
        noise = rng.standard_normal((size, self.linear.size))
        turned = self.inverse_root.transpose(0, 2, 1) @ self.plates.spread(noise.T)
        return self.latent_mean + self.plates.gathered(turned).T, noise

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """dmu = Q(m - mu), dQ = (K - V - (m - mu)(m - mu)')/2 on Q's pattern."""
        turn = self.turn(tilt)
        pull = times(self.engine.precision, self.delta + turn.latent)
        return Adjoints(
            offset=self.offset_adjoints(turn),
            operator=self.operator_adjoints(turn),
            mean={b.name: pull[b.where] for b in self.engine.blocks},
            precision=Lazy({b.name: self._precision_adjoint(b, turn) for b in self.engine.blocks}),
        )

    def _precision_adjoint(self, block: BlockPrior, turn: Turn) -> Callable[[], SparseMatrix]:
        def make() -> SparseMatrix:
            q = block.sparse_precision
            rows = np.repeat(np.arange(block.size), np.diff(q.indptr))
            columns = q.indices.astype(np.int64)
            values = covariance_entries(block.block, rows, columns)
            rows, columns = rows + block.where.start, columns + block.where.start
            values = values - self._entries(rows, columns) - turn.squared(self.delta, rows, columns)
            return sp.csr_array((0.5 * values, q.indices, q.indptr), shape=q.shape)

        return make

    def _entries(self, rows: IntArray, columns: IntArray) -> Array:
        """Entries of Cov(z) within groups."""
        group, place = self.plates.group, self.plates.place
        return np.asarray(self.covariance[group[rows], place[rows], place[columns]])

    def _operator_adjoint(self, k: int, at: int, name: str, product: Outer) -> object:
        p, where = self.linear.predictors[k], self.linear.slices[name]
        rows, operator = slice(at, at + p.rows), p.columns[name]
        weighted = SiteWeight((p,), (self.weight[k],)).times(self.spread_rows[rows])
        if not operator.is_sparse:
            group, place = self.plates.group[where], self.plates.place[where]
            own = self.plates.row_group[rows, None] == group
            return product.dense(rows, where) - np.where(own, weighted[:, place], 0.0)
        pattern = sp.csr_array(operator.sparse())
        line = np.repeat(np.arange(p.rows), np.diff(pattern.indptr))
        columns = pattern.indices + where.start
        values = product.entries(line + at, columns)
        values -= weighted[line, self.plates.place[columns]]
        return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)
