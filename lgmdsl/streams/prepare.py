"""From batches of data to a streamed model: two passes over the table.

The first finds the members of all indices that maps lead to, by the rows that name one first; the
model is compiled with these rows. The second compiles the model with each batch, as for new data,
and keeps of it what sites need, packed: a place, coefficients, an offset, fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.blocks.family import FindSite
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.grounding.ground import GroundedModel, ground, ground_new
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import canonicalise
from lgmdsl.contract.linear import Predictor
from lgmdsl.dataset import Dataset, Entry, Loaded
from lgmdsl.dataset.batches import Batch, batches
from lgmdsl.errors import MethodError
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.memory import TooLarge, budget, check
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense
from lgmdsl.streams.model import Gather, StreamedModel, streamed_model
from lgmdsl.streams.packed import Packed, packed
from lgmdsl.streams.refusals import KEPT, refused
from lgmdsl.streams.rows import CHUNK, InMemory, Reduction, RowBatch, field_names
from lgmdsl.streams.streamable import Table

BATCH = 16 * CHUNK  # rows that are compiled together
SAMPLE = 2000  # rows of the sample, next to those that name a member first
TABLE = 50_000_000  # codes up to which places are looked up in a table
HELD = 6.0  # (G, K, K) arrays that a fit holds


def prepare(
    graph: ModelGraph,
    dataset: Dataset,
    table: Table,
    find: FindSite,
    on_rows: Callable[[int, int], None] = lambda done, of: None,
) -> StreamedModel:
    """The model and its rows, packed. `on_rows`: how many rows were read, of how many (each is read
    twice).

    Raises DataError as compiling does, rows by their numbers; MethodError E501 for rows that touch
    different numbers of latents, TooLarge where places or packed rows are larger than the memory
    budget. For models that `plan.check_streamed` lets through.
    """
    sample = _sample(graph, dataset, table, on_rows)
    grounded = ground(graph, sample)
    canonical = canonicalise(grounded, find)
    streamed = tuple(table.index in b.dims for b in canonical.blocks)
    theta = canonical.hypers.start({})
    collected = [
        _Rows(canonical, block) if some else None
        for block, some in zip(canonical.blocks, streamed, strict=True)
    ]
    for batch in batches(dataset, BATCH, table.keys, table.index):
        _collect(grounded, batch, find, theta, collected)
        on_rows(table.rows + batch.stop, 2 * table.rows)
    gathers = tuple(None if rows is None else rows.gathered() for rows in collected)
    return streamed_model(canonical, gathers, table.index)


def _sample(
    graph: ModelGraph, dataset: Dataset, table: Table, on_rows: Callable[[int, int], None]
) -> Dataset:
    """The first rows, and those that are the first to name a member."""
    maps = {
        dataset.key(s.name)
        for s in graph.model.of_kind("data")
        if s.target is not None and s.dims == (table.index,)
    }
    seen: dict[str, AnyArray] = {}
    kept: list[dict[str, Loaded]] = []
    numbers: list[IntArray] = []
    last: Batch | None = None
    for last in batches(dataset, BATCH, table.keys, table.index):
        columns = {key: last.dataset.entries[key].loaded for key in table.keys}
        size = last.stop - last.first
        chosen = np.zeros(size, dtype=np.bool_)
        chosen[: max(SAMPLE - last.first, 0)] = True
        for key in maps:
            chosen[_first_named(columns[key], key, seen)] = True
        rows = np.flatnonzero(chosen)
        if len(rows):
            kept.append({key: _taken(part, rows) for key, part in columns.items()})
            numbers.append(last.first + rows)
        on_rows(last.stop, 2 * table.rows)
    assert last is not None, "a table has a batch, if an empty one"
    entries = dict(last.dataset.entries)
    for key in table.keys:
        whole = _joined([part[key] for part in kept])
        given = partial(_itself, whole)
        entries[key] = replace(entries[key], shape=(len(whole.values),), loader=given)
    rows_key = table.index
    if rows_key not in dataset.entries:
        names = Loaded(np.concatenate(numbers))
        entries[rows_key] = Entry(rows_key, dataset.name, (len(names.values),), lambda: names)
    return replace(last.dataset, entries=entries)


def _itself(loaded: Loaded) -> Loaded:
    return loaded


def _first_named(column: Loaded, key: str, seen: dict[str, AnyArray]) -> IntArray:
    """The rows of a column that are the first with their values."""
    values, first = np.unique(column.values, return_index=True)
    if key not in seen:
        seen[key] = values
        return np.asarray(first)
    new = ~np.isin(values, seen[key])
    if new.any():
        seen[key] = np.union1d(seen[key], values[new])
    return np.asarray(first[new])


def _taken(loaded: Loaded, rows: IntArray) -> Loaded:
    missing = None if loaded.missing is None else loaded.missing[rows]
    return Loaded(loaded.values[rows], missing, loaded.levels)


def _joined(parts: list[Loaded]) -> Loaded:
    values = np.concatenate([p.values for p in parts])
    missing = None
    if any(p.missing is not None for p in parts):
        none = [np.zeros(p.values.shape, dtype=np.bool_) for p in parts]
        missing = np.concatenate(
            [n if p.missing is None else p.missing for p, n in zip(parts, none, strict=True)]
        )
    levels = next((p.levels for p in parts if p.levels is not None), None)
    return Loaded(values, missing, levels)


@dataclass
class _Rows:
    """What is collected of a site block. `alike`: for each pair of entries whether the codes were
    the same in all rows so far; `single`: the one code of an entry, -1 where there are several."""

    canonical: CanonicalModel
    block: SiteBlock
    latents: tuple[str, ...] = ()
    codes: list[list[AnyArray]] = field(default_factory=list)
    parts: list[tuple[tuple[Packed, ...], Packed, dict[str, Packed]]] = field(default_factory=list)
    held: int = 0
    count: int = 0

    def add(
        self,
        codes: list[IntArray],
        latents: tuple[str, ...],
        values: list[Array],
        offset: Array,
        fields: dict[str, Array],
    ) -> None:
        if not len(offset):
            return
        if not self.latents:
            self.latents = latents
        coefficients = tuple(packed(v) for v in values)
        part = coefficients, packed(offset), {n: packed(f) for n, f in fields.items()}
        small: list[AnyArray] = []
        for k, c in enumerate(codes):  # equal columns are one array
            same = next((small[j] for j in range(k) if np.array_equal(codes[j], c)), None)
            small.append(_smallest(c) if same is None else same)
        self.codes.append(small)
        self.parts.append(part)
        self.count += len(offset)
        self.held += sum({id(c): c.nbytes for c in small}.values())
        self.held += sum(p.nbytes for p in (*part[0], part[1], *part[2].values()))
        if self.held > 0.5 * budget():
            raise TooLarge(
                f"the rows of `{self.block.name}`",
                f"{self.count:,} rows read, packed",
                2.0 * self.held,
                self.block.span,
            )

    def gathered(self) -> Gather:
        """Places: the distinct tuples of the latents that rows touch."""
        counts = [
            len(p[1].at(slice(None))) if p[1].constant else len(p[1].values) for p in self.parts
        ]
        sizes = [self.canonical.latent(n).size for n in self.latents]
        lead = self._leading()
        radix = float(np.prod([float(sizes[k]) for k in lead]))
        if radix >= 2.0**62:
            raise MethodError(refused(self.block, "too many latents together in a row"))
        keys = [self._keys(c, lead, sizes, n) for c, n in zip(self.codes, counts, strict=True)]
        known = _distinct(keys, radix)
        total = len(self.latents)
        check(
            f"what rows of `{self.block.name}` share",
            f"{len(known):,} places of {total} latents",
            8.0 * HELD * len(known) * total * total,
            help=f"keep the rows in memory: {KEPT}",
        )
        touched = np.empty((len(known), total), dtype=np.int64)
        rest = known.copy()
        for k in reversed(lead):
            touched[:, k] = rest % sizes[k]
            rest //= sizes[k]
        find = _finder(known, radix)
        made, reduction = [], self._reduction()
        own = [k for k in range(total) if not reduction.columns[k, 0]]
        for (values, offset, fields), codes, key in zip(self.parts, self.codes, keys, strict=True):
            place = find(key)
            for k in range(total):
                if k not in lead:
                    touched[place, k] = codes[k]
            made.append(RowBatch(place, tuple(values[k] for k in own), offset, fields))
        return Gather(self.latents, touched, self.count, InMemory(tuple(made)), reduction)

    def _reduction(self) -> Reduction:
        """Coefficients that are one number in all rows, but for 0, and the others."""
        numbers = [
            self._number([part[0][k] for part in self.parts]) for k in range(len(self.latents))
        ]
        columns = np.zeros((len(numbers), 1 + sum(not x for x in numbers)))
        columns[:, 0] = numbers
        own = np.flatnonzero(columns[:, 0] == 0.0)
        columns[own, 1 + np.arange(len(own))] = 1.0
        return Reduction(columns)

    @staticmethod
    def _number(parts: list[Packed]) -> float:
        """The one value of a coefficient in all batches, 0 where there are several."""
        if not all(p.constant for p in parts):
            return 0.0
        values = {float(p.values[0]) for p in parts}
        return values.pop() if len(values) == 1 else 0.0

    def _leading(self) -> list[int]:
        """Entries that tell the place: not those that are one latent, nor as another one is."""
        out: list[int] = []
        for k in range(len(self.latents)):
            single = (
                all(len(c[k]) == 1 for c in self.codes)
                and len({int(c[k][0]) for c in self.codes}) == 1
            )
            alike = any(all(c[k] is c[j] for c in self.codes) for j in out)
            if not single and not alike:
                out.append(k)
        return out

    @staticmethod
    def _keys(codes: list[AnyArray], lead: list[int], sizes: list[int], count: int) -> IntArray:
        key = np.zeros(count, dtype=np.int64)
        for k in lead:
            key = key * sizes[k] + codes[k].astype(np.int64)
        return key


def _smallest(codes: IntArray) -> AnyArray:
    """Codes in few bytes; one where all are the same."""
    if (codes == codes[0]).all():
        return codes[:1].copy()
    most = int(codes.max())
    return codes.astype(np.min_scalar_type(most))


def _distinct(keys: list[IntArray], radix: float) -> IntArray:
    if radix <= TABLE:
        seen = np.zeros(int(radix), dtype=np.bool_)
        for key in keys:
            seen[key] = True
        return np.flatnonzero(seen)
    known = np.zeros(0, dtype=np.int64)
    for key in keys:
        known = np.union1d(known, key)
    return known


def _finder(known: IntArray, radix: float) -> Callable[[IntArray], AnyArray]:
    if radix <= TABLE:
        table = np.zeros(int(radix), dtype=np.int32)
        table[known] = np.arange(len(known), dtype=np.int32)
        return lambda key: table[key]
    return lambda key: np.searchsorted(known, key).astype(np.int32)


def _collect(
    fitted: GroundedModel,
    batch: Batch,
    find: FindSite,
    theta: Theta,
    collected: list[_Rows | None],
) -> None:
    """Compile the model with a batch, and keep of its streamed blocks what sites need."""
    grounded = ground_new(fitted, batch.dataset)
    new = {name: labels for name, labels in grounded.new_levels.items() if len(labels)}
    assert not new, "the first pass has found all members"
    canonical = canonicalise(grounded, find)
    predictors = canonical.linear(theta).predictors
    for k, rows in enumerate(collected):
        if rows is None:
            continue
        block = canonical.blocks[k]
        site = block.bind(theta)
        own = {n for n, node in block.parameters.items() if node.depends}
        fields = {n: getattr(site, n) for n in field_names(block.site) if n not in own}
        latents, codes, values = _entries(predictors[k], block)
        rows.add(codes, latents, values, predictors[k].offset, fields)


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
        raise MethodError(refused(block, "rows touch different numbers of latents"))
    width = int(each[0]) if rows else 0
    indices, data = csr.indices.reshape(rows, width), csr.data.reshape(rows, width)
    for j in range(width):
        yield indices[:, j].astype(np.int64), np.ascontiguousarray(data[:, j])
