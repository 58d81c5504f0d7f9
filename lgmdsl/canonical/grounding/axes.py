"""Axes of the data against those declared: order by name, members by label."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray, IntArray
from lgmdsl.canonical.grounding.errors import (
    about,
    absent_labels,
    repeated_labels,
    wrong_labels,
)
from lgmdsl.canonical.grounding.labels import LabelArray, labels_of
from lgmdsl.canonical.grounding.model import IndexSet, Reading
from lgmdsl.dataset import Dataset, Entry, Loaded
from lgmdsl.errors import Diagnostic
from lgmdsl.language.checked import Symbol
from lgmdsl.remedies import key

# What arrays hold, in words, by the kind of their type.
KINDS = {"b": "truth values", "i": "whole numbers", "u": "whole numbers", "f": "numbers"}


@dataclass(frozen=True, eq=False)
class BoundDatum:
    """An entry taken for a datum: values with axes in the declared order, labels for each axis.

    `values` is dense or csr; `weak` labels are a frame's default 0..n-1. `pairs` marks a graph
    that is given as an (E, 2) array of labels. `levels` are those of an ordered categorical;
    `added` marks entries of members that are steps without data; `named` is whether the source
    names the axes. `written`, `kept`: the texts of labels, as `Loaded` has them.
    """

    symbol: Symbol
    entry: Entry
    values: Any
    missing: BoolArray | None
    labels: tuple[LabelArray | None, ...]
    weak: bool
    pairs: bool = False
    levels: AnyArray | None = None
    added: BoolArray | None = None
    named: bool = False
    written: AnyArray | None = None
    kept: bool = False

    @property
    def raw(self) -> Loaded:
        """The datum's values as a source gives them, for labels."""
        return Loaded(self.values, self.missing, written=self.written, kept=self.kept)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self.values.shape)

    @property
    def fits(self) -> bool:
        """Whether the array has as many axes as are declared."""
        return not self.pairs and len(self.shape) == len(self.symbol.dims)

    @property
    def reading(self) -> Reading:
        """What the datum was read from and as."""
        matched = bool(self.labels) and self.labels[0] is not None and not self.weak
        kind = "sparse matrix" if self.sparse else KINDS.get(self.values.dtype.kind, "text")
        return Reading(self.entry.source, self.entry.name, kind, matched or self.pairs)

    @property
    def two_by_two(self) -> bool:
        """A graph [[0, 1], [1, 0]] is one edge either way: two members, or a pair twice."""
        return self.symbol.type == "graph" and self.shape == (2, 2) and not self.sparse

    @property
    def sparse(self) -> bool:
        return not isinstance(self.values, np.ndarray)


def bind(symbol: Symbol, entry: Entry, dataset: Dataset) -> BoundDatum | Diagnostic:
    """Expand an entry and put its axes into the declared order where they have names."""
    loaded = entry.loaded
    values, missing = loaded.values, loaded.missing
    labels = [
        labels_of(part) if part is not None and part.values.ndim == 1 else None
        for part in entry.labels
    ]
    labels += [None] * (len(loaded.shape) - len(labels))
    pairs = symbol.type == "graph" and _is_pairs(values, entry, symbol, dataset)
    named = entry.dims and not pairs and not all(d.startswith("dim_") for d in entry.dims)
    if named:
        wanted = axis_names(symbol, dataset)
        if sorted(wanted) != sorted(entry.dims):
            return _other_axes(symbol, entry, wanted)
        order = [entry.dims.index(name) for name in wanted]
        values = np.transpose(values, order)
        missing = None if missing is None else np.transpose(missing, order)
        labels = [labels[k] for k in order]
    for_labels = loaded.written is not None and (symbol.target is not None or pairs)
    return BoundDatum(
        symbol,
        entry,
        values,
        missing,
        tuple(labels),
        entry.weak,
        pairs,
        loaded.levels,
        named=bool(named),
        written=np.asarray(loaded.written) if for_labels else None,
        kept=loaded.kept,
    )


