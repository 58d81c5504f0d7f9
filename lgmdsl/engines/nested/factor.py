"""The groups' factors and the border's: what solves with A = Q + B'WB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.stacked import row_slices, split_like
from lgmdsl.engines.nested.border import Border, BorderMatrix
from lgmdsl.engines.nested.nest import GroupMatrices, Nest
from lgmdsl.engines.shared.by_precision import PrecisionFactor
from lgmdsl.engines.shared.conditioned import CHUNK
from lgmdsl.engines.shared.constraints import left
from lgmdsl.engines.shared.restriction import Restriction
from lgmdsl.numerics.sparse.base import entries_of

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.engines.nested.engine import NestedEngine

NARROW = 32  # entries of a functional, whose pairs take no longer than a solve


class GroupFactors(NamedTuple):
    """L and T of the groups; `half`: sum log|L|; `data`, (nnz,): what they leave of B'WB on S's
    pattern; `total`, (p,): diag X'WX."""

    groups: GroupMatrices
    half: float
    data: Array
    total: Array


def eliminated(nest: Nest, border: Border, prior: Array, weight: Array) -> GroupFactors | None:
    """The groups eliminated, `prior` being Q_g of each, (r, r), in a row; None where one is not
    positive definite."""
    from lgmdsl.engines.nested import plain_kernels
    from lgmdsl.engines.nested.kernels import eliminate, gather

    groups = GroupMatrices(
        nest.square_start, nest.cross_start, prior.copy(), np.zeros(nest.cross_start[-1])
    )
    shared = border.zeros()
    if nest.plain and border.dense:
        square = shared.values.reshape(shared.size, shared.size)
        plain_kernels.gather(nest.lines, weight, groups.square, groups.cross, square)
    else:
        lines, order = nest.by_group
        gather(lines, weight if order is None else weight[order], groups, shared)
    total = border.diagonal(shared)
    half = eliminate(nest.lines, groups, shared)
    return GroupFactors(groups, half, border.on_pattern(shared), total) if half == half else None


