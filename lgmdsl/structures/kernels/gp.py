"""gp(at, kernel): a Gaussian process at given inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.structure import Members, Shape, Structure
from lgmdsl.structures.kernels.kernels import Kernel
from lgmdsl.vocabulary.lookup import declared


@dataclass(frozen=True, eq=False)
class Gp(Structure):
    """K_ij = k(at_i, at_j), (n, n), possibly singular; `at` is (n, d).

    Slopes are keyed `kernel.` + the path in the kernel's tree: `kernel.sd`, `kernel.1.length`.
    """

    at: Array
    kernel: Kernel
    signature = declared("structure", "gp")
    members: ClassVar[Members] = Members.JOINED

    @property
    def size(self) -> int:
        return len(self.at)

    @property
    def shape(self) -> Shape:
        return Shape.COVARIANCE

    @property
    def coordinates(self) -> Array:
        return self.at

    def variance(self) -> Array:
        return self.kernel.diagonal(self.at)

    @cached_property
    def _matrix(self) -> Array:
        return self.kernel.matrix(self.at)

    def covariance(self) -> Array:
        """Computed once; not to be written to."""
        return self._matrix

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        slopes = self.kernel.pullback(self.at, adjoint)
        return {f"kernel.{path}": slope for path, slope in slopes.items()}


def gp(size: int, at: object, kernel: Kernel) -> Gp:
    """`gp(at, kernel)` at `size` inputs, one number or one row each."""
    inputs = np.asarray(at, dtype=np.float64)
    return Gp(np.ascontiguousarray(inputs.reshape(size, -1)), kernel)
