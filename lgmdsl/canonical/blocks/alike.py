"""Rows of a site block that are alike: whose log densities are one function of the latents, at all
values of the hyperparameters.

A row is what it reads: the positions of the latents and of the hyperparameters that it gathers, and
the values at it of all that depends on no hyperparameter (covariates, offsets, the response, other
parameters). Rows that read the same are alike. What joins rows in another way (an operator along
their index) tells all of them apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.expressions.named import Axis, Slot, Through

# Merging pays from this many rows on, where at most this share of them is distinct.
LEAST, SHARE = 2000, 0.5
# A sample of SAMPLE sqrt(N) of N rows has 18 pairs of alike ones where each row occurs twice; with
# fewer than PAIRS rows that repeat another of the sample, the others are not looked at.
SAMPLE, PAIRS = 6, 6
COLUMNS = 16  # compared at a time

Codes: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(frozen=True, eq=False)
class Alike:
    """`kept`, (R,): the first row of each kind, in their order; `place`, (N,): the kind of each
    row. Rows are counted among those of the block."""

    kept: IntArray
    place: IntArray

    @property
    def pays(self) -> bool:
        """Whether there are few enough kinds."""
        return len(self.kept) <= SHARE * len(self.place)


def alike(block: SiteBlock, predictors_only: bool = False) -> Alike | None:
    """The kinds of rows of a block; None where merging them would not pay, or where it cannot be
    told. `predictors_only`: rows whose predictors are alike, whatever was observed."""
    count = len(block.rows)
    if count < LEAST or block.site.spec.shared:
        return None
    parts = _parts(block, predictors_only)
    if parts is None:
        return None
    places = np.unravel_index(block.rows, block.shape)
    rng = np.random.default_rng(count)
    some = np.unique(rng.integers(0, count, SAMPLE * math.isqrt(count)))
    sampled = _codes(parts, places, some)
    if len(some) - len(np.unique(sampled)) < PAIRS:
        return None
    _, first, kind = np.unique(
        _codes(parts, places, slice(None)), return_index=True, return_inverse=True
    )
    if len(first) > SHARE * count:
        return None
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    found = Alike(first[order], rank[kind.reshape(-1)])
    like = found.kept[found.place]
    return found if all(part.equal(places, like) for part in parts) else None


@dataclass(frozen=True, eq=False)
class _Values:
    """Values at the positions `axes` of a row (by their numbers among the block's indices; None: of
    the observed rows themselves), (..., m)."""

    axes: tuple[int, ...] | None
    values: AnyArray

    def at(self, places: Sequence[IntArray], rows: IntArray | slice, columns: slice) -> AnyArray:
        """The bits of some columns at some rows, (n, m), of one zero and not two."""
        index = (rows,) if self.axes is None else tuple(places[a][rows] for a in self.axes)
        values = self.values[..., columns][index]
        if values.dtype.kind == "i":
            return np.ascontiguousarray(values, dtype=np.int64).view(np.uint64)
        return np.ascontiguousarray(np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)

    def mixed(self, codes: Codes, places: Sequence[IntArray], rows: IntArray | slice) -> Codes:
        for k in range(self.values.shape[-1]):
            codes = _mix(codes ^ self.at(places, rows, slice(k, k + 1))[:, 0])
        return codes

    def equal(self, places: Sequence[IntArray], like: IntArray) -> bool:
        """Whether the values at each row are those at the row that it is like."""
        for k in range(0, self.values.shape[-1], COLUMNS):
            columns = slice(k, k + COLUMNS)
            here, there = (self.at(places, rows, columns) for rows in (slice(None), like))
            if not np.array_equal(here, there):
                return False
        return True


@dataclass(frozen=True, eq=False)
class _SparseValues:
    """Rows of a csr array at a row's positions on one axis, `axis` (its number among the block's
    indices)."""

    axis: int
    values: sp.csr_array

    def mixed(self, codes: Codes, places: Sequence[IntArray], rows: IntArray | slice) -> Codes:
        taken = self.values[places[self.axis][rows]]
        entries = np.asarray(taken.data, dtype=np.float64) + 0.0
        each = _mix(_mix(taken.indices.astype(np.uint64)) ^ entries.view(np.uint64))
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(each, dtype=np.uint64)])
        return _mix(codes ^ (sums[taken.indptr[1:]] - sums[taken.indptr[:-1]]))

    def equal(self, places: Sequence[IntArray], like: IntArray) -> bool:
        here, there = (self.values[places[self.axis][rows]] for rows in (slice(None), like))
        return (
            np.array_equal(here.indptr, there.indptr)
            and np.array_equal(here.indices, there.indices)
            and np.array_equal(here.data, there.data)
        )


_Part: TypeAlias = _Values | _SparseValues


def _codes(parts: Iterable[_Part], places: Sequence[IntArray], rows: IntArray | slice) -> Codes:
    """A number for each row, from all that it reads: rows that are alike have the same."""
    codes = np.full(len(places[0][rows]) if places else 1, 1, dtype=np.uint64)
    for part in parts:
        codes = part.mixed(codes, places, rows)
    return codes


def _mix(codes: Codes) -> Codes:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014), a bijection."""
    codes = codes + np.uint64(0x9E3779B97F4A7C15)
    codes ^= codes >> np.uint64(30)
    codes *= np.uint64(0xBF58476D1CE4E5B9)
    codes ^= codes >> np.uint64(27)
    codes *= np.uint64(0x94D049BB133111EB)
    codes ^= codes >> np.uint64(31)
    return codes


