"""Engine for sparse precisions: A = Q + B'WB on one pattern, factored by sparse Cholesky.

With z = mu + d, c' = B mu + c and h = B'(b - W c'), on the subspace C d = e - C mu:
log_normaliser = max_d (b's - s'Ws/2 - d'Qd/2) - log|A|/2 + log|Q|/2 + f log(2 pi)/2
- (the constrained prior's exponent), s = B(mu + d) + c, log|.| being those of the subspace and f
the number of free improper directions (density 1). The maximum is evaluated at its argument, where
errors enter squared.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Engine, Failed, Failure, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import flatten, split
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.shared.directions import loosest
from lgmdsl.engines.shared.loosened import Loosened
from lgmdsl.engines.shared.prior_precision import sparse_prior
from lgmdsl.engines.shared.restriction import Restriction, restrict
from lgmdsl.engines.shared.weights import SiteWeight, far
from lgmdsl.engines.sparse.conditioned import SparseConditioned
from lgmdsl.engines.sparse.layout import layout_of
from lgmdsl.numerics.sparse.base import times
from lgmdsl.vocabulary.notes import Notes


class SparseEngine(Engine):
    """Every block must offer a sparse precision; constraints are exact, improper blocks welcome."""

    name: ClassVar[str] = "sparse"
    summary: ClassVar[str] = (
        "sparse Cholesky factors on the pattern of the model, for however many latents"
    )
    notes: ClassVar[Notes] = Notes(
        formula="A = Q + B' W B on its sparse pattern, in an order of little fill; constraints "
        "exact",
        support="priors with sparse precisions (rw1, ar1, besag, spde, normal, ...), constraints, "
        "improper blocks",
        advice="for mixed models, maps and time series of any length",
        example="lgm fit model.lgm data.npz --option engine=sparse",
        see_also=("batched", "iterative", "precision"),
    )

    def __init__(self, linear: LinearGaussian) -> None:
        reason = self.refuses(linear)
        if reason:
            raise TypeError(reason)
        self.linear = linear
        self.prior = sparse_prior(linear)
        layout = layout_of(linear, self.prior.precision)
        self.b, self.bt, self.table = layout.b, layout.bt, layout.table
        self.prior_values = layout.values(self.prior.precision)
        self.symbolic = layout.symbolic
        self.offset = flatten(tuple(p.offset for p in linear.predictors))
        self.start = times(self.b, self.prior.mu) + self.offset
        self.target = self.prior.values - times(self.prior.rows, self.prior.mu)
        self.flops = 0.0

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        for b in linear.blocks:
            if Shape.PRECISION not in b.shape or Shape.SPARSE not in b.shape:
                names = " * ".join(f.name for f in b.factors)
                return f"block `{b.name}` ({names}) has no sparse precision"
        return ""

    @cached_property
    def prior_mean(self) -> Rows:
        s = times(self.b, self.prior.mean) + self.offset
        return split(s, self.linear.predictors)

    def pulled_back(self, rows: Rows) -> Array:
        return times(self.bt, flatten(rows))

    @cached_property
    def loosened(self) -> Loosened | None:
        """The model for priors so stiff that their free directions are hidden."""
        return Loosened.of(self.linear, SparseEngine)

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        if self.prior.broken is not None:
            return self.prior.broken
        if self.loosened is not None and (q := self.loosened.instead(weight, shift)) is not None:
            return q
        restriction = self._factor(weight)
        if isinstance(restriction, Failed):
            return restriction
        return self.moved(weight, shift, restriction)

    def moved(self, weight: Rows, shift: Rows, restriction: Restriction) -> Conditioned:
        """The posterior for a shift, its factorisation being known."""
        w, b, prior = SiteWeight(self.linear.predictors, weight), flatten(shift), self.prior
        h = times(self.bt, b - w.times(self.start))
        delta = restriction.place(restriction.factor.solve(h), self.target)
        z = prior.mu + delta
        rows = times(self.b, z) + self.offset
        if not len(self.target) and far(self.start, w):
            gap = times(self.bt, b - w.times(rows)) - times(prior.precision, z - prior.mu)
            z = z + restriction.solve(gap[:, None])[:, 0]
            delta, rows = z - prior.mu, times(self.b, z) + self.offset
        exponent = float((b - 0.5 * w.times(rows)) @ rows)
        exponent -= 0.5 * float(delta @ times(prior.precision, delta))
        value = exponent - restriction.half_log_det + prior.constant
        return SparseConditioned(self, weight, shift, w, restriction, z, delta, rows, value)

    def _factor(self, weight: Rows) -> Restriction | Failed:
        """A with its pins, factored and conditioned on the constraints."""
        data = self.table.weighted(weight)
        values = self.prior_values + data
        pins, diagonal = self.prior.pins, self.table.pattern.on_diagonal
        # As large as the entry there: otherwise a loose field next to a flat level stays singular.
        tau = np.maximum(np.abs(values[diagonal[pins]]), self.prior.tau(pins))
        values[diagonal[pins]] += tau
        self.flops += self.symbolic.flops + self.table.flops
        factor = self.symbolic.factor(values)
        if self.prior.improper or factor is None:
            failed = loosest(self.symbolic, values, data, factor, self.linear)
            if failed is not None:
                return failed
        if factor is None:
            return Failed(kind=Failure.INDEFINITE)
        restriction = restrict(factor, self.prior.rows, pins, tau, self.prior.columns)
        return restriction or Failed(kind=Failure.INDEFINITE_ON_CONSTRAINTS)
