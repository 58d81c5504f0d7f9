"""Operator terms to matrices, and matrix adjoints back to the factors' hyperparameters.

Rows run over the predictor's indices in row-major order, columns over the latent's axes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, BoolArray, IntArray, Matrix, SparseMatrix
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Applied, Term, substitute
from lgmdsl.canonical.expressions.coefficient import Coefficient, Gradient, Theta
from lgmdsl.canonical.expressions.named import (
    Axis,
    NamedArray,
    Pick,
    Slot,
    Through,
    compose,
    expand,
    product,
    slot_dims,
    slot_indices,
    sparse_refused,
)
from lgmdsl.canonical.grounding.limits import TERM, counted
from lgmdsl.memory import check
from lgmdsl.numerics.sparse.base import filled, same_pattern
from lgmdsl.operators.base import Operator
from lgmdsl.operators.compose import Sum
from lgmdsl.operators.compose import product as chain
from lgmdsl.operators.explicit import Dense, Identity, Sparse

NONZERO = "~nonzero"  # the axis of a sparse factor's non-zeros; no user's index can have this name


class Over(NamedTuple):
    """What an operator maps: from a `latent` whose axes have these sizes to rows over `dims`;
    `sizes` of all indices."""

    dims: tuple[str, ...]
    latent: tuple[int, ...]
    sizes: Mapping[str, int]

    @property
    def rows(self) -> int:
        """How many rows."""
        return length([self.sizes[d] for d in self.dims])


def operator(terms: Sequence[Term], over: Over, theta: Theta) -> Operator:
    """The (P, n) operator of all terms on one latent.

    Terms that went through an operator stay products of operators; nothing is multiplied out.
    """
    through = []
    for term in terms:
        if term.applied:
            outer, inner = _around(term, term.applied, over, theta)
            through.append(chain(outer, term.applied.transform.operator, inner))
    terms = [t for t in terms if not t.applied]
    if through:
        plain = [operator(terms, over, theta)] if terms else []
        return Sum((*plain, *through)) if len(plain + through) > 1 else through[0]
    if len(terms) == 1 and (
        not terms[0].factors
        and terms[0].row is None
        and terms[0].slots == tuple(Axis(d) for d in over.dims)
        and over.latent == tuple(over.sizes[d] for d in over.dims)
    ):
        return Identity(length(over.latent))
    parts = [_matrix(t, over, theta) for t in terms]
    if any(isinstance(p, np.ndarray) for p in parts):
        return Dense(reduce(add, [p if isinstance(p, np.ndarray) else p.toarray() for p in parts]))
    return Sparse(_sum([sp.csr_array(p) for p in parts]))


def _sum(parts: Sequence[SparseMatrix]) -> SparseMatrix:
    """The sum, on all the places that any part stores: a loading that is 0 keeps its derivative."""
    if len(parts) == 1:
        return parts[0]
    stored = [p.tocoo() for p in parts]
    rows, columns = (np.concatenate(x) for x in zip(*((p.row, p.col) for p in stored), strict=True))
    values = np.concatenate([p.data for p in stored])
    return sp.csr_array((values, (rows, columns)), shape=parts[0].shape)


def _around(term: Term, applied: Applied, over: Over, theta: Theta) -> tuple[Operator, Operator]:
    """What is done with the operator's value, and what the operator is applied to."""
    t = applied.transform
    outer = operator([replace(term, applied=None)], over._replace(latent=t.result), theta)
    return outer, operator(applied.terms, over._replace(dims=t.before), theta)


def pull_operator(
    terms: Sequence[Term], over: Over, theta: Theta, adjoint: Matrix, out: Gradient
) -> None:
    """Add dF/dtheta to `out` from dF/dB, (P, n) dense or csr on B's pattern."""
    for term in terms:
        if term.applied and term.depends:
            _pull_applied(term, term.applied, over, theta, adjoint, out)
            continue
        if not any(f.depends for f in term.factors):
            continue
        grid = grid_of(term, *over, theta)
        pull_grid(grid, np.asarray(adjoint[grid.rows, grid.columns]), theta, out)


def pull_grid(grid: EntryGrid, adjoint: Array, theta: Theta, out: Gradient) -> None:
    """Add dF/dtheta to `out` from dF/d(every entry of a term), (m,)."""
    slopes = NamedArray(grid.joint, adjoint.reshape(grid.extent))
    values = [f.evaluate(theta) for f in grid.factors]
    for k, factor in enumerate(grid.factors):
        if factor.depends:
            others = [slopes, *values[:k], *values[k + 1 :]]
            factor.pull(product(others, factor.dims), theta, out)


