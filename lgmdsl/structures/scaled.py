"""Precisions that one number scales: Q = U / sd^2, U a sparse matrix fixed by data.

Intrinsic structures are so: U is singular, and scaled so that the geometric mean of the marginal
sds, the roots of diag U^+, is 1 (Sorbye and Rue 2014, section 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix, SparseMatrix
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.structures.pairing import inner


@dataclass(frozen=True, eq=False)
class Unit:
    """U and all that depends on it alone.

    `precision` (n, n) csr; `null` (n, k) csr, an orthonormal basis of its null space; `tied`
    (c, n) csr, rows within the null space that the prior holds at zero; `log_det` is the log of
    the product of U's non-zero eigenvalues.
    """

    precision: SparseMatrix
    null: SparseMatrix
    tied: SparseMatrix
    log_det: float

    @property
    def size(self) -> int:
        return int(self.precision.shape[0])

    @property
    def rank(self) -> int:
        return self.size - int(self.null.shape[1])

    @property
    def free(self) -> int:
        """How many directions have density 1."""
        return int(self.null.shape[1] - self.tied.shape[0])

    @cached_property
    def covariance(self) -> Array:
        """(n, n) U^+ = (U + s N N')^-1 - N N' / s, s of U's own size; not to be written to."""
        null = self.null.toarray()
        s = float(self.precision.diagonal().mean()) or 1.0
        whole = np.linalg.inv(self.precision.toarray() + s * (null @ null.T)) - null @ null.T / s
        return np.asarray(0.5 * (whole + whole.T))


@dataclass(frozen=True, eq=False)
class Scaled(Structure):
    """Q = U / sd^2; where U's null space is held at zero also K = sd^2 U^+, dense."""

    unit: Unit
    sd: Array
    name: ClassVar[str] = "scaled"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sd", np.asarray(self.sd, dtype=np.float64))

    @property
    def size(self) -> int:
        return self.unit.size

    @property
    def shape(self) -> Shape:
        kind = Shape.PRECISION | Shape.SPARSE
        return kind | (Shape.IMPROPER if self.unit.free else Shape.COVARIANCE)

    def precision(self) -> SparseMatrix:
        u = self.unit.precision
        return sp.csr_array((u.data / float(self.sd) ** 2, u.indices, u.indptr), shape=u.shape)

    def log_det_precision(self) -> float:
        return self.unit.log_det - 2.0 * self.unit.rank * float(np.log(self.sd))

    def null_space(self) -> Array:
        return np.asarray(self.unit.null.toarray())

    @property
    def nullity(self) -> int:
        return self.unit.size - self.unit.rank

    def constraints(self) -> SparseMatrix:
        return self.unit.tied

    def covariance(self) -> Array:
        if self.unit.free:
            raise TypeError(f"{self.name} has {self.unit.free} directions of infinite variance")
        return np.asarray(self.unit.covariance * float(self.sd) ** 2)

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        """dF/dsd = 2/sd <dF/dK, K>."""
        return {"sd": np.asarray(2.0 * float(self.sd) * np.sum(adjoint * self.unit.covariance))}

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        """dF/dsd = -2/sd <dF/dQ, Q>."""
        return {"sd": np.asarray(-2.0 * inner(adjoint, self.unit.precision) / self.sd**3)}


def unit_of(
    precision: SparseMatrix, variances: Array, log_det: float, null: SparseMatrix,
    tied: SparseMatrix,
) -> Unit:  # fmt: skip
    """U = c Q, c the geometric mean of diag Q^+; `log_det` is log|Q|_+."""
    log_scale = float(np.log(variances).mean())
    scaled = sp.csr_array(precision * np.exp(log_scale))
    scaled.sort_indices()
    rank = scaled.shape[0] - null.shape[1]
    return Unit(scaled, null, tied, log_det + rank * log_scale)


def nothing_tied(size: int) -> SparseMatrix:
    """No constraints."""
    return sp.csr_array((0, size))


def sums_to_zero(size: int) -> SparseMatrix:
    """(1, n) csr: the sum of all entries."""
    return sp.csr_array(np.ones((1, size)))
