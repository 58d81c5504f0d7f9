"""Engine for few latents and many rows: A = Q + B'WB, (n, n), factored by Cholesky.

With z = mu + d, c' = B mu + c, h = B'(b - W c'):  mean(z) = mu + A^-1 h, and
log_normaliser = log|Q|_+ / 2 + k log(2 pi) / 2 - log|A| / 2 + b's - s'Ws / 2 - d'Qd / 2 at the mean
of z and the predictors s that it has, where errors enter squared; k is the number of improper
directions (density 1). The shift by mu keeps digits where mu is large.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Adjoints, Conditioned, Engine, Failed, Failure, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import flatten, split
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.dense.gram import designed
from lgmdsl.engines.shared.conditioned import DenseConditioned, Lazy, Pieces
from lgmdsl.engines.shared.constraints import LOG_2PI, PreparedConstraints, krige, left, prepare
from lgmdsl.engines.shared.design import transpose_dense
from lgmdsl.engines.shared.directions import undetermined
from lgmdsl.engines.shared.loosened import Loosened
from lgmdsl.engines.shared.prior import BlockPrior, is_tied
from lgmdsl.engines.shared.prior_precision import block_diagonal
from lgmdsl.engines.shared.shift_derivatives import Turn
from lgmdsl.engines.shared.weights import SiteWeight, far
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.numerics.cholesky import Cholesky, cholesky
from lgmdsl.vocabulary.notes import Notes

if TYPE_CHECKING:
    from numpy.random import Generator


class PrecisionEngine(Engine):
    """Every block must offer a precision; no prior covariance is ever inverted."""

    name: ClassVar[str] = "precision"
    summary: ClassVar[str] = (
        "dense algebra in the space of the latents, for few latents and many rows"
    )
    notes: ClassVar[Notes] = Notes(
        formula="A = Q + B' W B over the n latents is factored: N n^2 + n^3 flops, n^2 memory",
        support="priors with a precision, improper ones too",
        advice="for regressions; auto takes it where it is the cheapest that fits the memory",
        example="lgm fit model.lgm data.npz --option engine=precision",
        see_also=("covariance", "sparse", "batched"),
    )

    def __init__(self, linear: LinearGaussian) -> None:
        reason = self.refuses(linear)
        if reason:
            raise TypeError(reason)
        self.linear = linear
        self.design, self.gram = designed(linear)
        self.offset = flatten(tuple(p.offset for p in linear.predictors))
        self.blocks = [BlockPrior(b, linear.starts[b.name]) for b in linear.blocks]
        self.mu = np.concatenate([b.mean for b in self.blocks])
        self.nullity = sum(b.nullity for b in self.blocks)
        self.log_det = sum(b.log_det_precision for b in self.blocks)
        self.start = self.design.times(self.mu) + self.offset
        self.precision = np.zeros((linear.size, linear.size))
        for b in self.blocks:
            if not b.flat:
                self.precision[b.where, b.where] = b.precision()
        structural = np.zeros((0, linear.size))
        if any(is_tied(f) for b in linear.blocks for f in b.factors):
            structural = block_diagonal([b.tied.rows for b in self.blocks]).toarray()
        prepared = prepare(
            linear,
            lambda c: c @ self.null_space,
            self._proper_times,
            self.mu,
            structural,
            np.zeros(linear.size),  # what a precision leaves free, moves
        )
        self.broken = prepared if isinstance(prepared, Failed) else None
        self.constraints = prepared if isinstance(prepared, PreparedConstraints) else None
        self.flops = 0.0

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        for b in linear.blocks:
            if Shape.PRECISION not in b.shape:
                names = " * ".join(f.name for f in b.factors)
                return f"block `{b.name}` ({names}) has a covariance but no precision"
        return ""

    @cached_property
    def null_space(self) -> Array:
        """(n, k) orthonormal basis N of the improper directions."""
        out, start = np.zeros((self.linear.size, self.nullity)), 0
        for b in self.blocks:
            if b.nullity:
                out[b.where, start : start + b.nullity] = b.null_space
                start += b.nullity
        return out

    def proper(self, delta: Array) -> Array:
        """delta without its part along the improper directions, which Q does not see: next to a
        stiff walk, whose level may be high, delta'Q delta would be the rounding of that part."""
        if not self.nullity:
            return delta
        return np.asarray(delta - self.null_space @ (self.null_space.T @ delta))

    def _proper_times(self, x: Array) -> Array:
        """Q^+ x, through Q + tau N N'."""
        proper = self._pinned_prior(self.null_space)
        return proper.solve(np.asfortranarray(self.proper(x)))

    def sizes(self, a: Array) -> Array:
        """(n,) for each latent, the mean size of the diagonal entries of A in its block: what pins
        add there, so that next to a stiff block no other loses its digits."""
        diagonal, out = np.abs(a.diagonal()), np.ones(len(a))
        for b in self.blocks:
            out[b.where] = float(diagonal[b.where].mean()) if b.size else 1.0
        return np.where(out > 0.0, out, float(diagonal.mean()) or 1.0)

    def _pinned_prior(self, *pins: Array) -> Cholesky:
        q = self.precision.copy()
        sizes = self.sizes(q)
        for p in pins:
            q += p @ ((p.T * sizes) @ p) @ p.T
        factor = cholesky(q)
        if factor is None:
            raise NumericalError(
                Diagnostic("E601", "a prior precision is not positive definite off its null space")
            )
        return factor

    @cached_property
    def constrained_prior(self) -> tuple[Array, Array]:
        """Mean and covariance of z under prior and constraints, free directions left out."""
        if self.constraints is None:
            n = self.null_space
            covariance = self._pinned_prior(n).inverse()
            return self.mu, covariance - n @ (n.T @ covariance)
        c1 = self.constraints.pins
        seen = c1 @ self.null_space
        _, _, vt = np.linalg.svd(seen, full_matrices=True)
        free = self.null_space @ vt[len(c1) :].T
        factor = self._pinned_prior(c1.T, free)
        away = (c1 * self.sizes(self.precision)) @ c1.T @ (self.constraints.pinned - c1 @ self.mu)
        shifted = self.mu + factor.solve(c1.T @ away)
        kriging = krige(
            self.constraints, shifted, factor.solve(np.asfortranarray(self.constraints.rows.T))
        )
        if kriging is None:
            raise NumericalError(Diagnostic("E601", "the constraints are singular under the prior"))
        half = kriging.reduction(kriging.spread)
        covariance = factor.inverse() - half.T @ half
        return shifted + kriging.shift, covariance - free @ (free.T @ covariance)

    @cached_property
    def prior_mean(self) -> Rows:
        if self.constraints is None:
            return split(self.start, self.linear.predictors)
        s = self.design.times(self.constrained_prior[0]) + self.offset
        return split(s, self.linear.predictors)

    def pulled_back(self, rows: Rows) -> Array:
        return self.gram.transposed(flatten(rows))

    @cached_property
    def loosened(self) -> Loosened | None:
        """The model for priors so stiff that their free directions are hidden."""
        return Loosened.of(self.linear, PrecisionEngine)

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        if self.broken is not None:
            return self.broken
        if self.loosened is not None and (q := self.loosened.instead(weight, shift)) is not None:
            return q
        w = SiteWeight(self.linear.predictors, weight)
        a = self.gram.weighted(w)
        a += self.precision
        tau = np.zeros((0, 0))
        if self.constraints is not None and len(self.constraints.pins):
            c1 = self.constraints.pins
            tau = (c1 * self.sizes(a)) @ c1.T
            a += c1.T @ tau @ c1
        self.flops += self.gram.flops + self.linear.size**3 / 3
        unfactored = a.copy() if self.nullity else None
        factor = cholesky(a)
        if unfactored is not None:
            failed = undetermined(unfactored, factor, self.linear)
            if failed is not None:
                return failed
        if factor is None:
            return Failed(kind=Failure.INDEFINITE)
        return self.moved(weight, shift, w, factor, tau)

    def pull(self, z: Array, tau: Array) -> Array:
        """Q (z - mu), and what pinned directions add to it."""
        out = self.precision @ (z - self.mu)
        if self.constraints is not None and len(tau):
            c1 = self.constraints.pins
            out += c1.T @ (tau @ (c1 @ z - self.constraints.pinned))
        return np.asarray(out)

    def moved(
        self, weight: Rows, shift: Rows, w: SiteWeight, factor: Cholesky, tau: Array
    ) -> Conditioned | Failed:
        """q with these shifts, A of the weights being factored; `tau`: (k, k), C1'tau C1 being what
        the pinned directions C1 added to it."""
        b = flatten(shift)
        weighted = w.times(self.start)
        h = self.gram.transposed(b - weighted)
        base = 0.5 * (self.log_det + self.nullity * LOG_2PI) - factor.half_log_det
        if self.constraints is not None and len(tau):
            c1 = self.constraints.pins
            h += c1.T @ (tau @ (self.constraints.pinned - c1 @ self.mu))
        q = PrecisionConditioned(self, weight, shift, w, factor, tau, h, base)
        if self.constraints is not None and len(tau):
            away = self.constraints.pins @ q.free_mean - self.constraints.pinned
            q.log_normaliser -= 0.5 * float(away @ tau @ away)
        if self.constraints is not None and not q.constrain(self.constraints):
            return Failed(kind=Failure.SINGULAR_ON_CONSTRAINTS)
        return q