def _pull_applied(
    term: Term, applied: Applied, over: Over, theta: Theta, adjoint: Matrix, out: Gradient
) -> None:
    """With B = O T I: dF/dO = dF/dB (T I)', dF/dI = (O T)' dF/dB."""
    t, dense = applied.transform, adjoint if isinstance(adjoint, np.ndarray) else adjoint.toarray()
    outer, inner = _around(term, applied, over, theta)
    if term.factors:
        around = chain(t.operator, inner).matvec(np.ascontiguousarray(dense.T)).T
        plain = [replace(term, applied=None)]
        inside = over._replace(latent=t.result)
        pull_operator(plain, inside, theta, np.ascontiguousarray(around), out)
    if any(term.depends for term in applied.terms):
        within = chain(outer, t.operator).rmatvec(dense)
        pull_operator(applied.terms, over._replace(dims=t.before), theta, within, out)


@dataclass(frozen=True, eq=False)
class EntryGrid:
    """The elementary entries of a term: one for each joint index, or for each non-zero of a
    sparse factor and each other index; entries that meet in one cell add up."""

    joint: tuple[str, ...]
    extent: tuple[int, ...]
    rows: IntArray
    columns: IntArray
    factors: tuple[Coefficient, ...]


def grid_of(
    term: Term,
    dims: tuple[str, ...],
    latent: tuple[int, ...],
    sizes: Mapping[str, int],
    theta: Theta,
) -> EntryGrid:
    """The entries of a term over rows `dims`, on a latent whose axes have the given sizes."""
    index, position = term.row or ("", 0)
    rows: tuple[Slot, ...] = tuple(Pick(position) if d == index else Axis(d) for d in dims)
    row_sizes = [sizes[d] for d in dims]
    sparse = [k for k, f in enumerate(term.factors) if f.dims and f.evaluate(theta).sparse]
    if len(sparse) > 1:
        raise sparse_refused(term.factors[sparse[1]].dims)
    if sparse:
        # The pattern's two axes become one axis of non-zeros, and every index follows.
        pattern = term.factors[sparse[0]].evaluate(theta)
        coo = pattern.values.tocoo()  # type: ignore[union-attr]
        fixed = {
            d: Through(np.asarray(i, dtype=np.int64), (NONZERO,))
            for d, i in zip(pattern.dims, (coo.row, coo.col), strict=True)
        }
        stored = co.Constant((NONZERO,), np.asarray(coo.data, dtype=np.float64))
        sizes = {**sizes, NONZERO: len(coo.data)}
        others = tuple(f for k, f in enumerate(term.factors) if k != sparse[0])
        term = substitute(replace(term, factors=others), fixed, sizes)
        term = replace(term, factors=(stored, *term.factors))
        rows = tuple(compose(r, fixed, sizes) for r in rows)
    joint = co.union(slot_dims(rows), term.joint)
    extent = tuple(sizes[d] for d in joint)
    size = math.prod(extent)
    shown = [d.partition("~")[0] or "the stored entries of a sparse matrix" for d in joint]
    description = f"{counted(size, list(extent))} of a term over {', '.join(shown)}"
    check(
        "a term", description, TERM * size, help="a sum over fewer indices, or `X @ b` with X data"
    )
    return EntryGrid(
        joint,
        extent,
        _ravel(slot_indices(rows, joint, sizes), row_sizes, extent),
        _ravel(slot_indices(term.slots, joint, sizes), latent, extent),
        term.factors,
    )


def _ravel(indices: Sequence[IntArray], sizes: Sequence[int], extent: tuple[int, ...]) -> IntArray:
    flat = np.zeros((1,) * len(extent), dtype=np.int64)
    for index, size in zip(indices, sizes, strict=True):
        flat = flat * size + index
    return np.broadcast_to(flat, extent).ravel()


def length(sizes: Sequence[int]) -> int:
    """How many entries axes of these sizes have."""
    return int(np.prod(sizes, dtype=np.int64)) if sizes else 1


def _matrix(term: Term, over: Over, theta: Theta) -> Matrix:
    index, position = term.row or ("", 0)
    design = _whole_design(term, over, theta)
    if design is not None:
        return design if term.row is None else _at(design, position, over.sizes[index])
    grid = grid_of(term, *over, theta)
    shape = (over.rows, length(over.latent))
    return sp.csr_array((entries(grid, theta).ravel(), (grid.rows, grid.columns)), shape=shape)


def entries(grid: EntryGrid, theta: Theta) -> Array:
    """The values of a term's entries, of the grid's extent."""
    values = np.ones(grid.extent)
    extents = dict(zip(grid.joint, grid.extent, strict=True))
    for factor in grid.factors:
        named = factor.evaluate(theta)
        values *= expand(named, grid.joint, extents) if named.dims else named.dense()
    return values


def is_elementary(term: Term, over: Over, theta: Theta) -> bool:
    """Whether the term is a matrix of elementary entries that stand at the same places at every
    theta."""
    if term.applied or any(f.depends and f.dims and f.evaluate(theta).sparse for f in term.factors):
        return False
    return _whole_design(term, over, theta) is None


