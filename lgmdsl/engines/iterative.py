"""Engine without a matrix: products with operators and conjugate gradients.

A = Q + B'WB is applied, never formed. The mean is a solve; variances come from perturbation
samples A^-1 (B'W^1/2 e1 + noise of covariance Q), K right-hand sides at once; log|A| from
stochastic Lanczos quadrature with Jacobi scaling D,

    log|A| = sum log D + E[z' log(D^-1/2 A D^-1/2) z],    z of independent signs,

with z'(D^-1/2 A D^-1/2)z, whose mean n is known, as control variate. The random numbers belong to
the engine: they are the same at every step and for every value of the hyperparameters.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.engine import Conditioned, Engine, Failed, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.engines.iterative_conditioned import IterativeConditioned
from lgmdsl.engines.iterative_prior import IterativePrior
from lgmdsl.engines.iterative_variance import SHORT, RowGroups, adjacency
from lgmdsl.engines.weights import flatten, split
from lgmdsl.numerics.conjugate_gradients import Solved, conjugate_gradients, ritz
from lgmdsl.operators.base import Gram, Operator
from lgmdsl.operators.beside import beside
from lgmdsl.operators.compose import Stack, parts_of
from lgmdsl.operators.convolution import Convolution
from lgmdsl.operators.explicit import Identity

WIDE = 20  # latents that a short row is averaged over with its neighbours
SINGULAR = 1e-14  # smallest eigenvalue of D^-1/2 A D^-1/2 over the largest: what rounding leaves


class IterativeEngine(Engine):
    """Sparse precisions without constraints, any operators, scalar sites with weights >= 0.

    samples: K. probes: of log|A|. tolerance: of the mean, relative, in the norm of D^-1.
    loose: of samples and probes. limit: iterations. variances: "perturb", or "lanczos" with `steps`
    vectors (from below; exact once they span everything).
    """

    name: ClassVar[str] = "iterative"
    exact: ClassVar[bool] = False

    def __init__(
        self, linear: LinearGaussian, samples: int = 20, probes: int = 16, seed: int = 0,
        tolerance: float = 1e-9, loose: float = 1e-4, limit: int = 5000,
        variances: Literal["perturb", "lanczos"] = "perturb", steps: int = 200,
    ) -> None:  # fmt: skip
        reason = self.refuses(linear)
        if reason:
            raise TypeError(reason)
        self.linear, self.prior = linear, IterativePrior(linear)
        self.samples, self.probes, self.seed = samples, probes, seed
        self.tolerance, self.loose, self.limit = tolerance, loose, limit
        self.variances, self.steps = variances, steps
        self.b = whole(linear)
        self.offset = np.concatenate([np.asarray(p.offset, float) for p in linear.predictors])
        self.start = self.b.matvec(self.prior.mu) + self.offset
        self.flops, self.products = 0.0, 0
        self.determined = self.prior.free == 0
        self.warm: dict[str, Array] = {}

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        if not linear.predictors:
            return "there is nothing to condition on"
        if any(p.event for p in linear.predictors):
            return "a site sees several predictors at once"
        return IterativePrior.refuses(linear)

    @cached_property
    def prior_mean(self) -> Rows:
        return split(self.start, self.linear.predictors)

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        w = flatten(weight)
        if not np.isfinite(w).all():
            return Failed("a site weight is not finite")
        if w.min(initial=0.0) < 0.0:
            return Failed("the iterative engine takes no negative site weights")
        diagonal = self.diagonal(w)
        if diagonal.min(initial=1.0) <= 0.0:
            return Failed(f"no datum or prior determines {self._latent(int(diagonal.argmin()))}")
        if not self.determined:
            loose = self._loosest(w, diagonal)
            if loose:
                return Failed(loose)
            self.determined = True
        return self.moved(weight, shift, w, diagonal)

    def moved(
        self, weight: Rows, shift: Rows, w: Array, diagonal: Array,
        like: IterativeConditioned | None = None,
    ) -> Conditioned | Failed:  # fmt: skip
        """The posterior for a shift; what another one of the same weights knows is kept."""
        h = self.b.rmatvec(flatten(shift) - w * self.start)
        begin = like.delta if like is not None else self.warm.get("mean")
        found = self.solve(w, diagonal, h[:, None], self.tolerance,
                           None if begin is None else begin[:, None])  # fmt: skip
        if found.indefinite.any():
            return Failed("the posterior precision is not positive definite")
        if not found.converged.all():
            return Failed(f"conjugate gradients did not converge in {self.limit} iterations")
        delta = found.x[:, 0]
        self.warm["mean"] = delta
        return IterativeConditioned(self, weight, shift, w, diagonal, h, delta,
                                    found.residual[:, 0], like)  # fmt: skip

    # ---- products ------------------------------------------------------------------------------

    def times(self, w: Array, x: Array, single: bool = False) -> Array:
        """A x for (n,) or (n, k); with `single`, products with B'WB need not be exact."""
        columns = 1 if x.ndim == 1 else x.shape[1]
        self.products += columns
        self.flops += columns * (2.0 * self.b.cost + self.prior.cost)
        return np.asarray(self.b.normal(w, x, single) + self.prior.times(x))

    def solve(
        self, w: Array, diagonal: Array, rhs: Array, tolerance: float, start: Array | None = None
    ) -> Solved:
        """A x = rhs, (n, k), by conjugate gradients with Jacobi scaling; where the tolerance is no
        tighter than `loose` with products that may be in single precision, and so residuals that
        are not those of x to the last digit."""
        scale = 1.0 / diagonal[:, None]
        goal, single = np.full(rhs.shape[1], tolerance), tolerance >= self.loose
        return conjugate_gradients(
            lambda x: self.times(w, x, single), rhs, lambda r: scale * r, goal, self.limit, start
        )

    def diagonal(self, w: Array) -> Array:
        """diag A, (n,), or where the operators do not tell it, a positive estimate of it."""
        if self._diagonal is not None:
            return np.asarray(self._diagonal(w) + self.prior.diagonal)
        lift = self.b.rmatvec(w[:, None] * self.b.matvec(self._signs))
        estimate = np.mean(lift * self._signs, axis=1)
        floor = 1e-3 * float(np.abs(estimate).mean())
        return np.asarray(np.maximum(estimate, floor) + self.prior.diagonal)

    @cached_property
    def _diagonal(self) -> Gram | None:
        every = np.arange(self.linear.size)
        return self.b.gram(every, every)

    @cached_property
    def _signs(self) -> Array:
        return signs((self.seed, 3), self.linear.size, 32)

    def entries(self, rows: IntArray, columns: IntArray) -> Gram | None:
        """w -> A at (row, column); None where the operators do not tell."""
        gram, prior = self.b.gram(rows, columns), self.prior.entries(rows, columns)
        return None if gram is None else lambda w: gram(w) + prior

    # ---- what is made once ---------------------------------------------------------------------

    @cached_property
    def groups(self) -> RowGroups:
        """The predictor rows."""
        return RowGroups(self.b, self.neighbours, self.widest)

    @cached_property
    def neighbours(self) -> SparseMatrix | None:
        """Latents that share a short row of a predictor."""
        return adjacency(self.b)

    @cached_property
    def widest(self) -> int:
        """Latents that a row is averaged over: fewer where entries of A come from long rows."""
        for p in parts_of(self.b):
            if p.is_sparse and not isinstance(p, Convolution) and p.entries > SHORT * p.shape[0]:
                return SHORT
        return WIDE

    @cached_property
    def local(self) -> Gram | None:
        """A at the pairs that short predictor rows see."""
        return self.entries(*self.groups.pairs)

    @cached_property
    def latents(self) -> RowGroups:
        """The latents themselves."""
        return RowGroups(Identity(self.linear.size), self.neighbours, self.widest)

    @cached_property
    def noise(self) -> tuple[Array, Array]:
        """e1 (P, K) and noise of covariance Q, (n, K)."""
        rng = np.random.default_rng((self.seed, 1))
        e1 = rng.standard_normal((self.samples, self.linear.rows)).T
        e2 = rng.standard_normal((self.samples, self.linear.size)).T
        return np.ascontiguousarray(e1), self.prior.noise(np.ascontiguousarray(e2))

    @cached_property
    def probe(self) -> Array:
        """(n, m) of independent signs."""
        return signs((self.seed, 2), self.linear.size, self.probes)

    def log_determinant(self, w: Array, diagonal: Array) -> tuple[float, float]:
        """log|A| and its standard error."""
        found = self.solve(w, diagonal, np.sqrt(diagonal)[:, None] * self.probe, self.loose,
                           None)  # fmt: skip
        n, logs, firsts = self.linear.size, [], []
        for slopes, ratios in zip(found.slopes, found.ratios, strict=True):
            nodes, weights = ritz(slopes, ratios)
            logs.append(n * float(weights @ np.log(np.maximum(nodes, 1e-300))))
            firsts.append(n * float(weights @ nodes))
        x, y = np.array(logs), np.array(firsts) - n
        m, spread = len(x), float(np.var(y))
        by = float(np.cov(x, y, ddof=0)[0, 1] / spread) if spread > 1e-20 * n and m > 3 else 0.0
        if self._diagonal is None:
            by = 0.0  # D is not diag A, and the mean of y is not n
        left = x - by * y
        error = float(left.std(ddof=min(2, m - 1)) / np.sqrt(m)) if m > 1 else float("inf")
        return float(np.log(diagonal).sum() + left.mean()), error

    def _loosest(self, w: Array, diagonal: Array) -> str:
        """Why A is singular, naming a latent of the direction; empty where it is not."""
        white = np.random.default_rng((self.seed, 5)).standard_normal((self.linear.size, 1))
        found = self.solve(w, diagonal, np.sqrt(diagonal)[:, None] * white, 1e-12)
        direction = np.abs(found.x[:, 0]) * np.sqrt(diagonal)
        if found.indefinite[0]:  # what is left of rhs is D times a null direction
            direction = np.abs(found.residual[:, 0]) / np.sqrt(diagonal)
        elif not found.slopes[0]:
            return ""
        else:
            nodes, _ = ritz(found.slopes[0], found.ratios[0])
            if nodes.min() > SINGULAR * nodes.max():
                return ""
        return (
            f"no datum or prior determines a direction of {self._latent(int(direction.argmax()))}"
        )

    def _latent(self, place: int) -> str:
        for b in self.linear.blocks:
            start = self.linear.starts[b.name]
            if start <= place < start + b.size:
                return f"{b.name}[{place - start}]"
        raise IndexError(place)


def whole(linear: LinearGaussian) -> Operator:
    """B of all predictors, below one another, over all latents."""
    widths = [b.size for b in linear.blocks]
    parts = [
        beside([p.columns.get(b.name) for b in linear.blocks], widths, p.rows)
        for p in linear.predictors
    ]
    return parts[0] if len(parts) == 1 else Stack(tuple(parts))


def signs(key: tuple[int, int], size: int, count: int) -> Array:
    """(size, count) of independent signs; the first columns do not depend on how many there are."""
    rng = np.random.default_rng(key)
    drawn = rng.integers(0, 2, size=(count, size), dtype=np.int8)
    return np.ascontiguousarray((2.0 * drawn - 1.0).T)