class PrecisionConditioned(DenseConditioned):
    """q(z) = N(A^-1 h, A^-1), A = LL'."""

    def __init__(
        self,
        engine: PrecisionEngine,
        weight: Rows,
        shift: Rows,
        site_weight: SiteWeight,
        factor: Cholesky,
        tau: Array,
        h: Array,
        base: float,
    ) -> None:
        self.engine, self.linear = engine, engine.linear
        self.weight, self.shift, self.site_weight = weight, shift, site_weight
        self.factor, self.tau = factor, tau
        self._z = engine.mu + factor.solve(h)
        self._rows = self.predictor(self._z) + engine.offset
        if far(engine.start, site_weight):
            pull = engine.gram.transposed(flatten(shift) - site_weight.times(self._rows))
            self._z = self._z + factor.solve(pull - engine.pull(self._z, tau))
            self._rows = self.predictor(self._z) + engine.offset
        self.delta = engine.proper(self._z - engine.mu)
        exponent = flatten(shift) - 0.5 * site_weight.times(self._rows)
        prior = float(self.delta @ (engine.precision @ self.delta))
        self.log_normaliser = base + float(exponent @ self._rows) - 0.5 * prior
        self.kriging = None

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        return self.engine.moved(self.weight, shift, self.site_weight, self.factor, self.tau)

    @cached_property
    def free_mean(self) -> Array:
        return self._z

    def predictor(self, z: Array) -> Array:
        return self.engine.gram.times(z)

    def predictor_mean(self) -> Array:
        return self._rows

    def free_solve(self, rhs: Array) -> Array:
        return self.factor.solve(np.asfortranarray(rhs))

    def free_quadratic(self, pieces: Pieces, rows: int) -> Array:
        half = self.factor.forward(transpose_dense(pieces, rows, self.linear.size))
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def free_variance(self) -> list[Array]:
        return self.engine.gram.variance(self.factor)

    def free_draws(self, rng: Generator, size: int) -> tuple[Array, Callable[[], Array]]:
        noise = rng.standard_normal((size, self.linear.size))
        z = self.free_mean + self.factor.backward(noise.T).T
        return z, lambda: np.asarray(np.einsum("ij,ij->i", noise, noise))

    @property
    def free_rank(self) -> int:
        return self.linear.size

    def _latent_variance(self) -> Array:
        diagonal = self.factor.inverse_diagonal()
        if self.kriging is not None:
            half = self.kriging.reduction(self.kriging.spread)
            diagonal = left(diagonal, np.einsum("ij,ij->j", half, half))
        return diagonal

    @cached_property
    def _covariance(self) -> Array:
        v = self.factor.inverse()
        if self.kriging is not None:
            half = self.kriging.reduction(self.kriging.spread)
            v = v - half.T @ half
        return v

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """dmu = Q(m - mu_c); dQ = (K_c - V - (m - mu)(m - mu)' + (mu_c - mu)(mu_c - mu)')/2,
        mu_c and K_c being the constrained prior's (mu and K without constraints)."""
        engine, m, turn = self.engine, self.latent_mean, self.turn(tilt)
        centre = engine.constrained_prior[0] if engine.constraints is not None else engine.mu
        pull = engine.precision @ (m - centre + turn.latent)
        mean = {b.name: pull[b.where] for b in engine.blocks}
        makers = {
            b.name: self._precision_adjoint(b.where, turn) for b in engine.blocks if not b.flat
        }
        return Adjoints(
            offset=self.offset_adjoints(turn),
            operator=self.operator_adjoints(turn),
            mean=mean,
            precision=Lazy(makers),
        )

    def _precision_adjoint(self, where: slice, turn: Turn) -> Callable[[], Array]:
        def make() -> Array:
            centre, k = self.engine.constrained_prior
            away = turn.square(self.engine.proper(self.latent_mean - self.engine.mu), where)
            prior_gap = centre[where] - self.engine.mu[where]
            out = k[where, where] - self._covariance[where, where]
            out = out - away + np.outer(prior_gap, prior_gap)
            return np.asarray(0.5 * out)

        return make