def _at(design: Matrix, position: int, size: int) -> Matrix:
    """The rows of a design as every `size`-th ones, from a position; zeros between them. The index
    of predictors is the last of the rows'."""
    rows, columns = design.shape
    if isinstance(design, np.ndarray):
        out = np.zeros((rows, size, columns))
        out[:, position] = design
        return out.reshape(rows * size, columns)
    stored = sp.csr_array(design)
    counts = np.zeros(rows * size + 1, dtype=np.int64)
    counts[1 + position :: size] = np.diff(stored.indptr)
    shape = (rows * size, columns)
    return sp.csr_array((stored.data, stored.indices, np.cumsum(counts)), shape=shape)


def _whole_design(term: Term, over: Over, theta: Theta) -> Matrix | None:
    """`X @ b`: one array over exactly the rows (of the term's row of predictors) and the summed
    axes of the latent, kept whole (dense, or sparse as it came) up to a scalar; None for any other
    term."""
    index, _ = term.row or ("", 0)
    dims, sizes = tuple(d for d in over.dims if d != index), over.sizes
    columns = tuple(s.dim for s in term.slots if isinstance(s, Axis))
    if len(columns) != len(term.slots) or sorted(columns) != sorted(term.summed):
        return None
    order = (*dims, *columns)
    arrays = [f for f in term.factors if f.dims]
    if len(arrays) != 1 or set(arrays[0].dims) != set(order):
        return None
    scalar = 1.0
    for f in term.factors:
        scalar *= 1.0 if f.dims else float(f.evaluate(theta).dense())
    named = arrays[0].evaluate(theta)
    if named.sparse:
        values = named.values if named.dims == order else sp.csr_array(named.values.T)
    else:
        values = expand(named, order, sizes).reshape(length([sizes[d] for d in dims]), -1)
    return values if scalar == 1.0 else scalar * values


# ---- placed ------------------------------------------------------------------------------------
# Where the entries of an operator with hyperparameters in it stand: found once, for every theta.
#
# Only the values of its terms' factors depend on theta. B is a csr matrix whose entry e is the sum
# of the elementary entries that are placed there, and dF/d(an elementary entry) is dF/dB at its
# place.


MAX_PLACES_KEPT = 1_000_000  # elementary entries whose places are kept


@dataclass(frozen=True, eq=False)
class PlacedEntries:
    """Places in B of the entries of terms with these `grids`: `places`, (m,), which of B's stored
    entries each elementary one is added to; `kept`: which of them stand in B's rows, None for all.
    `like` has B's places."""

    grids: tuple[EntryGrid, ...]
    places: IntArray
    kept: BoolArray | None
    like: SparseMatrix

    def at(self, theta: Theta) -> Sparse:
        """B at theta."""
        values = np.concatenate([entries(g, theta).reshape(-1) for g in self.grids])
        values = values if self.kept is None else values[self.kept]
        return Sparse(filled(self.like, np.bincount(self.places, values, self.like.nnz)))

    def holds(self, adjoint: Matrix) -> bool:
        """Whether dF/dB stands on B's pattern."""
        return not isinstance(adjoint, np.ndarray) and same_pattern(adjoint, self.like)

    def pull(self, adjoint: SparseMatrix, theta: Theta, out: Gradient) -> None:
        """Add dF/dtheta to `out` from dF/dB, which stands on B's pattern."""
        slopes = adjoint.data[self.places]
        if self.kept is not None:
            every = np.zeros(len(self.kept))
            every[self.kept] = slopes
            slopes = every
        start = 0
        for grid in self.grids:
            end = start + len(grid.rows)
            if any(f.depends for f in grid.factors):
                pull_grid(grid, slopes[start:end], theta, out)
            start = end


def placed(
    terms: Sequence[Term], over: Over, theta: Theta, rows: IntArray | None
) -> PlacedEntries | None:
    """The places of all terms on one latent, over all rows or some of them, each once. None where B
    is no such matrix (an operator of the language, a design that is kept whole, a pattern that
    depends on theta), where a row is wanted twice, and where entries are too many to be kept.
    """
    if not all(is_elementary(t, over, theta) for t in terms):
        return None
    grids = tuple(grid_of(t, *over, theta) for t in terms)
    if sum(len(g.rows) for g in grids) > MAX_PLACES_KEPT:
        return None
    row, column = (
        np.concatenate(x) for x in zip(*((g.rows, g.columns) for g in grids), strict=True)
    )
    height, width = over.rows, length(over.latent)
    kept = None
    if rows is not None:
        order = np.full(height, -1)
        order[rows] = np.arange(len(rows))
        if (order[rows] != np.arange(len(rows))).any():
            return None
        row, height = order[row], len(rows)
        kept = row >= 0
        row, column = row[kept], column[kept]
    keys, places = np.unique(row * width + column, return_inverse=True)
    stored, indices = np.divmod(keys, max(width, 1))
    indptr = np.searchsorted(stored, np.arange(height + 1))
    like = sp.csr_array((np.zeros(len(keys)), indices, indptr), shape=(height, width))
    like.has_canonical_format = True
    return PlacedEntries(grids, places.reshape(-1), kept, like)
