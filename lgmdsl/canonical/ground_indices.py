"""Index sets from the model, the data's labels, the maps, the shapes, and given sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.ground_axes import Bound
from lgmdsl.canonical.ground_errors import (
    count_of,
    index_conflict,
    no_size,
)
from lgmdsl.canonical.ground_keys import checked, keyed
from lgmdsl.canonical.ground_labels import LabelArray, labels_of, plain, union
from lgmdsl.canonical.ground_limits import check_sizes, most
from lgmdsl.canonical.ground_model import IndexSet
from lgmdsl.canonical.ground_order import by_levels, misplaced, settled
from lgmdsl.canonical.order_needs import Need, needs_of
from lgmdsl.dataset import Dataset, Loaded
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.language import ast
from lgmdsl.language.checked import CheckedModel, Symbol


@dataclass
class Resolver:
    """Finds the labels of every index set of a model; problems are collected, not raised.

    `kept` are the index sets of an earlier fit that new data may not replace; labels of maps that
    they lack are appended, and noted in `appended`.
    """

    model: CheckedModel
    dataset: Dataset
    bound: Sequence[Bound]
    sizes: Mapping[str, int]
    kept: Mapping[str, IndexSet] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    troubled: frozenset[str] = frozenset()
    problems: list[Diagnostic] = field(default_factory=list)
    indices: dict[str, IndexSet] = field(default_factory=dict)
    from_keys: dict[str, LabelArray] = field(default_factory=dict)
    appended: dict[str, AnyArray] = field(default_factory=dict)
    needs: Mapping[str, tuple[Need, ...]] = field(default_factory=dict)
    guessed: set[str] = field(default_factory=set)

    def resolve(self) -> None:
        """Fill `indices` in the order of declaration."""
        taken = {self.dataset.key(b.symbol.name) for b in self.bound}
        self.needs = needs_of(self.model)
        for symbol in self.model.of_kind("index"):
            self._read_labels(symbol, taken)
        for symbol in self.model.of_kind("index"):
            found = self._find(symbol)
            if found is None:
                if not self._blamed(symbol.name):
                    self.problems.append(no_size(symbol))
                continue
            if isinstance(found, Diagnostic):
                self.problems.append(found)
                continue
            found = self._in_order(symbol, found)
            self.indices[symbol.name] = found
            if found.size == 0:
                self.problems.append(
                    index_conflict(
                        symbol,
                        f"is empty: it has 0 labels, {found.origin}",
                        "give at least one row",
                    )
                )

    def _in_order(self, symbol: Symbol, index: IndexSet) -> IndexSet:
        """The index set as those who need its order take it; members of a fit keep theirs."""
        needs = self.needs.get(symbol.name, ())
        if symbol.name in self.fixed:
            new = self.appended.get(symbol.name)
            wrong = None if new is None else misplaced(self.kept[symbol.name], new, needs)
            if wrong is not None:
                self.problems.append(wrong)
            return index
        assert isinstance(symbol.statement, ast.Index)
        maps = [b for b, _ in self._mapped(symbol.name)]
        found = settled(index, needs, symbol.statement.definition is None, maps)
        if isinstance(found, IndexSet):
            return found
        self.problems.append(found)
        return index

    def _read_labels(self, symbol: Symbol, taken: set[str]) -> None:
        """Labels under the index's own name, unless a datum is mapped to that key."""
        key = self.dataset.key(symbol.name)
        entry = self.dataset.entries.get(key)
        if entry is None or key in taken:
            if key != symbol.name and key not in taken:
                self.problems.append(
                    index_conflict(
                        symbol,
                        f"is mapped to `{key}`, which {self.dataset.name} does not have",
                        f"it has: {', '.join(self.dataset.keys)}",
                    )
                )
            return
        try:
            loaded = entry.loaded
        except DataError as error:
            self.problems.extend(error.diagnostics)
            return
        origin = f"{entry.source}:{key}"
        if not isinstance(loaded.values, np.ndarray) or loaded.values.ndim != 1:
            self.problems.append(
                index_conflict(
                    symbol,
                    f"takes its labels from {origin}, which has the shape {loaded.shape}",
                    f"rename `{key}`, or give one label each",
                )
            )
            return
        check_sizes(self.model, {symbol.name: len(loaded.values)})
        into = [s.name for s in self.model.of_kind("data") if s.target == symbol.name]
        idle = [name for name in into if self.dataset.ask(name) is None]
        labels = checked(self.problems, symbol, loaded, origin, None if into and not idle else idle)
        if labels is not None:
            table = entry.source if entry.table else ""
            self.from_keys[symbol.name] = replace(labels, table=table)

    def _find(self, symbol: Symbol) -> IndexSet | Diagnostic | None:
        statement = symbol.statement
        assert isinstance(statement, ast.Index)
        name = symbol.name
        if statement.definition is not None:
            return self._declared(symbol, statement.definition)
        if name in self.sizes and name not in self.kept:
            found = self._from_data(name)
            if isinstance(found, IndexSet) and found.size != self.sizes[name]:
                return index_conflict(
                    symbol,
                    f"has {count_of(found.size, 'label')}, {found.origin}, but its size "
                    f"was given as {self.sizes[name]}",
                    f"leave out {name}={self.sizes[name]}",
                )
            if found is not None:
                return found
            size = self.sizes[name]
            if not 0 < size <= most():
                return index_conflict(symbol, f"cannot have the size {size}", f"{name}=10")
            check_sizes(self.model, {name: size})
            return IndexSet(name, np.arange(size, dtype=np.int64), "from the given size")
        if name in self.fixed:
            return self._extended(self.kept[name])
        return self._from_data(name) or self.kept.get(name)

    def _blamed(self, name: str) -> bool:
        """Whether a datum that would give the size is at fault, which is said of the datum."""
        misfits = {b.symbol.name for b in self.bound if not b.fits}
        return any(
            (name in s.dims or s.target == name) and (s.name in misfits | self.troubled)
            for s in self.model.of_kind("data")
        )

    def _declared(
        self, symbol: Symbol, definition: ast.Size | ast.Range | ast.Labels | ast.Head
    ) -> IndexSet | Diagnostic | None:
        name = symbol.name
        span = symbol.statement.span
        origin = f"from line {span.line}" if span.known else "from the model"
        match definition:
            case ast.Head(of=of):
                whole = self.indices.get(of.id)
                if whole is None:  # why it is unknown has been said where it was looked for
                    return None
                if whole.size < 2:
                    return index_conflict(
                        symbol,
                        f"is empty: {of.id} has {count_of(whole.size, 'label')}",
                        "give more classes",
                    )
                return replace(
                    whole, name=name, labels=whole.labels[:-1], origin=origin, added=None
                )
            case ast.Labels(labels=labels):
                return IndexSet(name, plain(np.array(labels, dtype=np.str_)), origin, given=True)
            case ast.Range(first=first, last=last):
                size = last - first + 1
            case ast.Size(size=size):
                first = 0
        if not 0 <= size <= most() or not -(2**62) < first < 2**62:
            return index_conflict(
                symbol, f"has {size} labels, and {most()} are the most", "declare a smaller set"
            )
        check_sizes(self.model, {name: size})
        given = self.from_keys.get(name)
        if isinstance(definition, ast.Size) and given is not None and given.values.size == size:
            return keyed(name, self.from_keys[name], self._origin(name))
        return IndexSet(name, np.arange(first, first + size, dtype=np.int64), origin)

    def _origin(self, name: str) -> str:
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
                own = b.labels[axis]
                if (
                    own is not None
                    and b.weak == weak
                    and not own.missing.any()
                    and np.unique(own.values).size == own.values.size
                ):
                    return IndexSet(name, plain(own.values), f"from {_place(b)}", given=b.named)
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
        if size > most():
            symbol = self.model.symbols[name]
            return index_conflict(
                symbol, f"has {size} labels, and {most()} are the most", "give a smaller array"
            )
        check_sizes(self.model, {name: size})
        return IndexSet(name, np.arange(size, dtype=np.int64), origin)

    def _mapped(self, name: str) -> list[tuple[Bound, AnyArray]]:
        """The labels that maps (and graphs given as pairs) use of an index set."""
        found: list[tuple[Bound, AnyArray]] = []
        for b in self.bound:
            into = b.symbol.target == name or (b.pairs and name in b.symbol.dims)
            if not into or b.sparse:
                continue
            labels = labels_of(Loaded(b.values, b.missing))
            present = labels.present
            # These stand for a missing entry, so they name no member.
            if present.dtype.kind == "i":
                present = present[present != -1]
            elif isinstance(b.symbol.statement, ast.Data) and b.symbol.statement.type.missing:
                present = present[present != "NA"]
            found.append((b, present))
        return found

    def _extended(self, index: IndexSet) -> IndexSet:
        """A kept index set, and after its labels those that maps (not responses) bring new."""
        observed = {s.name.id for s in self.model.tree.statements if isinstance(s, ast.Observe)}
        used = [v for b, v in self._mapped(index.name) if b.symbol.name not in observed]
        new = union([v[index.positions(v) < 0] for v in used])
        if not new.size:
            return index
        both = [index.labels, new]
        if new.dtype.kind != index.labels.dtype.kind:
            both = [part.astype(np.str_) for part in both]
        self.appended[index.name] = both[1]
        return replace(index, labels=plain(np.concatenate(both)), added=None, placed=None)


def _place(bound: Bound) -> str:
    return f"{bound.entry.source}:{bound.entry.name}"


def _consecutive(values: AnyArray) -> bool:
    return values.dtype.kind == "i" and int(values[-1]) - int(values[0]) == values.size - 1
