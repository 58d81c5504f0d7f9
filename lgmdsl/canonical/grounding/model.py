"""A model with its data bound: index sets with labels, typed arrays in the model's order."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl.arrays import AnyArray, Array, BoolArray, IntArray
from lgmdsl.canonical.grounding.label_line import Line, line_of, rounded
from lgmdsl.dataset.codings import Design
from lgmdsl.dataset.dataset import Selection
from lgmdsl.errors import Diagnostic
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.model_graph import ModelGraph, NodeKind
from lgmdsl.language.checked import CheckedModel, Symbol
from lgmdsl.language.load import loads
from lgmdsl.state import FieldState

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass(frozen=True, eq=False)
class IndexSet(FieldState):
    """An index set: `labels` are int64 or text, in the model's order; `origin` is their source.

    `given`: the user gave this order. `spaced`: labels that are numbers or dates are positions (not
    so in fits of versions that took all steps as equal). `added` marks members that are
    steps between the labels of the data. `placed` overrides the positions by labels. `sized`: the
    model gives their number, and nothing names them. `united`: they are those that maps and graphs
    name.
    """

    name: str
    labels: AnyArray
    origin: str = "from the model"
    given: bool = False
    spaced: bool = True
    added: BoolArray | None = None
    placed: Array | None = None
    sized: bool = False
    united: bool = False

    @property
    def size(self) -> int:
        return int(self.labels.size)

    @cached_property
    def line(self) -> Line | None:
        """The labels as points of a line: numbers and dates; None for other text."""
        return line_of(self.labels) if self.spaced else None

    @property
    def ordered(self) -> bool:
        """Whether the order of the members is known."""
        return self.given or self.line is not None

    @property
    def places(self) -> Array | None:
        """(n,) where members lie by their labels; None where these are no numbers and no dates."""
        if self.placed is not None:
            return self.placed
        return None if self.line is None else self.line.places

    @cached_property
    def _sorted(self) -> tuple[IntArray, AnyArray]:
        order = np.argsort(self.labels, kind="stable")
        return order, self.labels[order]

    @cached_property
    def _table(self) -> tuple[int, IntArray] | None:
        """The least label, and the position of each whole number from there on, -1 where it is no
        label; None where labels are no whole numbers, or lie far apart."""
        if self.labels.dtype.kind != "i" or not self.size:
            return None
        low, high = int(self.labels.min()), int(self.labels.max())
        if high - low > 4 * self.size:
            return None
        order, ordered = self._sorted
        table = np.full(high - low + 1, -1, dtype=np.int64)
        table[(ordered - low)[::-1]] = order[::-1]  # of labels that are one, the first
        return low, table

    def positions(self, values: AnyArray) -> IntArray:
        """The position of each label of `values`, -1 for a label that is not in the set.

        Whole numbers and text are compared as text, so the label "3" and the number 3 are one. A
        fraction that is no label is the only one that it is to 15 digits (`rounded`).
        """
        order, ordered = self._sorted
        if values.dtype.kind != ordered.dtype.kind:
            if values.dtype.kind == "U":
                return IndexSet(self.name, self.labels.astype(np.str_)).positions(values)
            values = values.astype(np.str_)
        if not self.size:
            return np.full(values.shape, -1, dtype=np.int64)
        if self._table is not None and values.dtype.kind == "i":
            low, table = self._table
            values = values.astype(np.int64)
            inside = (values >= low) & (values < low + len(table))
            return np.where(inside, table[np.where(inside, values, low) - low], -1)
        slots = np.minimum(np.searchsorted(ordered, values), self.size - 1)
        found = np.where(ordered[slots] == values, order[slots], -1).astype(np.int64)
        unknown = np.flatnonzero(found.reshape(-1) < 0)
        if unknown.size and values.dtype.kind == "U" and self._near:
            wanted = values.reshape(-1)[unknown].tolist()
            near = [self._near.get(rounded(v) or v, -1) for v in wanted]
            found.reshape(-1)[unknown] = near
        return found

    @cached_property
    def _near(self) -> Mapping[str, int]:
        """The positions of labels by their 15 digits, where these are of one label alone and some
        label, or what names it, has more."""
        if self.line is None or self.line.unit != "number":
            return {}
        keys = [rounded(label) or label for label in self.labels.tolist()]
        times = Counter(keys)
        return {key: k for k, key in enumerate(keys) if times[key] == 1}

    def position(self, label: str | int) -> int | None:
        """The position of one label, or None."""
        position = int(self.positions(np.array([label]))[0])
        return None if position < 0 else position

    @property
    def counted(self) -> bool:
        """Whether the labels are 0..n-1, that is, only positions."""
        return self.labels.dtype.kind == "i" and bool(
            (self.labels == np.arange(self.size, dtype=np.int64)).all()
        )


@dataclass(frozen=True)
class Reading:
    """What a datum was read from: a file or frame and its key, what the values were (`text`, `whole
    numbers` ...), and whether its entries were matched by labels or taken in their order."""

    source: str
    key: str
    kind: str
    matched: bool


@dataclass(frozen=True, eq=False)
class GroundedModel(FieldState):
    """The model, by its graph, and its data.

    `values`: float64 arrays, or csr matrices for sparse data used in `@`; index-valued data are
    int64 positions, -1 where missing; graphs are symmetric csr adjacencies of ones without a
    diagonal. `missing` has an entry only where something is missing (there `values` holds NaN, or
    -1). A response that is absent (`partial`) is in neither.

    After `ground_new`, `replaced` names the index sets whose members are those of the new data, and
    `new_levels` the labels appended to a kept index set, which stand after the old ones; `steps`
    are those of the replaced ones whose labels are the fit's, or take their places among them.
    `basis` is then the fit's data, of whose members the bases of its structures are made.
    `asked`: the labels that were named of a kept index set, in their order. `untied`: members at
    one position have entries of their own, as which of them are one is said where they are joined
    to the fit's. `mapping` is what the data were read by, `designs` how matrices were made of
    columns, with their levels; `readings` what each datum was, where it was read now.
    """

    graph: ModelGraph
    indices: Mapping[str, IndexSet]
    values: Mapping[str, AnyArray | sp.csr_array]
    missing: Mapping[str, BoolArray] = field(default_factory=dict)
    source: str = "no data"
    warnings: tuple[Diagnostic, ...] = ()
    replaced: tuple[str, ...] = ()
    new_levels: Mapping[str, AnyArray] = field(default_factory=dict)
    steps: frozenset[str] = frozenset()
    asked: Mapping[str, AnyArray] = field(default_factory=dict)
    untied: bool = False
    mapping: Mapping[str, Selection] = field(default_factory=dict)
    designs: Mapping[str, Design] = field(default_factory=dict)
    readings: Mapping[str, Reading] = field(default_factory=dict)
    basis: GroundedModel | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "graph": self.model.source}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The model crosses as its text: trees are deep, and pickle recurses."""
        source = state["graph"]
        graph = model_graph(loads(source.text, source.name).checked)
        self.__dict__.update(state, graph=graph)

    @property
    def model(self) -> CheckedModel:
        """The checked model of the graph."""
        return self.graph.model

    def declared(self, *kinds: NodeKind) -> tuple[Symbol, ...]:
        """The symbols of some kinds, each after all that it depends on; else in the order of the
        text."""
        return tuple(self.model.symbols[node.id] for node in self.graph.ordered(*kinds))

    @cached_property
    def hashes(self) -> Mapping[str, str]:
        """The sha256 of every datum as it was bound; computed when first asked for."""
        return {name: hash_of(value) for name, value in self.values.items()}

    def dims(self, name: str) -> tuple[str, ...]:
        """The index names of a datum."""
        return self.model.symbols[name].dims


def hash_of(value: Any) -> str:
    """sha256 over type, shape and bytes of an array or csr matrix."""
    digest = hashlib.sha256(f"{value.dtype.str}{value.shape}".encode())
    parts = [value]
    if not isinstance(value, np.ndarray):
        parts = [value.data, value.indices.astype(np.int64), value.indptr.astype(np.int64)]
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
