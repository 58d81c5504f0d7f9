"""A correlation with an sd for each member: K_ij = sd_i sd_j R_ij (heterogeneous variances)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, Array, IntArray, Matrix, SparseMatrix
from lgmdsl.contract.structure import Extension, Regression, Shape, Structure
from lgmdsl.structures.shared.refusals import Refused


@dataclass(frozen=True, eq=False)
class ByMember(Structure):
    """`unit` is a proper structure whose own sd is 1; `sd` (n,), positive."""

    unit: Structure
    sd: Array
    name: ClassVar[str] = "by member"

    @property
    def size(self) -> int:
        return self.unit.size

    @property
    def shape(self) -> Shape:
        return self.unit.shape

    @property
    def joined(self) -> bool:
        return self.unit.joined

    def variance(self) -> Array:
        return np.asarray(self.sd**2 * self.unit.variance())

    def covariance(self) -> Array:
        return np.asarray(self.sd[:, None] * self.unit.covariance() * self.sd)

    def precision(self) -> Matrix:
        return _weighed(self.unit.precision(), 1.0 / self.sd)

    def log_det_precision(self) -> float:
        return self.unit.log_det_precision() - 2.0 * float(np.log(self.sd).sum())

    def covariance_at(self, rows: IntArray, columns: IntArray) -> Array | None:
        entries = self.unit.covariance_at(rows, columns)
        return None if entries is None else np.asarray(self.sd[rows] * self.sd[columns] * entries)

    def extension(self, places: Array, new: Array) -> Extension:
        """Raises Refused (E302): a new member has no sd."""
        known = np.searchsorted(places[order := np.argsort(places)], new)
        at = order[np.minimum(known, len(places) - 1)]
        if (places[at] != new).any():
            raise Refused(
                "E302",
                "a new member of {axis} has no sd",
                "sd",
                label="one for each fitted member",
                help="give `sd` as one number, for fitted and new members",
            )
        weights = sp.csr_array(
            (np.ones(len(new)), (np.arange(len(new)), at)), shape=(len(new), len(places))
        )
        return Extension(weights, np.zeros((len(new), len(new))))

    def regression(self, members: IntArray, before: IntArray) -> Regression:
        unit, own = self.unit.regression(members, before), self.sd[members]
        return Regression(unit.slope * own / self.sd[before], unit.variance * own**2)

    def pullback_regression(
        self, members: IntArray, before: IntArray, slope: Array, variance: Array
    ) -> dict[str, Array]:
        """The unit's slope times sd_i / sd_before, its variance times sd_i^2."""
        unit = self.unit.regression(members, before)
        own, other = self.sd[members], self.sd[before]
        below = self.unit.pullback_regression(
            members, before, slope * own / other, variance * own**2
        )
        by_ratio = slope * unit.slope
        by_own = by_ratio / other + 2.0 * own * unit.variance * variance
        sd = np.bincount(members, by_own, self.size)
        linked = before >= 0
        by_other = (by_ratio * own / other**2)[linked]
        both = sd - np.bincount(before[linked], by_other, self.size)
        return {**below, "sd": np.asarray(both, dtype=np.float64)}

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        """dF/dsd_i = (A'_ij + A_ij) K_ij / sd_i, summed over j, A the adjoint."""
        slopes = self.unit.pullback_covariance(self.sd[:, None] * adjoint * self.sd)
        weighed = adjoint * self.covariance()
        return {**slopes, "sd": (weighed.sum(axis=0) + weighed.sum(axis=1)) / self.sd}

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        """dF/dsd_i = -(A'_ij + A_ij) Q_ij / sd_i, summed over j, A the adjoint."""
        slopes = self.unit.pullback_precision(_weighed(adjoint, 1.0 / self.sd))
        q = self.precision()
        if isinstance(adjoint, np.ndarray):
            weighed: Matrix = adjoint * (q if isinstance(q, np.ndarray) else q.toarray())
        else:
            weighed = sp.csr_array(adjoint.multiply(q))
        both = np.asarray(weighed.sum(axis=0)).reshape(-1) + np.asarray(weighed.sum(axis=1)).ravel()
        return {**slopes, "sd": -both / self.sd}


def by_member(sd: object, make: Callable[[Array], Structure]) -> Structure:
    """The structure that `make` gives for one sd, or `ByMember` for one for each member."""
    values = np.asarray(sd, dtype=np.float64)
    return make(values) if values.ndim == 0 else ByMember(make(np.asarray(1.0)), values)


def _weighed(matrix: Matrix, weights: Array) -> Matrix:
    """diag(weights) matrix diag(weights), on its pattern."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(weights[:, None] * matrix * weights)
    rows: AnyArray = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    data = matrix.data * weights[rows] * weights[matrix.indices]
    out: SparseMatrix = sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
    return out
