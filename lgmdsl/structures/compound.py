"""compound(sd, rho): compound symmetry, any two members equally correlated.

K = sd^2 ((1 - rho) I + rho 11'),   Q = a I + b 11',
a = 1 / (sd^2 (1 - rho)),   b = -a rho / (1 + (n - 1) rho),   -1 / (n - 1) < rho < 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, Matrix, SparseMatrix
from lgmdsl.contract.structure import Members, Shape, Structure
from lgmdsl.structures.shared.by_member import by_member
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.vocabulary.lookup import declared

STORED = 100  # members up to which Q, of which every entry is stored, is offered


@dataclass(frozen=True, eq=False)
class Compound(Structure):
    """sd is the marginal, rho the correlation of any two members."""

    sd: Array
    order: int
    rho: Array
    signature = declared("structure", "compound")
    members: ClassVar[Members] = Members.JOINED

    @property
    def size(self) -> int:
        return self.order

    @property
    def shape(self) -> Shape:
        stored = Shape.PRECISION | Shape.SPARSE if self.order <= STORED else Shape.NONE
        return Shape.COVARIANCE | stored

    @property
    def _whole(self) -> float:
        """1 + (n - 1) rho, the eigenvalue of 11' over sd^2."""
        return 1.0 + (self.order - 1) * float(self.rho)

    def variance(self) -> Array:
        return np.full(self.order, float(self.sd) ** 2)

    def covariance(self) -> Array:
        out = np.full((self.order, self.order), float(self.sd) ** 2 * float(self.rho))
        np.fill_diagonal(out, float(self.sd) ** 2)
        return out

    def covariance_at(self, rows: IntArray, columns: IntArray) -> Array:
        return np.asarray(float(self.sd) ** 2 * np.where(rows == columns, 1.0, float(self.rho)))

    def precision(self) -> SparseMatrix:
        """Every entry stored, zeros too: the adjoint needs them all."""
        n, rho = self.order, float(self.rho)
        a = 1.0 / (float(self.sd) ** 2 * (1.0 - rho))
        out = np.full((n, n), -a * rho / self._whole)
        out[np.arange(n), np.arange(n)] += a
        columns, starts = np.tile(np.arange(n), n), np.arange(n + 1) * n
        return sp.csr_array((out.reshape(-1), columns, starts), shape=(n, n))

    def log_det_precision(self) -> float:
        n = self.order
        return float(
            -2.0 * n * np.log(self.sd) - (n - 1) * np.log1p(-self.rho) - np.log(self._whole)
        )

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        """dK/drho = sd^2 away from the diagonal."""
        apart = float(self.sd) ** 2 * (adjoint.sum() - np.trace(adjoint))
        by_sd = 2.0 * np.sum(adjoint * self.covariance()) / self.sd
        return {"sd": np.asarray(by_sd), "rho": np.asarray(apart)}

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        """da/drho = a / (1 - rho), db/drho = -a (rho / ((1 - rho) d) + 1 / d^2), with
        d = 1 + (n - 1) rho."""
        rho, d = float(self.rho), self._whole
        a = 1.0 / (float(self.sd) ** 2 * (1.0 - rho))
        trace, total = float(adjoint.diagonal().sum()), float(adjoint.sum())
        slope = a / (1.0 - rho) * trace - a * (rho / ((1.0 - rho) * d) + d**-2) * total
        by_sd = -2.0 * a * (trace - rho / d * total) / self.sd
        return {"sd": np.asarray(by_sd), "rho": np.asarray(slope)}


def compound(size: int, sd: object, rho: object) -> Structure:
    """`sd` a number, or (n,). Raises Refused (E303) unless -1 / (n - 1) < rho < 1."""
    value = np.asarray(rho, dtype=np.float64)
    least = -1.0 / (size - 1) if size > 1 else -np.inf
    if not least < float(value) < 1.0:
        raise Refused(
            "E303",
            f"`rho` of `compound` is {float(value):g}",
            "rho",
            label=f"wanted {max(least, -1.0):g} < rho < 1, of {size} members",
            help="more than two members cannot all be correlated at -1; give `rho` a prior that "
            f"stays within: uniform(lower = {max(least, -1.0):.6g}, upper = 1)",
        )
    return by_member(sd, lambda one: Compound(one, size, value))