def _parts(block: SiteBlock, predictors_only: bool) -> list[_Part] | None:
    """All that rows of a block read; None where a term goes through an operator of the language,
    whose matrix is not formed."""
    if any(term.applied is not None for term in block.form.terms) or not block.dims:
        return None
    read = _Read({d: k for k, d in enumerate(block.dims)}, block.shape)
    read.affine(block.form)
    if not predictors_only:
        for node in block.parameters.values():
            read.coefficient(node, read.own)
        for values in (block.y, *(block.given or {}).values()):
            if values is not None:
                read.parts.append(_Values(None, values.reshape(len(block.rows), -1)))
    return read.parts


class _Read:
    """Collects what rows read. `axes`: the number of each index of the rows by its name."""

    def __init__(self, axes: Mapping[str, int], shape: tuple[int, ...]) -> None:
        self.axes, self.shape = axes, shape
        self.own = {name: name for name in axes}
        self.parts: list[_Part] = []
        self.seen: set[object] = set()
        self.held: list[object] = []  # arrays that were seen, so that no other takes their identity

    def affine(self, form: Affine) -> None:
        for term in form.terms:
            for slot in term.slots:
                self.slot(slot, self.own)
            for factor in term.factors:
                self.coefficient(factor, self.own)
        self.coefficient(form.offset, self.own)

    def slot(self, slot: Slot, names: Mapping[str, str]) -> None:
        """How an axis is addressed; `names`: the rows' indices by what they are called here."""
        if isinstance(slot, Axis):
            self.positions([slot.dim], names)
        elif isinstance(slot, Through):
            self.array(slot.dims, slot.positions, names)

    def positions(self, dims: Iterable[str], names: Mapping[str, str]) -> None:
        """The place of the row along each of its indices among `dims`."""
        for axis in (self.axes[names[d]] for d in dims if d in names):
            if self._new(("position", axis)):
                self.parts.append(_Values((axis,), np.arange(self.shape[axis])[:, None]))

    def array(self, dims: tuple[str, ...], values: Any, names: Mapping[str, str]) -> None:
        """The values at the row, all of those along other indices."""
        own = [d for d in dims if d in names]
        axes = tuple(self.axes[names[d]] for d in own)
        if not own or not self._new((id(values), dims, axes)):
            return
        self.held.append(values)
        if not isinstance(values, np.ndarray):
            if len(own) == 2:
                self.positions(own, names)
                return
            rows = sp.csr_array(values if dims[0] == own[0] else values.T)
            if not rows.has_canonical_format:
                rows = rows.copy()
                rows.sum_duplicates()
            self.parts.append(_SparseValues(axes[0], rows))
            return
        first = [dims.index(d) for d in own]
        rest = [k for k in range(len(dims)) if k not in first]
        ordered = np.asarray(values).transpose(first + rest)
        flat = ordered.reshape(*ordered.shape[: len(first)], -1)
        self.parts.append(_Values(axes, flat))

    def coefficient(self, root: Coefficient, names: Mapping[str, str]) -> None:
        """What a latent-free expression reads at a row: its value where no hyperparameter is in it,
        else what its parts read."""
        waiting = [(root, dict(names))]
        while waiting:
            node, called = waiting.pop()
            called = {d: called[d] for d in node.dims if d in called}
            if not called or not self._new((id(node), *sorted(called.items()))):
                continue
            if not node.depends:
                value = node.evaluate({})
                self.array(value.dims, value.values, called)
            elif isinstance(node, co.Gather):
                inner = {}
                for dim, slot in zip(node.operand.dims, node.slots, strict=True):
                    if isinstance(slot, Axis) and slot.dim in called:
                        inner[dim] = called[slot.dim]
                    elif isinstance(slot, Through):
                        self.slot(slot, called)
                waiting.append((node.operand, inner))
            elif isinstance(node, co.Total | co.Contraction | co.Power | co.Elementwise):
                waiting += [(child, called) for child in node.children]
            else:
                self.positions(node.dims, called)

    def _new(self, key: object) -> bool:
        if key in self.seen:
            return False
        self.seen.add(key)
        return True
