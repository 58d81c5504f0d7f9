"""Precisions that one number scales: Q = U / sd^2, U a sparse matrix fixed by data.

Intrinsic structures are so: U is singular, and scaled so that the geometric mean of the marginal
sds, the roots of diag U^+, is 1 (Sorbye and Rue 2014, section 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix, SparseMatrix
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.structures.shared.content import inner

ALONE = 1e-12  # of a row's entry where it stands alone: less is rounding
MULTIPLES = 46  # bits of a scale: 52 of a double, less those of R's entries


@dataclass(frozen=True, eq=False)
class UnitPrecision:
    """U = diag(scale) R and all that depends on it alone.

    `raw` is R, (n, n) csr, small integers wherever the structure has them; `scale` (n,) is the same
    throughout each of U's irreducible blocks; `null` (n, k) csr, an orthonormal basis of U's null
    space; `tied` (c, n) csr, rows within the null space that the prior holds at zero; `log_det` is
    the log of the product of U's non-zero eigenvalues.
    """

    raw: SparseMatrix
    scale: Array
    null: SparseMatrix
    tied: SparseMatrix
    log_det: float

    @property
    def size(self) -> int:
        return int(self.raw.shape[0])

    def times(self, factor: float) -> SparseMatrix:
        """factor U, its multiples of R rounded so that small integers times them are exact: what
        rounding adds to a row's sum is a systematic curvature along the null space, which outweighs
        the data next to a stiff prior (log evidence off by 1 at rw2 over 10,000 points)."""
        mantissa, exponent = np.frexp(factor * self.scale)
        coarse = np.ldexp(np.round(np.ldexp(mantissa, MULTIPLES)), exponent - MULTIPLES)
        lines = np.repeat(coarse, np.diff(self.raw.indptr))
        data = lines * self.raw.data
        return sp.csr_array((data, self.raw.indices, self.raw.indptr), shape=self.raw.shape)

    @cached_property
    def precision(self) -> SparseMatrix:
        """U, (n, n) csr."""
        return self.times(1.0)

    @property
    def rank(self) -> int:
        return self.size - int(self.null.shape[1])

    @property
    def free(self) -> int:
        """How many directions have density 1."""
        return int(self.null.shape[1] - self.tied.shape[0])

    @cached_property
    def held(self) -> tuple[UnitPrecision, SparseMatrix]:
        """This U with all of its null space tied, by rows of which each stands alone at one member;
        and an orthonormal basis of what was not, (n, free) csr."""
        null = self.null.toarray()
        _, _, order = sla.qr(null.T, mode="economic", pivoting=True)
        pins = np.sort(order[: null.shape[1]])
        rows = np.linalg.solve(null[pins].T, null.T)
        rows[np.abs(rows) < ALONE] = 0.0
        loose = null @ sla.null_space(np.asarray(self.tied @ null)) if self.tied.shape[0] else null
        return replace(self, tied=sp.csr_array(rows)), sp.csr_array(loose)

    @cached_property
    def covariance(self) -> Array:
        """(n, n) U^+ = (U + s N N')^-1 - N N' / s, s of U's own size; not to be written to."""
        null = self.null.toarray()
        s = float(self.precision.diagonal().mean()) or 1.0
        whole = np.linalg.inv(self.precision.toarray() + s * (null @ null.T)) - null @ null.T / s
        return np.asarray(0.5 * (whole + whole.T))


@dataclass(frozen=True, eq=False)
class ScaledPrecision(Structure):
    """Q = U / sd^2; where U's null space is held at zero also K = sd^2 U^+, dense."""

    unit: UnitPrecision
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
        return self.unit.times(float(self.sd) ** -2)

    def log_det_precision(self) -> float:
        return self.unit.log_det - 2.0 * self.unit.rank * float(np.log(self.sd))

    def null_space(self) -> Array:
        return np.asarray(self.unit.null.toarray())

    @property
    def nullity(self) -> int:
        return self.unit.size - self.unit.rank

    def constraints(self) -> SparseMatrix:
        return self.unit.tied

    def held(self) -> tuple[Structure, SparseMatrix] | None:
        if not self.unit.free:
            return None
        unit, loose = self.unit.held
        return replace(self, unit=unit), loose

    def covariance(self) -> Array:
        if self.unit.free:
            raise TypeError(f"{self.name} has {self.unit.free} directions of infinite variance")
        return np.asarray(self.unit.covariance * float(self.sd) ** 2)

    @property
    def proportional(self) -> bool:
        return True

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        """dF/dsd = 2/sd <dF/dK, K>."""
        return {"sd": np.asarray(2.0 * float(self.sd) * np.sum(adjoint * self.unit.covariance))}

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        """dF/dsd = -2/sd <dF/dQ, Q>."""
        return {"sd": np.asarray(-2.0 * inner(adjoint, self.unit.precision) / self.sd**3)}


def unit_of(
    precision: SparseMatrix,
    variances: Array,
    log_det: float,
    null: SparseMatrix,
    tied: SparseMatrix,
) -> UnitPrecision:
    """U = c Q, c the geometric mean of diag Q^+; `log_det` is log|Q|_+."""
    log_scale = float(np.log(variances).mean())
    raw = sp.csr_array(precision)
    raw.sort_indices()
    n = raw.shape[0]
    rank = n - null.shape[1]
    return UnitPrecision(raw, np.full(n, np.exp(log_scale)), null, tied, log_det + rank * log_scale)


def nothing_tied(size: int) -> SparseMatrix:
    """No constraints."""
    return sp.csr_array((0, size))


def sums_to_zero(size: int) -> SparseMatrix:
    """(1, n) csr: the sum of all entries."""
    return sp.csr_array(np.ones((1, size)))
