"""known(covariance | precision, sd): a known matrix up to its scale.

K = sd^2 covariance (relationships of animals, of species), or Q = precision / sd^2, which is gmrf.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, Matrix, SparseMatrix
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.structures.independent import Dense
from lgmdsl.structures.shared.content import Content
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.structures.spatial.gmrf import gmrf, symmetric
from lgmdsl.vocabulary.lookup import declared

NEGATIVE = 1e-8  # an eigenvalue over the largest that is rounding


@dataclass(frozen=True, eq=False)
class Known(Structure):
    """sd^2 times a covariance, possibly singular."""

    unit: Dense
    sd: Array
    signature = declared("structure", "known")

    @property
    def size(self) -> int:
        return self.unit.size

    @property
    def shape(self) -> Shape:
        return self.unit.shape

    def covariance(self) -> Array:
        return np.asarray(float(self.sd) ** 2 * self.unit.cov)

    def covariance_at(self, rows: IntArray, columns: IntArray) -> Array:
        return np.asarray(float(self.sd) ** 2 * self.unit.cov[rows, columns])

    def precision(self) -> SparseMatrix:
        return sp.csr_array(self.unit.precision() * float(self.sd) ** -2)

    def log_det_precision(self) -> float:
        return self.unit.log_det_precision() - 2.0 * self.size * float(np.log(self.sd))

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        by_sd = 2.0 * float(self.sd) * np.sum(adjoint * self.unit.cov)
        return {"sd": np.asarray(by_sd), "covariance": float(self.sd) ** 2 * adjoint}

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        """dF/dcovariance = -Q dF/dQ Q sd^2."""
        dense = adjoint if isinstance(adjoint, np.ndarray) else adjoint.toarray()
        q = self.unit.precision().toarray()
        by_sd = -2.0 * np.sum(dense * q) / float(self.sd) ** 3
        slope = -(q @ dense @ q) / float(self.sd) ** 2
        return {"sd": np.asarray(by_sd), "covariance": np.asarray(slope)}


def known(
    size: int, sd: object, covariance: Matrix | None = None, precision: Matrix | None = None
) -> Structure:
    """Either matrix, (n, n), an array or csr. Raises Refused (E303) unless it is symmetric and
    positive semi-definite."""
    if covariance is None:
        assert precision is not None, "one of the two is given"
        return gmrf(size, precision, sd)
    return Known(_unit(Content(sp.csr_array(covariance))), np.asarray(sd, dtype=np.float64))


@lru_cache(maxsize=8)
def _unit(content: Content) -> Dense:
    matrix = symmetric(sp.csr_array(content.value), "known", "covariance").toarray()
    values = np.linalg.eigvalsh(matrix)
    if len(values) and values[0] < -NEGATIVE * max(abs(values[-1]), 1e-300):
        raise Refused(
            "E303",
            "the `covariance` of `known` is not positive semi-definite",
            "covariance",
            label=f"its smallest eigenvalue is {values[0]:.3g}",
            help="a precision is given as known(precision = {given}, sd = {sd})",
        )
    return Dense(np.ascontiguousarray(matrix))
