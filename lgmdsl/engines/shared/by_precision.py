"""What engines share that factor A = Q + B'WB, whatever order latents are eliminated in.

With z = mu + d, c' = B mu + c and h = B'(b - W c'), on the subspace C d = e - C mu:
log_normaliser = max_d (b's - s'Ws/2 - d'Qd/2) - log|A|/2 + log|Q|/2 + f log(2 pi)/2
- (the constrained prior's exponent), s = B(mu + d) + c, log|.| being those of the subspace and f
the number of free improper directions (density 1). The maximum is evaluated at its argument, where
errors enter squared.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array, IntArray, Matrix
from lgmdsl.contract.engine import (
    EPSILON,
    Conditioned,
    Direction,
    Engine,
    Failed,
    Failure,
    Rows,
    Term,
)
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import flatten, split
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.shared.conditioned import Lazy
from lgmdsl.engines.shared.directions import loosest
from lgmdsl.engines.shared.factored import (
    Centre,
    FactoredConditioned,
    Factorisation,
    PriorAdjoints,
)
from lgmdsl.engines.shared.loosened import Loosened
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.engines.shared.prior_entries import constrained_entries
from lgmdsl.engines.shared.prior_precision import SparsePrior
from lgmdsl.engines.shared.restriction import Restriction, restrict
from lgmdsl.engines.shared.shift_derivatives import Turn
from lgmdsl.engines.shared.weights import SiteWeight, far
from lgmdsl.numerics.sparse.base import Symbolic, entries_of, filled, times

if TYPE_CHECKING:
    from numpy.random import Generator


def precision_refusal(linear: LinearGaussian) -> str:
    """Names a block without a sparse precision; empty where every block has one."""
    for b in linear.blocks:
        if Shape.PRECISION not in b.shape or Shape.SPARSE not in b.shape:
            names = " * ".join(f.name for f in b.factors)
            return f"block `{b.name}` ({names}) has no sparse precision"
    return ""


class ByPrecision(Engine):
    """Engine that factors A = Q + B'WB. A subclass sets `prior`, of the latents that constraints
    may touch; `blocks`, every block at its place; `mu`, (n,)."""

    prior: SparsePrior
    blocks: list[BlockPrior]
    mu: Array

    def __init__(self, linear: LinearGaussian) -> None:
        reason = self.refuses(linear)
        if reason:
            raise TypeError(reason)
        super().__init__(linear)
        self.offset = flatten(tuple(p.offset for p in linear.predictors))
        self.flops = 0.0

    @abstractmethod
    def lifted(self, z: Array) -> Array:
        """B z for (n,) or (n, m)."""

    @abstractmethod
    def pulled(self, y: Array) -> Array:
        """B'y of (P,)."""

    @abstractmethod
    def prior_times(self, x: Array) -> Array:
        """Q x for (n,) or (n, m)."""

    @property
    @abstractmethod
    def prior_diagonal(self) -> Array:
        """(n,) diag Q."""

    @property
    @abstractmethod
    def constant(self) -> float:
        """What log_normaliser gains from the prior."""

    @property
    @abstractmethod
    def prior_centre(self) -> Array:
        """(n,) mean of the constrained prior."""

    @abstractmethod
    def factored(self, weight: Rows) -> PrecisionFactor | Failed:
        """A factored and conditioned on the constraints."""

    @cached_property
    def start(self) -> Array:
        """(P,) B mu + c."""
        return self.lifted(self.mu) + self.offset if self.mu.any() else self.offset

    @cached_property
    def target(self) -> Array:
        """e - C mu."""
        return self.prior.values - times(self.prior.rows, self.prior.mu)

    @cached_property
    def prior_mean(self) -> Rows:
        start = self.lifted(self.prior_centre) + self.offset if self.prior.asked else self.start
        return split(start, self.linear.predictors)

    def pulled_back(self, rows: Rows) -> Array:
        return self.pulled(flatten(rows))

    @cached_property
    def loosened(self) -> Loosened | None:
        """The model for priors so stiff that their free directions are hidden."""
        return Loosened.of(self.linear, type(self))

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        if self.prior.broken is not None:
            return self.prior.broken
        if self.loosened is not None and (q := self.loosened.instead(weight, shift)) is not None:
            return q
        factored = self.factored(weight)
        return factored if isinstance(factored, Failed) else FactoredConditioned(factored, shift)

    def restricted(
        self, symbolic: Symbolic, prior: Array, data: Array, total: Array | None = None
    ) -> Restriction | Failed:
        """The sum of `prior` and `data`, both (nnz,), factored with its pins and conditioned on the
        constraints. `total`: the diagonal of the data before latents that were eliminated took
        their share, (p,), where some were."""
        values, pins = prior + data, self.prior.pins
        diagonal = symbolic.pattern.on_diagonal
        # As large as the entry there: otherwise a loose field next to a flat level stays singular.
        tau = np.maximum(np.abs(values[diagonal[pins]]), self.prior.tau(pins))
        values[diagonal[pins]] += tau
        factor = symbolic.factor(values)
        failed = None
        if total is not None:
            failed = self._swallowed(total + prior[diagonal], values[diagonal])
        if failed is None and (self.prior.improper or factor is None):
            failed = loosest(symbolic, values, data, factor, self.prior.linear)
        if failed is not None:
            return failed
        if factor is None:
            return Failed(kind=Failure.INDEFINITE)
        restriction = restrict(factor, self.prior.rows, pins, tau, self.prior.columns)
        return restriction or Failed(kind=Failure.INDEFINITE_ON_CONSTRAINTS)

    def _swallowed(self, before: Array, after: Array) -> Failed | None:
        """Where eliminated latents take all that data say of another, but for rounding."""
        noise = 50.0 * self.linear.size**0.5 * EPSILON * before
        hidden = np.flatnonzero((before > 0.0) & (np.abs(after) <= noise))
        if not len(hidden):
            return None
        names = [(b.name, i) for b in self.prior.linear.blocks for i in range(b.size)]
        return Failed(kind=Failure.HIDDEN, direction=Direction((Term(*names[int(hidden[0])]),)))


