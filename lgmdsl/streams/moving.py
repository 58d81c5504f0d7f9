"""What depends on hyperparameters in the predictors of a batch of rows, and the cells of these:
rows with equal inputs to one of its parts (`multipliers.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine, Term
from lgmdsl.canonical.expressions.coefficient import Coefficient, Theta
from lgmdsl.canonical.expressions.named import Slot, Through, compose, expand
from lgmdsl.canonical.lowering import flatten
from lgmdsl.errors import DataError
from lgmdsl.streams.multipliers import CELL, ONE, Multiplier, Multipliers, Piece, not_finite
from lgmdsl.streams.refusals import UNEQUAL, refused


@dataclass(frozen=True, eq=False)
class Moving:
    """A term, or a part of an offset, with hyperparameters, of the observed `rows`, (n,), of a
    batch, which each touch W entries of `latent` by it: `codes`, W of (n,), and `values`, W of
    (n,), what its data multiply. `node`: the product of its factors with hyperparameters, over the
    batch (`index`) or not, and `rest`, W entries."""

    latent: str
    codes: tuple[IntArray, ...]
    values: tuple[Array, ...]
    node: Coefficient
    rows: IntArray
    index: str
    rest: tuple[str, ...]
    sizes: Mapping[str, int]

    @property
    def by_rows(self) -> bool:
        return self.index in self.node.dims


def still(form: Affine) -> Affine:
    """A form without what depends on hyperparameters."""
    terms = tuple(t for t in form.terms if not t.depends)
    parts = tuple(p for p in _summands(form.offset) if not p.depends)
    return replace(form, terms=terms, offset=co.add(*parts) if parts else co.number(0.0))


def moving(
    block: SiteBlock, latents: Mapping[str, tuple[int, ...]], theta: Theta
) -> tuple[Moving, ...]:
    """What depends on hyperparameters in the predictor of the rows of a block, over one index.
    `latents`: their sizes. Raises MethodError E501 where rows touch different numbers of entries,
    DataError E303 for data that are not finite."""
    out = [
        _of_term(block, term, latents[term.latent], theta)
        for term in block.form.terms
        if term.depends
    ]
    slot = Term(ONE, (), ())
    for part in _summands(block.form.offset):
        if part.depends:
            out.append(_of_term(block, replace(slot, factors=co.factors_of(part)), (), theta))
    return tuple(out)


def _summands(offset: Coefficient) -> tuple[Coefficient, ...]:
    return offset.terms if isinstance(offset, co.Total) else (offset,)


def _of_term(block: SiteBlock, term: Term, latent: tuple[int, ...], theta: Theta) -> Moving:
    (index,) = block.dims
    sizes = {**block.sizes, **block.form.sizes}
    if any(f.depends and f.sparse for f in term.factors):
        raise refused(block, "a sparse matrix is next to a hyperparameter")
    grid = flatten.grid_of(term, block.dims, latent, sizes, theta)
    if index not in grid.joint:
        raise refused(block, UNEQUAL)
    extents = dict(zip(grid.joint, grid.extent, strict=True))
    rest = tuple(d for d in grid.joint if d != index)
    width = math.prod(extents[d] for d in rest)
    at = grid.joint.index(index)

    def by_rows(x: Any) -> Any:
        moved = np.moveaxis(np.reshape(x, grid.extent), at, 0).reshape(extents[index], width)
        return moved[block.rows].T

    known = [f.evaluate(theta) for f in grid.factors if not f.depends]
    values = np.ones(grid.extent)
    for named in known:
        values = values * expand(named, grid.joint, extents)
    data = np.ascontiguousarray(by_rows(values))
    if not np.isfinite(data).all():
        raise DataError(not_finite(block.name, block.span))
    node = co.multiply(*(f for f in grid.factors if f.depends))
    codes = tuple(np.ascontiguousarray(c) for c in by_rows(grid.columns))
    return Moving(term.latent, codes, tuple(data), node, block.rows, index, rest, extents)


@dataclass
class Cells:
    """The cells of one `Moving` over all batches, as they are found: `pieces`, of those that a
    batch was the first to have."""

    pieces: list[Piece] = field(default_factory=list)
    known: dict[bytes, int] = field(default_factory=dict)

    def add(self, part: Moving) -> IntArray | None:
        """(n,) the cell of each row; None where all rows are one."""
        sizes = {d: part.sizes[d] for d in part.rest}
        if not part.by_rows:
            if not self.pieces:
                self.pieces.append(Piece(part.node, 1, part.rest, sizes))
            return None
        inputs = _inputs(part.node, part.index, part.sizes[part.index])[part.rows]
        distinct, first, cell = np.unique(inputs, axis=0, return_index=True, return_inverse=True)
        numbers = np.empty(len(distinct), dtype=np.int64)
        new: list[int] = []
        for k, row in enumerate(distinct):
            key = row.tobytes()
            if key not in self.known:
                self.known[key] = len(self.known)
                new.append(int(part.rows[first[k]]))
            numbers[k] = self.known[key]
        if new:
            node = _at_rows(part.node, part.index, np.array(new))
            self.pieces.append(Piece(node, len(new), part.rest, sizes))
        return numbers[cell.reshape(-1)]

    @property
    def count(self) -> int:
        """How many cells tell places apart, 0 where all rows are one."""
        return len(self.known)


def _inputs(node: Coefficient, index: str, size: int) -> Array:
    """(n, L): what a node over an index is computed from, row by row, next to hyperparameters."""
    parts = []
    for part in node.order:
        if isinstance(part, co.Constant) and index in part.dims:
            parts.append(_rows_first(part.values, part.dims, index, size))
        for slot in part.slots if isinstance(part, co.Gather) else ():
            if isinstance(slot, Through) and index in slot.dims:
                parts.append(_rows_first(slot.positions, slot.dims, index, size))
    out = np.concatenate(parts, axis=1)
    return np.ascontiguousarray(out + 0.0)  # -0 is 0


def _rows_first(values: Any, dims: tuple[str, ...], index: str, size: int) -> Array:
    moved = np.moveaxis(np.asarray(values, dtype=np.float64), dims.index(index), 0)
    return moved.reshape(size, -1)


def _at_rows(node: Coefficient, index: str, rows: IntArray) -> Coefficient:
    """A node over an index, at some of its members, over CELL; nothing of the others is kept."""
    places: dict[str, Slot] = {index: Through(rows, (CELL,))}
    made: dict[int, Coefficient] = {}
    for part in node.order:
        children = {id(c): made[id(c)] for c in part.children}
        if isinstance(part, co.Constant) and index in part.dims:
            axis = part.dims.index(index)
            taken = np.take(np.asarray(part.values), rows, axis=axis)
            made[id(part)] = co.Constant(_renamed(part.dims, index), taken)
            continue
        if isinstance(part, co.Gather):
            slots = tuple(compose(s, places, {**part.sizes}) for s in part.slots)
            sizes = {**part.sizes, CELL: len(rows)}
            made[id(part)] = co.Gather(_renamed(part.dims, index), part.operand, slots, sizes)
            continue
        changed: dict[str, Any] = {"dims": _renamed(part.dims, index)}
        for f in fields(part):
            value = getattr(part, f.name)
            if isinstance(value, Coefficient):
                changed[f.name] = children[id(value)]
            elif isinstance(value, tuple) and value and isinstance(value[0], Coefficient):
                changed[f.name] = tuple(children[id(c)] for c in value)
        made[id(part)] = replace(part, **changed)
    return made[id(node)]


def _renamed(dims: tuple[str, ...], index: str) -> tuple[str, ...]:
    return tuple(CELL if d == index else d for d in dims)


def multipliers(
    found: Sequence[Cells],
    widths: Sequence[int],
    first: int,
    cells: Mapping[int, IntArray],
    places: int,
    block: SiteBlock,
) -> Multipliers | None:
    """Multipliers f of all places, from the cells found in the batches: `widths`, the entries of
    each `Moving`, from entry `first` on; `cells`, (G,): the cell of each place, by the number of
    each `Moving` whose cells differ from place to place. None where no batch has a `Moving`."""
    if not found:
        return None
    parts, start = [], first
    for m, (of, width) in enumerate(zip(found, widths, strict=True)):
        where = np.arange(start, start + width)
        parts.append(Multiplier(where, tuple(of.pieces), cells.get(m)))
        start += width
    return Multipliers(places, start, tuple(parts), block.name, block.span)
