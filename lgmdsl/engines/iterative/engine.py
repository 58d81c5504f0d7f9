"""Engine without a matrix: products with operators and conjugate gradients.

A = Q + B'WB is applied, never formed. The mean is a solve; variances come from perturbation
samples A^-1 (B'W^1/2 e1 + noise of covariance Q), K right-hand sides at once; log|A| from
stochastic Lanczos quadrature with Jacobi scaling D,

    log|A| = sum log D + E[z' log(D^-1/2 A D^-1/2) z],    z of independent signs,

with z'(D^-1/2 A D^-1/2)z, whose mean n is known, as control variate. The random numbers belong to
the engine: they are the same at every step and for every value of the hyperparameters.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.engine import (
    Conditioned,
    Direction,
    Engine,
    Failed,
    Failure,
    Leftover,
    Rows,
    Term,
)
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import StackedPredictors, flatten, split
from lgmdsl.engines.iterative.conditioned import IterativeConditioned
from lgmdsl.engines.iterative.determinant import controlled_mean, quadratures
from lgmdsl.engines.iterative.driven import LANCZOS
from lgmdsl.engines.iterative.noise import Noise
from lgmdsl.engines.iterative.patience import LOGS, Patience
from lgmdsl.engines.iterative.prior import IterativePrior
from lgmdsl.engines.iterative.solve import (
    ROUNDING,
    certified,
    lengths,
    not_converged,
    unsolved,
)
from lgmdsl.engines.iterative.ties import Ties
from lgmdsl.engines.iterative.variance import RowGroups, adjacency
from lgmdsl.engines.shared.restriction import Held, hold
from lgmdsl.numerics.krylov import KrylovSolution, conjugate_gradients, ritz, smallest
from lgmdsl.operators.base import Gram
from lgmdsl.operators.explicit import Identity
from lgmdsl.vocabulary.notes import Notes

TIED = 1e-12  # relative residual of the solves that constraints need
UNRESOLVED = 0.01  # posterior sds that a mean may be off at most
SINGULAR = 1e-14  # smallest eigenvalue of D^-1/2 A D^-1/2 over the largest: what rounding leaves


class IterativeEngine(Engine):
    """Sparse precisions, some constraints, any operators, scalar sites with weights >= 0.

    samples: K at first; doubled, as far as `most`, where short rows' variances have relative
    standard errors above 5 %. probes: of log|A|. tolerance: of the mean, in posterior sds,
    |d - A^-1 h|_A. loose: of samples and probes, likewise, or a share of their length sqrt(n) where
    that is more (`SCATTER`, `LOGS`). limit: iterations. variances: "samples", or "lanczos" with
    `steps` vectors (from below; exact once they span everything). endless: flops that no fit may
    take; one that would is refused before it begins (E501), where that can be seen, and samples
    are doubled only where that is quick.
    """

    name: ClassVar[str] = "iterative"
    summary: ClassVar[str] = (
        "conjugate gradients and random probes: no matrix is formed, variances are estimates"
    )
    notes: ClassVar[Notes] = Notes(
        formula="A x = h by preconditioned conjugate gradients; variances from perturbation "
        "samples, log|A| by stochastic Lanczos quadrature",
        support="sparse precisions, some constraints, any operators; scalar sites with weights >= "
        "0",
        advice="taken where no exact engine fits memory and time (images); variances have "
        "standard errors of a few per cent, and the evidence one that is reported",
        example="lgm fit model.lgm data.npz --option engine=iterative",
        see_also=("sparse", "choosing-a-method"),
    )
    exact: ClassVar[bool] = False
    estimates: ClassVar[tuple[str, ...]] = ("samples", "lanczos")

    def __init__(
        self,
        linear: LinearGaussian,
        samples: int = 20,
        most: int = 80,
        probes: int = 16,
        seed: int = 0,
        tolerance: float = 1e-6,
        loose: float = 0.1,
        limit: int = 5000,
        variances: Literal["samples", "lanczos"] = "samples",
        steps: int = 200,
        endless: float = math.inf,
    ) -> None:
        reason = self.refuses(linear)
        if reason:
            raise TypeError(reason)
        self.linear, self.prior = linear, IterativePrior(linear)
        self.settings = samples, most, probes, seed, tolerance, loose, limit, variances, steps
        self.patience = Patience(linear, loose, limit, endless, probes, tolerance)
        self.samples, self.most, self.variances, self.steps = samples, most, variances, steps
        self.tolerance, self.loose, self.limit = tolerance, loose, limit
        stacked = StackedPredictors(linear)
        self.own, self.ties = stacked.operator(), Ties.of(linear)
        self.b = self.own if self.ties is None else self.ties.extended(self.own)
        self.offset = stacked.offset
        self.start = self.own.matvec(self.prior.mu) + self.offset
        self.flops, self.products = 0.0, 0
        self.examined, self.lowest = False, 1.0
        self.warm: dict[str, Array] = {}
        self.noise = Noise(seed, self.b.shape[0], self.prior, probes)

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        if not linear.predictors:
            return "there is nothing to condition on"
        if any(p.event for p in linear.predictors):
            return "a site sees several predictors at once"
        return IterativePrior.refuses(linear) or Ties.refuses(linear)

    def remade(self, linear: LinearGaussian) -> Engine:
        engine = IterativeEngine(linear, *self.settings, self.patience.endless)
        return engine.expect(self.patience.steps, self.patience.fits)

    def patient(self) -> Engine:
        return IterativeEngine(self.linear, *self.settings)

    def estimating(self, variances: str, count: int) -> Engine:
        kind: Literal["samples", "lanczos"] = "lanczos" if variances == LANCZOS else "samples"
        samples, most, probes, seed, tolerance, loose, limit, _, steps = self.settings
        if kind == LANCZOS:
            steps = count or steps
        elif count:
            samples = most = count
        return IterativeEngine(
            self.linear,
            samples,
            most,
            probes,
            seed,
            tolerance,
            loose,
            limit,
            kind,
            steps,
            self.patience.endless,
        )

    @cached_property
    def sampling(self) -> IterativeEngine:
        """This engine with variances from perturbation samples."""
        engine = self.estimating("samples", 0)
        assert isinstance(engine, IterativeEngine)
        engine.examined, engine.lowest = self.examined, self.lowest
        if "mean" in self.warm:
            engine.warm["mean"] = self.warm["mean"]
        return engine

    def expect(self, steps: float, fits: float) -> Engine:
        self.patience.steps, self.patience.fits = steps, fits
        return self

    @cached_property
    def prior_mean(self) -> Rows:
        if self.ties is None:
            return split(self.start, self.linear.predictors)
        start = self.own.matvec(self.ties.prior.mean) + self.offset
        return split(start, self.linear.predictors)

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        return self._condition(weight, shift)

    def approach(
        self, weight: Rows, shift: Rows, begin: Leftover | None, share: float
    ) -> Conditioned | Failed:
        if begin is None or self.ties is not None:
            return self._condition(weight, shift)
        return self._condition(weight, shift, begin.delta, share)

    def _condition(
        self, weight: Rows, shift: Rows, begin: Array | None = None, share: float = 0.0
    ) -> Conditioned | Failed:
        if self.ties is not None and self.ties.broken is not None:
            return self.ties.broken
        w = flatten(weight)
        if not np.isfinite(w).all():
            return Failed(kind=Failure.WEIGHT_NOT_FINITE)
        if w.min(initial=0.0) < 0.0:
            return Failed(kind=Failure.NO_NEGATIVE_WEIGHTS)
        if self.ties is not None and len(self.ties.pins):
            pins = self.ties.pins
            at_pins = self.diagonal(np.concatenate([w, np.zeros(len(pins))]))[pins]
            w = np.concatenate([w, np.maximum(at_pins, self.ties.usual)])
        diagonal = self.diagonal(w)
        if diagonal.min(initial=1.0) <= 0.0:
            return self._free(int(diagonal.argmin()))
        if not self.examined:
            loose = self._loosest(w, diagonal)
            if loose is not None:
                return loose if self.prior.free else Failed(kind=Failure.ILL_CONDITIONED)
            self.examined = True
            if not self.patience.lasts(self.samples):
                raise self.patience.refused(self.samples)
        return self.moved(weight, shift, w, diagonal, begin=begin, share=share)

    def moved(
        self,
        weight: Rows,
        shift: Rows,
        w: Array,
        diagonal: Array,
        like: IterativeConditioned | None = None,
        begin: Array | None = None,
        share: float = 0.0,
    ) -> Conditioned | Failed:
        """The posterior for a shift; what another one of the same weights knows is kept."""
        h = self.own.rmatvec(flatten(shift) - w[: len(self.start)] * self.start)
        if share and begin is not None:
            solution = self.solve(w, diagonal, h[:, None], ROUNDING, begin[:, None], share)
        else:
            if begin is None:
                begin = like.free if like is not None else self.warm.get("mean")
            near = None if begin is None else begin[:, None]
            solution = self._mean(w, diagonal, h[:, None], near)
            self.patience.done += float(like is None)
        if not solution.converged.all():
            return unsolved(solution, self.limit)
        residual = h - self.times(w, solution.x[:, 0])  # the recursion's own may have drifted
        bound = float(lengths(residual[:, None], diagonal)[0]) / np.sqrt(self.lowest)
        if bound > UNRESOLVED and not share:
            return Failed(kind=Failure.INACCURATE, number=bound)
        free = solution.x[:, 0]
        self.warm["mean"] = free
        constrained = None
        if self.ties is not None:
            constrained = like.held if like is not None else self._hold(w, diagonal)
            if constrained is None:
                return Failed(kind=Failure.INDEFINITE_ON_CONSTRAINTS)
        return IterativeConditioned(
            self, weight, shift, w, diagonal, h, free, residual, constrained, like
        )

    def _hold(self, w: Array, diagonal: Array) -> Held | None:
        ties = self.ties
        assert ties is not None
        solution = self.solve(w, diagonal, ties.columns, TIED, self.warm.get("ties"))
        self.warm["ties"] = solution.x
        return hold(solution.x, ties.rows, ties.pins, w[len(self.start) :])

    # ---- products ------------------------------------------------------------------------------

    def times(self, w: Array, x: Array, single: bool = False) -> Array:
        """A x for (n,) or (n, k); with `single`, products with B'WB need not be exact."""
        columns = 1 if x.ndim == 1 else x.shape[1]
        self.products += columns
        self.flops += columns * (2.0 * self.b.cost + self.prior.cost)
        return np.asarray(self.b.normal(w, x, single) + self.prior.times(x))

    def solve(
        self,
        w: Array,
        diagonal: Array,
        rhs: Array,
        tolerance: float,
        start: Array | None = None,
        share: float = 0.0,
    ) -> KrylovSolution:
        """A x = rhs, (n, k), until |r|_D <= tolerance |rhs|_D or `share` of what it was."""
        scale = 1.0 / diagonal[:, None]
        return conjugate_gradients(
            lambda x: self.times(w, x),
            rhs,
            lambda r: scale * r,
            np.full(rhs.shape[1], tolerance),
            self.limit,
            start,
            share=share,
        )

    def _mean(self, w: Array, diagonal: Array, h: Array, start: Array | None) -> KrylovSolution:
        """A mean, (n, 1), where the fit that asks for it will end: its iterations show how well A
        is conditioned at these weights."""
        reach = self.patience.reach(self.samples)
        found = self.certified(w, diagonal, h, self.tolerance, start, most=reach)
        self.patience.took(float(found.steps[0]))
        return found

    def certified(
        self,
        w: Array,
        diagonal: Array,
        rhs: Array,
        accuracy: float,
        start: Array | None = None,
        quadrature: bool = False,
        asked: bool = False,
        most: int | None = None,
    ) -> KrylovSolution:
        """A x = rhs, (n, k), to an accuracy in posterior sds; where it is no better than `loose`
        with products that may be in single precision, and so residuals that are not those of x to
        the last digit. What was `asked` for once the posterior is there is no part of the fit.
        Where it takes more than `most` iterations, the fit is refused (E501)."""
        single = accuracy >= self.loose
        limit = self.limit if asked else self.patience.affordable(rhs.shape[1])
        limit = limit if most is None else min(limit, most)
        solution = certified(
            lambda x: self.times(w, x, single),
            rhs,
            diagonal,
            limit,
            accuracy,
            self.lowest,
            start,
            quadrature,
        )
        if not asked:
            self.patience.spent += float(solution.steps.sum()) * self.patience.work
        if limit < self.limit and not (solution.converged | solution.indefinite).all():
            if most is not None:
                self.patience.took(float(solution.steps[0]))
            raise self.patience.refused(self.samples)
        return solution

    def diagonal(self, w: Array) -> Array:
        """diag A, (n,), or where the operators do not tell it, a positive estimate of it."""
        if self._diagonal is not None:
            return np.asarray(self._diagonal(w) + self.prior.diagonal)
        lift = self.b.rmatvec(w[:, None] * self.b.matvec(self.noise.signs))
        estimate = np.mean(lift * self.noise.signs, axis=1)
        floor = 1e-3 * float(np.abs(estimate).mean())
        return np.asarray(np.maximum(estimate, floor) + self.prior.diagonal)

    @cached_property
    def _diagonal(self) -> Gram | None:
        every = np.arange(self.linear.size)
        return self.b.gram(every, every)

    def entries(self, rows: IntArray, columns: IntArray) -> Gram | None:
        """w -> A at (row, column); None where the operators do not tell."""
        gram, prior = self.b.gram(rows, columns), self.prior.entries(rows, columns)
        return None if gram is None else lambda w: gram(w) + prior

    # ---- what is made once ---------------------------------------------------------------------

    @cached_property
    def groups(self) -> RowGroups:
        """The predictor rows."""
        return RowGroups(self.own, self.neighbours)

    @cached_property
    def neighbours(self) -> SparseMatrix | None:
        """Latents that share a short row of a predictor."""
        return adjacency(self.b)

    @cached_property
    def local(self) -> Gram | None:
        """A at the pairs that short predictor rows see."""
        return self.entries(*self.groups.pairs)

    @cached_property
    def latents(self) -> RowGroups:
        """The latents themselves."""
        return RowGroups(Identity(self.linear.size), self.neighbours)

    def refined(self) -> bool:
        """Twice as many samples from now on; False where there are as many as may be."""
        if 2 * self.samples > self.most or not self.patience.quick(2 * self.samples):
            return False
        self.samples *= 2
        return True

    def log_determinant(self, w: Array, diagonal: Array) -> tuple[float, float]:
        """log|A| and its standard error."""
        rhs = np.sqrt(diagonal)[:, None] * self.noise.probe
        solution = self.certified(w, diagonal, rhs, self.patience.accuracy(LOGS), quadrature=True)
        if not solution.converged.all():
            raise not_converged(solution, self.limit)
        self.lowest = smallest(solution)
        logs, firsts = quadratures(solution, self.linear.size)
        # Where D is not diag A, the mean of the first moment is not n.
        known = firsts - self.linear.size if self._diagonal is not None else np.zeros_like(firsts)
        mean, error = controlled_mean(logs, known)
        return float(np.log(diagonal).sum()) + mean, error

    def _loosest(self, w: Array, diagonal: Array) -> Failed | None:
        """Why A is singular, naming a latent of the direction; None where it is not. Notes
        the smallest eigenvalue of D^-1/2 A D^-1/2."""
        tolerance = 1e-12 if self.prior.free else 1e-4
        solution = self.solve(w, diagonal, np.sqrt(diagonal)[:, None] * self.noise.white, tolerance)
        direction = np.abs(solution.x[:, 0]) * np.sqrt(diagonal)
        if solution.indefinite[0]:  # what is left of rhs is D times a null direction
            direction = np.abs(solution.residual[:, 0]) / np.sqrt(diagonal)
        elif not solution.slopes[0]:
            return None
        else:
            nodes, _ = ritz(solution.slopes[0], solution.ratios[0])
            self.lowest = float(nodes.min())
            self.patience.examined(float(nodes.max()) / self.lowest)
            if nodes.min() > SINGULAR * nodes.max():
                return None
        return self._free(int(direction.argmax()), more=True)

    def _free(self, place: int, more: bool = False) -> Failed:
        """The failure that nothing determines the latent at `place`, or a direction that it is part
        of."""
        name, where = next(
            (n, w) for n, w in self.linear.slices.items() if w.start <= place < w.stop
        )
        direction = Direction((Term(name, place - where.start),), more)
        return Failed(kind=Failure.UNDETERMINED, direction=direction)