def axis_names(symbol: Symbol, dataset: Dataset) -> list[str]:
    """The source's names for a datum's axes; a repeated `term` is `term_2` the second time."""
    seen: dict[str, int] = {}
    names: list[str] = []
    for dim in symbol.dims:
        seen[dim] = seen.get(dim, 0) + 1
        key = dataset.key(dim)
        names.append(key if seen[dim] == 1 else f"{key}_{seen[dim]}")
    return names


def _is_pairs(values: Any, entry: Entry, symbol: Symbol, dataset: Dataset) -> bool:
    """A graph as label pairs: two columns, and not the adjacency of two members."""
    shape = values.shape
    if len(shape) != 2 or shape[1] != 2 or not isinstance(values, np.ndarray):
        return False
    if shape[0] != 2:
        return True
    if entry.dims and list(entry.dims) == axis_names(symbol, dataset):
        return False
    return (
        values.dtype.kind == "U" or not np.isin(values, (0, 1)).all() or (values != values.T).any()
    )


def _other_axes(symbol: Symbol, entry: Entry, wanted: Sequence[str]) -> Diagnostic:
    odd = [d for d in entry.dims if d not in wanted]
    lack = [d for d in wanted if d not in entry.dims]
    helps = ""
    if odd and len(odd) == len(lack):
        renames = ", ".join(f"{a}={b!r}" for a, b in zip(odd, lack, strict=True))
        helps = f".rename({renames}), or {key(lack[0], odd[0])}"
    return Diagnostic(
        "E301",
        f"data `{symbol.name}` has the wrong shape",
        symbol.statement.span,
        details=(
            f"declared {symbol.name}[{', '.join(symbol.dims)}]",
            f"given    axes ({', '.join(entry.dims)})",
        ),
        help=helps or "give an array with the declared axes",
        layout="plain",
    )


def align(
    bound: BoundDatum,
    indices: Mapping[str, IndexSet],
    from_keys: Mapping[str, LabelArray],
    observed: bool = False,
) -> BoundDatum | Diagnostic:
    """Reorder every axis to the order of its index set's labels.

    `from_keys` are the labels that the source gives under the index's own name; an axis that
    carries none itself, or that is the rows of the table they are a column of, has these. Rows of
    another table, of which nothing says which members they are, are refused (E302). An axis without
    any labels is taken in its own order. What is `observed` is missing at members that are steps
    without data.
    """
    values, missing, added, written = bound.values, bound.missing, bound.added, bound.written
    for axis, dim in enumerate(bound.symbol.dims):
        index, labels = indices[dim], bound.labels[axis]
        size = bound.shape[axis]
        if bound.entry.table and dim in from_keys and from_keys[dim].table == bound.entry.table:
            labels = None
        elsewhere = dim in from_keys and from_keys[dim].table not in ("", bound.entry.table)
        if (labels is None or bound.weak) and bound.entry.table and elsewhere and axis == 0:
            return _unlabelled_rows(bound.symbol, index, bound.entry.source)
        if labels is not None and bound.weak and axis == 0:
            same = size == index.size and bool((index.positions(labels.values) >= 0).all())
            labels = labels if same else None
        if labels is None and dim in from_keys and from_keys[dim].values.size == size:
            labels = from_keys[dim]
        if labels is None:
            continue
        order = _order(bound.symbol, index, labels, observed and not bound.sparse)
        if isinstance(order, Diagnostic):
            return order
        if order is not None:
            values = _take(values, order, axis)
            written = None if written is None else np.take(written, order, axis=axis)
            missing = None if missing is None else np.take(missing, order, axis=axis)
            added = None if added is None else np.take(added, order, axis=axis)
            if (order < 0).any():
                added = np.zeros(values.shape, dtype=bool) if added is None else added
                added[(slice(None),) * axis + (order < 0,)] = True
                missing = added if missing is None else missing | added
    return replace(bound, values=values, missing=missing, added=added, written=written)


