"""The declarations of a model, with sizes, labels and ranges from data: `lgm info`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lgmdsl.api.page import columns, wrapped
from lgmdsl.html import Paged
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.print_expr import flat
from lgmdsl.language.tree.statements import STATEMENTS, described

if TYPE_CHECKING:
    from lgmdsl.canonical.grounding.ground import GroundedModel
    from lgmdsl.dataset import Keys
    from lgmdsl.language.builder import Model
    from lgmdsl.language.checked import CheckedModel

# Labels of an index set that the page shows; --json has them all.
SHOWN = 4


@dataclass(frozen=True)
class Declaration:
    """One statement: `definition` is its right-hand side as written, `found` what the data give."""

    kind: str
    name: str
    dims: tuple[str, ...]
    type: str
    definition: str
    doc: str
    line: int
    size: int | None = None
    labels: tuple[str, ...] = ()
    found: str = ""

    @property
    def shown(self) -> str:
        """`X[obs, feat]`."""
        return f"{self.name}[{', '.join(self.dims)}]" if self.dims else self.name


@dataclass(frozen=True)
class Info(Paged):
    """All declarations of a model, in the order of the text; `str` is the page."""

    model: str
    data: str
    declarations: tuple[Declaration, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values for `lgm info --json`."""
        return {
            "model": self.model,
            "data": self.data or None,
            "declarations": [asdict(d) for d in self.declarations],
        }

    def __str__(self) -> str:
        parts = [f"{self.model} with {self.data}" if self.data else self.model]
        for statement in STATEMENTS:
            mine = [d for d in self.declarations if d.kind == statement.word]
            if mine:
                parts += ["", statement.heading, *_rows(mine)]
        return "\n".join(parts)


def info(model: Model, data: object = None, *, mapping: Keys | None = None) -> Info:
    """List a model's declarations; with data also sizes, labels and ranges.

    Raises ModelError, and DataError for wrong data.
    """
    checked, grounded = model.checked, None
    if data is not None:
        from lgmdsl.canonical.grounding.ground import ground
        from lgmdsl.dataset import Dataset, read
        from lgmdsl.graph.build import model_graph

        dataset = data if isinstance(data, Dataset) else read(data, mapping)
        grounded = ground(model_graph(checked), dataset, partial=True)
    declarations = tuple(_declaration(s, checked, grounded) for s in checked.tree.statements)
    return Info(checked.source.name, grounded.source if grounded else "", declarations)


def _declaration(
    statement: ast.AnyStatement, checked: CheckedModel, grounded: GroundedModel | None
) -> Declaration:
    name = getattr(statement, "name", None)
    known = checked.symbols.get(name.id) if isinstance(name, ast.Name) else None
    size: int | None = None
    labels: tuple[str, ...] = ()
    summary = ""
    if isinstance(statement, ast.Index):
        size, labels, summary = _index(statement, grounded)
    elif isinstance(statement, ast.Data) and grounded is not None:
        summary = _range(statement.name.id, grounded)
    return Declaration(
        kind=described(statement).word,
        name=name.id if isinstance(name, ast.Name) else "",
        dims=known.dims if known is not None else (),
        type=_type(statement),
        definition=_definition(statement),
        doc=statement.doc or "",
        line=statement.span.line if statement.span.known else 0,
        size=size,
        labels=labels,
        found=summary,
    )


def _type(statement: ast.AnyStatement) -> str:
    if isinstance(statement, ast.Data | ast.Hyper):
        return statement.type.name + ("?" if statement.type.missing else "")
    return ""


def _definition(statement: ast.AnyStatement) -> str:
    """What stands right of the name, or the whole of a statement without one; that of an index is
    shown by its size and labels."""
    if isinstance(statement, ast.Index):
        return ""
    row = described(statement).row(statement)
    parts = [row.sign, flat(row.right)] if row.sign else []
    if not described(statement).named:
        parts.insert(0, flat(row.left))
    return " ".join(parts)


def _index(
    statement: ast.Index, grounded: GroundedModel | None
) -> tuple[int | None, tuple[str, ...], str]:
    """Size, labels, and their source."""
    if grounded is not None:
        index = grounded.indices[statement.name.id]
        return index.size, tuple(str(v) for v in index.labels.tolist()), index.origin
    match statement.definition:
        case ast.Size(size=size):
            return size, (), ""
        case ast.Range(first=first, last=last):
            return last - first + 1, (), f"{first} to {last}"
        case ast.Labels(labels=labels):
            return len(labels), labels, ""
        case ast.Head(of=of):
            return None, (), f"all of {of.id} but the last"
    return None, (), "comes with the data"


def _range(name: str, grounded: GroundedModel) -> str:
    """`0 to 102, 2 missing`; for sparse matrices how full they are."""
    import numpy as np

    value = grounded.values.get(name)
    if value is None:
        return "not given"
    symbol = grounded.model.symbols[name]
    missing = grounded.missing.get(name)
    gone = f", {int(missing.sum()):,} missing" if missing is not None else ""
    if symbol.target is not None:
        positions = np.asarray(value)
        return f"{len(np.unique(positions[positions >= 0])):,} labels in use{gone}"
    if not isinstance(value, np.ndarray):
        edges = int(value.nnz)
        return f"{edges // 2:,} edges" if symbol.type == "graph" else f"{edges:,} non-zeros"
    present = value[~np.isnan(value)]
    if not present.size:
        return f"no values{gone}"
    low, high = float(present.min()), float(present.max())
    return (f"{low:.5g} to {high:.5g}" if low != high else f"all {low:.5g}") + gone


def _rows(mine: list[Declaration]) -> list[str]:
    if mine[0].kind == "index":
        rows = [(d.name, "" if d.size is None else f"{d.size:,}", _labels(d), d.doc) for d in mine]
        return columns(rows, 2, right=(1,))
    if mine[0].kind == "data":
        return columns([(d.shown, d.type, d.found, d.doc) for d in mine], 2)
    if mine[0].kind == "hyper":
        return columns([(d.shown, d.type, d.definition, d.doc) for d in mine], 2)
    lines = []
    width = max(len(d.shown) for d in mine)
    for d in mine:
        text = f"{d.shown:<{width}}  {d.definition}" if width else d.definition
        lines += wrapped(f"{text}  {d.doc}".rstrip(), 2, width + 6)
    return lines


def _labels(d: Declaration) -> str:
    """The first labels, and their source."""
    shown = ", ".join(d.labels[:SHOWN])
    if len(d.labels) > SHOWN:
        last = f", ..., {d.labels[-1]}"
        shown = ", ".join(d.labels[: SHOWN - 1]) + last
    if shown and d.found:
        return f"{shown}   {d.found}"
    return shown or d.found
