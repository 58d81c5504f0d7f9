"""From batches of data to a streamed model: two passes over the table.

The first finds the members of all indices that maps lead to, by the rows that name one first; the
model is compiled with these rows. The second compiles the model with each batch, as for new data,
and keeps of it what sites need, packed: a place, coefficients, an offset, fields.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.blocks.family import FindSite
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.grounding.ground import GroundedModel, ground, ground_new
from lgmdsl.canonical.grounding.labels import labels_of
from lgmdsl.canonical.model import CanonicalModel, check_finite
from lgmdsl.compile import canonicalise
from lgmdsl.contract.linear import Predictor
from lgmdsl.dataset import Batch, Dataset, Entry, Loaded
from lgmdsl.errors import DataError, with_note
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense
from lgmdsl.streams.model import ByPlaces, placed
from lgmdsl.streams.moving import Moving, moving, still
from lgmdsl.streams.places import CollectedRows
from lgmdsl.streams.refusals import UNEQUAL, refused
from lgmdsl.streams.rows import CHUNK, field_names
from lgmdsl.streams.streamable import Table

BATCH = 8 * CHUNK  # rows that are compiled together
SPELT = "labels are spelt in another way in some batches"
SAMPLE = 2000  # rows of the sample, next to those that name a member first


def prepare(
    graph: ModelGraph,
    dataset: Dataset,
    table: Table,
    find: FindSite,
    on_rows: Callable[[int, int], None] = lambda done, of: None,
    first: Mapping[str, Loaded] = MappingProxyType({}),
    silent: bool = False,
) -> CanonicalModel:
    """The model and its rows, packed. `on_rows`: how many rows were read, of how many (each is read
    twice); `first`: columns of rows of other tables, which name members before those of this one;
    `silent`: whether no row need be observed.

    Raises DataError as compiling does, rows by their numbers; MethodError E501 for rows that touch
    different numbers of latents, TooLarge where places or packed rows are larger than the memory
    budget. For models that `refusals.check_streamed` lets through.
    """
    sample = _sample(graph, dataset, table, on_rows, first)
    try:
        grounded = ground(graph, sample)
    except DataError as error:
        raise of_some(error, "those that were read first, or that name a member first") from None
    canonical = canonicalise(grounded, find)
    streamed = tuple(table.index in b.dims for b in canonical.blocks)
    theta = canonical.hypers.start({})
    collected = [
        CollectedRows(canonical, block) if some else None
        for block, some in zip(canonical.blocks, streamed, strict=True)
    ]
    hashes: dict[str, Any] = {}
    for batch in dataset.batches(BATCH, table.keys, table.index):
        try:
            new = ground_new(grounded, batch.dataset)
            if any(len(labels) for labels in new.new_levels.values()):
                block = next(b for b, some in zip(canonical.blocks, streamed, strict=True) if some)
                raise refused(block, SPELT)
            made = canonicalise(new, find)
            for k, rows in enumerate(collected):
                if rows is not None:
                    collect(made, k, theta, rows)
        except DataError as error:
            raise of_some(error, f"{batch.first:,} to {batch.stop - 1:,}") from None
        _hash(new, table, hashes)
        on_rows(table.rows + batch.stop, 2 * table.rows)
    gathers = tuple(None if rows is None else rows.gathered(silent) for rows in collected)
    digests = {name: digest.hexdigest() for name, digest in hashes.items()}
    return placed(canonical, ByPlaces(gathers, table.index, digests, dataset))


def of_some(error: DataError, rows: str) -> DataError:
    """The error, with the rows that were looked at."""
    return with_note(error, f"rows are read by batches, and counted among {rows}")


def _hash(grounded: GroundedModel, table: Table, hashes: dict[str, Any]) -> None:
    """What `grounding.model.hash_of` makes of all rows, batch by batch."""
    for name, value in grounded.values.items():
        if grounded.dims(name) == (table.index,):
            kind = f"{value.dtype.str}{(table.rows,)}"
            digest = hashes.setdefault(name, hashlib.sha256(kind.encode()))
            digest.update(np.ascontiguousarray(value).tobytes())


def _sample(
    graph: ModelGraph,
    dataset: Dataset,
    table: Table,
    on_rows: Callable[[int, int], None],
    before: Mapping[str, Loaded],
) -> Dataset:
    """The rows of other tables, the first ones, and those that are the first to name a member."""
    maps = maps_of(graph, dataset, table)
    chosen, numbers, last = _chosen(dataset, table.keys, table.index, maps, SAMPLE, before, on_rows)
    return sample_of(dataset, last, chosen, numbers, table.index)


def maps_of(graph: ModelGraph, dataset: Dataset, table: Table) -> tuple[str, ...]:
    """The keys of the maps from the rows to members of indices."""
    symbols = graph.model.of_kind("data")
    known = (s for s in symbols if s.target is not None and s.dims == (table.index,))
    return tuple(dict.fromkeys(dataset.key(s.name) for s in known))


def first_rows(
    dataset: Dataset, keys: tuple[str, ...], index: str, maps: tuple[str, ...], least: int
) -> dict[str, Loaded]:
    """Columns of the first `least` rows, and of those that are the first to name a value in
    `maps`."""
    return _chosen(dataset, keys, index, maps, least, {}, lambda done, of: None)[0]


def sample_of(
    dataset: Dataset, rest: Dataset, columns: Mapping[str, Loaded], numbers: IntArray, index: str
) -> Dataset:
    """Data with some rows alone; `rest`: where all other entries are."""
    entries = dict(rest.entries)
    for key, whole in columns.items():
        given = partial(_itself, whole)
        entries[key] = replace(entries[key], shape=(len(whole.values),), loader=given)
    names = Loaded(numbers)
    entries[index] = Entry(index, dataset.name, (len(numbers),), partial(_itself, names))
    return replace(rest, entries=entries)


def _chosen(
    dataset: Dataset,
    keys: tuple[str, ...],
    index: str,
    maps: tuple[str, ...],
    least: int,
    before: Mapping[str, Loaded],
    on_rows: Callable[[int, int], None],
) -> tuple[dict[str, Loaded], IntArray, Dataset]:
    """Columns of rows and their numbers (those from other tables count down from -1), and the last
    batch."""
    seen: dict[str, AnyArray] = {}
    kept: list[dict[str, Loaded]] = []
    numbers: list[IntArray] = []
    if before:
        for key in maps:
            first_named(labels_of(before[key]).values, key, seen)
        kept.append(dict(before))
        numbers.append(-1 - np.arange(len(next(iter(before.values())).values)))
    last: Batch | None = None
    for last in dataset.batches(BATCH, keys, index):
        columns = {key: last.dataset.entries[key].loaded for key in keys}
        size = last.stop - last.first
        chosen = np.zeros(size, dtype=np.bool_)
        chosen[: max(least - last.first, 0)] = True
        for key in maps:
            chosen[first_named(labels_of(columns[key]).values, key, seen)] = True
        rows = np.flatnonzero(chosen)
        if len(rows):
            kept.append({key: part.rows(rows) for key, part in columns.items()})
            numbers.append(last.first + rows)
        on_rows(last.stop, 2 * dataset.entries[keys[0]].shape[0])
        if not maps and last.stop >= least:  # no later row names anything
            break
    assert last is not None, "a table has a batch, if an empty one"
    return (
        {key: joined([part[key] for part in kept]) for key in keys},
        (np.concatenate(numbers)),
        last.dataset,
    )


def _itself(loaded: Loaded) -> Loaded:
    return loaded


def first_named(labels: AnyArray, key: str, seen: dict[str, AnyArray]) -> IntArray:
    """The rows that are the first with their labels, next to those of a key that were `seen`."""
    where = np.arange(len(labels))
    if key in seen:
        where = np.flatnonzero(~np.isin(labels, seen[key]))
    values, first = np.unique(labels[where], return_index=True)
    if len(values):
        seen[key] = np.union1d(seen[key], values) if key in seen else values
    return where[first]


def joined(parts: list[Loaded]) -> Loaded:
    """One column of several, one after the other."""
    values = np.concatenate([p.values for p in parts])
    missing = np.concatenate([p.absent for p in parts])
    levels = next((p.levels for p in parts if p.levels is not None), None)
    written = None
    if any(p.written is not None for p in parts):
        written = np.concatenate([p.texts for p in parts])
    kept = any(p.kept for p in parts)
    return Loaded(values, missing if missing.any() else None, levels, written, kept)


def collect(canonical: CanonicalModel, k: int, theta: Theta, rows: CollectedRows) -> None:
    """Add the rows of a site block to `rows`: what sites need of them."""
    block, site = canonical.blocks[k], canonical.bound(k, theta)
    own = {n for n, node in block.parameters.items() if node.depends}
    fields = {n: getattr(site, n) for n in field_names(block.site) if n not in own}
    moved: tuple[Moving, ...] = ()
    if block.form.depends:
        moved = moving(block, {b.name: b.sizes for b in canonical.latents}, theta)
        predictor = canonical.site_predictor(block, still(block.form), theta)
        check_finite(block, predictor)
    else:
        predictor = canonical.observed(k, theta)
    names, codes, values = _entries(predictor, block)
    rows.add(codes, names, values, predictor.offset, fields, moved)


def _entries(
    predictor: Predictor, block: SiteBlock
) -> tuple[tuple[str, ...], list[IntArray], list[Array]]:
    """The latents that each row touches, entry by entry, with coefficients: the same number in all
    rows. Raises MethodError E501 where that differs."""
    latents: list[str] = []
    codes: list[IntArray] = []
    values: list[Array] = []
    for name, operator in predictor.columns.items():
        for index, value in _columns(operator, block):
            latents.append(name)
            codes.append(index)
            values.append(value)
    return tuple(latents), codes, values


def _columns(operator: Operator, block: SiteBlock) -> Iterator[tuple[IntArray, Array]]:
    rows, size = operator.shape
    if isinstance(operator, Dense):
        for j in range(size):
            yield np.full(rows, j), np.ascontiguousarray(operator.array[:, j])
        return
    csr = sp.csr_array(operator.sparse())
    each = np.diff(csr.indptr)
    if rows and (each != each[0]).any():
        raise refused(block, UNEQUAL)
    width = int(each[0]) if rows else 0
    indices, data = csr.indices.reshape(rows, width), csr.data.reshape(rows, width)
    for j in range(width):
        yield indices[:, j].astype(np.int64), np.ascontiguousarray(data[:, j])
