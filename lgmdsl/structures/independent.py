"""Structures without correlation: normal, iid, flat; and dense, a covariance given as it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, Matrix, SparseMatrix
from lgmdsl.contract.structure import Members, Regression, Shape, Structure
from lgmdsl.numerics.cholesky import Cholesky, cholesky
from lgmdsl.vocabulary.lookup import declared

INVERTED = 100  # a covariance of at most this size may be inverted,
CONDITION = 1e-9  # if its correlations' reciprocal condition is above this

_ALL = Shape.COVARIANCE | Shape.PRECISION | Shape.DIAGONAL | Shape.SPARSE


@dataclass(frozen=True, eq=False)
class Normal(Structure):
    """Independent normals: K = diag(sd^2); `mean` and `sd` are scalars or (n,).

    Where an sd is 0 the latent is a constant, and there is no precision.
    """

    order: int
    mean_: Array
    sd: Array
    signature = declared("structure", "normal")
    members: ClassVar[Members] = Members.JOINED
    chained: ClassVar[bool] = True

    def __init__(self, size: int, mean: object, sd: object) -> None:
        object.__setattr__(self, "order", int(size))
        object.__setattr__(self, "mean_", np.asarray(mean, dtype=np.float64))
        object.__setattr__(self, "sd", np.asarray(sd, dtype=np.float64))

    @property
    def size(self) -> int:
        return self.order

    @cached_property
    def shape(self) -> Shape:
        return _ALL if np.all(self.sd > 0) else _ALL & ~(Shape.PRECISION | Shape.SPARSE)

    def mean(self) -> Array | None:
        return _filled(self.mean_, self.order)

    def variance(self) -> Array:
        return _filled(self.sd, self.order) ** 2

    def covariance(self) -> Array:
        return np.diag(self.variance())

    def precision(self) -> SparseMatrix:
        return _diagonal(1.0 / self.variance())

    def log_det_precision(self) -> float:
        return float(-2.0 * np.log(_filled(self.sd, self.order)).sum())

    def covariance_at(self, rows: IntArray, columns: IntArray) -> Array:
        return np.where(rows == columns, self.variance()[rows], 0.0)

    def regression(self, members: IntArray, before: IntArray) -> Regression:
        """They say nothing."""
        return Regression(np.zeros(len(members)), self.variance()[members])

    def pullback_regression(
        self, members: IntArray, before: IntArray, slope: Array, variance: Array
    ) -> dict[str, Array]:
        by_member = np.bincount(members, variance, self.order)
        return {"sd": _summed(2.0 * _filled(self.sd, self.order) * by_member, self.sd)}

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        """dF/dsd_i = 2 sd_i dF/dK_ii, summed where sd is one number."""
        return {"sd": _summed(2.0 * _filled(self.sd, self.order) * adjoint.diagonal(), self.sd)}

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        """dF/dsd_i = -2 sd_i^-3 dF/dQ_ii."""
        slope = -2.0 * adjoint.diagonal() / _filled(self.sd, self.order) ** 3
        return {"sd": _summed(slope, self.sd)}

    def pullback_mean(self, adjoint: Array) -> dict[str, Array]:
        """dF/dmean from dF/dmu, summed where the mean is one number."""
        return {"mean": _summed(adjoint, self.mean_)}


@dataclass(frozen=True)
class Iid(Structure):
    """K = I: the identity factor of a product."""

    order: int
    signature = declared("structure", "iid")
    members: ClassVar[Members] = Members.JOINED

    @property
    def size(self) -> int:
        return self.order

    @property
    def shape(self) -> Shape:
        return _ALL

    def variance(self) -> Array:
        return np.ones(self.order)

    def covariance(self) -> Array:
        return np.eye(self.order)

    def precision(self) -> SparseMatrix:
        return _diagonal(np.ones(self.order))

    def covariance_at(self, rows: IntArray, columns: IntArray) -> Array:
        return np.where(rows == columns, 1.0, 0.0)

    def log_det_precision(self) -> float:
        return 0.0

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        return {}

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        return {}


@dataclass(frozen=True)
class Flat(Structure):
    """Density 1 everywhere: Q = 0, every direction improper (diagonal with infinite variance)."""

    order: int
    signature = declared("structure", "flat")
    members: ClassVar[Members] = Members.JOINED

    @property
    def size(self) -> int:
        return self.order

    @property
    def shape(self) -> Shape:
        return Shape.PRECISION | Shape.DIAGONAL | Shape.SPARSE | Shape.IMPROPER

    def variance(self) -> Array:
        return np.full(self.order, np.inf)

    def precision(self) -> SparseMatrix:
        return sp.csr_array((self.order, self.order))

    def log_det_precision(self) -> float:
        return 0.0

    def null_space(self) -> Array:
        return np.eye(self.order)

    @property
    def nullity(self) -> int:
        return self.order

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        return {}


@dataclass(frozen=True, eq=False)
class Dense(Structure):
    """A covariance given as an (n, n) array, possibly singular.

    A small and well-conditioned one offers its precision too, so that products with sparse factors
    (correlated effects of many subjects, of regions) stay sparse; another one is never inverted.
    """

    cov: Array
    signature = declared("structure", "dense")

    @property
    def size(self) -> int:
        return len(self.cov)

    @property
    def shape(self) -> Shape:
        if self._factor is None:
            return Shape.COVARIANCE
        return Shape.COVARIANCE | Shape.PRECISION | Shape.SPARSE

    @cached_property
    def _factor(self) -> Cholesky | None:
        if self.size > INVERTED:
            return None
        scale = 1.0 / np.sqrt(np.maximum(self.cov.diagonal(), 1e-300))
        unit = self.cov * scale[:, None] * scale
        factor, norm = cholesky(unit.copy()), float(np.abs(unit).sum(axis=0).max(initial=0.0))
        if factor is None or factor.reciprocal_condition(norm) < CONDITION:
            return None
        return cholesky(self.cov.copy())

    def covariance(self) -> Array:
        return self.cov

    @cached_property
    def _inverse(self) -> Array:
        if self._factor is None:
            raise TypeError("this covariance is not inverted")
        return self._factor.inverse()

    def precision(self) -> SparseMatrix:
        """Every entry stored, zeros too: the adjoint needs them all."""
        n = self.size
        columns, starts = np.tile(np.arange(n), n), np.arange(n + 1) * n
        return sp.csr_array((self._inverse.reshape(-1), columns, starts), shape=(n, n))

    def covariance_at(self, rows: IntArray, columns: IntArray) -> Array:
        return np.asarray(self.cov[rows, columns])

    def log_det_precision(self) -> float:
        assert self._factor is not None
        return -2.0 * self._factor.half_log_det

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        return {"cov": adjoint}

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        """dF/dcov = -Q dF/dQ Q."""
        dense = adjoint if isinstance(adjoint, np.ndarray) else adjoint.toarray()
        return {"cov": -self._inverse @ dense @ self._inverse}


def dense(size: int, cov: object) -> Dense:
    """`dense(cov)` with a covariance of any layout in memory."""
    return Dense(np.ascontiguousarray(cov, dtype=np.float64))


def _filled(value: Array, size: int) -> Array:
    return np.full(size, float(value)) if value.ndim == 0 else value.reshape(-1)


def _summed(slope: Array, like: Array) -> Array:
    return np.asarray(slope.sum()) if like.ndim == 0 else slope.reshape(like.shape)


def _diagonal(values: Array) -> SparseMatrix:
    n = len(values)
    return sp.csr_array((values, np.arange(n), np.arange(n + 1)), shape=(n, n))
