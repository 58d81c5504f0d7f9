"""q(z) of the iterative engine: the mean is there, the rest is estimated when asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix
from lgmdsl.contract.engine import Adjoints, Conditioned, Draws, Errors, Failed, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.engines.conditioned import CHUNK, Lazy
from lgmdsl.engines.constraints import LOG_2PI
from lgmdsl.engines.iterative_variance import (
    RowGroups,
    Samples,
    controlled,
    known_means,
    plain,
)
from lgmdsl.engines.prior import BlockPrior
from lgmdsl.engines.turn import Outer, Turn
from lgmdsl.engines.weights import cut, flatten, split
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.numerics.lanczos import lanczos, root_of_inverse
from lgmdsl.operators.base import Gram, Operator
from lgmdsl.operators.beside import beside
from lgmdsl.operators.compose import parts_of

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.engines.iterative import IterativeEngine


class IterativeConditioned(Conditioned):
    """q(z) = N(mu + delta, A^-1), A delta = h - residual.

    `variance_error` and `log_normaliser_error` are Monte Carlo standard errors.
    """

    def __init__(
        self, engine: IterativeEngine, weight: Rows, shift: Rows, w: Array, diagonal: Array,
        h: Array, delta: Array, residual: Array, like: IterativeConditioned | None,
    ) -> None:  # fmt: skip
        self.engine, self.linear = engine, engine.linear
        self.weight, self.shift, self.w, self.diagonal = weight, shift, w, diagonal
        self.h, self.delta, self._residual = h, delta, residual
        self._like: IterativeConditioned | None = None  # the first one of the same weights
        if like is not None:
            self._like = like._like or like

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        return self.engine.moved(self.weight, shift, self.w, self.diagonal, self)

    # ---- mean and normaliser ---------------------------------------------------------------------

    @cached_property
    def flat_mean(self) -> Array:
        """m, (P,)."""
        return np.asarray(self.engine.start + self.engine.b.matvec(self.delta))

    @cached_property
    def mean(self) -> Rows:
        return split(self.flat_mean, self.linear.predictors)

    @cached_property
    def latent_mean(self) -> Array:
        return self.engine.prior.mu + self.delta

    @cached_property
    def _log_determinant(self) -> tuple[float, float]:
        if self._like is not None:
            return self._like._log_determinant
        return self.engine.log_determinant(self.w, self.diagonal)

    @cached_property
    def log_normaliser(self) -> float:  # type: ignore[override]
        """b'c' - c'Wc'/2 + h'd - d'Ad/2 + (log|Q| - log|A| + f log(2 pi))/2, c' = B mu + c."""
        start, b, prior = self.engine.start, flatten(self.shift), self.engine.prior
        exponent = float(b @ start) - 0.5 * float(start @ (self.w * start))
        exponent += float(self.h @ self.delta)
        exponent -= 0.5 * float(self.delta @ (self.h - self._residual))
        normalising = prior.log_det - self._log_determinant[0] + prior.free * LOG_2PI
        return exponent + 0.5 * normalising

    @cached_property
    def log_normaliser_error(self) -> float:
        """Its standard error: half that of log|A|."""
        return 0.5 * self._log_determinant[1]

    @cached_property
    def alpha(self) -> Array:
        """b - W m = dF/dc, (P,)."""
        return flatten(self.shift) - self.w * self.flat_mean

    # ---- variances -------------------------------------------------------------------------------

    @cached_property
    def samples(self) -> Samples:
        """The engine's perturbation samples at these weights."""
        if self._like is not None:
            return self._like.samples
        e1, e2 = self.engine.noise
        rhs = self.engine.b.rmatvec(np.sqrt(self.w)[:, None] * e1) + e2
        begin = self.engine.warm.get("samples")
        made = self._perturbed(rhs, self.engine.loose, begin)
        self.engine.warm["samples"] = made.u
        return made

    def _perturbed(self, rhs: Array, tolerance: float, start: Array | None = None) -> Samples:
        found = self.engine.solve(self.w, self.diagonal, rhs, tolerance, start)
        if not found.converged.all():
            raise _not_converged(self.engine.limit)
        return Samples(found.x, self.engine.times(self.w, found.x), rhs)

    @cached_property
    def _root(self) -> Array:
        """(n, k) R with RR' <= A^-1: D^-1/2 times that of Lanczos on D^-1/2 A D^-1/2."""
        engine, half = self.engine, 1.0 / np.sqrt(self.diagonal)
        start = np.random.default_rng((engine.seed, 4)).standard_normal(self.linear.size)
        found = lanczos(lambda x: half * engine.times(self.w, half * x), start, engine.steps)
        return half[:, None] * root_of_inverse(*found)

    def _estimate(self, groups: RowGroups, local: Callable[[], Gram | None]) -> tuple[Array, Array]:
        """Variances of rows and their standard errors."""
        operator = groups.operator
        if self.engine.variances == "lanczos":
            return (operator.matvec(self._root) ** 2).sum(axis=1), np.zeros(groups.rows)
        known = local() if len(groups.keys) else None
        if known is None:
            out, error = plain(operator.matvec(self.samples.u))
            out[groups.empty], error[groups.empty] = 0.0, 0.0
            return out, error
        out, error = groups.averaged(known(self.w), self.samples)
        if len(groups.long):
            out[groups.long], error[groups.long] = self._long(groups)
        return out, error

    def _long(self, groups: RowGroups) -> tuple[Array, Array]:
        values = groups.operator.matvec(self.samples.u)[groups.long]
        known = None
        if all(
            p.held and p.is_sparse for o in (groups.operator, self.engine.b) for p in parts_of(o)
        ):
            known = known_means(groups.long_rows, self.engine.b.sparse(), self.w,
                                self.engine.prior.precision, self.diagonal)  # fmt: skip
        if known is None:
            return plain(values)
        controls = groups.long_rows @ (self.samples.rhs / self.diagonal[:, None])
        return controlled(values, np.asarray(controls), known)

    @cached_property
    def _flat_variance(self) -> tuple[Array, Array]:
        if self._like is not None:
            return self._like._flat_variance
        return self._estimate(self.engine.groups, lambda: self.engine.local)

    @cached_property
    def variance(self) -> Rows:
        return split(self._flat_variance[0], self.linear.predictors)

    @property
    def variance_error(self) -> Rows:
        """Standard errors of `variance`; zeros for Lanczos, whose error is no chance."""
        return split(self._flat_variance[1], self.linear.predictors)

    @property
    def errors(self) -> Errors:
        return Errors(self.log_normaliser_error, self.variance_error)

    @cached_property
    def _latents(self) -> tuple[Array, Array]:
        groups = self.engine.latents
        return self._estimate(groups, lambda: self.engine.entries(*groups.pairs))

    @property
    def latent_variance(self) -> Array:
        return self._latents[0]

    @property
    def latent_variance_error(self) -> Array:
        """(n,) standard errors of `latent_variance`."""
        return self._latents[1]

    # ---- functionals, solves, draws --------------------------------------------------------------

    def _operator(self, predictor: Predictor) -> Operator:
        columns = [predictor.columns.get(b.name) for b in self.linear.blocks]
        return beside(columns, [b.size for b in self.linear.blocks], predictor.rows)

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        operator = self._operator(predictor)
        mean = operator.matvec(self.latent_mean) + predictor.offset
        if full:
            x = operator.rmatvec(np.eye(predictor.rows))
            square = x.T @ self.solve(x)
            return mean, np.asarray(0.5 * (square + square.T))
        groups = RowGroups(operator, self.engine.neighbours, self.engine.widest)
        return mean, self._estimate(groups, lambda: self.engine.entries(*groups.pairs))[0]

    def solve(self, rhs: Array) -> Array:
        columns = rhs[:, None] if rhs.ndim == 1 else rhs
        out = np.empty_like(columns, dtype=np.float64)
        step = max(1, CHUNK // max(self.linear.size, 1))
        for at in range(0, columns.shape[1], step):
            some = np.ascontiguousarray(columns[:, at : at + step], dtype=np.float64)
            found = self.engine.solve(self.w, self.diagonal, some, 1e-12)
            if not (found.converged | (found.steps == self.engine.limit)).all():
                raise _not_converged(self.engine.limit)
            out[:, at : at + step] = found.x
        return out[:, 0] if rhs.ndim == 1 else out

    def sample(self, rng: Generator, size: int) -> Array:
        return self.draw(rng, size).z

    def draw(self, rng: Generator, size: int) -> Draws:
        """Perturbations solved to the tolerance of the mean."""
        engine, n = self.engine, self.linear.size
        z, radius = np.empty((size, n)), np.empty(size)
        step = max(1, CHUNK // max(n + self.linear.rows, 1))
        for at in range(0, size, step):
            count = min(step, size - at)
            e1 = np.ascontiguousarray(rng.standard_normal((count, self.linear.rows)).T)
            e2 = np.ascontiguousarray(rng.standard_normal((count, n)).T)
            rhs = engine.b.rmatvec(np.sqrt(self.w)[:, None] * e1) + engine.prior.noise(e2)
            made = self._perturbed(rhs, engine.tolerance)
            z[at : at + count] = self.latent_mean + made.u.T
            radius[at : at + count] = np.einsum("ij,ij->j", made.u, made.lifted)
        return Draws(z, np.maximum(radius, 0.0), n)

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """alpha and Q(m - mu) as exact as the mean; the rest with the samples' covariance."""
        prior, predictors = self.engine.prior, self.linear.predictors
        turn = Turn.of(self, self.linear, lambda x: self.w * x, tilt)
        pull = prior.times(self.delta + turn.latent)
        product = turn.product(self.alpha, self.latent_mean)
        starts = np.cumsum([0, *(p.rows for p in predictors)])
        operators = tuple(
            Lazy({name: self._operator_adjoint(k, int(at), name, product) for name in p.columns})
            for k, (p, at) in enumerate(zip(predictors, starts, strict=False))
        )
        makers = {b.name: self._precision_adjoint(b, turn) for b in prior.blocks if not b.nullity}
        return Adjoints(
            offset=tuple(cut(self.alpha + turn.alpha, predictors)),
            operator=operators,
            mean={b.name: pull[b.where] for b in prior.blocks},
            precision=Lazy(makers),
        )

    def _precision_adjoint(self, block: BlockPrior, turn: Turn) -> Callable[[], Matrix]:
        """(K - V - dd')/2 on Q's pattern."""

        def make() -> Matrix:
            q = block.sparse_precision
            rows = np.repeat(np.arange(block.size), np.diff(q.indptr))
            columns = q.indices.astype(np.int64)
            u = self.samples.u[block.where]
            values = self.engine.prior.covariance(block, rows, columns)
            values = values - turn.squared(self.delta, rows, columns, block.where.start)
            spread = np.einsum("ik,ik->i", u[rows], u[columns]) / self.samples.count
            on = rows == columns
            spread[on] = self.latent_variance[block.where][rows[on]]
            values -= spread
            return sp.csr_array((0.5 * values, q.indices, q.indptr), shape=q.shape)

        return make

    def _operator_adjoint(self, k: int, at: int, name: str,
                          product: Outer) -> Callable[[], object]:  # fmt: skip
        """alpha mean' - W B V, B V from the samples."""

        def make() -> object:
            p, where = self.linear.predictors[k], self.linear.slices[name]
            rows, u = slice(at, at + p.rows), self.samples.u
            lift = self.w[rows, None] * self._operator(p).matvec(u) / self.samples.count
            if not p.columns[name].is_sparse:
                return product.dense(rows, where) - lift @ u[where].T
            pattern = sp.csr_array(p.columns[name].sparse())
            line = np.repeat(np.arange(p.rows), np.diff(pattern.indptr))
            values = product.entries(line + at, pattern.indices + where.start)
            values -= np.einsum("ik,ik->i", lift[line], u[where][pattern.indices])
            return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)

        return make


def _not_converged(limit: int) -> NumericalError:
    return NumericalError(
        Diagnostic(
            "E601",
            f"conjugate gradients did not converge in {limit} iterations",
            help="the posterior is nearly improper: give weakly determined latents tighter priors",
            layout="plain",
        )
    )
