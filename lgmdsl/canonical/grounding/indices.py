"""Index sets from the model, the data's labels, the maps, the shapes, and given sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.grounding.axes import BoundDatum
from lgmdsl.canonical.grounding.errors import (
    count_of,
    index_conflict,
    no_size,
    unknown_members,
)
from lgmdsl.canonical.grounding.keys import checked, declared, keyed
from lgmdsl.canonical.grounding.labels import LabelArray, labels_of, plain, truthful, union
from lgmdsl.canonical.grounding.limits import check_sizes, most
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.canonical.grounding.order import Need, by_levels, misplaced, needs_of, settled
from lgmdsl.dataset import Dataset
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.language.checked import CheckedModel, Symbol
from lgmdsl.language.tree import ast
from lgmdsl.remedies import key as key_of


@dataclass
class Resolver:
    """Finds the labels of every index set of a model; problems are collected, not raised.

    `fitted` are the index sets of an earlier fit. Those in `fixed` stay: labels of maps that they
    lack are appended, and noted in `appended`; labels under the name of such a set are the members
    that are `asked` for, and new ones among them are appended to those that are `growing`. Those in
    `steps` have the members that are named, in any order and again and again.
    """

    graph: ModelGraph
    dataset: Dataset
    bound: Sequence[BoundDatum]
    sizes: Mapping[str, int]
    fitted: Mapping[str, IndexSet] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()
    growing: frozenset[str] = frozenset()
    troubled: frozenset[str] = frozenset()
    problems: list[Diagnostic] = field(default_factory=list)
    indices: dict[str, IndexSet] = field(default_factory=dict)
    from_keys: dict[str, LabelArray] = field(default_factory=dict)
    appended: dict[str, AnyArray] = field(default_factory=dict)
    asked: dict[str, AnyArray] = field(default_factory=dict)
    needs: Mapping[str, tuple[Need, ...]] = field(default_factory=dict)
    guessed: set[str] = field(default_factory=set)
    faulty: set[str] = field(default_factory=set)

    @property
    def model(self) -> CheckedModel:
        return self.graph.model

    def resolve(self) -> None:
        """Fill `indices` in the order of declaration."""
        taken = {self.dataset.key(b.symbol.name) for b in self.bound}
        self.needs = needs_of(self.model)
        for symbol in self.model.of_kind("index"):
            self._read_labels(symbol, taken)
        for symbol in self.model.of_kind("index"):
            if symbol.name in self.faulty:
                continue
            index = self._find(symbol)
            if index is None:
                if not self._blamed(symbol.name):
                    self.problems.append(no_size(symbol))
                continue
            if isinstance(index, Diagnostic):
                self.problems.append(index)
                continue
            index = self._in_order(symbol, index)
            self.indices[symbol.name] = index
            if index.size == 0:
                self.problems.append(
                    index_conflict(
                        symbol,
                        f"is empty: it has 0 labels, {index.origin}",
                        "give at least one row",
                    )
                )

    def _in_order(self, symbol: Symbol, index: IndexSet) -> IndexSet:
        """The index set as those who need its order take it; members of a fit keep theirs."""
        needs = self.needs.get(symbol.name, ())
        if symbol.name in self.fixed or symbol.name in self.steps:
            new = self.appended.get(symbol.name)
            if symbol.name in self.steps:
                unknown = index.labels[self.fitted[symbol.name].positions(index.labels) < 0]
                new = unknown if unknown.size else None
            wrong = None if new is None else misplaced(self.fitted[symbol.name], new, needs)
            if wrong is not None:
                self.problems.append(wrong)
            return index
        assert isinstance(symbol.statement, ast.Index)
        maps = [b for b, _ in self._mapped(symbol.name)]
        key = self.from_keys.get(symbol.name)
        ordered = settled(index, needs, symbol.statement.definition is None, maps, key)
        if isinstance(ordered, IndexSet):
            return ordered
        self.problems.append(ordered)
        return index

    def _reversed(self, name: str, other: str) -> str:
        """The help where a key of the data was given in place of the model's name."""
        if other not in self.graph.model.symbols or name not in self.dataset.keys:
            return ""
        return f"the name in the model comes first: {key_of(other, name)}"

    def _read_labels(self, symbol: Symbol, taken: set[str]) -> None:
        """Labels under the index's own name, unless a datum is mapped to that key."""
        key = self.dataset.key(symbol.name)
        entry = self.dataset.labels(symbol.name)
        if symbol.name in (self.dataset.placements or {}):
            taken = set()
        if entry is None or key in taken:
            if key != symbol.name and key not in taken:
                self.problems.append(
                    index_conflict(
                        symbol,
                        f"is mapped to `{key}`, which {self.dataset.name} does not have",
                        self._reversed(symbol.name, key)
                        or f"it has: {', '.join(self.dataset.keys)}",
                    )
                )
            return
        try:
            loaded = entry.loaded
        except DataError as error:
            self.problems.extend(error.diagnostics)
            return
        origin = f"{entry.source}:{entry.name}"
        if not isinstance(loaded.values, np.ndarray) or loaded.values.ndim != 1:
            self.problems.append(
                index_conflict(
                    symbol,
                    f"takes its labels from {origin}, which has the shape {loaded.shape}",
                    f"rename `{key}`, or give one label each",
                )
            )
            return
        check_sizes(self.graph, {symbol.name: len(loaded.values)})
        again = bool(self.fitted) and symbol.name not in self.fixed
        into = [s.name for s in self.model.of_kind("data") if s.target == symbol.name]
        idle = [name for name in into if self.dataset.ask(name) is None]
        maps = None if into and not idle else idle
        known = self.fitted.get(symbol.name)
        labels = checked(self.problems, symbol, loaded, origin, maps, key, known, again)
        if labels is None:
            self.faulty.add(symbol.name)
        else:
            self.from_keys[symbol.name] = replace(labels, table=entry.table)

    def _find(self, symbol: Symbol) -> IndexSet | Diagnostic | None:
        statement = symbol.statement
        assert isinstance(statement, ast.Index)
        name = symbol.name
        if name in self.steps:
            return self._named(name) or self.fitted[name]
        if statement.definition is not None and not (name in self.fitted and name in self.growing):
            labels, origin = self.from_keys.get(name), self._origin(name)
            return declared(self.graph, symbol, statement.definition, self.indices, labels, origin)
        if name in self.sizes and name not in self.fitted:
            index = self._from_data(name)
            if isinstance(index, IndexSet) and index.size != self.sizes[name]:
                return index_conflict(
                    symbol,
                    f"has {count_of(index.size, 'label')}, {index.origin}, but its size "
                    f"was given as {self.sizes[name]}",
                    f"leave out {name}={self.sizes[name]}",
                )
            if index is not None:
                return index
            size = self.sizes[name]
            if not 0 < size <= most():
                return index_conflict(symbol, f"cannot have the size {size}", f"{name}=10")
            check_sizes(self.graph, {name: size})
            return IndexSet(name, np.arange(size, dtype=np.int64), "from the given size")
        if name in self.fixed:
            return self._extended(symbol, self.fitted[name])
        return self._from_data(name) or self.fitted.get(name) or self._from_head(name)

    def _from_head(self, name: str) -> IndexSet | None:
        """One member more than a datum has over `head(name)`."""
        heads = {
            s.name
            for s in self.model.of_kind("index")
            if isinstance(s.statement, ast.Index)
            and isinstance(s.statement.definition, ast.Head)
            and s.statement.definition.of.id == name
        }
        for b in self.bound:
            for axis, dim in enumerate(b.symbol.dims if b.fits else ()):
                if dim in heads:
                    size = b.shape[axis] + 1
                    check_sizes(self.graph, {name: size})
                    origin = f"from {_place(b)}, over head({name})"
                    return IndexSet(name, np.arange(size, dtype=np.int64), origin)
        return None

    def _blamed(self, name: str) -> bool:
        """Whether a datum that would give the size is at fault, and is reported itself."""
        misfits = {b.symbol.name for b in self.bound if not b.fits}
        return any(
            (name in s.dims or s.target == name) and (s.name in misfits | self.troubled)
            for s in self.model.of_kind("data")
        )

    def _origin(self, name: str) -> str:
        if name in (self.dataset.placements or {}):
            entry = self.dataset.labels(name)
            assert entry is not None, "it is placed"
            return f"from {entry.source}:{entry.name}"
        return f"from {self.dataset.name}:{self.dataset.key(name)}"

    def _from_data(self, name: str) -> IndexSet | Diagnostic | None:
        """Labels by key, by a labelled axis, by the maps, or 0..n-1 by the arrays' shapes."""
        if name in self.from_keys:
            return keyed(name, self.from_keys[name], self._origin(name))
        axes = [
            (b, axis)
            for b in self.bound
            if b.fits
            for axis, dim in enumerate(b.symbol.dims)
            if dim == name
        ]
        axes = [item for item in axes if not item[0].two_by_two] or axes
        for weak in (False, True):
            for b, axis in axes:
                labels = b.labels[axis]
                if (
                    labels is not None
                    and (b.weak and axis == 0) == weak
                    and not labels.missing.any()
                    and np.unique(labels.values).size == labels.values.size
                ):
                    return IndexSet(name, plain(labels.values), f"from {_place(b)}", given=b.named)
        seen = self._mapped(name)
        if name in self.needs:
            leveled = by_levels(name, [b for b, _ in seen])
            if leveled is not None:
                return leveled
        if not axes:
            if not seen:
                return None
            return IndexSet(
                name,
                union([v for _, v in seen]),
                f"from the values of {seen[0][0].symbol.name}",
                united=True,
            )
        votes = Counter(b.shape[axis] for b, axis in axes)
        size = max(votes, key=lambda n: votes[n])
        origin = f"from {next(_place(b) for b, axis in axes if b.shape[axis] == size)}"
        values = union([v for _, v in seen])
        counted = values.dtype.kind == "i" and (
            not values.size or (int(values[0]) >= 0 and int(values[-1]) < size)
        )
        if values.size == size and not counted:
            if not _consecutive(values):
                self.guessed.add(name)
            return IndexSet(name, values, f"from the values of {seen[0][0].symbol.name}")
        if counted and values.size and int(values[0]) > 0:
            self.guessed.add(name)  # numbers from 1, or from 0 with the first not used: who knows
        if size > most():
            symbol = self.model.symbols[name]
            return index_conflict(
                symbol, f"has {size} labels; at most {most()} are possible", "give a smaller array"
            )
        check_sizes(self.graph, {name: size})
        return IndexSet(name, np.arange(size, dtype=np.int64), origin)

    def _mapped(self, name: str) -> list[tuple[BoundDatum, AnyArray]]:
        """The labels that maps (and graphs given as pairs) use of an index set."""
        matches: list[tuple[BoundDatum, AnyArray]] = []
        for b in self.bound:
            into = b.symbol.target == name or (b.pairs and name in b.symbol.dims)
            if not into or b.sparse:
                continue
            labels = labels_of(b.raw)
            present = labels.present
            # These stand for a missing entry, so they name no member.
            if present.dtype.kind == "i":
                present = present[present != -1]
            elif b.symbol.optional:
                present = present[present != "NA"]
            matches.append((b, present))
        return matches

    def _named(self, name: str) -> IndexSet | None:
        """The members that new data name, under the index's name or along an axis."""
        if name in self.from_keys:
            return IndexSet(name, plain(self.from_keys[name].values), self._origin(name))
        for b in self.bound:
            for axis, dim in enumerate(b.symbol.dims if b.fits else ()):
                labels = b.labels[axis]
                if (
                    dim == name
                    and labels is not None
                    and not (b.weak and axis == 0)
                    and not labels.missing.any()
                ):
                    return IndexSet(name, plain(labels.values), f"from {_place(b)}")
        return None

    def _extended(self, symbol: Symbol, index: IndexSet) -> IndexSet | Diagnostic:
        """A fitted index set, with labels appended that maps (not responses) bring new, and
        those that are asked for by name."""
        used = [
            v
            for b, v in self._mapped(index.name)
            if b.symbol.name not in self.graph.observed
            and (b.values.dtype.kind != "b" or truthful(index.labels))
        ]
        if index.name in self.from_keys:
            labels = self.from_keys[index.name].values
            unknown = labels[index.positions(labels) < 0]
            if unknown.size and index.name not in self.growing:
                return unknown_members(symbol, index, unknown)
            self.asked[index.name] = labels
            used.append(labels)
        new = union([v[index.positions(v) < 0] for v in used])
        if not new.size:
            return index
        both = [index.labels, new]
        if new.dtype.kind != index.labels.dtype.kind:
            both = [part.astype(np.str_) for part in both]
        self.appended[index.name] = both[1]
        return replace(index, labels=plain(np.concatenate(both)), added=None, placed=None)


def _place(bound: BoundDatum) -> str:
    return f"{bound.entry.source}:{bound.entry.name}"


def _consecutive(values: AnyArray) -> bool:
    return values.dtype.kind == "i" and int(values[-1]) - int(values[0]) == values.size - 1