class PrecisionFactor(Factorisation):
    """V = A^-1 on the constraints, and what follows from the prior's precision."""

    engine: ByPrecision

    def __init__(self, engine: ByPrecision, weight: Rows) -> None:
        self.engine, self.mu, self.weight = engine, engine.mu, weight
        self.site_weight = SiteWeight(engine.linear.predictors, weight)

    @property
    def rank(self) -> int:
        return self.linear.size - self.engine.prior.rows.shape[0]

    @property
    @abstractmethod
    def half_log_det(self) -> float:
        """log|A| / 2 on the constraints, and log|CC'| / 2, which is the prior's as well."""

    @abstractmethod
    def placed(self, h: Array, target: Array) -> Array:
        """A^-1 h on the constraints C z = target."""

    @abstractmethod
    def scattered(self, rng: Generator, size: int) -> Array:
        """(n, size) draws with mean zero and covariance V."""

    @abstractmethod
    def entries(self, rows: IntArray, columns: IntArray) -> Array:
        """Entries (row, column) of V where the prior's precision has some."""

    @cached_property
    def lost(self) -> float:
        """About how many nats an evidence loses to the cancellation of precisions: Q_ii V_ii is 1
        or more, and 1e7 in a second order walk of thousands of steps, whose log determinant has so
        many digits less."""
        sizes = np.abs(self.engine.prior_diagonal) * self.latent_variance()
        return EPSILON * float(np.sum(sizes))

    def centre(self, shift: Rows) -> Centre:
        engine, w, b = self.engine, self.site_weight, flatten(shift)
        away = self.placed(engine.pulled(b - w.times(engine.start)), engine.target)
        z = engine.mu + away
        rows = engine.lifted(z) + engine.offset
        if not len(engine.target) and far(engine.start, w):
            gap = engine.pulled(b - w.times(rows)) - engine.prior_times(z - engine.mu)
            z = z + self.solve(gap[:, None])[:, 0]
            away, rows = z - engine.mu, engine.lifted(z) + engine.offset
        exponent = float((b - 0.5 * w.times(rows)) @ rows)
        exponent -= 0.5 * float(away @ engine.prior_times(away))
        return Centre(away, rows, exponent - self.half_log_det + engine.constant, latent=z)

    def draws(self, rng: Generator, size: int) -> tuple[Array, Callable[[], Array]]:
        away = self.scattered(rng, size)

        def lengths() -> Array:
            raised = self.engine.lifted(away)
            out = np.einsum("ij,ij->j", raised, self.site_weight.times(raised))
            out += np.einsum("ij,ij->j", away, self.engine.prior_times(away))
            return np.asarray(out)

        return away.T, lengths

    def adjoints(self, q: FactoredConditioned, turn: Turn) -> PriorAdjoints:
        """dmu = Q(m - mu_c); dQ = (K_c - V - (m - mu)(m - mu)' + (mu_c - mu)(mu_c - mu)')/2 on Q's
        pattern, mu_c and K_c being the constrained prior's."""
        engine = self.engine
        pull = engine.prior_times(q.latent_mean - engine.prior_centre + turn.latent)
        proper = [b for b in engine.blocks if not b.flat]
        return PriorAdjoints(
            {b.name: pull[b.where] for b in engine.blocks},
            Lazy({b.name: self._precision_adjoint(b, q.away, turn) for b in proper}),
        )

    def _precision_adjoint(
        self, block: BlockPrior, delta: Array, turn: Turn
    ) -> Callable[[], Matrix]:
        def make() -> Matrix:
            q = block.sparse_precision
            rows, columns = entries_of(q)
            values = constrained_entries(self.engine.prior, block.block, rows, columns)
            rows, columns = rows + block.where.start, columns + block.where.start
            away = self.engine.prior_centre - self.mu
            values -= self.entries(rows, columns)
            values += away[rows] * away[columns] - turn.squared(delta, rows, columns)
            return filled(q, 0.5 * values)

        return make
