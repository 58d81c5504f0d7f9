"""An engine from outside: dense algebra over the latents, without an inverse of the prior."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.extend import (
    Adjoints,
    Array,
    Conditioned,
    Draws,
    Engine,
    Estimate,
    Failed,
    LinearGaussian,
    Operator,
    Predictor,
    Rows,
    Shape,
)

if TYPE_CHECKING:
    from numpy.random import Generator


class Plain(Engine):
    """K = LL' by its eigenvectors; the posterior is L (I + L'B'WBL)^-1 L'."""

    name: ClassVar[str] = "plain"

    def __init__(self, linear: LinearGaussian) -> None:
        self.linear = linear
        factors = [[f.covariance() for f in b.factors] for b in linear.blocks]
        self.covariance = sla.block_diag(*(reduce(_kron, f) for f in factors))
        values, vectors = np.linalg.eigh(self.covariance)
        kept = values > 1e-13 * values[-1]
        self.root = vectors[:, kept] * np.sqrt(values[kept])
        self.mean = np.concatenate([b.mean for b in linear.blocks])
        nothing = np.zeros((0, linear.size))  # of the prior alone, for draws
        self.operator = np.vstack([nothing, *(self.rows_of(p) for p in linear.predictors)])
        self.offset = np.concatenate([nothing[:, 0], *(p.offset for p in linear.predictors)])

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        if linear.constraints is not None:
            return "it takes no constraints"
        proper = all(Shape.COVARIANCE in b.shape for b in linear.blocks)
        return "" if proper else "it takes covariances alone"

    @classmethod
    def cost(cls, linear: LinearGaussian) -> Estimate:
        n, p = float(linear.size), float(linear.rows)
        return Estimate(
            30.0 * n**3 + 4.0 * p * n * n + p * p * n, 6.0 * n * n + 3.0 * p * n + p * p
        )

    @property
    def prior_mean(self) -> Rows:
        return self.split(self.operator @ self.mean + self.offset)

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        blocks = [np.diag(x) if x.ndim == 1 else sla.block_diag(*x) for x in weight]
        w = sla.block_diag(*blocks) if blocks else np.zeros((0, 0))
        lift = self.operator @ self.root
        lower, info = sla.lapack.dpotrf(np.eye(self.root.shape[1]) + lift.T @ w @ lift, lower=1)
        if info:
            return Failed("the posterior precision is not positive definite")
        half = sla.solve_triangular(lower, self.root.T, lower=True).T
        return PlainConditioned(
            self, weight, shift, w, half, 2.0 * float(np.log(lower.diagonal()).sum())
        )

    def rows_of(self, predictor: Predictor) -> Array:
        """(P, n): the dense rows over all latents."""
        out = np.zeros((predictor.rows, self.linear.size))
        for name, operator in predictor.columns.items():
            out[:, self.linear.slices[name]] = operator.dense()
        return out

    def split(self, s: Array) -> Rows:
        """(P,) as one array for each site block."""
        predictors = self.linear.predictors
        parts = np.split(s, np.cumsum([p.rows for p in predictors])[:-1]) if predictors else []
        return tuple(
            x.reshape(-1, p.event) if p.event else x for x, p in zip(parts, predictors, strict=True)
        )


class PlainConditioned(Conditioned):
    """Cov(z) = half half'."""

    def __init__(
        self, engine: Plain, weight: Rows, shift: Rows, w: Array, half: Array, log_det: float
    ) -> None:
        self.engine, self.weight, self.shift, self.w, self.half = engine, weight, shift, w, half
        b = np.concatenate([np.zeros(0), *(x.reshape(-1) for x in shift)])
        s0 = engine.operator @ engine.mean
        s0 = s0 + engine.offset
        pulled = half.T @ (engine.operator.T @ (b - w @ s0))
        self.centre = engine.mean + half @ pulled
        self.log_normaliser = (
            float(b @ s0 - 0.5 * s0 @ w @ s0 + 0.5 * pulled @ pulled) - log_det / 2
        )
        self.alpha = b - w @ (engine.operator @ self.centre + engine.offset)

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        return self.engine.condition(self.weight, shift)

    @property
    def mean(self) -> Rows:
        return self.engine.split(self.engine.operator @ self.centre + self.engine.offset)

    @property
    def variance(self) -> Rows:
        lift, out, at = self.engine.operator @ self.half, [], 0
        for p in self.engine.linear.predictors:
            own = lift[at : at + p.rows].reshape(-1, max(p.event, 1), lift.shape[1])
            block = own @ own.transpose(0, 2, 1)
            out.append(block if p.event else block.reshape(-1))
            at += p.rows
        return tuple(out)

    @property
    def latent_mean(self) -> Array:
        return np.asarray(self.centre)

    @property
    def latent_variance(self) -> Array:
        return np.asarray((self.half**2).sum(axis=1))

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        b = self.engine.rows_of(predictor)
        lift = b @ self.half
        spread = lift @ lift.T if full else (lift**2).sum(axis=1)
        return b @ self.centre + predictor.offset, np.asarray(spread)

    def solve(self, rhs: Array) -> Array:
        return np.asarray(self.half @ (self.half.T @ rhs))

    def sample(self, rng: Generator, size: int) -> Array:
        return self.draw(rng, size).z

    def draw(self, rng: Generator, size: int) -> Draws:
        noise = rng.standard_normal((size, self.half.shape[1]))
        z = self.centre + noise @ self.half.T
        return Draws(z, (noise**2).sum(axis=1), self.half.shape[1])

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        engine, linear = self.engine, self.engine.linear
        b, cov = engine.operator, self.half @ self.half.T
        t = np.zeros(len(b)) if tilt is None else np.concatenate([x.reshape(-1) for x in tilt])
        dz = cov @ (b.T @ t)  # how E[z], and alpha, move with a tilt
        da = t - self.w @ (b @ dz)
        by_row = np.outer(self.alpha + da, self.centre) + np.outer(self.alpha, dz)
        by_row -= self.w @ b @ cov
        g, dg, inside = b.T @ self.alpha, b.T @ da, b.T @ self.w @ b
        by_k = np.outer(g, g) + np.outer(dg, g) + np.outer(g, dg) - inside + inside @ cov @ inside
        operators, at = [], 0
        for p in linear.predictors:
            own = by_row[at : at + p.rows]
            operators.append(
                {
                    name: _on_pattern(own[:, linear.slices[name]], op)
                    for name, op in p.columns.items()
                }
            )
            at += p.rows
        slices = linear.slices
        return Adjoints(
            engine.split(self.alpha + da),
            tuple(operators),
            {k: (g + dg)[v] for k, v in slices.items()},
            covariance={k: 0.5 * by_k[v, v] for k, v in slices.items()},
        )


def _kron(left: Array, right: Array) -> Array:
    return np.asarray(np.kron(left, right), dtype=np.float64)


def _on_pattern(dense: Array, operator: Operator) -> object:
    """Sparse where the operator is."""
    if not operator.is_sparse:
        return dense
    own = sp.csr_array(operator.sparse())
    where = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr))
    return sp.csr_array((dense[where, own.indices], own.indices, own.indptr), shape=own.shape)
