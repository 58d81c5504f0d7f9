"""gmrf(precision, sd): a precision given as it is, Q / sd^2; its null space has density 1."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from lgmdsl.arrays import Array, Matrix, SparseMatrix
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.structures.shared.content import Content
from lgmdsl.structures.shared.generalised import log_determinant, log_pseudo_determinant
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.structures.shared.scaled import ScaledPrecision, UnitPrecision, nothing_tied
from lgmdsl.vocabulary.lookup import declared

# Up to this order the null space comes from all eigenvalues, above it from the smallest ones.
SPECTRAL = 1500
_MOST = 64  # null directions of a larger matrix


@dataclass(frozen=True, eq=False)
class Gmrf(ScaledPrecision):
    """`dense`: the precision was given as an array, so its slope is one too."""

    dense: bool
    signature = declared("structure", "gmrf")

    @property
    def shape(self) -> Shape:
        kind = Shape.PRECISION | Shape.SPARSE
        return kind | Shape.IMPROPER if self.unit.free else kind

    @property
    def proportional(self) -> bool:
        return not self.dense  # an array may have slopes of its own

    def covariance(self) -> Array:
        raise TypeError("gmrf has a precision only")

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        """dF/dprecision = dF/dQ / sd^2, where the precision is an array; and dF/dsd."""
        slopes = super().pullback_precision(adjoint)
        if self.dense:
            whole = adjoint if isinstance(adjoint, np.ndarray) else adjoint.toarray()
            slopes["precision"] = np.asarray(whole / self.sd**2)
        return slopes


def gmrf(size: int, precision: Matrix, sd: object) -> Structure:
    """`precision` (n, n), an array or csr. Raises Refused (E303) unless it is symmetric and
    positive semi-definite."""
    dense = isinstance(precision, np.ndarray)
    return Gmrf(_unit(Content(sp.csr_array(precision))), np.asarray(sd), dense)


def symmetric(matrix: SparseMatrix, name: str, argument: str) -> SparseMatrix:
    """The symmetric part. Raises Refused (E303) where it is not the matrix, up to rounding."""
    away = sp.csr_array(abs(matrix - matrix.T))
    largest = float(abs(matrix).max()) if matrix.nnz else 0.0
    if away.nnz and float(away.max()) > 1e-10 * largest:
        entry = np.unravel_index(int(away.argmax()), away.shape)
        raise Refused(
            "E303",
            f"the `{argument}` of `{name}` is not symmetric",
            argument,
            label=f"two mirrored entries differ by {float(away.max()):.3g}",
            entries=np.asarray(entry),
            help="({given} + {given}.T) / 2, if it should be symmetric",
        )
    out = sp.csr_array(0.5 * (matrix + matrix.T))
    out.sort_indices()
    return out


@lru_cache(maxsize=8)
def _unit(content: Content) -> UnitPrecision:
    q = symmetric(sp.csr_array(content.value), "gmrf", "precision")
    n = q.shape[0]
    if n <= SPECTRAL:
        values, vectors = sla.eigh(q.toarray())
        none = 10.0 * n * np.finfo(float).eps * max(float(np.abs(values).max(initial=0.0)), 1e-300)
        if values[0] < -none:
            raise _indefinite(float(values[0]))
        zero = np.abs(values) <= none
        null, log_det = sp.csr_array(vectors[:, zero]), float(np.log(values[~zero]).sum())
    else:
        null, log_det = _large(q)
    return UnitPrecision(q, np.ones(n), null, nothing_tied(n), log_det)


def _indefinite(value: float) -> Refused:
    return Refused(
        "E303",
        "the `precision` of `gmrf` is not positive semi-definite",
        "precision",
        label=f"its smallest eigenvalue is {value:.4g}" if value else "a pivot is negative",
        help="a covariance is given as dense(cov = {given}); a precision has no direction of "
        "negative variance",
    )


def _large(q: SparseMatrix) -> tuple[SparseMatrix, float]:
    n = q.shape[0]
    whole = log_determinant(q)
    if whole is not None:
        return sp.csr_array((n, 0)), whole
    scale = float(q.diagonal().mean())
    shift = 1e-6 * scale
    if not scale > 0 or log_determinant(sp.csr_array(q + shift * sp.eye_array(n))) is None:
        raise _indefinite(0.0)
    k = 8
    while k <= _MOST:
        values, vectors = spla.eigsh(q, k=k, sigma=-shift, which="LM", v0=np.ones(n), tol=0)
        zero = np.abs(values) <= 1e-6 * shift
        if values.min() < -1e-6 * shift:
            raise _indefinite(float(values.min()))
        if not zero.all():
            null = sp.csr_array(vectors[:, zero])
            log_det = log_pseudo_determinant(q, null)
            if log_det is None:
                raise _indefinite(0.0)
            return null, log_det
        k *= 2
    raise Refused(
        "E303",
        f"the `precision` of `gmrf` has more than {_MOST} null directions",
        "precision",
        label="as many directions of density 1",
        help="leave out the members that it does not determine; a graph is for besag(graph = adj)",
    )
