"""What the data determine of some latents at fixed hyperparameters: F = Cov(z) B'WB.

The trace of F over a set of coefficients is their effective degrees of freedom (Wood 2017, section
6.1.2): as many as there are where the prior has no say, 0 where it has all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.rows import times_rows
from lgmdsl.contract.stacked import StackedPredictors, cut
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.memory import check

COLUMNS = 64  # of latents whose rows are held at once


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Some latents b, (k,), under q: their mean, covariance and information B_b'WB_b; `sampling`:
    their block of F Cov(z), the covariance of the mean over data that would be drawn again;
    `reference`: 2 tr F_bb - tr (FF)_bb, the degrees of freedom of a test."""

    mean: Array
    covariance: Array
    information: Array
    sampling: Array
    reference: float


@dataclass(frozen=True, eq=False)
class Influence:
    """F at one point; `linear` has the predictors of the sites that q was conditioned on."""

    linear: LinearGaussian
    conditioned: Conditioned

    @cached_property
    def _stacked(self) -> StackedPredictors:
        return StackedPredictors(self.linear)

    def edf(self, where: IntArray) -> float:
        """The trace of F over the latents at `where`: of those that are independent in the prior
        and in no constraint sum_i (1 - variance_i / prior variance_i), as Cov (Q + B'WB) = I."""
        independent, precision = self._prior
        exact = self.conditioned.errors is None
        if exact and self.conditioned.latent_variance_error is None and independent[where].all():
            left = precision[where] * self.conditioned.latent_variance[where]
            return float((1.0 - left).sum())
        return self._by_rows(where)

    @cached_property
    def _prior(self) -> tuple[BoolArray, Array]:
        """(n,) which latents are independent in the prior and in no constraint, and the prior
        precisions of these."""
        tied = {} if self.linear.constraints is None else self.linear.constraints.columns
        independent, precision = np.zeros(self.linear.size, dtype=bool), np.zeros(self.linear.size)
        for block in self.linear.blocks:
            prior = BlockPrior(block, self.linear.starts[block.name])
            if block.name in tied or not (prior.flat or prior.diagonal):
                continue
            variance = np.full(block.size, np.inf) if prior.flat else prior.variance
            independent[prior.where] = variance > 0.0
            precision[prior.where] = 1.0 / np.where(variance > 0.0, variance, 1.0)
        return independent, precision

    def _by_rows(self, where: IntArray) -> float:
        total = 0.0
        for start in range(0, len(where), COLUMNS):
            some = where[start : start + COLUMNS]
            weighted = self._weighted(self._lifted(self._covariances(some)))
            total += float((self._lifted(self._units(some)) * weighted).sum())
        return total

    def of(self, where: IntArray) -> Coefficients:
        """All that a test of the latents at `where` needs. Raises MethodError E505 where the
        matrices are too large."""
        size, rows = self.linear.size, self.linear.rows
        check(
            "the covariance of a smooth",
            f"{len(where):,} coefficients, {size:,} latents and {rows:,} rows",
            8.0 * len(where) * (4 * size + 4 * rows),
            help="leave `test` out",
        )
        columns, covariances = self._lifted(self._units(where)), self._covariances(where)
        weighted = self._weighted(columns)
        influence = self._pulled(self._weighted(self._lifted(covariances)))  # rows of F, as columns
        across = self._solved(self._pulled(weighted))
        covariance = covariances[where]
        sampling = influence.T @ covariances
        return Coefficients(
            self.conditioned.latent_mean[where],
            0.5 * (covariance + covariance.T),
            columns.T @ weighted,
            0.5 * (sampling + sampling.T),
            2.0 * float(np.trace(influence[where])) - float((influence * across).sum()),
        )

    def _units(self, where: IntArray) -> Array:
        unit = np.zeros((self.linear.size, len(where)))
        unit[where, np.arange(len(where))] = 1.0
        return unit

    def _solved(self, rhs: Array) -> Array:
        return np.asarray(self.conditioned.solve(rhs)).reshape(rhs.shape)

    def _covariances(self, where: IntArray) -> Array:
        return self._solved(self._units(where))

    def _lifted(self, z: Array) -> Array:
        return self._stacked.lifted(z)

    def _weighted(self, rows: Array) -> Array:
        """W S for rows S, (P, k)."""
        pieces = zip(self.conditioned.weight, cut(rows, self.linear.predictors), strict=True)
        return np.concatenate([rows[:0], *(times_rows(w, s) for w, s in pieces)])

    def _pulled(self, rows: Array) -> Array:
        out = np.zeros((self.linear.size, rows.shape[1]))
        pieces = cut(rows, self.linear.predictors)
        for predictor, piece in zip(self.linear.predictors, pieces, strict=True):
            predictor.add_transposed(piece, self.linear.slices, out)
        return out
