"""The factor of `wide`: z_n ~ N(mu + K B_n' alpha_n, K - K B_n' C_n B_n K)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, BoolArray, SparseMatrix
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.stacked import flatten, row_slices, split
from lgmdsl.engines.shared.conditioned import CHUNK
from lgmdsl.engines.shared.factored import (
    Centre,
    FactoredConditioned,
    Factorisation,
    PriorAdjoints,
    entries_of,
)
from lgmdsl.engines.shared.shift_derivatives import Turn
from lgmdsl.engines.shared.weights import SiteWeight
from lgmdsl.numerics.cholesky import pivoted_root

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.engines.grouped.wide import WideEngine


class WideFactor(Factorisation):
    """`c`: (N, M, M), and `half`, its root (I + W^1/2 S W^1/2)^-1/2 W^1/2, None where weights are
    negative; `half_log_det`: of I + SW, halved and summed."""

    engine: WideEngine

    def __init__(
        self, engine: WideEngine, weight: Rows, c: Array, half: Array | None, half_log_det: float
    ) -> None:
        self.engine, self.rows, self.mu, self.weight = engine, engine.rows, engine.mu, weight
        self.site_weight = SiteWeight(engine.linear.predictors, weight)
        self.c, self.half, self.half_log_det = c, half, half_log_det

    @property
    def rank(self) -> int:
        return len(self.c) * int(self._root.shape[1])

    def centre(self, shift: Rows) -> Centre:
        b, start, w = flatten(shift), self.engine.start, self.site_weight
        pull = self._pulled(self.rows.groups.padded(b - w.times(start)))
        lift = _times(self.engine.s, pull)
        mean = start + self.rows.groups.flat(lift)
        centred = -0.5 * float((pull * lift).sum()) - self.half_log_det
        exponent = float((b - 0.5 * w.times(mean)) @ mean)
        # b - W m has no digits left of that difference where weights are large.
        return Centre(None, mean, centred + exponent, centred, self.rows.groups.flat(pull))

    def away(self, centre: Centre) -> Array:
        assert centre.alpha is not None, "it was made here"
        return self._spread_rows(centre.alpha)

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

    def variance(self) -> Sequence[Array]:
        flat = self.rows.groups.flat(np.einsum("nii->ni", self.reduced))
        return split(flat, self.linear.predictors)

    def latent_variance(self) -> Array:
        k = self.engine.covariance
        out = np.tile(k.diagonal(), (len(self.c), 1))
        for some in self._groups():
            rows = self.rows.gathered(k, some)
            out[some] -= np.einsum("gmd,gmd->gd", rows, self.c[some] @ rows)
        return out.reshape(-1)

    def solve(self, rhs: Array) -> Array:
        return np.stack([self._solved(x) for x in rhs.T], axis=1)

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

    def functional(self, x: SparseMatrix) -> Array:
        d, variance = self.rows.size, np.zeros(x.shape[0])
        line, columns = entries_of(x)
        # A row may reach into several vectors: one piece for each.
        keys, piece = np.unique(line * len(self.c) + columns // d, return_inverse=True)
        row, group = np.divmod(keys, len(self.c))
        local = sp.csr_array((x.data, (piece, columns % d)), shape=(len(keys), d))
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
        return variance

    def adjoints(self, q: FactoredConditioned, turn: Turn) -> PriorAdjoints:
        """dK = sum_n B_n'(alpha alpha' - C)B_n / 2 by its factor, dmu = B'alpha."""
        (block,) = self.linear.blocks
        pull = self.engine.b.T @ (q.alpha + turn.alpha)
        a, tilted = self.rows.groups.padded(q.alpha), self.rows.groups.padded(turn.alpha)
        inner = a[:, :, None] * a[:, None, :] - self.c
        if not turn.still:
            cross = a[:, :, None] * tilted[:, None, :]
            inner = inner + cross + cross.transpose(0, 2, 1)
        by_factor = [*[None] * (len(block.factors) - 1), 0.5 * self.rows.summed(inner)]
        return PriorAdjoints({block.name: np.asarray(pull)}, factors={block.name: by_factor})

    @cached_property
    def _group_weight(self) -> Array:
        """(N, M) W, 0 where a vector has fewer rows."""
        return self.rows.groups.padded(flatten(self.weight))

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
        step = max(1, CHUNK // (self.rows.size * self.rows.groups.width))
        return [slice(start, start + step) for start in range(0, len(self.c), step)]

    def _spread_rows(self, x: Array) -> Array:
        """(n,) K B'x for (P,)."""
        pulled = self.engine.b.T @ x
        return self.engine.spread(pulled.reshape(-1, self.rows.size)).reshape(-1)

    def _solved(self, x: Array) -> Array:
        wide = self.engine.spread(x.reshape(-1, self.rows.size)).reshape(-1)
        seen = self.rows.groups.padded(self.engine.b @ wide)
        return np.asarray(wide - self._spread_rows(self.rows.groups.flat(_times(self.c, seen))))

    def draws(self, rng: Generator, size: int) -> tuple[Array, Callable[[], Array]]:
        """R (I - F C F')^1/2 x of white noise x, F = R'B'; the root is I + U ((I - T C T')^1/2 - I)
        U' with F = U T."""
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
        return z.reshape(size, -1), lambda: np.asarray((noise**2).sum(axis=(1, 2)))

    def crossed(self, k: int, name: str) -> Array:
        predictors = self.linear.predictors
        line, columns = entries_of(sp.csr_array(predictors[k].columns[name].sparse()))
        line = line + row_slices(predictors)[k].start
        # W B Cov(z) = W (I - S C) B K by rows; only the entries of the pattern.
        passed = np.eye(self.c.shape[1]) - self.engine.s @ self.c
        group, slot = self.rows.groups.group[line], self.rows.groups.place[line]
        place = columns % self.rows.size
        picked = self.engine.covariance[self.rows.columns[group], place[:, None, None]]
        seen = np.einsum("qme,qme->qm", picked, self.rows.values[group])
        cross = np.einsum("qm,qm->q", passed[group, slot], seen)
        return np.asarray(flatten(self.weight)[line] * cross)


def _times(matrices: Array, x: Array) -> Array:
    """(N, M) products of (N, M, M) and (N, M)."""
    return np.asarray(np.einsum("nij,nj->ni", matrices, x))
