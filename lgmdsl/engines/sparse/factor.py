"""The sparse factor of A: the covariance on A's pattern by the selected inverse, else by solves.

A functional whose rows each touch latents that are neighbours in A needs the selected inverse only;
another one takes a triangular solve for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.stacked import row_slices
from lgmdsl.engines.shared.by_precision import PrecisionFactor
from lgmdsl.engines.shared.conditioned import CHUNK
from lgmdsl.engines.shared.constraints import left
from lgmdsl.engines.shared.design import sparse_rows
from lgmdsl.engines.shared.restriction import Restriction
from lgmdsl.engines.shared.weights import SiteWeight
from lgmdsl.engines.sparse.pair_table import EntryPairs, table_of
from lgmdsl.numerics.sparse.base import entries_of, same_pattern

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.engines.sparse.engine import SparseEngine

NARROW = 32  # latents in a row of a functional


@dataclass(frozen=True, eq=False)
class Wanted:
    """The entries of V, at `rows` and `columns`, that diag(XVX') is made of in the `narrow` rows of
    X, and `place`, that of each pair of latents of a row among them."""

    x: SparseMatrix
    narrow: IntArray
    pairs: EntryPairs
    lines: int
    rows: IntArray
    columns: IntArray
    place: IntArray

    @classmethod
    def of(cls, x: SparseMatrix) -> Wanted:
        """What is wanted of the rows of X, csr; the last ones are kept, as every point of a mixture
        is asked the same."""
        for known in LAST:
            if same_pattern(known.x, x) and np.array_equal(known.x.data, x.data):
                return known
        narrow = np.flatnonzero(np.diff(x.indptr) <= NARROW)
        pairs, lines = table_of(sp.csr_array(x[narrow]), [Predictor({}, np.empty(len(narrow)))])
        keys, place = np.unique(pairs.key, return_inverse=True)
        columns, rows = np.divmod(keys, x.shape[1])
        found = cls(x, narrow, pairs, lines, rows, columns, place)
        if x.nnz <= KNOWN:
            LAST[:] = [found]
        return found

    def summed(self, entries: Array) -> Array:
        """The sums over the pairs of each narrow row, from an entry for each that is wanted."""
        sums = np.bincount(self.pairs.line, self.pairs.value * entries[self.place], self.lines)
        return np.asarray(sums, dtype=np.float64)


KNOWN = 1_000_000  # entries of X up to which what it wants is kept
LAST: list[Wanted] = []


class SparseFactor(PrecisionFactor):
    """A as `restriction` has it factored."""

    engine: SparseEngine

    def __init__(self, engine: SparseEngine, weight: Rows, restriction: Restriction) -> None:
        super().__init__(engine, weight)
        self.restriction, self.table = restriction, engine.table

    @property
    def half_log_det(self) -> float:
        return self.restriction.half_log_det

    def placed(self, h: Array, target: Array) -> Array:
        return self.restriction.place(self.restriction.factor.solve(h), target)

    def solve(self, rhs: Array) -> Array:
        return self.restriction.solve(np.ascontiguousarray(rhs))

    def scattered(self, rng: Generator, size: int) -> Array:
        return self.restriction.draws(rng, size)

    @cached_property
    def covariance(self) -> Array:
        """(nnz,) V on A's pattern."""
        return self.restriction.on_pattern(self.table.pattern)

    def entries(self, rows: IntArray, columns: IntArray) -> Array:
        return np.asarray(self.covariance[self.table.pattern.find(rows, columns)])

    def variance(self) -> Sequence[Array]:
        return self.table.variance(self.covariance)

    def latent_variance(self) -> Array:
        return np.asarray(self.covariance[self.table.pattern.on_diagonal])

    def functional(self, x: SparseMatrix) -> Array:
        variance = self._by_pattern(x)
        far = np.flatnonzero(np.isnan(variance))
        step = max(1, CHUNK // max(self.linear.size, 1))
        for start in range(0, len(far), step):
            some = far[start : start + step]
            part = sp.csr_array(x[some])
            half = self.restriction.factor.forward(np.ascontiguousarray(part.toarray().T))
            free = np.einsum("ij,ij->j", half, half)
            variance[some] = left(free, self.restriction.lost(part))
        return variance

    def _by_pattern(self, x: SparseMatrix) -> Array:
        """diag(XVX') from entries of V that the factor's pattern holds; NaN where one is not, and
        for rows so wide that a solve is cheaper."""
        asked, out = Wanted.of(x), np.full(x.shape[0], np.nan)
        free = self.restriction.factor.entries(asked.rows, asked.columns)
        lost = self.restriction.entries_lost(asked.rows, asked.columns)
        out[asked.narrow] = left(asked.summed(free), asked.summed(lost))
        return out

    def crossed(self, k: int, name: str) -> Array:
        p, where = self.linear.predictors[k], self.linear.slices[name]
        operator, rows = p.columns[name], row_slices(self.linear.predictors)[k]
        weight = SiteWeight((p,), (self.weight[k],))
        if not operator.is_sparse:  # its zeros may be hyperparameters, and are not in A
            dense = self.solve(sparse_rows(p, self.linear).toarray().T)[where].T
            return weight.times(np.ascontiguousarray(dense))
        pattern = operator.sparse()
        line, columns = entries_of(pattern)
        if self._products is not None and pattern.has_canonical_format:
            return np.asarray(self.weight[k][line] * self._products[self._places(rows, where)])
        weighted = sp.csr_array(weight.sparse() @ self.engine.b[rows])
        products = sp.csr_array(weighted @ self._neighbouring[:, where])
        return np.asarray(products[line, columns]).reshape(-1)

    @cached_property
    def _products(self) -> Array | None:
        """(nnz of B,) BV at B's places; None where sites are vectors, or B is large."""
        scalar = not any(p.event for p in self.linear.predictors)
        return self.table.product(self.covariance) if scalar and self.table.small else None

    def _places(self, rows: slice, columns: slice) -> IntArray:
        """Where B's entries of some rows and columns stand, in order."""
        b = self.engine.b
        start, stop = b.indptr[rows.start], b.indptr[rows.stop]
        index = b.indices[start:stop]
        inside = (index >= columns.start) & (index < columns.stop)
        return np.asarray(start + np.flatnonzero(inside))

    @cached_property
    def _neighbouring(self) -> SparseMatrix:
        """V on A's pattern, csr: the products that the adjoints of B take from it are complete."""
        return self.table.pattern.matrix(self.covariance)
