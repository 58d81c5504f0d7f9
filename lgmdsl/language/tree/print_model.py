"""The formatter: a syntax tree to its canonical text.

Idempotent, keeps the tree, and keeps every comment at its statement. Runs of statements of one
kind are aligned at their signs; lines are folded at 100 columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lgmdsl.language.tree import ast
from lgmdsl.language.tree.print_expr import NEVER, Piece, Pieces, flat, pieces_of

WIDTH = 100
WIDEST_COLUMN = 48

_TAIL = (ast.Observe, ast.Potential, ast.Constrain, ast.Report)


@dataclass(frozen=True)
class Row:
    """One statement in columns: `data` `X[obs, feat]` `: real`, then `~` or `=` and the rest."""

    keyword: str
    left: Pieces
    kind: str = ""
    sign: str = ""
    right: Pieces = field(default_factory=list)
    doc: str | None = None
    widths: tuple[int, int, int] = (0, 0, 0)


def print_model(tree: ast.Ast) -> str:
    """The canonical text of a tree, ending in a newline."""
    header = f"lgm {tree.version}"
    if tree.header_trailing:
        header += f"  {tree.header_trailing}"
    lines = [*tree.header_comments, header]
    rows = _align(tree.statements, [_row(s) for s in tree.statements])
    for statement, row in zip(tree.statements, rows, strict=True):
        if statement.blank_before:
            lines.append("")
        lines += [*statement.comments, *statement.inner]
        lines += _fold(row)
        if statement.trailing:
            lines[-1] += f"  {statement.trailing}"
    lines += tree.end_comments
    return "\n".join(lines) + "\n"


def print_statement(statement: ast.AnyStatement) -> str:
    """One statement on one line, without its comments and its description."""
    row = replace(_row(statement), doc=None)
    return flat(_pieces(row))


# ---- statements to rows --------------------------------------------------------------------


def _row(statement: ast.AnyStatement) -> Row:
    keyword = type(statement).__name__.lower()
    doc = statement.doc
    match statement:
        case ast.Index(name=name, definition=None):
            return Row(keyword, _text(name.id), doc=doc)
        case ast.Index(name=name, definition=definition):
            return Row(keyword, _text(name.id), "", "=", _definition(definition), doc)
        case ast.Data(type=kind):
            return Row(keyword, _declared(statement), _type(kind), doc=doc)
        case ast.Hyper(type=kind, prior=None, value=value) if value is not None:
            return Row(keyword, _declared(statement), _type(kind), "=", pieces_of(value), doc)
        case ast.Hyper(type=kind, prior=prior) if prior is not None:
            return Row(keyword, _declared(statement), _type(kind), "~", pieces_of(prior), doc)
        case ast.Latent(factors=factors):
            return Row(keyword, _declared(statement), "", "~", _factors(factors), doc)
        case ast.Let(value=value) | ast.Report(value=value):
            return Row(keyword, _declared(statement), "", "=", pieces_of(value), doc)
        case ast.Observe(name=name, family=family):
            return Row(keyword, _text(name.id), "", "~", pieces_of(family), doc)
        case ast.Potential(value=value, family=family):
            return Row(keyword, pieces_of(value), "", "~", pieces_of(family), doc)
        case ast.Constrain(left=left, right=right):
            return Row(keyword, pieces_of(left), "", "=", pieces_of(right), doc)
    raise TypeError(f"no such statement: {statement!r}")


def _text(text: str) -> Pieces:
    return [Piece(text)]


def _declared(s: ast.Data | ast.Hyper | ast.Latent | ast.Let | ast.Report) -> Pieces:
    dims = ", ".join(d.id for d in s.dims)
    return _text(f"{s.name.id}[{dims}]" if dims else s.name.id)


def _type(kind: ast.Type) -> str:
    return kind.name + ("?" if kind.missing else "")


def _definition(definition: ast.Size | ast.Range | ast.Labels | ast.Head | None) -> Pieces:
    match definition:
        case ast.Size(size=size):
            return _text(str(size))
        case ast.Range(first=first, last=last):
            return _text(f"{first}..{last}")
        case ast.Labels(labels=labels):
            quoted = [f'"{label}"' for label in labels]
            inner = [Piece(f"{q}, ", 3 if i else NEVER) for i, q in enumerate(quoted[:-1])]
            final = Piece(quoted[-1], 3 if inner else NEVER)
            return [Piece("{"), *inner, final, Piece("}")]
        case ast.Head(of=of):
            return _text(f"head({of.id})")
    return []


def _factors(factors: Sequence[ast.Dist]) -> Pieces:
    pieces = pieces_of(factors[0])
    for factor in factors[1:]:
        pieces += [Piece(" "), Piece("* ", 1), *pieces_of(factor, 2)]
    return pieces


# ---- alignment -----------------------------------------------------------------------------


def _align(statements: Sequence[ast.AnyStatement], rows: list[Row]) -> list[Row]:
    """Pad the columns of neighbouring rows; a blank line or a comment ends a neighbourhood."""
    keyword = _padded(statements, rows, lambda s: isinstance(s, _TAIL), lambda s: None,
                      lambda r: len(r.keyword))  # fmt: skip
    left = _padded(statements, rows, _has_columns, type, lambda r: len(flat(r.left)))
    kind = _padded(statements, rows, lambda s: isinstance(s, ast.Hyper), type,
                   lambda r: len(r.kind))  # fmt: skip
    return [
        replace(row, widths=widths)
        for row, widths in zip(rows, zip(keyword, left, kind, strict=True), strict=True)
    ]


def _has_columns(statement: ast.AnyStatement) -> bool:
    return not (isinstance(statement, ast.Index) and statement.definition is None)


def _padded(
    statements: Sequence[ast.AnyStatement],
    rows: Sequence[Row],
    joins: Callable[[ast.AnyStatement], bool],
    key: Callable[[ast.AnyStatement], object],
    width: Callable[[Row], int],
) -> list[int]:
    """The width of a column for each row: the widest of its run, or its own if that is too wide."""
    result = [width(row) for row in rows]
    start = 0
    for i in range(1, len(rows) + 1):
        if i < len(rows):
            s, previous = statements[i], statements[i - 1]
            apart = s.blank_before or s.comments or s.inner
            if not apart and joins(s) and joins(previous) and key(s) == key(previous):
                continue
        widest = max(result[start:i])
        if i - start > 1 and widest <= WIDEST_COLUMN:
            result[start:i] = [widest] * (i - start)
        start = i
    return result


# ---- lines ---------------------------------------------------------------------------------


def _pieces(row: Row) -> Pieces:
    keyword, left, kind = row.widths
    pieces = [Piece(row.keyword.ljust(keyword) + " "), *row.left]
    if row.kind or row.sign:
        pieces.append(Piece(" " * (left - len(flat(row.left)))))
    if row.kind:
        pieces.append(Piece(f" : {row.kind}"))
    if row.sign:
        pieces.append(Piece(" " * (kind - len(row.kind)) + f" {row.sign} "))
        pieces += row.right
    if row.doc is not None:
        pieces += [Piece("  "), Piece(f'"{row.doc}"', 0)]
    return pieces


def _fold(row: Row) -> list[str]:
    """A row as lines of at most 100 columns where its pieces allow it.

    A continued line begins under the sign, so that its operator stands there; what does not begin
    with an operator stands two columns further in.
    """
    pieces = _pieces(row)
    if len(flat(pieces)) <= WIDTH:
        return [flat(pieces)]
    indent = sum(map(len, (flat(row.left), row.keyword))) + 2
    if row.kind:
        indent += row.widths[2] + 3
    indent += max(0, row.widths[1] - len(flat(row.left)))
    indent += max(0, row.widths[0] - len(row.keyword))
    if indent > WIDEST_COLUMN or not row.sign:
        indent = 4
    lines: list[str] = []
    line, breaks = 0, 0
    start = 0
    while start < len(pieces):
        line = _indent(pieces[start], indent) if lines else 0
        best, end = None, start
        while end < len(pieces):
            breaks = pieces[end].depth
            if end > start and breaks < NEVER and (best is None or breaks <= pieces[best].depth):
                best = end
            line += len(pieces[end].text)
            if line > WIDTH and best is not None:
                break
            end += 1
        stop = best if best is not None and end < len(pieces) else len(pieces)
        text = flat(pieces[start:stop]).rstrip()
        lines.append(" " * _indent(pieces[start], indent) + text if lines else text)
        start = stop
    return lines


def _indent(piece: Piece, indent: int) -> int:
    return indent if piece.text in ("+ ", "- ", "* ", "/ ", "@ ") else indent + 2
