"""The posterior of `wide`: z_n ~ N(K B_n' alpha_n, K - K B_n' C_n B_n K)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.engine import Adjoints, Conditioned, Draws, Failed, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.stacked import flatten, split
from lgmdsl.engines.shared.conditioned import RowConditioned
from lgmdsl.engines.shared.shift_derivatives import Outer
from lgmdsl.engines.shared.weights import SiteWeight
from lgmdsl.numerics.cholesky import pivoted_root

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.engines.grouped.wide import WideEngine

CHUNK = 1 << 22  # entries of one dense temporary


class WideConditioned(RowConditioned):
    """`c`: (N, M, M), and `half`, its root (I + W^1/2 S W^1/2)^-1/2 W^1/2, None where weights are
    negative; `half_log_det`: of I + SW, halved and summed."""

    def __init__(
        self,
        engine: WideEngine,
        weight: Rows,
        shift: Rows,
        site_weight: SiteWeight,
        c: Array,
        half: Array | None,
        half_log_det: float,
    ) -> None:
        self.engine, self.linear, self.rows = engine, engine.linear, engine.rows
        self.weight, self.shift, self.site_weight = weight, shift, site_weight
        self.c, self.half, self.half_log_det = c, half, half_log_det
        b, start = flatten(shift), engine.start
        self.pull = self._pulled(self.rows.by_group(b - site_weight.times(start)))
        lift = _times(engine.s, self.pull)
        self._mean = start + self.rows.by_row(lift)
        self._centred = -0.5 * float((self.pull * lift).sum()) - half_log_det
        exponent = float((b - 0.5 * site_weight.times(self._mean)) @ self._mean)
        self.log_normaliser = self._centred + exponent

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        return WideConditioned(
            self.engine,
            self.weight,
            shift,
            self.site_weight,
            self.c,
            self.half,
            self.half_log_det,
        )

    @property
    def centred(self) -> float:
        return self._centred

    @cached_property
    def flat_mean(self) -> Array:
        return self._mean

    @cached_property
    def alpha(self) -> Array:
        """(P,) b - W m, which has no digits left of that difference where weights are large."""
        return self.rows.by_row(self.pull)

    @cached_property
    def reduced(self) -> Array:
        """(N, M, M) Cov(s_n) = S - S C S; between `informed` rows W^-1 - W^-1 C W^-1, for the
        first difference leaves no digits there."""
        s, informed = self.engine.s, self.informed
        out = s - s @ self.c @ s
        if informed.any():
            scale = np.where(informed, 1.0 / np.where(informed, self._group_weight, 1.0), 0.0)
            other = -scale[:, :, None] * self.c * scale[:, None, :]
            index = np.arange(scale.shape[1])
            other[:, index, index] += scale
            out = np.where(informed[:, :, None] & informed[:, None, :], other, out)
        return np.asarray(out)

    def _variance(self) -> Sequence[Array]:
        flat = self.rows.by_row(np.einsum("nii->ni", self.reduced))
        return split(flat, self.linear.predictors)

    @cached_property
    def latent_mean(self) -> Array:
        return np.asarray(self.engine.mu + self._spread_rows(self.pull))

    def _latent_variance(self) -> Array:
        k = self.engine.covariance
        out = np.tile(k.diagonal(), (len(self.c), 1))
        for some in self._groups():
            rows = self.rows.gathered(k, some)
            out[some] -= np.einsum("gmd,gmd->gd", rows, self.c[some] @ rows)
        return out.reshape(-1)

    def solve(self, rhs: Array) -> Array:
        x = rhs[:, None] if rhs.ndim == 1 else rhs
        out = np.empty_like(x, dtype=np.float64)
        for j in range(x.shape[1]):
            out[:, j] = self._solved(x[:, j])
        return out[:, 0] if rhs.ndim == 1 else out

    def squared_length(self, slope: Array) -> float:
        """g'Cov(z)g; at the cost of the rows alone where g is nowhere else, as B'x is for rows that
        pick latents."""
        d, rows = self.rows.size, self.rows
        if rows.columns.shape[2] == 1:
            seen = slope.reshape(-1, d)[np.arange(len(self.c))[:, None], rows.columns[..., 0]]
            value = rows.values[..., 0]
            seen = np.where(value != 0.0, seen / np.where(value != 0.0, value, 1.0), 0.0)
            if np.count_nonzero(seen) == np.count_nonzero(slope):
                return float(np.einsum("ni,nij,nj->", seen, self.reduced, seen, optimize=True))
        return super().squared_length(slope)

    def _project(self, predictor: Predictor, full: bool) -> tuple[Array, Array]:
        (block,) = self.linear.blocks
        x = sp.csr_array((predictor.rows, block.size))
        if block.name in predictor.columns:
            x = sp.csr_array(predictor.columns[block.name].sparse())
            x.sum_duplicates()
        mean = np.asarray(x @ self.latent_mean + predictor.offset)
        if full:
            square = x @ self.solve(x.toarray().T)
            return mean, np.asarray(0.5 * (square + square.T))
        d, variance = self.rows.size, np.zeros(predictor.rows)
        line = np.repeat(np.arange(predictor.rows), np.diff(x.indptr))
        # A row may reach into several vectors: one piece for each.
        keys, piece = np.unique(line * len(self.c) + x.indices // d, return_inverse=True)
        row, group = np.divmod(keys, len(self.c))
        local = sp.csr_array((x.data, (piece, x.indices % d)), shape=(len(keys), d))
        step = max(1, CHUNK // d)
        for start in range(0, len(keys), step):
            some = slice(start, start + step)
            part, groups = local[some], group[some]
            wide = self.engine.spread(part)  # rows of X K
            seen = np.einsum(
                "pme,pme->pm",
                wide[np.arange(len(groups))[:, None, None], self.rows.columns[groups]],
                self.rows.values[groups],
            )
            form = np.asarray(part.multiply(wide).sum(axis=1)).reshape(-1)
            form -= np.einsum("pi,pij,pj->p", seen, self.c[groups], seen, optimize=True)
            np.add.at(variance, row[some], form)
        return mean, variance

    def sample(self, rng: Generator, size: int) -> Array:
        return self._drawn(rng, size)[0]

    def draw(self, rng: Generator, size: int) -> Draws:
        z, radius = self._drawn(rng, size)
        return Draws(z, radius, len(self.c) * self._root.shape[1])

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """dK = sum_n B_n'(alpha alpha' - C)B_n / 2 by its factor, dmu = B'alpha."""
        turn = self.turn(tilt)
        (block,) = self.linear.blocks
        pull = self.engine.b.T @ (self.alpha + turn.alpha)
        a, tilted = self.rows.by_group(self.alpha), self.rows.by_group(turn.alpha)
        inner = a[:, :, None] * a[:, None, :] - self.c
        if not turn.still:
            cross = a[:, :, None] * tilted[:, None, :]
            inner = inner + cross + cross.transpose(0, 2, 1)
        by_factor = [*[None] * (len(block.factors) - 1), 0.5 * self.rows.summed(inner)]
        return Adjoints(
            offset=self.offset_adjoints(turn),
            operator=self.operator_adjoints(turn),
            mean={block.name: np.asarray(pull)},
            factors={block.name: by_factor},
        )

    # ---- pieces --------------------------------------------------------------------------------

    @cached_property
    def _group_weight(self) -> Array:
        """(N, M) W, 0 where a vector has fewer rows."""
        return self.rows.by_group(flatten(self.weight))

    @cached_property
    def informed(self) -> BoolArray:
        """(N, M) rows whose weights say more of s than the prior does."""
        return np.asarray(self._group_weight * np.einsum("nii->ni", self.engine.s) > 1.0)

    def _pulled(self, h: Array) -> Array:
        """(N, M) alpha = (I + WS)^-1 h, h = b - W s0. As h - C S h it would lose all digits where
        weights are large: with h = W g + r, r that of rows which are not `informed`,

            alpha = C g + r - C S r
        """
        if self.half is None:
            return np.asarray(h - _times(self.c, _times(self.engine.s, h)))
        informed, w = self.informed, self._group_weight
        g = np.where(informed, h / np.where(informed, w, 1.0), 0.0)
        out = np.einsum("nji,nj->ni", self.half, _times(self.half, g))
        rest = np.where(informed, 0.0, h)
        if rest.any():
            out += rest - _times(self.c, _times(self.engine.s, rest))
        return np.asarray(out)

    @cached_property
    def _root(self) -> Array:
        """R, (D, rank), with RR' = K."""
        return pivoted_root(self.engine.covariance)

    def _groups(self) -> list[slice]:
        step = max(1, CHUNK // (self.rows.size * self.rows.table.shape[1]))
        return [slice(start, start + step) for start in range(0, len(self.c), step)]

    def _spread_rows(self, x: Array) -> Array:
        """(n,) K B'x for x by groups, (N, M)."""
        pulled = self.engine.b.T @ self.rows.by_row(x)
        return self.engine.spread(pulled.reshape(-1, self.rows.size)).reshape(-1)

    def _solved(self, x: Array) -> Array:
        wide = self.engine.spread(x.reshape(-1, self.rows.size)).reshape(-1)
        seen = self.rows.by_group(self.engine.b @ wide)
        return np.asarray(wide - self._spread_rows(_times(self.c, seen)))

    def _drawn(self, rng: Generator, size: int) -> tuple[Array, Array]:
        """Draws m + R (I - F C F')^1/2 x, F = R'B', and the squared lengths of the white noise x;
        the root is I + U ((I - T C T')^1/2 - I) U' with F = U T."""
        root, groups = self._root, len(self.c)
        noise = rng.standard_normal((size, groups, root.shape[1]))
        z = np.empty((size, groups, self.rows.size))
        for some in self._groups():
            f = self.rows.gathered(root, some).transpose(0, 2, 1)
            u, t = np.linalg.qr(f)
            inner = np.eye(t.shape[1]) - t @ self.c[some] @ t.transpose(0, 2, 1)
            values, vectors = np.linalg.eigh(inner)
            bent = np.sqrt(np.maximum(values, 0.0)) - 1.0
            turned = vectors * bent[:, None, :] @ vectors.transpose(0, 2, 1)
            x = noise[:, some]
            y = x + np.einsum("gri,gij,sgj->sgr", u, turned, np.einsum("gri,sgr->sgi", u, x))
            z[:, some] = y @ root.T
        flat = self.latent_mean + z.reshape(size, -1)
        return flat, np.asarray((noise**2).sum(axis=(1, 2)))

    def _operator_adjoint(self, k: int, first: int, name: str, product: Outer) -> object:
        p = self.linear.predictors[k]
        pattern = sp.csr_array(p.columns[name].sparse())
        line = np.repeat(np.arange(p.rows), np.diff(pattern.indptr)) + first
        # W B Cov(z) = W (I - S C) B K by rows; only the entries of the pattern.
        passed = np.eye(self.c.shape[1]) - self.engine.s @ self.c
        group, slot = self.rows.group[line], self.rows.slot[line]
        columns = pattern.indices % self.rows.size
        picked = self.engine.covariance[self.rows.columns[group], columns[:, None, None]]
        seen = np.einsum("qme,qme->qm", picked, self.rows.values[group])
        cross = np.einsum("qm,qm->q", passed[group, slot], seen)
        weight = flatten(self.weight)[line]
        values = product.entries(line, pattern.indices.astype(np.int64)) - weight * cross
        return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)


def _times(matrices: Array, x: Array) -> Array:
    """(N, M) products of (N, M, M) and (N, M)."""
    return np.asarray(np.einsum("nij,nj->ni", matrices, x))