def _order(
    symbol: Symbol, index: IndexSet, labels: LabelArray, observed: bool
) -> IntArray | Diagnostic | None:
    """Where each member of the index stands on the axis, or None where they agree already; -1 for
    steps without data."""
    if labels.values.shape == index.labels.shape and np.array_equal(labels.values, index.labels):
        return None
    positions = index.positions(labels.values)
    if labels.missing.any():
        return _missing_labels(symbol, index.name, labels)
    unknown = positions < 0
    repeated = np.unique(labels.values).size < labels.values.size
    if unknown.any() and not repeated:
        return wrong_labels(symbol, index, labels.values[unknown], "")
    if repeated or np.unique(positions).size < positions.size:
        return repeated_labels(
            index.name,
            f"along `{symbol.name}`",
            labels.values,
            symbol.statement.span,
            "give every row a distinct label; in pandas: reset_index(drop=True)",
        )
    order: IntArray = np.full(index.size, -1, dtype=np.int64)
    order[positions] = np.arange(positions.size)
    lacking = order < 0
    steps = index.added if index.added is not None else np.zeros(index.size, dtype=bool)
    if (lacking & ~steps).any() or (lacking.any() and not observed):
        return absent_labels(symbol, index, index.labels[lacking], bool(steps[lacking].all()))
    return order


def unjoined(
    bound: Sequence[BoundDatum], indices: Mapping[str, IndexSet], keyed: Collection[str]
) -> list[Diagnostic]:
    """E302: rows of two tables over one index set, which nothing names; `keyed` are those with
    labels of their own."""
    out = []
    first: dict[str, BoundDatum] = {}
    for b in bound:
        if not b.symbol.dims or not b.fits or not b.entry.table:
            continue
        dim, labelled = b.symbol.dims[0], b.labels[0] is not None
        if (labelled and not b.weak) or dim in keyed or dim not in indices:
            continue
        other = first.setdefault(dim, b)
        both = labelled and other.labels[0] is not None  # pandas' default index joins them
        if other.entry.table != b.entry.table and not both:
            two = f"{other.entry.source} and {b.entry.source}"
            out.append(
                Diagnostic(
                    "E302",
                    f"nothing joins the rows of {two}, which are both `{dim}`",
                    b.symbol.statement.span,
                    details=(f"`{other.symbol.name}` is in one, `{b.symbol.name}` in the other",),
                    help=f"give both a column `{dim}` with the labels of their rows, or put their "
                    "columns into one table",
                    layout="plain",
                )
            )
    return out[:1]


def _unlabelled_rows(symbol: Symbol, index: IndexSet, source: str) -> Diagnostic:
    """E302: rows of a table that names no member, of an index set that another table names."""
    return Diagnostic(
        "E302",
        f"nothing says which `{index.name}` the rows of {source} are",
        symbol.statement.span,
        details=(f"`{symbol.name}` is a column of it; {about(index)}",),
        help=f"give {source} a column `{index.name}` with the labels of its rows",
        layout="plain",
    )


def _missing_labels(symbol: Symbol, name: str, labels: LabelArray) -> Diagnostic:
    rows = ", ".join(str(int(k)) for k in np.flatnonzero(labels.missing)[:5])
    return Diagnostic(
        "E302",
        f"a label of `{name}` along `{symbol.name}` is missing",
        symbol.statement.span,
        details=(
            f"{int(labels.missing.sum())} of {labels.values.size} missing, at position {rows}",
        ),
        help="give every row a label; in pandas: reset_index(drop=True)",
        layout="plain",
    )


def _take(values: Any, order: IntArray, axis: int) -> AnyArray:
    if isinstance(values, np.ndarray):
        return np.take(values, order, axis=axis)
    taken: AnyArray = values[order, :] if axis == 0 else values[:, order]
    return taken