class NestedFactor(PrecisionFactor):
    """A by the factors of groups and that of S, both on the constraints."""

    engine: NestedEngine

    def __init__(
        self, engine: NestedEngine, weight: Rows, groups: GroupFactors, border: Restriction
    ) -> None:
        super().__init__(engine, weight)
        self.nest, self.border = engine.nest, engine.border
        self.groups, self.half, self.restriction = groups.groups, groups.half, border

    @property
    def half_log_det(self) -> float:
        return self.half + self.restriction.half_log_det

    def placed(self, h: Array, target: Array) -> Array:
        def solve(border: Array) -> Array:
            placed = self.restriction.place(self.restriction.factor.solve(border[:, 0]), target)
            return placed[:, None]

        return self._solved(h[:, None], solve)[:, 0]

    def solve(self, rhs: Array) -> Array:
        return self._solved(rhs, self.restriction.solve)

    def _solved(self, rhs: Array, solve: Callable[[Array], Array]) -> Array:
        """A^-1 rhs for (n, m), `solve` being that of S."""
        from lgmdsl.engines.nested.kernels import backward, forward

        inner, border = (np.array(rhs[i], order="C") for i in (self.nest.inner, self.nest.border))
        forward(self.nest.lines, self.groups, inner, border)
        border = np.ascontiguousarray(solve(border))
        backward(self.nest.lines, self.groups, inner, border)
        return self.nest.joined(inner, border)

    def scattered(self, rng: Generator, size: int) -> Array:
        from lgmdsl.engines.nested.kernels import backward

        border = np.ascontiguousarray(self.restriction.draws(rng, size))
        inner = rng.standard_normal((len(self.nest.inner), size))
        backward(self.nest.lines, self.groups, inner, border)
        return self.nest.joined(inner, border)

    @cached_property
    def covariances(self) -> tuple[GroupMatrices, BorderMatrix]:
        """V where rows and priors join latents: of groups, and S^-1."""
        from lgmdsl.engines.nested.kernels import covariances

        inverse = self.border.shared(self._on_border)
        square, cross = np.zeros(len(self.groups.square)), np.zeros(len(self.groups.cross))
        known = GroupMatrices(self.nest.square_start, self.nest.cross_start, square, cross)
        covariances(self.nest.lines, self.groups, inverse, known)
        return known, inverse

    @cached_property
    def _on_border(self) -> Array:
        """(nnz,) S^-1 on its pattern."""
        return self.restriction.on_pattern(self.border.pattern)

    def entries(self, rows: IntArray, columns: IntArray) -> Array:
        i, j = self.nest.position[rows], self.nest.position[columns]
        if (i < 0).all():
            return np.asarray(self._on_border[self.border.pattern.find(-1 - i, -1 - j)])
        return np.asarray(self.covariances[0].square[self.nest.in_group(i, j)])

    def latent_variance(self) -> Array:
        places = np.arange(len(self.nest.inner))
        own = self.covariances[0].square[self.nest.in_group(places, places)]
        return self.nest.joined(own, self._on_border[self.border.pattern.on_diagonal])

    def variance(self) -> Sequence[Array]:
        from lgmdsl.engines.nested import plain_kernels
        from lgmdsl.engines.nested.kernels import row_variances

        known, inverse = self.covariances
        out, lines = np.zeros(sum(w.size for w in self.weight)), self.nest.lines
        if self.nest.plain and self.border.dense:
            s = inverse.values.reshape(inverse.size, inverse.size)
            plain_kernels.row_variances(lines, self.groups.square, self.groups.cross, s, out)
        else:
            lines, order = self.nest.by_group
            row_variances(lines, self.groups, known, inverse, out)
            if order is not None:
                out[order] = out.copy()
        return split_like(out, self.weight)

    def functional(self, x: SparseMatrix) -> Array:
        from lgmdsl.engines.nested.kernels import pair_sums

        nest, variance = self.nest, np.full(x.shape[0], np.nan)
        narrow = np.flatnonzero(np.diff(x.indptr) <= NARROW)
        if len(nest.lines.columns) and len(narrow):
            part = sp.csr_array(x[narrow])
            line, columns = entries_of(part)
            position, group = nest.position[columns], np.full(len(narrow), -1)
            inner = position >= 0
            group[line[inner]] = nest.group[position[inner]]
            local = nest.local(group[line], position)
            column, starts = np.where(inner, -1, -1 - position), part.indptr.astype(np.int64)
            out = np.empty(len(narrow))
            known, sizes = self.covariances, nest.sizes
            pair_sums(*known, sizes, starts, group, local, column, part.data, out)
            variance[narrow] = out
        far = np.flatnonzero(np.isnan(variance))
        step = max(1, CHUNK // max(len(self.nest.border), 1))
        for start in range(0, len(far), step):
            some = far[start : start + step]
            variance[some] = self._by_solves(sp.csr_array(x[some]))
        return variance

    def _by_solves(self, x: SparseMatrix) -> Array:
        """diag(XVX') for rows X, (m, n) csr without duplicates."""
        from lgmdsl.engines.nested.kernels import split_rows

        line, columns = entries_of(x)
        position = self.nest.position[columns]
        inner = np.flatnonzero(position >= 0)
        inner = inner[np.lexsort((position[inner], line[inner]))]
        border = np.zeros((x.shape[0], len(self.nest.border)))
        outer = position < 0
        border[line[outer], -1 - position[outer]] = x.data[outer]
        starts = np.searchsorted(line[inner], np.arange(x.shape[0] + 1))
        free, places = np.zeros(x.shape[0]), position[inner]
        lines, group = self.nest.lines, self.nest.group
        split_rows(lines, self.groups, starts, places, x.data[inner], group, border, free)
        half = self.restriction.factor.forward(np.ascontiguousarray(border.T))
        free += np.einsum("ij,ij->j", half, half)
        return left(free, self.restriction.lost(border))

    def crossed(self, k: int, name: str) -> Array:
        from lgmdsl.engines.nested.kernels import crossed

        predictors, nest = self.linear.predictors, self.nest
        p, rows = predictors[k], row_slices(predictors)[k]
        operator = p.columns[name]
        if operator.is_sparse:
            pattern = sp.csr_array(operator.sparse())
            line, columns = entries_of(pattern)
            starts = pattern.indptr.astype(np.int64)
        else:
            line, columns = (i.reshape(-1) for i in np.indices(operator.shape))
            starts = np.arange(p.rows + 1) * operator.shape[1]
        position = nest.position[self.linear.slices[name]][columns]
        first = sum(q.rows // max(q.event, 1) for q in predictors[:k])
        group = nest.lines.group[first + line // max(p.event, 1)].astype(np.int64)
        local, out = nest.local(group, position), np.zeros(len(line))
        weight, within = (
            np.concatenate([w.reshape(-1) for w in self.weight]),
            (rows.start, rows.stop),
        )
        crossed(nest.lines, weight, *self.covariances, within, starts, local, out)
        return out if operator.is_sparse else out.reshape(operator.shape)
