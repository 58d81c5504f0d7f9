"""The posterior of `batched`: a Gaussian whose covariance is block diagonal, (N, L, L)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.engine import Adjoints, Conditioned, Draws, Failed, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.stacked import flatten, split
from lgmdsl.engines.grouped.batched_information import Information
from lgmdsl.engines.grouped.batched_prior import Form, folded, form_of, pattern
from lgmdsl.engines.shared.conditioned import Lazy, RowConditioned
from lgmdsl.engines.shared.design import sparse_rows
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.engines.shared.prior_entries import covariance_entries
from lgmdsl.engines.shared.shift_derivatives import Outer, Turn
from lgmdsl.engines.shared.weights import SiteWeight, far, site_blocks
from lgmdsl.numerics.sparse.base import times

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.engines.grouped.batched import BatchedEngine

CHUNK = 1 << 22  # entries of one dense temporary


class BatchedConditioned(RowConditioned):
    """q(z) = N(mu + Vh, V), V = F'F, `factor` being F, (N, L, L), or (1, L, L) where all groups
    share it, `white` that of A^-1 = E'E in whitened latents; `half_log_det`: of A, summed."""

    def __init__(
        self,
        engine: BatchedEngine,
        weight: Rows,
        shift: Rows,
        site_weight: SiteWeight,
        factor: Array,
        white: Array,
        half_log_det: float,
    ) -> None:
        self.engine, self.linear, self.plates = engine, engine.linear, engine.plates
        self.weight, self.shift, self.site_weight = weight, shift, site_weight
        self.own_factor, self.white, self.half_log_det = factor, white, half_log_det
        factor = np.broadcast_to(factor, (engine.plates.groups, *factor.shape[1:]))
        self.factor = factor
        b, start = flatten(shift), engine.start
        away = b - site_weight.times(start)
        half = np.einsum("nij,nj->ni", factor, engine.transposed(away))
        self.half = half
        self.delta = self.plates.gathered(np.einsum("nji,nj->ni", factor, half))
        self._z = engine.mu + self.delta
        self._mean = times(engine.b, self._z) + engine.offset
        if far(start, site_weight):
            self._refine(b)
        exponent = b - 0.5 * site_weight.times(self._mean)
        self.log_normaliser = self.centred + float(exponent @ self._mean)

    def _refine(self, b: Array) -> None:
        """Once more from what is left: K^-1 (mu - z) is -R'^-1 x, x the whitened latents."""
        engine, white = self.engine, np.broadcast_to(self.white, self.factor.shape)
        x = np.einsum("nji,nj->ni", white, self.half)
        root = np.broadcast_to(engine.prior.root, white.shape)
        pull = engine.transposed(b - self.site_weight.times(self._mean))
        gap = np.einsum("nji,nj->ni", root, pull) - x
        more = np.einsum("nij,nj->ni", white, gap)
        self.half = self.half + more
        step = self.plates.gathered(np.einsum("nji,nj->ni", self.factor, more))
        self._z = self._z + step
        self.delta = self.delta + step
        self._mean = times(engine.b, self._z) + engine.offset

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        factored = self.own_factor, self.white, self.half_log_det
        return BatchedConditioned(self.engine, self.weight, shift, self.site_weight, *factored)

    @cached_property
    def centred(self) -> float:
        x = np.einsum("nji,nj->ni", np.broadcast_to(self.white, self.factor.shape), self.half)
        return -0.5 * float((x**2).sum()) - self.half_log_det

    @cached_property
    def flat_mean(self) -> Array:
        return self._mean

    @cached_property
    def latent_mean(self) -> Array:
        return self._z

    @cached_property
    def covariance(self) -> Array:
        """(N, L, L) Cov(z) by groups."""
        square = self.own_factor.transpose(0, 2, 1) @ self.own_factor
        return np.broadcast_to(square, self.factor.shape)

    def _latent_variance(self) -> Array:
        return self.plates.gathered(np.einsum("nii->ni", self.covariance))

    @cached_property
    def spread_rows(self) -> Array:
        """(P, L) B Cov(z), each row in its group; it is zero elsewhere."""
        return self.plates.by_row(self.engine.rows_by_group @ self.covariance)

    def _variance(self) -> Sequence[Array]:
        local, spread = self.engine.local, self.spread_rows
        if self.site_weight.diagonal is not None:
            flat = np.einsum("pl,pl->p", local, spread)
            return split(flat, self.linear.predictors)
        return tuple(site_blocks(local.T, spread.T, self.linear.predictors))

    def solve(self, rhs: Array) -> Array:
        x = rhs[:, None] if rhs.ndim == 1 else rhs
        out = self.plates.gathered(self.covariance @ self.plates.spread(x))
        return out[:, 0] if rhs.ndim == 1 else out

    def _project(self, predictor: Predictor, full: bool) -> tuple[Array, Array]:
        x = sparse_rows(predictor, self.linear)
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
        for start in range(0, len(keys), step):
            some = slice(start, start + step)
            half = np.einsum("pij,pj->pi", self.factor[group[some]], local[some])
            np.add.at(variance, row[some], np.einsum("pi,pi->p", half, half))
        return mean, variance

    def sample(self, rng: Generator, size: int) -> Array:
        return self._drawn(rng, size)[0]

    def draw(self, rng: Generator, size: int) -> Draws:
        z, noise = self._drawn(rng, size)
        noise = noise[:, self.engine.prior.moving]
        return Draws(z, np.asarray(np.einsum("ij,ij->i", noise, noise)), noise.shape[1])

    def _drawn(self, rng: Generator, size: int) -> tuple[Array, Array]:
        """Draws and the white noise they are made of, both (size, n)."""
        noise = rng.standard_normal((size, self.linear.size))
        turned = self.factor.transpose(0, 2, 1) @ self.plates.spread(noise.T)
        return self.latent_mean + self.plates.gathered(turned).T, noise

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """dmu = K^-1 (m - mu); dQ = (K - V - (m - mu)(m - mu)')/2 on Q's pattern, or, of blocks
        whose root is one of K, dK by its factors (`batched_information`)."""
        turn = self.turn(tilt)
        forms = {b.name: form_of(b.block) for b in self.engine.blocks}
        by_covariance = [b for b in self.engine.blocks if forms[b.name] is Form.covariance]
        others = [b for b in self.engine.blocks if forms[b.name] is not Form.covariance]
        away = self.delta + turn.latent
        mean = {b.name: times(b.sparse_precision, away[b.where]) for b in others}
        factors: dict[str, list[Array | None]] = {}
        if by_covariance:
            slope, pull = self._by_group(turn)
            factors = {b.name: self._by_factor(b, slope) for b in by_covariance}
            mean |= {b.name: pull[b.where] for b in by_covariance}
        return Adjoints(
            offset=self.offset_adjoints(turn),
            operator=self.operator_adjoints(turn),
            mean=mean,
            precision=Lazy({b.name: self._precision_adjoint(b, turn) for b in others}),
            factors=factors,
        )

    def _by_group(self, turn: Turn) -> tuple[Array, Array]:
        """(N, L, L) dF/dK_n and (n,) dF/dmu, whatever the block."""
        engine, plates = self.engine, self.plates
        weighted = plates.by_group(self.site_weight.times(engine.local))
        h = engine.rows_by_group.transpose(0, 2, 1) @ weighted
        known = Information.of(0.5 * (h + h.transpose(0, 2, 1)), engine.prior.root)
        away = flatten(self.shift) - self.site_weight.times(engine.start)
        p = known.pull(engine.transposed(away))
        inner, pull = p[:, :, None] * p[:, None, :] - known.slope, p
        if not turn.still:
            tilted = known.pull(plates.spread(turn.pulled))
            cross = p[:, :, None] * tilted[:, None, :]
            inner += cross + cross.transpose(0, 2, 1)
            pull = p + tilted
        return 0.5 * inner, plates.gathered(pull)

    def _by_factor(self, block: BlockPrior, slope: Array) -> list[Array | None]:
        q = pattern(block)
        rows = np.repeat(np.arange(block.size), np.diff(q.indptr))
        columns = q.indices.astype(np.int64)
        group, place = self.plates.group[block.where], self.plates.place[block.where]
        entries = slope[group[rows], place[rows], place[columns]]
        return folded(block.block, entries, (rows, columns))

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

    def _operator_adjoint(self, k: int, first: int, name: str, product: Outer) -> object:
        p, where = self.linear.predictors[k], self.linear.slices[name]
        rows, operator = slice(first, first + p.rows), p.columns[name]
        weighted = SiteWeight((p,), (self.weight[k],)).times(self.spread_rows[rows])
        if not operator.is_sparse:
            group, place = self.plates.group[where], self.plates.place[where]
            same_group = self.plates.row_group[rows, None] == group
            return product.dense(rows, where) - np.where(same_group, weighted[:, place], 0.0)
        pattern = sp.csr_array(operator.sparse())
        line = np.repeat(np.arange(p.rows), np.diff(pattern.indptr))
        columns = pattern.indices + where.start
        values = product.entries(line + first, columns)
        values -= weighted[line, self.plates.place[columns]]
        return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)
