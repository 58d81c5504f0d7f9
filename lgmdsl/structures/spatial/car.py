"""car(graph, sd, alpha): the proper autoregression, Q = (D - alpha W) / sd^2, 0 <= alpha < 1.

z_i | rest ~ N(alpha times the mean of its d_i neighbours, sd^2 / d_i): `car.proper` of BUGS, and
Banerjee, Carlin and Gelfand (2015), eq. 4.16. Here sd is conditional, and the marginal sds grow
with alpha. A member without neighbours is N(0, sd^2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.arrays import Array, BoolArray, Matrix, SparseMatrix
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.errors import NumericalError
from lgmdsl.structures.shared.content import Content, diagonal, inner
from lgmdsl.structures.shared.generalised import log_determinant
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.structures.spatial.graphs import degrees, with_diagonal
from lgmdsl.vocabulary.lookup import declared

# Up to this order |D - alpha W| comes from the eigenvalues of D^-1/2 W D^-1/2, found once.
SPECTRAL = 1000


@dataclass(frozen=True, eq=False)
class Neighbours:
    """W and its diagonal D, 1 for a member without neighbours."""

    graph: SparseMatrix
    degree: Array

    @cached_property
    def whole(self) -> SparseMatrix:
        """D + W, csr."""
        return with_diagonal(self.graph, self.degree, -1.0)

    @cached_property
    def joins(self) -> BoolArray:
        """(nnz,) the entries of `whole` off the diagonal."""
        rows = np.repeat(np.arange(len(self.degree)), np.diff(self.whole.indptr))
        return np.asarray(rows != self.whole.indices)

    @cached_property
    def spectrum(self) -> Array:
        """(n,) eigenvalues of D^-1/2 W D^-1/2."""
        root = diagonal(self.degree**-0.5)
        return np.asarray(sla.eigvalsh((root @ self.graph @ root).toarray()))


@dataclass(frozen=True, eq=False)
class Car(Structure):
    """Q = (D - alpha W) / sd^2, on the graph's pattern."""

    neighbours: Neighbours
    sd: Array
    alpha: Array
    signature = declared("structure", "car")

    @property
    def size(self) -> int:
        return len(self.neighbours.degree)

    @property
    def shape(self) -> Shape:
        return Shape.PRECISION | Shape.SPARSE

    @cached_property
    def _unit(self) -> SparseMatrix:
        """D - alpha W; the pattern stays where alpha is 0."""
        whole = self.neighbours.whole
        data = np.where(self.neighbours.joins, -float(self.alpha), whole.data)
        return sp.csr_array((data, whole.indices, whole.indptr), shape=whole.shape)

    def precision(self) -> SparseMatrix:
        return sp.csr_array(self._unit * float(self.sd) ** -2)

    def log_det_precision(self) -> float:
        scale = -2.0 * self.size * float(np.log(self.sd))
        if self.size <= SPECTRAL:
            shrunk = np.log1p(-float(self.alpha) * self.neighbours.spectrum)
            return scale + float(np.log(self.neighbours.degree).sum() + shrunk.sum())
        log_det = log_determinant(self._unit)
        if log_det is None:
            raise NumericalError.of("E601", f"car's precision is singular at alpha = {self.alpha}")
        return scale + log_det

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        """dF/dsd = -2/sd <dF/dQ, Q>, dF/dalpha = -<dF/dQ, W> / sd^2."""
        graph = self.neighbours.graph
        return {
            "sd": np.asarray(-2.0 * inner(adjoint, self._unit) / self.sd**3),
            "alpha": np.asarray(-inner(adjoint, graph) / self.sd**2),
        }


def car(size: int, graph: SparseMatrix, sd: object, alpha: object) -> Structure:
    """`graph` is a symmetric csr adjacency of ones, (n, n). Raises Refused (E303)."""
    value = float(np.asarray(alpha))
    if not 0.0 <= value < 1.0:
        raise Refused(
            "E303",
            f"`alpha` of `car` is {value:g}",
            "alpha",
            label="wanted 0 <= alpha < 1",
            help="at alpha = 1 no level is fixed: that field is besag(graph = {graph}, sd = {sd})",
        )
    return Car(_neighbours(Content(graph)), np.asarray(sd, dtype=np.float64), np.asarray(value))


@lru_cache(maxsize=8)
def _neighbours(content: Content) -> Neighbours:
    graph = content.value
    assert not isinstance(graph, np.ndarray)
    return Neighbours(graph, np.maximum(degrees(graph), 1.0))
