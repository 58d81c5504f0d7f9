"""Engine for sparse precisions: A = Q + B'WB on one pattern, factored by sparse Cholesky
(`shared/by_precision` gives the formulas)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.engines.shared.by_precision import ByPrecision, PrecisionFactor, precision_refusal
from lgmdsl.engines.shared.prior_precision import sparse_prior
from lgmdsl.engines.sparse.factor import SparseFactor
from lgmdsl.engines.sparse.layout import layout_of
from lgmdsl.numerics.sparse.base import times
from lgmdsl.vocabulary.notes import Notes


class SparseEngine(ByPrecision):
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
        super().__init__(linear)
        self.prior = sparse_prior(linear)
        self.blocks, self.mu = self.prior.blocks, self.prior.mu
        layout = layout_of(linear, self.prior.precision)
        self.b, self.bt, self.table = layout.b, layout.bt, layout.table
        self.prior_values = layout.values(self.prior.precision)
        self.symbolic = layout.symbolic

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        return precision_refusal(linear)

    @property
    def prior_diagonal(self) -> Array:
        return np.asarray(self.prior_values[self.table.pattern.on_diagonal])

    @property
    def constant(self) -> float:
        return self.prior.constant

    @property
    def prior_centre(self) -> Array:
        return self.prior.mean

    def lifted(self, z: Array) -> Array:
        return times(self.b, z)

    def pulled(self, y: Array) -> Array:
        return times(self.bt, y)

    def prior_times(self, x: Array) -> Array:
        return times(self.prior.precision, x)

    def factored(self, weight: Rows) -> PrecisionFactor | Failed:
        data = self.table.weighted(weight)
        self.flops += self.symbolic.flops + self.table.flops
        known = self.restricted(self.symbolic, self.prior_values, data)
        return known if isinstance(known, Failed) else SparseFactor(self, weight, known)
