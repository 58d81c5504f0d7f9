"""What the data of a model were read as: sources, kinds, order and gaps, for `lgm check`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lgmdsl.api.page import columns
from lgmdsl.canonical.grounding.model import GroundedModel, IndexSet
from lgmdsl.language.checked import Symbol
from lgmdsl.structures.spatial.graphs import Components

# Labels of an index set that the page shows.
SHOWN = 4


@dataclass(frozen=True)
class DatumRead:
    """A datum: its declaration, where it stood, what it was, its values, its order, its gaps."""

    name: str
    type: str
    source: str
    kind: str
    values: str
    order: str
    missing: int
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class IndexRead:
    """An index set: its size, the source of its labels, and their order."""

    name: str
    size: int
    labels: str
    origin: str
    order: str
    added: int


@dataclass(frozen=True)
class Readings:
    """All that was read; `str` is the page."""

    data: tuple[DatumRead, ...]
    indices: tuple[IndexRead, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values for `lgm check --json`."""
        return {
            "read": [asdict(datum) for datum in self.data],
            "indices": [asdict(index) for index in self.indices],
        }

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = []
        for d in self.data:
            gaps = f", {d.missing:,} missing" if d.missing else ""
            rows.append((d.name, d.type, d.source, f"{d.kind}, {d.values}{gaps}", d.order))
            rows += [("", "", f"  {column}") for column in d.columns]
        if rows and not any(d.missing for d in self.data):
            rows.append(("no entry is missing",))
        sets = [(i.name, f"{i.size:,}", i.labels, i.order, i.origin) for i in self.indices]
        parts = ["data", *columns(rows, 2)] if rows else []
        return "\n".join([*parts, "indices", *columns(sets, 2, right=(1,))])


def readings(grounded: GroundedModel) -> Readings:
    """What each datum and each index set of a model with data was read as."""
    data = tuple(
        _datum(symbol, grounded)
        for symbol in grounded.model.of_kind("data")
        if symbol.name in grounded.readings
    )
    return Readings(data, tuple(_index(index) for index in grounded.indices.values()))


def _datum(symbol: Symbol, grounded: GroundedModel) -> DatumRead:
    name, reading = symbol.name, grounded.readings[symbol.name]
    missing = grounded.missing.get(name)
    added = 0 if missing is None else _steps(symbol, grounded)
    design = grounded.designs.get(name)
    whole = design is not None or reading.source == reading.key or symbol.type == "graph"
    dims = f"[{', '.join(symbol.dims)}]" if symbol.dims else ""
    order = "by label" if reading.matched else "in their order"
    kind = "labels" if design is not None and reading.kind == "text" else reading.kind
    return DatumRead(
        f"{name}{dims}",
        symbol.type or symbol.target or "",
        reading.source if whole else f"{reading.source}:{reading.key}",
        kind,
        _values(symbol, grounded),
        order if symbol.dims else "",
        0 if missing is None else int(missing.sum()) - added,
        () if design is None else tuple(str(term) for term in design.terms),
    )


def _steps(symbol: Symbol, grounded: GroundedModel) -> int:
    """Entries of a datum at members that are steps without data."""
    (*dims,) = symbol.dims
    lacking = [grounded.indices[d].added for d in dims]
    if len(dims) != 1 or lacking[0] is None:
        return 0
    return int(lacking[0].sum())


def _values(symbol: Symbol, grounded: GroundedModel) -> str:
    """`0 to 6`, `12 of 12 labels`, `5 edges`."""
    value: Any = grounded.values[symbol.name]
    if symbol.target is not None:
        used = np.unique(value[value >= 0]).size
        return f"{used:,} of {grounded.indices[symbol.target].size:,} labels"
    if symbol.type == "graph":
        parts = len(Components.of(value).sizes)
        edges = int(value.nnz) // 2
        connected = "connected" if parts == 1 else f"{parts:,} components"
        return f"{edges:,} edge{'' if edges == 1 else 's'}, {connected}"
    if not isinstance(value, np.ndarray):
        return f"{int(value.nnz):,} non-zeros"
    present = value[~np.isnan(value)]
    if not present.size:
        return "no values"
    low, high = float(present.min()), float(present.max())
    return f"{low:.5g} to {high:.5g}" if low != high else f"all {low:.5g}"


def _index(index: IndexSet) -> IndexRead:
    texts = [str(v) for v in index.labels[: SHOWN + 1].tolist()]
    shown = ", ".join(texts)
    if index.size > len(texts):
        shown = f"{', '.join(texts[: SHOWN - 1])}, ..., {index.labels[-1]}"
    added = 0 if index.added is None else int(index.added.sum())
    return IndexRead(index.name, index.size, shown, index.origin, _order(index, added), added)


def _order(index: IndexSet, added: int) -> str:
    filled = f", {added:,} without data" if added else ""
    if index.given:
        return f"in the order given{filled}"
    if index.counted:
        return "numbered"
    line = index.line
    if line is None:
        return "sorted as text" if "the values of" in index.origin else "in the order read"
    if (np.diff(line.places) < 0).any():
        return "in the order read"
    return f"{'numbers' if line.unit == 'number' else f'dates by the {line.unit}'}{filled}"
