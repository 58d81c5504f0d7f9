"""Engine for about as many rows as latents: S = BKB' over predictor rows, K possibly singular.

Proper blocks: alpha0 = (I + WS)^-1 (b - W s0), m = s0 + S alpha0, mean(z) = mu + KB'alpha0,
log_normaliser = -log|I + SW|/2 + (b - W s0)'S alpha0 / 2 + b's0 - s0'W s0 / 2. Flat blocks
(columns H, density 1) on top: precision A = H'MH, f = A^-1 H'alpha0, alpha = alpha0 - MHf, and
+ f'A f / 2 + k log(2 pi) / 2 - log|A| / 2 (generalised least squares).
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import EPSILON, Conditioned, Engine, Failed, Failure, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.rows import diagonal
from lgmdsl.contract.stacked import StackedPredictors, flatten, split
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.dense.covariance_conditioned import CovarianceConditioned
from lgmdsl.engines.dense.factor import PositiveFactor, RowFactor, SignedFactor
from lgmdsl.engines.dense.rowspace import RowSpace
from lgmdsl.engines.shared.constraints import LOG_2PI, PreparedConstraints, prepare
from lgmdsl.engines.shared.directions import undetermined
from lgmdsl.engines.shared.prior import BlockPrior, is_flat
from lgmdsl.engines.shared.weights import SiteWeight
from lgmdsl.numerics.cholesky import cholesky, pivoted_root
from lgmdsl.vocabulary.notes import Notes


class CovarianceEngine(Engine):
    """Every block must offer a covariance, or be flat. Neither K nor S is factored for W >= 0."""

    name: ClassVar[str] = "covariance"
    summary: ClassVar[str] = (
        "dense algebra in the space of the rows, which inverts no prior covariance"
    )
    notes: ClassVar[Notes] = Notes(
        formula="S = B K B' over the N rows; (I + W S) is factored: N^3 flops, N^2 memory",
        support="priors with a covariance (gp, dense, ...) and flat ones; about as many rows as "
        "latents",
        advice="for Gaussian processes; auto takes it where it is the cheapest that fits the "
        "memory",
        example="lgm fit gp.lgm gp.npz --option engine=covariance",
        see_also=("precision", "sparse", "gp", "choosing-a-method"),
    )

    def __init__(self, linear: LinearGaussian) -> None:
        reason = self.refuses(linear)
        if reason:
            raise TypeError(reason)
        self.linear = linear
        self.blocks = [BlockPrior(b, linear.starts[b.name]) for b in linear.blocks]
        self.mu = np.concatenate([b.mean for b in self.blocks])
        design = StackedPredictors(linear)
        prepared = None
        if linear.constraints is not None:
            bare = RowSpace(design, self.blocks, np.zeros((0, linear.size)))
            # What the structures tie, their covariances hold already.
            prepared = prepare(
                linear,
                lambda c: bare.flat_part(c.T).T,
                bare.prior_times,
                self.mu,
                np.zeros((0, linear.size)),
                np.concatenate([np.zeros(b.size) if b.flat else b.variance for b in self.blocks]),
            )
        self.broken = prepared if isinstance(prepared, Failed) else None
        self.constraints = prepared if isinstance(prepared, PreparedConstraints) else None
        pins = self.constraints.pins if self.constraints is not None else np.zeros((0, linear.size))
        self.space = RowSpace(design, self.blocks, pins)
        self.extra = len(pins)
        self.offset = np.concatenate([design.offset, np.zeros(self.extra)])
        self.start = self.space.times(self.mu) + self.offset
        self.flops = 0.0

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        for b in linear.blocks:
            if Shape.COVARIANCE not in b.shape and not is_flat(b):
                names = " * ".join(f.name for f in b.factors)
                return f"block `{b.name}` ({names}) has no covariance"
        return ""

    @cached_property
    def s(self) -> Array:
        """(P, P) prior covariance of the predictor rows (the pseudo-rows last)."""
        return self.space.s()

    @cached_property
    def root(self) -> Array:
        """(P, r), S = RR', for signed weights."""
        self.flops += len(self.s) ** 3 / 3
        proper = self.space.proper
        if proper and all(b.diagonal for b in proper) and self.linear.size <= len(self.s):
            scaled = [self.space.block_dense(b) * np.sqrt(b.variance) for b in proper]
            return np.ascontiguousarray(np.hstack(scaled))
        return pivoted_root(self.s)

    @cached_property
    def constrained_mean(self) -> Array:
        """(n,) E[z] under prior and constraints; flat directions at their smallest norm."""
        z = self.mu.copy()
        if self.constraints is not None:
            c2, c1 = self.constraints.rows[: self.constraints.proper], self.constraints.pins
            z += self.space.prior_times(c2.T @ self.constraints.multiplier)
            if self.extra:
                flat, *_ = np.linalg.lstsq(
                    self.space.flat_part(c1.T).T, self.constraints.pinned - c1 @ z, rcond=None
                )
                self.space.place_flat(z, flat)
        return z

    @cached_property
    def prior_mean(self) -> Rows:
        z = self.constrained_mean
        s = self.space.times(z) + self.offset
        if self.space.flats:
            s = s + self.space.flat_columns @ self.space.flat_part(z)
        return split(s[: self.linear.rows], self.linear.predictors)

    def pulled_back(self, rows: Rows) -> Array:
        y = np.concatenate([flatten(rows), np.zeros(self.extra)])
        z = self.space.transposed(y)
        self.space.place_flat(z, self.space.flat_columns.T @ y)
        return z

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        return self.condition_with(weight, shift, None)

    def condition_with(
        self, weight: Rows, shift: Rows, known: RowFactor | None
    ) -> Conditioned | Failed:
        """Condition with the factorisation of these weights, where it is known already."""
        if self.broken is not None:
            return self.broken
        site_weight = SiteWeight(self.linear.predictors, weight)
        w, b, base = site_weight, flatten(shift), 0.0
        if self.extra and self.constraints is not None:
            w, tau = site_weight.extended(self.extra)
            b = np.concatenate([b, tau * self.constraints.pinned])
            base = -0.5 * tau * float(self.constraints.pinned @ self.constraints.pinned)
        factor = known or self.factor(w)
        if isinstance(factor, Failed):
            return factor
        weighted = w.times(self.start)
        tilt = b - weighted
        alpha = factor.residual(tilt)
        base += float(b @ self.start) - 0.5 * float(self.start @ weighted) - factor.half_log_det
        q = CovarianceConditioned(self, weight, shift, site_weight, w, factor, b)
        unbound = np.zeros_like(tilt)
        if self.space.flats:
            h = self.space.flat_columns
            q.pulled = factor.inverse(h)
            a = h.T @ q.pulled
            a = 0.5 * (a + a.T)
            flat_factor = cholesky(a.copy())
            labels = [(f.name, i) for f in self.space.flats for i in range(f.size)]
            failed = undetermined(a, flat_factor, self.linear, labels)
            if failed is not None or flat_factor is None:
                return failed or Failed(kind=Failure.INDEFINITE)
            q.flat_factor = flat_factor
            pull = h.T @ alpha
            flat = flat_factor.solve(pull)
            base += 0.5 * len(flat) * LOG_2PI - flat_factor.half_log_det
            alpha = alpha - q.pulled @ flat
            unbound = h @ flat
            q.flat = flat
        bound = self.s @ alpha
        change = bound + unbound
        # The exponent at its maximum, in a form that is stationary there: what rounding left in
        # alpha enters squared, where (b - Ws0)'moved / 2 would take it as it is.
        base += float(tilt @ change) - 0.5 * float(change @ w.times(change) + alpha @ bound)
        q.set_mean(alpha, self.start + change, base)
        if self.constraints is not None and not q.constrain(self.constraints):
            return Failed(kind=Failure.SINGULAR_ON_CONSTRAINTS)
        return q

    def strain(self, weight: Rows) -> float:
        """I + WS keeps the identity to so many digits only."""
        spread = split(self.s.diagonal()[: self.linear.rows], self.linear.predictors)
        parts = zip(weight, spread, strict=True)
        return EPSILON * float(sum(np.sum(np.abs(diagonal(w)) * s) for w, s in parts))

    def factor(self, w: SiteWeight) -> RowFactor | Failed:
        """The factorisation for one W: B_w for W >= 0, through S = RR' for signed W."""
        if not w.finite:
            return Failed(kind=Failure.WEIGHT_NOT_FINITE)
        values, basis = w.spectrum()
        size = len(values)
        if values.min(initial=0.0) >= 0.0:
            self.flops += size**3 / 3
            positive = PositiveFactor.build(self.s, values, basis)
            return positive or Failed(kind=Failure.PRIOR_NOT_FINITE)
        rank = self.root.shape[1]
        self.flops += float(size) * rank * rank + rank**3 / 3
        signed = SignedFactor.build(self.root, w)
        return signed or Failed(kind=Failure.NEGATIVE_WEIGHTS)
