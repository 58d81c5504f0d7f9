"""q(z) of the iterative engine: the mean is there, the rest is estimated when asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Adjoints, Conditioned, Draws, Errors, Failed, Leftover, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.rows import semidefinite
from lgmdsl.contract.stacked import flatten, split
from lgmdsl.engines.iterative.adjoints import adjoints
from lgmdsl.engines.iterative.driven import LANCZOS, Driven
from lgmdsl.engines.iterative.estimate import estimate, precise
from lgmdsl.engines.iterative.patience import SCATTER
from lgmdsl.engines.iterative.solve import not_converged
from lgmdsl.engines.iterative.variance import Directions, RowGroups, Samples
from lgmdsl.engines.shared.conditioned import CHUNK
from lgmdsl.engines.shared.constraints import LOG_2PI
from lgmdsl.engines.shared.restriction import Held
from lgmdsl.numerics.krylov import lanczos, root_of_inverse
from lgmdsl.operators.base import Operator
from lgmdsl.operators.compose import hstack

ROUGH = 1e-3  # of a residual, where a length is asked for

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.engines.iterative.engine import IterativeEngine


class IterativeConditioned(Conditioned):
    """q(z) = N(mu + delta, V), V = A'^-1 held on the constraints; A' free = h - residual, and
    delta is `free` placed on them.

    `variance_error` and `log_normaliser_error` are Monte Carlo standard errors.
    """

    def __init__(
        self,
        engine: IterativeEngine,
        weight: Rows,
        shift: Rows,
        w: Array,
        diagonal: Array,
        h: Array,
        free: Array,
        residual: Array,
        held: Held | None,
        like: IterativeConditioned | None,
    ) -> None:
        self.engine, self.linear = engine, engine.linear
        self.weight, self.shift, self.w, self.diagonal = weight, shift, w, diagonal
        self.h, self.free, self._residual, self.held = h, free, residual, held
        self.own_weight = w[: len(engine.start)]
        self.delta = free
        if held is not None and engine.ties is not None:
            self.delta = held.place(free, engine.ties.target)
        self._driven: Driven | None = None
        self._like: IterativeConditioned | None = None  # the first one of the same weights
        if like is not None:
            self._like = like._like or like

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        return self.engine.moved(self.weight, shift, self.w, self.diagonal, self)

    # ---- mean and normaliser ---------------------------------------------------------------------

    @cached_property
    def flat_mean(self) -> Array:
        """m, (P,)."""
        return np.asarray(self.engine.own.matvec(self.latent_mean) + self.engine.offset)

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
        """b'm - m'Wm/2 - d'Qd/2 + (log|Q| - log|A| + f log(2 pi))/2: errors of d enter squared."""
        m, prior, ties = self.flat_mean, self.engine.prior, self.engine.ties
        exponent = float((flatten(self.shift) - 0.5 * self.own_weight * m) @ m)
        exponent -= 0.5 * float(self.delta @ prior.times(self.delta))
        if self.held is not None and ties is not None:
            exponent += ties.prior.constant - self.held.half_log_det
            return exponent - 0.5 * self._log_determinant[0]
        normalising = prior.log_det - self._log_determinant[0] + prior.free * LOG_2PI
        return exponent + 0.5 * normalising

    def _lengths(self, x: Array) -> Array:
        """x'Ax of columns, without what the pins add to A."""
        pseudo = self.w[len(self.engine.start) :]
        out = np.einsum("ij,ij->j", x, self.engine.times(self.w, x))
        if len(pseudo) and self.engine.ties is not None:
            out -= pseudo @ x[self.engine.ties.pins] ** 2
        return np.asarray(out)

    @cached_property
    def log_normaliser_error(self) -> float:
        """Standard error of log_normaliser: half that of log|A|."""
        return 0.5 * self._log_determinant[1]

    @cached_property
    def alpha(self) -> Array:
        """b - W m = dF/dc, (P,)."""
        return flatten(self.shift) - self.own_weight * self.flat_mean

    # ---- variances -------------------------------------------------------------------------------

    @cached_property
    def samples(self) -> Samples:
        """The engine's perturbation samples at these weights."""
        if self._like is not None:
            return self._like.samples
        e1, e2 = self.engine.noise.perturbations(self.engine.samples)
        rhs = self.engine.b.rmatvec(np.sqrt(self.w)[:, None] * e1) + e2
        accuracy = self.engine.patience.accuracy(SCATTER)
        # What the solves leave must be the same whenever the weights are: from where the last
        # ones ended, variances would drift, and fixed points of them move from step to step.
        begin = self.engine.warm.get("samples") if accuracy <= self.engine.loose else None
        if begin is not None and begin.shape != rhs.shape:
            more = rhs[:, begin.shape[1] :] / self.diagonal[:, None]
            begin = np.hstack([begin, more])
        free = self._perturbed(rhs, accuracy, begin)
        self.engine.warm["samples"] = free
        return self._samples(free, self.engine.noise.loose(free.shape[1]), rhs)

    def _samples(self, free: Array, white: Array, rhs: Array) -> Samples:
        """Held on the constraints; `white`: (p, K) or more rows of normals."""
        u = free
        if self.held is not None:
            u = self.held.project(free, white[: self.held.plus.shape[1]])
        return Samples(u, self.engine.times(self.w, u), rhs)

    def _perturbed(
        self, rhs: Array, accuracy: float, start: Array | None = None, asked: bool = False
    ) -> Array:
        solution = self.engine.certified(self.w, self.diagonal, rhs, accuracy, start, asked=asked)
        if not solution.converged.all():
            raise not_converged(solution, self.engine.limit)
        return solution.x

    @cached_property
    def root(self) -> Array:
        """(n, k) R with RR' <= A^-1: D^-1/2 times that of Lanczos on D^-1/2 A D^-1/2. On the
        constraints it is projected as draws are: what they take is exact, and more than the root
        of few steps has."""
        engine, half = self.engine, 1.0 / np.sqrt(self.diagonal)
        tridiagonal = lanczos(
            lambda x: half * engine.times(self.w, half * x), engine.noise.start, engine.steps
        )
        free = half[:, None] * root_of_inverse(*tridiagonal)
        if self.held is None:
            return free
        none = np.zeros((self.held.plus.shape[1], free.shape[1]))
        return np.hstack([self.held.project(free, none), self.held.plus])

    @cached_property
    def directions(self) -> Directions | None:
        """What the samples' covariance lacks of A'^-1."""
        if self.held is None:
            return None
        known = np.hstack([self.held.minus, self.held.plus])
        signs = np.r_[np.ones(self.held.minus.shape[1]), -np.ones(self.held.plus.shape[1])]
        return Directions(known, self.engine.times(self.w, known), signs)

    @cached_property
    def _flat_variance(self) -> tuple[Array, Array]:
        if self._like is not None:
            return self._like._flat_variance
        while True:
            estimates = estimate(self, self.engine.groups, lambda: self.engine.local)
            if precise(self, *estimates) or not self.engine.refined():
                return estimates
            self.__dict__.pop("samples", None)

    @cached_property
    def variance(self) -> Rows:
        return tuple(map(semidefinite, split(self._flat_variance[0], self.linear.predictors)))

    @property
    def variance_error(self) -> Rows:
        """Standard errors of `variance`; zeros for Lanczos, whose error is no chance."""
        return split(self._flat_variance[1], self.linear.predictors)

    @property
    def errors(self) -> Errors:
        return Errors(self.log_normaliser_error, self.variance_error)

    @cached_property
    def reported(self) -> Conditioned:
        """Itself, or with variances from samples where Lanczos vectors do not hold them."""
        if self.engine.variances != LANCZOS:
            return self
        self._driven = Driven(self)
        if self._driven.whole:
            return self
        q = self.engine.sampling.condition(self.weight, self.shift)
        if not isinstance(q, IterativeConditioned):
            return self
        q._driven = self._driven
        return q

    @property
    def remark(self) -> str:
        return "" if self._driven is None else self._driven.remark

    @property
    def doubt(self) -> str:
        return "" if self._driven is None else self._driven.doubt

    @cached_property
    def _latents(self) -> tuple[Array, Array]:
        groups = self.engine.latents
        return estimate(self, groups, lambda: self.engine.entries(*groups.pairs))

    @property
    def latent_variance(self) -> Array:
        return semidefinite(self._latents[0])

    @property
    def latent_variance_error(self) -> Array:
        """(n,) standard errors of `latent_variance`."""
        return self._latents[1]

    # ---- functionals, solves, draws --------------------------------------------------------------

    def operator(self, predictor: Predictor) -> Operator:
        """B of a functional, over all latents."""
        columns = [predictor.columns.get(b.name) for b in self.linear.blocks]
        return hstack(columns, [b.size for b in self.linear.blocks], predictor.rows)

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        operator = self.operator(predictor)
        mean = operator.matvec(self.latent_mean) + predictor.offset
        if full:
            x = operator.rmatvec(np.eye(predictor.rows))
            square = x.T @ self.solve(x)
            return mean, np.asarray(0.5 * (square + square.T))
        groups = RowGroups(operator, self.engine.neighbours)
        variance, _ = estimate(self, groups, lambda: self.engine.entries(*groups.pairs))
        return mean, semidefinite(variance)

    def solve(self, rhs: Array) -> Array:
        columns = rhs[:, None] if rhs.ndim == 1 else rhs
        out = np.empty_like(columns, dtype=np.float64)
        step = max(1, CHUNK // max(self.linear.size, 1))
        for at in range(0, columns.shape[1], step):
            some = np.ascontiguousarray(columns[:, at : at + step], dtype=np.float64)
            solution = self.engine.solve(self.w, self.diagonal, some, 1e-12)
            if not (solution.converged | (solution.steps == self.engine.limit)).all():
                raise not_converged(solution, self.engine.limit)
            out[:, at : at + step] = solution.x
        if self.held is not None:
            out -= self.held.minus @ (self.held.minus.T @ columns)
            out += self.held.plus @ (self.held.plus.T @ columns)
        return out[:, 0] if rhs.ndim == 1 else out

    def squared_length(self, slope: Array) -> float:
        """g'Cov_q[z] g for g of shape (n,), to about two digits."""
        solution = self.engine.solve(self.w, self.diagonal, slope[:, None], ROUGH)
        out = float(slope @ solution.x[:, 0])
        if self.held is not None:
            less, more = self.held.minus.T @ slope, self.held.plus.T @ slope
            out += float(more @ more) - float(less @ less)
        return out

    @property
    def leftover(self) -> Leftover:
        ties = self.engine.ties
        if ties is None:
            return Leftover(self.delta, self._residual)
        residual = self.h - self.engine.times(self.w, self.delta)
        residual[ties.pins] += self.w[len(self.engine.start) :] * self.delta[ties.pins]
        return Leftover(self.delta - ties.away, ties.outside(residual))

    def sample(self, rng: Generator, size: int) -> Array:
        return self.draw(rng, size).z

    def draw(self, rng: Generator, size: int) -> Draws:
        """Perturbations solved to the tolerance of the mean."""
        engine, n = self.engine, self.linear.size
        z, radius = np.empty((size, n)), np.empty(size)
        step, rows = max(1, CHUNK // max(n + self.linear.rows, 1)), len(self.w)
        loose = 0 if self.held is None else self.held.plus.shape[1]
        for at in range(0, size, step):
            count = min(step, size - at)
            e1 = np.ascontiguousarray(rng.standard_normal((count, rows)).T)
            e2 = np.ascontiguousarray(rng.standard_normal((count, engine.prior.whites)).T)
            rhs = engine.b.rmatvec(np.sqrt(self.w)[:, None] * e1) + engine.prior.noise(e2)
            white = rng.standard_normal((loose, count))
            samples = self._samples(self._perturbed(rhs, engine.tolerance, asked=True), white, rhs)
            z[at : at + count] = self.latent_mean + samples.u.T
            radius[at : at + count] = self._lengths(samples.u)
        rank = n if engine.ties is None else n - engine.ties.rows.shape[0]
        return Draws(z, np.maximum(radius, 0.0), rank)

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        return adjoints(self, tilt)
