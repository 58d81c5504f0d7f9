"""spde(mass, stiffness): a Matern field of smoothness 1 in the plane, by finite elements.

Lindgren, Rue and Lindstrom (2011), section 2.3, alpha = 2 and d = 2, so nu = 1:
    Q = tau^2 (kappa^4 C + 2 kappa^2 G + G C^-1 G) = tau^2 (kappa^2 C + G) C^-1 (kappa^2 C + G),
kappa = sqrt(8 nu) / range, tau^2 = 1 / (4 pi kappa^2 sd^2); C the lumped mass, G the stiffness.
The matrices do not tell the dimension: they must come from a mesh in the plane (`mesh_matrices`,
`grid_matrices`). sd holds inside; at the border (Neumann) the variance is up to twice as large,
in a corner four times, so a mesh reaches out by about one range.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix, SparseMatrix
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.errors import NumericalError
from lgmdsl.structures.shared.content import Content, diagonal, inner
from lgmdsl.structures.shared.generalised import log_determinant
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.structures.spatial.gmrf import symmetric
from lgmdsl.vocabulary.lookup import declared


@dataclass(frozen=True, eq=False)
class Elements:
    """C (lumped) and G, and the values of C, G and G C^-1 G on one pattern."""

    mass: Array
    stiffness: SparseMatrix
    pattern: SparseMatrix
    parts: tuple[Array, Array, Array]

    def on_pattern(self, *weights: float) -> SparseMatrix:
        """weights[0] C + weights[1] G + weights[2] G C^-1 G."""
        data = sum(w * part for w, part in zip(weights, self.parts, strict=False))
        p = self.pattern
        return sp.csr_array((np.asarray(data), p.indices, p.indptr), shape=p.shape)


@dataclass(frozen=True, eq=False)
class Spde(Structure):
    """See the module; `sd` and `range` (where the correlation is about 0.14) are scalars."""

    elements: Elements
    sd: Array
    range: Array
    signature = declared("structure", "spde")

    @property
    def size(self) -> int:
        return len(self.elements.mass)

    @property
    def shape(self) -> Shape:
        return Shape.PRECISION | Shape.SPARSE

    @property
    def kappa(self) -> float:
        return float(np.sqrt(8.0) / self.range)

    @property
    def tau2(self) -> float:
        return 1.0 / (4.0 * np.pi * (self.kappa * float(self.sd)) ** 2)

    @cached_property
    def _precision(self) -> SparseMatrix:
        k2, t = self.kappa**2, self.tau2
        return self.elements.on_pattern(t * k2 * k2, 2.0 * t * k2, t)

    def precision(self) -> SparseMatrix:
        """Computed once; not to be written to."""
        return self._precision

    def log_det_precision(self) -> float:
        """n log tau^2 + 2 log|kappa^2 C + G| - log|C|, from the thinner factor."""
        e = self.elements
        mass = diagonal(self.kappa**2 * e.mass)
        half = log_determinant(sp.csr_array(mass + e.stiffness))
        if half is None:
            raise NumericalError.of(
                "E601",
                "kappa^2 mass + stiffness of `spde` is not positive definite",
                help="the stiffness matrix must be positive semi-definite; see mesh_matrices",
            )
        return self.size * float(np.log(self.tau2)) + 2.0 * half - float(np.log(e.mass).sum())

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        """dQ/dkappa = -2/kappa Q + 4 tau^2 (kappa^3 C + kappa G), dkappa/drange = -kappa/range."""
        k, t = self.kappa, self.tau2
        along = inner(adjoint, self._precision)
        slope = inner(adjoint, self.elements.on_pattern(4.0 * t * k**3, 4.0 * t * k))
        return {
            "sd": np.asarray(-2.0 * along / self.sd),
            "range": np.asarray((2.0 * along - k * slope) / self.range),
        }


def spde(size: int, mass: Matrix, stiffness: Matrix, sd: object, range: object) -> Structure:
    """`mass` (lumped by its row sums where it is not diagonal) and `stiffness`, (n, n), arrays or
    csr. Raises Refused (E303)."""
    value = np.asarray(range, dtype=np.float64)
    if not float(value) > 0.0:
        raise Refused(
            "E303",
            f"`range` of `spde` is {float(value):g}",
            "range",
            label="wanted range > 0",
            help="a distance in the units of the mesh",
        )
    elements = _elements(Content(sp.csr_array(mass)), Content(sp.csr_array(stiffness)))
    return Spde(elements, np.asarray(sd, dtype=np.float64), value)


@lru_cache(maxsize=8)
def _elements(mass: Content, stiffness: Content) -> Elements:
    lumped = np.asarray(sp.csr_array(mass.value).sum(axis=1), dtype=np.float64).reshape(-1)
    if not (lumped > 0.0).all():
        raise Refused(
            "E303",
            "`mass` of `spde` has a row whose sum is not positive",
            "mass",
            entries=np.flatnonzero(~(lumped > 0.0)),
            label="a node without area",
            help="mass, stiffness = lgm.mesh_matrices(points, triangles), every node in a triangle",
        )
    n = len(lumped)
    g = symmetric(sp.csr_array(stiffness.value), "spde", "stiffness")
    if (g.diagonal() < 0.0).any():
        raise Refused(
            "E303",
            "`stiffness` of `spde` has a negative diagonal",
            "stiffness",
            entries=np.flatnonzero(g.diagonal() < 0.0),
            label="wanted positive semi-definite",
            help="-{given}, if it is a Laplacian",
        )
    c = diagonal(lumped)
    square = sp.csr_array(g @ diagonal(1.0 / lumped) @ g)
    pattern = sp.csr_array(_ones(c) + _ones(g) + _ones(square))
    pattern.sort_indices()
    rows = np.repeat(np.arange(n), np.diff(pattern.indptr))
    keys = rows * n + pattern.indices
    parts = []
    for part in (c, g, square):
        part.sort_indices()
        part_keys = np.repeat(np.arange(n), np.diff(part.indptr)) * n + part.indices
        values = np.zeros(len(keys))
        values[np.searchsorted(keys, part_keys)] = part.data
        parts.append(values)
    return Elements(lumped, g, pattern, (parts[0], parts[1], parts[2]))


def _ones(matrix: SparseMatrix) -> SparseMatrix:
    return sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
