"""ModelGraph and Dataset to GroundedModel: every datum typed, labelled and in the model's order.

Rules 3, 4 and 13 of the language: index sets get their labels from the model, from the data or
from the maps into them; members are matched by label, axes by name where they have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.canonical.grounding.axes import BoundDatum, align, bind, unjoined
from lgmdsl.canonical.grounding.errors import absent, absent_labels, wrong_shape
from lgmdsl.canonical.grounding.indices import Resolver
from lgmdsl.canonical.grounding.keys import unknown_names
from lgmdsl.canonical.grounding.limits import check_sizes
from lgmdsl.canonical.grounding.model import GroundedModel, IndexSet
from lgmdsl.canonical.grounding.reuse import completed, named_part, reused
from lgmdsl.canonical.grounding.tables.place import placed
from lgmdsl.canonical.grounding.usage import Usage, usage_of
from lgmdsl.canonical.grounding.values import RULES, Place, numbers_of, positions_of, sparse_numbers
from lgmdsl.canonical.grounding.warnings import data_warnings, expanded, guessed_order
from lgmdsl.dataset import Dataset
from lgmdsl.dataset.refusals import check_memory
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.language.checked import Symbol

__all__ = ["GroundedModel", "IndexSet", "ground", "ground_new"]


def ground(
    graph: ModelGraph,
    dataset: Dataset,
    partial: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> GroundedModel:
    """Bind the data of a model, given by its graph.

    `partial`: responses may be absent (prediction, simulation); they are left out. `sizes` gives
    the size of index sets that no datum runs over. Raises DataError with every problem of every
    datum: E301 shape, E302 labels, E303 values, E304 missing, E305 absent, E306 refused.
    """
    return _Grounding(graph, dataset, partial, dict(sizes or {})).run()


def ground_new(fitted: GroundedModel, dataset: Dataset) -> GroundedModel:
    """Bind new data to a fitted model, for prediction.

    Index sets of the rows (axes of a response that no hyperparameter, graph or structure ties
    down) take their members from the new data and are named in `replaced`; so do those over which
    a structure is ordered (`steps`), where the new data name members of theirs. All others keep the
    fit's labels, to which new labels of maps, or under the index's own name, are appended
    (`new_levels`). Data over kept index sets alone may be left out: the fit's are used. Responses
    may be absent, and what says how they were observed.
    """
    usage = usage_of(fitted.graph)
    fixed = frozenset(fitted.indices) - usage.rows - usage.steps
    return _Grounding(fitted.graph, dataset, True, {}, fitted, fixed).run()


@dataclass
class _Grounding:
    graph: ModelGraph
    dataset: Dataset
    partial: bool
    sizes: Mapping[str, int]
    fitted: GroundedModel | None = None
    fixed: frozenset[str] = frozenset()
    problems: list[Diagnostic] = field(default_factory=list)
    troubled: set[str] = field(default_factory=set)
    warnings: list[Diagnostic] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, BoolArray] = field(default_factory=dict)
    bounded: list[Symbol] = field(default_factory=list)

    def run(self) -> GroundedModel:
        usage = usage_of(self.graph)
        self.dataset = placed(self.graph.model, self.dataset, self.fitted)
        self.designs = dict(self.dataset.designs)
        self.problems += unknown_names(self.graph.model, self.dataset, self.sizes)
        bound = self._bind(usage)
        resolver = Resolver(
            self.graph,
            self.dataset,
            bound,
            self.sizes,
            self.fitted.indices if self.fitted else {},
            self.fixed,
            usage.steps if self.fitted else frozenset(),
            usage.growing if self.fitted else frozenset(),
            frozenset(self.troubled),
        )
        resolver.resolve()
        self.problems, indices = self.problems + resolver.problems, resolver.indices
        self.problems += unjoined(bound, indices, resolver.from_keys)
        check_sizes(self.graph, {name: i.size for name, i in indices.items()})
        for item in bound:
            self._ground(item, resolver, usage)
        for symbol in self.bounded:
            if {*symbol.dims} <= {*indices}:
                shape = tuple(indices[d].size for d in symbol.dims)
                self.values[symbol.name] = np.full(shape, np.nan)
                self.missing[symbol.name] = np.ones(shape, dtype=np.bool_)
        replaced = self._replaced(indices)
        if self.fitted is not None:
            names, changed = {b.symbol.name for b in bound}, {*replaced, *resolver.appended}
            old = reused(self.fitted, self.dataset, names | self.troubled, indices, changed, usage)
            self.values |= old.values
            self.missing |= old.missing
            self.problems += old.problems
            same = {n for n, value in old.values.items() if value is self.fitted.values[n]}
            self.designs |= {n: d for n, d in self.fitted.designs.items() if n in same}
        if self.problems:
            raise DataError(self.problems)
        kept = {*self.fitted.values} - usage.responses if self.fitted else None
        self.warnings += data_warnings(self.graph, self.dataset, indices, self.values, kept)
        return GroundedModel(
            self.graph,
            indices,
            self.values,
            self.missing,
            self.dataset.name,
            tuple(self.warnings),
            replaced,
            resolver.appended,
            usage.steps & set(replaced),
            self._asked(resolver.asked, bound),
            self.fitted is not None,
            self.dataset.mapping,
            self.designs,
            {b.symbol.name: b.reading for b in bound},
            None if self.fitted is None else self.fitted.basis or self.fitted,
        )

    def _bind(self, usage: Usage) -> list[BoundDatum]:
        bound: list[BoundDatum] = []
        for symbol in self.graph.model.of_kind("data"):
            try:
                entry = self.dataset.ask(symbol.name)
                if entry is None:
                    self._absent(symbol, usage)
                    continue
                result = bind(symbol, entry, self.dataset)
            except DataError as error:
                self.problems += error.placed(symbol.statement.span)
                self.troubled.add(symbol.name)
                continue
            if isinstance(result, Diagnostic):
                self.troubled.add(symbol.name)
                self.problems.append(result)
            else:
                bound.append(result)
        return bound

    def _absent(self, symbol: Symbol, usage: Usage) -> None:
        from lgmdsl.canonical.grounding.tables.named_tables import remedy_for

        name = symbol.name
        response = name in usage.observed and name not in usage.referenced
        needless = self.fitted is not None and name in usage.outcome | usage.unused
        reuse = self.fitted is not None and name in self.fitted.values
        if (self.partial and response) or needless or (reuse and name not in self.dataset.mapping):
            return
        if response and name in usage.bounded and name not in self.dataset.mapping:
            self.bounded.append(symbol)
            return
        self.troubled.add(name)
        self.problems.append(
            absent(
                symbol,
                self.dataset.name,
                self.dataset.keys,
                self.dataset.suggestion(name),
                self.dataset.key(name),
                remedy_for(symbol, self.dataset),
            )
        )

    def _ground(self, bound: BoundDatum, resolver: Resolver, usage: Usage) -> None:
        symbol, indices = bound.symbol, resolver.indices
        part = named_part(bound, indices, resolver.asked)
        if part is not None:
            indices = {**indices, part[1].name: part[1]}
        if any(dim not in indices for dim in symbol.dims):
            if not bound.fits and not bound.pairs:
                self.problems.append(wrong_shape(symbol, bound.shape, indices))
            return  # else the unknown index set has been reported already
        if bound.two_by_two and indices[symbol.dims[0]].size != 2:
            bound = replace(bound, pairs=True)
        if symbol.type == "graph" and bound.pairs:
            self._keep_graph(bound, indices)
            return
        sizes = tuple(indices[dim].size for dim in symbol.dims)
        observed = symbol.name in usage.observed and symbol.name not in usage.referenced
        if not bound.fits or bound.shape != sizes:
            # With labels on its axes a wrong size is better reported as missing labels.
            aligned = align(bound, indices, resolver.from_keys, observed) if bound.fits else bound
            if isinstance(aligned, BoundDatum) and (aligned.shape != sizes or not aligned.fits):
                aligned = wrong_shape(symbol, bound.shape, indices, self._unnamed(symbol, usage))
        else:
            aligned = align(bound, indices, resolver.from_keys, observed)
        if isinstance(aligned, Diagnostic):
            if aligned.message not in {p.message for p in self.problems}:
                self.problems.append(aligned)
            return
        self._warn_order(aligned, resolver)
        if symbol.name in self.designs and self.designs[symbol.name].columns:
            numbers = np.arange(bound.shape[0]).reshape(-1, *[1] * (len(bound.shape) - 1))
            numbered = replace(bound, values=np.broadcast_to(numbers, bound.shape), missing=None)
            rows = align(numbered, indices, resolver.from_keys, observed)
            assert isinstance(rows, BoundDatum), "its values were aligned"
            order = rows.values.reshape(len(rows.values), -1)[:, 0]
            self.designs[symbol.name] = self.designs[symbol.name].at(order)
        try:
            self._type(aligned, indices, usage)
        except DataError as error:
            self.problems += error.placed(symbol.statement.span)
        if part is not None and symbol.name in self.values:
            self._complete(symbol, *part, resolver.indices)

    def _complete(
        self, symbol: Symbol, axis: int, part: IndexSet, indices: Mapping[str, IndexSet]
    ) -> None:
        """Values of the members that were named, and the fit's of the others."""
        assert self.fitted is not None, "only a fit has members to name"
        name, whole = symbol.name, indices[part.name]
        none, before = np.zeros(self.values[name].shape, dtype=np.bool_), self.fitted.values
        known = np.asarray(before[name]) if name in before else None
        nowhere = None if known is None else np.zeros(known.shape, dtype=np.bool_)
        lacking = self.fitted.missing.get(name, nowhere)
        for target, partial, fit in (
            (self.missing, self.missing.get(name, none), lacking),
            (self.values, self.values[name], known),
        ):
            extended = completed(partial, axis, part, whole, fit)
            if extended is None:
                self.problems.append(absent_labels(symbol, whole, whole.labels))
                return
            target[name] = extended
        self.designs.pop(name, None)
        if not self.missing[name].any():
            del self.missing[name]

    def _unnamed(self, symbol: Symbol, usage: Usage) -> str:
        """The data that would have given the members of an ordered axis in new data."""
        dims = [d for d in symbol.dims if d in usage.steps] if self.fitted is not None else []
        return f"name the labels of its entries under `{dims[0]}`" if dims else ""

    def _type(self, bound: BoundDatum, indices: Mapping[str, IndexSet], usage: Usage) -> None:
        symbol, name = bound.symbol, bound.symbol.name
        if symbol.type == "graph":
            self._keep_graph(bound, indices)
            return
        if symbol.target is None and bound.sparse and name in usage.contracted:
            self._keep(name, sparse_numbers(bound, indices), None)
            return
        if bound.sparse:
            bound = self._densified(bound)
        check_memory(bound.entry.source, name, bound.shape, 8)
        observed = name in usage.observed
        if symbol.target is not None:
            if symbol.target in indices:
                self._keep(name, positions_of(bound, indices[symbol.target], indices, observed))
        elif symbol.type in RULES:
            place = Place(
                observed,
                name in usage.typed,
                name in usage.hurdles,
                usage.seen.get(name, ()),
                usage.ends.get(name),
            )
            self._keep(name, numbers_of(bound, indices, place))

    def _keep(self, name: str, result: Any, missing: BoolArray | None = None) -> None:
        if isinstance(result, (Diagnostic, list)):
            self.problems += result if isinstance(result, list) else [result]
            return
        value, missing = result if isinstance(result, tuple) else (result, missing)
        self.values[name] = value
        if missing is not None:
            self.missing[name] = missing

    def _keep_graph(self, bound: BoundDatum, indices: Mapping[str, IndexSet]) -> None:
        from lgmdsl.canonical.grounding.graphs import disconnected, graph_of

        index = indices[bound.symbol.dims[0]]
        graph, notes = graph_of(bound, index)
        if graph is None:
            self.problems += notes
        else:
            self.values[bound.symbol.name] = graph
            self.warnings += notes + disconnected(self.graph.model, bound.symbol.name, graph, index)

    def _densified(self, bound: BoundDatum) -> BoundDatum:
        """Only operands of `@` stay sparse; anything else is expanded, with a warning."""
        name = bound.symbol.name
        check_memory(bound.entry.source, name, bound.shape, 8)
        self.warnings.append(expanded(bound.symbol, bound.shape, bound.values.nnz))
        return BoundDatum(
            bound.symbol, bound.entry, bound.values.toarray(), None, bound.labels, bound.weak
        )

    def _warn_order(self, bound: BoundDatum, resolver: Resolver) -> None:
        """An unlabelled array over labels that only the maps gave: the order is a guess."""
        for dim, labels in dict(zip(bound.symbol.dims, bound.labels, strict=True)).items():
            if dim in resolver.guessed and labels is None:
                index = resolver.indices[dim]
                self.warnings.append(guessed_order(bound.symbol, index, self.dataset))

    def _asked(self, named: Mapping[str, AnyArray], bound: list[BoundDatum]) -> dict[str, AnyArray]:
        """The members that new data name, but for tables that go with the rows of a map."""
        rows = {b.symbol.target for b in bound} & (self.dataset.placements or {}).keys()
        return {name: labels for name, labels in named.items() if name not in rows}

    def _replaced(self, indices: Mapping[str, IndexSet]) -> tuple[str, ...]:
        if self.fitted is None:
            return ()
        old = self.fitted.indices
        return tuple(
            name
            for name, index in indices.items()
            if name not in self.fixed and index is not old.get(name)
        )
