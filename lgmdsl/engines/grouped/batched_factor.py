"""The factor of `batched`: a covariance that is block diagonal, (N, L, L), and its slopes.

With H = B'WB and K = RR' of a group,

    C = (K + H^-1)^-1,   p = (I + HK)^-1 h

are what log_normaliser's slope in K, (pp' - C)/2, is made of. The differences H - HVH and h - HVh
that they are lose all digits where rows outweigh the prior. With H = T'T (by its eigenvectors: H
may be singular) and h = T'g + r, r where H is 0,

    C = T'(I + TKT')^-1 T,   p = T'(I + TKT')^-1 g + r - HVr
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, BoolArray, IntArray, SparseMatrix
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.stacked import flatten, row_slices, split
from lgmdsl.engines.grouped.batched_prior import Form, folded, form_of, pattern
from lgmdsl.engines.shared.conditioned import CHUNK, Lazy
from lgmdsl.engines.shared.factored import (
    Centre,
    FactoredConditioned,
    Factorisation,
    PriorAdjoints,
)
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.engines.shared.prior_entries import covariance_entries
from lgmdsl.engines.shared.shift_derivatives import Turn
from lgmdsl.engines.shared.weights import SiteWeight, far, site_blocks
from lgmdsl.numerics.sparse.base import entries_of, filled, times

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.engines.grouped.batched import BatchedEngine


class BatchedFactor(Factorisation):
    """V = F'F, `factor` being F, (N, L, L), or (1, L, L) where all groups share it, `white` that of
    A^-1 = E'E in whitened latents; `half_log_det`: of A, summed."""

    engine: BatchedEngine

    def __init__(
        self,
        engine: BatchedEngine,
        weight: Rows,
        site_weight: SiteWeight,
        factor: Array,
        white: Array,
        half_log_det: float,
    ) -> None:
        self.engine, self.plates, self.mu = engine, engine.plates, engine.mu
        self.weight, self.site_weight, self.half_log_det = weight, site_weight, half_log_det
        whole = (engine.plates.groups, *factor.shape[1:])
        self.own_factor = factor
        self.factor, self.white = np.broadcast_to(factor, whole), np.broadcast_to(white, whole)

    @property
    def rank(self) -> int:
        return int(self.engine.prior.moving.sum())

    def centre(self, shift: Rows) -> Centre:
        engine, b = self.engine, flatten(shift)
        half = np.einsum(
            "nij,nj->ni", self.factor, engine.transposed(b - self.site_weight.times(engine.start))
        )
        away = self._away(half)
        z = self.mu + away
        rows = self._rows(z)
        if far(engine.start, self.site_weight):
            # Once more from what is left, which is added last and keeps its digits: K^-1 (mu - z)
            # is -R'^-1 x, x the whitened latents.
            x = np.einsum("nji,nj->ni", self.white, half)
            root = np.broadcast_to(engine.prior.root, self.white.shape)
            pull = engine.transposed(b - self.site_weight.times(rows))
            gap = np.einsum("nji,nj->ni", root, pull) - x
            more = np.einsum("nij,nj->ni", self.white, gap)
            half, step = half + more, self._away(more)
            away, z = away + step, z + step
            rows = self._rows(z)
        x = np.einsum("nji,nj->ni", self.white, half)
        centred = -0.5 * float((x**2).sum()) - self.half_log_det
        exponent = float((b - 0.5 * self.site_weight.times(rows)) @ rows)
        return Centre(away, rows, centred + exponent, centred, latent=z)

    def _away(self, half: Array) -> Array:
        return self.plates.latents.flat(np.einsum("nji,nj->ni", self.factor, half))

    def _rows(self, z: Array) -> Array:
        return times(self.engine.b, z) + self.engine.offset

    @cached_property
    def covariance(self) -> Array:
        """(N, L, L) Cov(z) by groups."""
        square = self.own_factor.transpose(0, 2, 1) @ self.own_factor
        return np.broadcast_to(square, self.factor.shape)

    def latent_variance(self) -> Array:
        return self.plates.latents.flat(np.einsum("nii->ni", self.covariance))

    @cached_property
    def spread_rows(self) -> Array:
        """(P, L) B Cov(z), each row in its group; it is zero elsewhere."""
        return self.plates.rows.flat(self.engine.rows_by_group @ self.covariance)

    def variance(self) -> Sequence[Array]:
        local, spread = self.engine.local, self.spread_rows
        if self.site_weight.diagonal is not None:
            flat = np.einsum("pl,pl->p", local, spread)
            return split(flat, self.linear.predictors)
        return tuple(site_blocks(local.T, spread.T, self.linear.predictors))

    def solve(self, rhs: Array) -> Array:
        return self.plates.latents.flat(self.covariance @ self.plates.latents.padded(rhs))

    def functional(self, x: SparseMatrix) -> Array:
        variance, step = np.zeros(x.shape[0]), max(1, CHUNK // self.plates.width**2)
        line, columns = entries_of(x)
        # A row may reach into several groups: one piece for each.
        keys, piece = np.unique(
            line * self.plates.groups + self.plates.latents.group[columns], return_inverse=True
        )
        row, group = np.divmod(keys, self.plates.groups)
        local = np.zeros((len(keys), self.plates.width))
        local[piece, self.plates.latents.place[columns]] = x.data
        for start in range(0, len(keys), step):
            some = slice(start, start + step)
            half = np.einsum("pij,pj->pi", self.factor[group[some]], local[some])
            np.add.at(variance, row[some], np.einsum("pi,pi->p", half, half))
        return variance

    def draws(self, rng: Generator, size: int) -> tuple[Array, Callable[[], Array]]:
        noise = rng.standard_normal((size, self.linear.size))
        turned = self.factor.transpose(0, 2, 1) @ self.plates.latents.padded(noise.T)

        def lengths() -> Array:
            moving = noise[:, self.engine.prior.moving]
            return np.asarray(np.einsum("ij,ij->i", moving, moving))

        return self.plates.latents.flat(turned).T, lengths

    def adjoints(self, q: FactoredConditioned, turn: Turn) -> PriorAdjoints:
        """dmu = K^-1 (m - mu); dQ = (K - V - (m - mu)(m - mu)')/2 on Q's pattern, or, of blocks
        whose root is one of K, dK by its factors (`Information`)."""
        blocks = self.engine.blocks
        by_covariance = [b for b in blocks if form_of(b.block) is Form.covariance]
        others = [b for b in blocks if form_of(b.block) is not Form.covariance]
        away = q.away + turn.latent
        mean = {b.name: times(b.sparse_precision, away[b.where]) for b in others}
        factors: dict[str, list[Array | None]] = {}
        if by_covariance:
            slope, pull = self._by_group(q, turn)
            factors = {b.name: self._by_factor(b, slope) for b in by_covariance}
            mean |= {b.name: pull[b.where] for b in by_covariance}
        precision = Lazy({b.name: self._precision_adjoint(b, q.away, turn) for b in others})
        return PriorAdjoints(mean, precision, factors)

    def _by_group(self, q: FactoredConditioned, turn: Turn) -> tuple[Array, Array]:
        """(N, L, L) dF/dK_n and (n,) dF/dmu, whatever the block."""
        engine, plates = self.engine, self.plates
        weighted = plates.rows.padded(self.site_weight.times(engine.local))
        h = engine.rows_by_group.transpose(0, 2, 1) @ weighted
        known = Information.of(0.5 * (h + h.transpose(0, 2, 1)), engine.prior.root)
        away = flatten(q.shift) - self.site_weight.times(engine.start)
        p = known.pull(engine.transposed(away))
        inner, pull = p[:, :, None] * p[:, None, :] - known.slope, p
        if not turn.still:
            tilted = known.pull(plates.latents.padded(turn.pulled))
            cross = p[:, :, None] * tilted[:, None, :]
            inner += cross + cross.transpose(0, 2, 1)
            pull = p + tilted
        return 0.5 * inner, plates.latents.flat(pull)

    def _by_factor(self, block: BlockPrior, slope: Array) -> list[Array | None]:
        rows, columns = entries_of(pattern(block))
        group, place = (
            self.plates.latents.group[block.where],
            self.plates.latents.place[block.where],
        )
        entries = slope[group[rows], place[rows], place[columns]]
        return folded(block.block, entries, (rows, columns))

    def _precision_adjoint(
        self, block: BlockPrior, away: Array, turn: Turn
    ) -> Callable[[], SparseMatrix]:
        def make() -> SparseMatrix:
            q = block.sparse_precision
            rows, columns = entries_of(q)
            values = covariance_entries(block.block, rows, columns)
            rows, columns = rows + block.where.start, columns + block.where.start
            values = values - self._entries(rows, columns) - turn.squared(away, rows, columns)
            return filled(q, 0.5 * values)

        return make

    def _entries(self, rows: IntArray, columns: IntArray) -> Array:
        """Entries of V within groups."""
        group, place = self.plates.latents.group, self.plates.latents.place
        return np.asarray(self.covariance[group[rows], place[rows], place[columns]])

    def crossed(self, k: int, name: str) -> Array:
        p, where = self.linear.predictors[k], self.linear.slices[name]
        rows, operator = row_slices(self.linear.predictors)[k], p.columns[name]
        weighted = SiteWeight((p,), (self.weight[k],)).times(self.spread_rows[rows])
        group, place = self.plates.latents.group[where], self.plates.latents.place[where]
        if not operator.is_sparse:
            same_group = self.plates.rows.group[rows, None] == group
            return np.where(same_group, weighted[:, place], 0.0)
        line, columns = entries_of(sp.csr_array(operator.sparse()))
        return np.asarray(weighted[line, place[columns]])


@dataclass(frozen=True, eq=False)
class Information:
    """Information in the rows of N groups, arrays (N, L, L). `half`: (I + TKT')^-1/2 T; `vectors`,
    `scale`: the columns of T', by their lengths; `signed`: (N,) groups whose H has negative
    eigenvalues."""

    h: Array
    root: Array
    half: Array
    inverse: Array
    vectors: Array
    scale: Array
    signed: BoolArray

    @classmethod
    def of(cls, h: Array, root: Array) -> Information:
        """The information of H, (N, L, L) symmetric, and R, (N, L, L) or (1, L, L); the posterior
        exists."""
        values, vectors = np.linalg.eigh(h)
        noise = h.shape[1] * np.finfo(np.float64).eps * np.abs(values).max(axis=1)
        scale = np.sqrt(np.where(values > noise[:, None], values, 0.0))
        t = scale[:, :, None] * vectors.transpose(0, 2, 1)
        spread, index = t @ root, np.arange(h.shape[1])
        inner = spread @ spread.transpose(0, 2, 1)
        inner[:, index, index] += 1.0
        inverse = np.linalg.inv(np.linalg.cholesky(inner))
        return cls(h, root, inverse @ t, inverse, vectors, scale, values[:, 0] < -noise)

    @property
    def slope(self) -> Array:
        """(N, L, L) C."""
        out = self.half.transpose(0, 2, 1) @ self.half
        if self.signed.any():
            h = self.h[self.signed]
            out[self.signed] = h - self._lost(h, self.signed)
        return np.asarray(out)

    def pull(self, h: Array) -> Array:
        """(N, L) p, of h, (N, L)."""
        along = np.einsum("nij,ni->nj", self.vectors, h)
        informed = self.scale > 0.0
        rest = np.where(informed, 0.0, along)
        g = np.where(informed, along / np.where(informed, self.scale, 1.0), 0.0)
        out = np.einsum("nji,nj->ni", self.half, np.einsum("nij,nj->ni", self.inverse, g))
        if rest.any():
            outside = np.einsum("nij,nj->ni", self.vectors, rest)
            out += outside - self._lost(outside[:, :, None], slice(None))[:, :, 0]
        if self.signed.any():
            part = h[self.signed]
            out[self.signed] = part - self._lost(part[:, :, None], self.signed)[:, :, 0]
        return np.asarray(out)

    def _lost(self, x: Array, some: BoolArray | slice) -> Array:
        """HVx of some groups."""
        h = self.h[some]
        r = np.broadcast_to(self.root, self.h.shape)[some]
        turned = r.transpose(0, 2, 1)
        inner, index = turned @ h @ r, np.arange(h.shape[1])
        inner[:, index, index] += 1.0
        return np.asarray(h @ r @ np.linalg.solve(inner, turned @ x))
