"""The Gaussian that the covariance engine returns: answers through M, see `factor`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix
from lgmdsl.contract.engine import Adjoints, Conditioned, Failed, Rows
from lgmdsl.engines.dense.factor import PositiveFactor, RowFactor
from lgmdsl.engines.shared.conditioned import DenseConditioned, Lazy, Pieces
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.engines.shared.weights import SiteWeight, site_blocks
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.numerics.cholesky import Cholesky, cholesky

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.engines.dense.covariance import CovarianceEngine


class CovarianceConditioned(DenseConditioned):
    """Proper blocks z = mu + KB'alpha; cov = K - KB'M_tot BK, M_tot = M - MH A^-1 H'M."""

    def __init__(
        self,
        engine: CovarianceEngine,
        weight: Rows,
        shift: Rows,
        site_weight: SiteWeight,
        row_weight: SiteWeight,
        factor: RowFactor,
        row_shift: Array,
    ) -> None:
        self.engine, self.linear, self.space = engine, engine.linear, engine.space
        self.weight, self.shift, self.site_weight = weight, shift, site_weight
        self.row_weight, self.row_shift, self.factor = row_weight, row_shift, factor
        self.pulled = np.zeros((engine.space.rows, 0))  # M H
        self.flat_factor = Cholesky(np.zeros((0, 0), order="F"))
        self.flat = np.zeros(0)
        self.kriging = None

    def set_mean(self, alpha: Array, rows: Array, log_normaliser: float) -> None:
        """alpha over all rows, the predictors' means, and the unconstrained normaliser."""
        self.row_alpha, self._rows = alpha, rows[: self.linear.rows]
        self.log_normaliser = log_normaliser

    @cached_property
    def free_mean(self) -> Array:
        z = self.engine.mu + self.space.prior_times(self.space.transposed(self.row_alpha))
        self.space.place_flat(z, self.flat)
        return z

    @cached_property
    def lost(self) -> float:
        return super().lost + self.engine.strain(self.weight)

    def predictor(self, z: Array) -> Array:
        out = self.space.times(z)
        if self.space.flats:
            out += self.space.flat_columns @ self.space.flat_part(z)
        return out[: self.linear.rows]

    def predictor_mean(self) -> Array:
        return self._rows

    def _preimage(self, rhs: Array) -> tuple[Array, Array]:
        """Y and q with V rhs = K Y in the proper blocks and q in the flat ones."""
        t = self.space.times(self.space.prior_times(rhs))
        u = self.factor.inverse(t)
        q = self.flat_factor.solve(self.space.flat_part(rhs) - self.pulled.T @ t)
        if self.space.flats:
            u = u + self.pulled @ q
        return rhs - self.space.transposed(u), q

    def free_solve(self, rhs: Array) -> Array:
        y, q = self._preimage(np.ascontiguousarray(rhs))
        out = self.space.prior_times(y)
        self.space.place_flat(out, q)
        return out

    def _latent_variance(self) -> Array:
        predictors, space = self.linear.predictors, self.space
        if len(predictors) == 1 and not predictors[0].event and not self.engine.extra:
            names = [b.name for b in self.engine.blocks]
            if len(names) == 1 and names[0] in space.b and space.b[names[0]] is None:
                return self.variance[0].copy()  # s is z
        dense = sum(b.size for b in space.proper if not b.diagonal) + len(self.flat)
        return self.latent_variance_by_rows(space.rows + dense)

    def free_quadratic(self, pieces: Pieces, rows: int) -> Array:
        form, t = np.zeros(rows), np.zeros((self.space.rows, rows), order="F")
        flat = np.zeros((len(self.flat), rows))
        blocks = {b.where.start: b for b in self.space.proper if b.size}
        starts = {
            b.where.start: w for b, w in zip(self.space.flats, self.space.flat_where, strict=True)
        }
        for where, m in pieces:
            block = blocks.get(where.start)
            if block is None:
                if where.start in starts:
                    flat[starts[where.start]] += _dense(m).T
                continue
            kx = block.rows_times(m)
            if isinstance(m, np.ndarray):
                form += np.einsum("ij,ij->i", m, _dense(kx))
            else:
                form += np.asarray(sp.csr_array(m.multiply(kx)) @ np.ones(block.size))
            if block.name in self.space.b:
                b = self.space.b[block.name]
                cross = kx.T if b is None else b @ kx.T
                t += cross if isinstance(cross, np.ndarray) else cross.toarray()
        form -= self.factor.quadratic(t)
        if self.space.flats:
            half = self.flat_factor.forward(flat - self.pulled.T @ t)
            form += np.einsum("ij,ij->j", half, half)
        return form

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        return self.engine.condition_with(self.weight, shift, self.factor)

    def free_variance(self) -> list[Array]:
        predictors = self.linear.predictors
        if self.factor.variances is None:
            self.engine.flops += self.space.rows**3 / 3
            self.factor.variances = self.factor.variance(predictors)
        blocks = list(self.factor.variances)
        if self.space.flats:
            j = self.space.flat_columns - self.engine.s @ self.pulled
            half = self.flat_factor.forward(j.T)
            more = site_blocks(half, half, predictors)
            blocks = [a + b for a, b in zip(blocks, more, strict=True)]
        return blocks

    def free_draws(self, rng: Generator, size: int) -> tuple[Array, Callable[[], Array]]:
        return (
            self._perturbed(rng, size)
            if isinstance(self.factor, PositiveFactor)
            else self._through_root(rng, size)
        )

    @property
    def free_rank(self) -> int:
        return len(self.flat) + int(sum(b.moving.sum() for b in self.space.proper))

    def _finish(self, start: Array, alpha: Array, flat: Array) -> Array:
        z = start + self.space.prior_times(self.space.transposed(alpha))
        self.space.place_flat(z, flat)
        return z.T

    def _perturbed(self, rng: Generator, size: int) -> tuple[Array, Callable[[], Array]]:
        """Perturb and maximise: mu -> a prior draw, b -> b + W^1/2 noise. K may be singular."""
        start, prior = np.zeros((self.linear.size, size)), []
        for block in self.space.proper:
            prior.append(rng.standard_normal((block.rank, size)))
            start[block.where] = block.mean[:, None] + block.root_times(prior[-1])
        values, basis = self.row_weight.spectrum()
        noise = np.sqrt(values)[:, None] * rng.standard_normal((self.space.rows, size))
        shift = self.row_shift[:, None] + (noise if basis is None else basis.back(noise))
        s0 = self.space.times(start) + self.engine.offset[:, None]
        alpha = self.factor.residual(shift - self.row_weight.times(s0))
        flat = self.flat_factor.solve(self.space.flat_columns.T @ alpha)
        alpha = alpha - self.pulled @ flat
        z = self._finish(start, alpha, flat)
        return z, lambda: self._radius(z.T, prior, alpha)

    def _radius(self, z: Array, prior: list[Array], alpha: Array) -> Array:
        """x'K^+x + (Bx)'W Bx of x = z - E z = R(noise + R'B'(alpha - E alpha)), K = RR'."""
        x = z - self.free_mean[:, None]
        pulled = self.space.transposed(alpha - self.row_alpha[:, None])
        radius = np.zeros(x.shape[1])
        for block, noise in zip(self.space.proper, prior, strict=True):
            inner = noise + block.root_transposed(pulled[block.where])
            radius += block.moving @ inner**2
        rows = self.space.times(x) + self.space.flat_columns @ self.space.flat_part(x)
        radius += np.einsum("ij,ij->j", rows, self.row_weight.times(rows))
        return radius

    def _through_root(self, rng: Generator, size: int) -> tuple[Array, Callable[[], Array]]:
        """z = mu + R x, RR' = K, x with precision I + (BR)'W(BR): for signed weights."""
        proper = self.space.proper
        identity = [b.root_times(np.eye(b.rank)) for b in proper]
        gain = np.hstack(
            [self.space.block_dense(b) @ r for b, r in zip(proper, identity, strict=True)]
            or [np.zeros((self.space.rows, 0))]
        )
        t = np.eye(gain.shape[1]) + gain.T @ self.row_weight.times(gain)
        factor = cholesky(np.ascontiguousarray(t))
        if factor is None:
            raise NumericalError(Diagnostic("E601", "the posterior cannot be drawn from: rounding"))
        k = len(self.flat)
        free = rng.standard_normal((k, size))
        flat = self.flat[:, None] + self.flat_factor.backward(free)
        s0 = self.engine.start[:, None] + self.space.flat_columns @ flat
        pull = gain.T @ (self.row_shift[:, None] - self.row_weight.times(s0))
        noise = rng.standard_normal((gain.shape[1], size))
        x = factor.solve(pull) + factor.backward(noise)
        z, start = np.zeros((self.linear.size, size)), 0
        for b, root in zip(proper, identity, strict=True):
            z[b.where] = b.mean[:, None] + root @ x[start : start + b.rank]
            start += b.rank
        self.space.place_flat(z, flat)
        moving = np.concatenate([np.zeros(0), *(b.moving for b in proper)])
        return z.T, lambda: np.asarray((free**2).sum(axis=0) + moving @ noise**2)

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """dmu = g - C2'a0; dK = (gg' - B'M_tot B - Y D^-1 Y' - C2'(a0 a0' - D0^-1)C2)/2 with
        g = B'alpha + Y lambda, V C' = K Y, and a0, D0 those of the constraints under the prior."""
        turn, g = self.turn(tilt), self.space.transposed(self.row_alpha)
        tilted, y = np.zeros_like(g), None
        if not turn.still:
            tilted = self._preimage(turn.pulled[:, None])[0][:, 0]
        pull = g
        if self.kriging is not None:
            constraints = self.kriging.constraints
            y, _ = self._preimage(np.ascontiguousarray(constraints.rows.T))
            g = g + y @ self.kriging.multiplier
            pull = g - constraints.rows[: constraints.proper].T @ constraints.multiplier
            gap = self.kriging.spread.T @ turn.pulled
            tilted = tilted - y @ self.kriging.factor.solve(gap)
        makers = {b.name: self._covariance_adjoint(b, g, tilted, y) for b in self.space.proper}
        mean = {b.name: (pull + tilted)[b.where] for b in self.space.proper}
        mean |= {b.name: np.zeros(b.size) for b in self.space.flats}
        return Adjoints(
            offset=self.offset_adjoints(turn),
            operator=self.operator_adjoints(turn),
            mean=mean,
            covariance=Lazy(makers),
        )

    @cached_property
    def inverse_total(self) -> Array:
        """M_tot, (P, P)."""
        self.engine.flops += 2 * self.space.rows**3 / 3
        m = self.factor.dense()
        if self.space.flats:
            half = self.flat_factor.forward(self.pulled.T)
            m -= half.T @ half
        return m

    def _covariance_adjoint(
        self, b: BlockPrior, g: Array, tilted: Array, y: Array | None
    ) -> Callable[[], Array]:
        """`tilted`: what a tilt adds to g."""

        def make() -> Array:
            part = g[b.where]
            out = np.outer(part, part) - self.space.compress(self.inverse_total, b)
            if tilted.any():
                cross = np.outer(tilted[b.where], part)
                out += cross + cross.T
            if y is not None and self.kriging is not None:
                constraints = self.kriging.constraints
                half = self.kriging.factor.forward(y[b.where].T)
                c2 = constraints.rows[: constraints.proper, b.where]
                pulled, prior = c2.T @ constraints.multiplier, constraints.prior.forward(c2)
                out += prior.T @ prior - half.T @ half - np.outer(pulled, pulled)
            out *= 0.5
            return out

        return make


def _dense(m: Matrix) -> Array:
    return m if isinstance(m, np.ndarray) else np.asarray(m.toarray())
