"""The formatter: a syntax tree to its canonical text.

Idempotent, keeps the tree, and keeps every comment at its statement. Runs of statements of one
kind are aligned at their signs; lines are folded at 100 columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lgmdsl.language.tree import ast
from lgmdsl.language.tree.print_expr import NEVER, Pieces, Stretch, flat
from lgmdsl.language.tree.statements import Row, described

WIDTH = 100
WIDEST_COLUMN = 48


@dataclass(frozen=True)
class Line:
    """A statement's row with its opening word and description, and the widths of its columns."""

    keyword: str
    row: Row
    doc: str | None = None
    widths: tuple[int, int, int] = (0, 0, 0)


def print_model(tree: ast.Ast) -> str:
    """The canonical text of a tree, ending in a newline."""
    header = f"lgm {tree.version}"
    if tree.header_trailing:
        header += f"  {tree.header_trailing}"
    lines = [*tree.header_comments, header]
    aligned = _align(tree.statements, [_line(s) for s in tree.statements])
    for statement, line in zip(tree.statements, aligned, strict=True):
        if statement.blank_before:
            lines.append("")
        lines += [*statement.comments, *statement.inner]
        lines += _fold(line)
        if statement.trailing:
            lines[-1] += f"  {statement.trailing}"
    lines += tree.end_comments
    return "\n".join(lines) + "\n"


def print_statement(statement: ast.AnyStatement) -> str:
    """One statement on one line, without its comments and its description."""
    return flat(_pieces(replace(_line(statement), doc=None)))


# ---- alignment -----------------------------------------------------------------------------


def _line(statement: ast.AnyStatement) -> Line:
    of = described(statement)
    return Line(of.word, of.row(statement), statement.doc)


def _align(statements: Sequence[ast.AnyStatement], lines: list[Line]) -> list[Line]:
    """Pad the columns of neighbouring lines; a blank line or a comment ends a neighbourhood."""
    keyword = _padded(statements, lines, False, group, lambda line: len(line.keyword))
    left = _padded(statements, lines, True, type, lambda line: len(flat(line.row.left)))
    kind = _padded(statements, lines, True, type, lambda line: len(line.row.kind))
    return [
        replace(line, widths=widths)
        for line, widths in zip(lines, zip(keyword, left, kind, strict=True), strict=True)
    ]


def group(statement: ast.AnyStatement) -> str:
    """The group of a statement: those of one group are not separated in a built model."""
    of = described(statement)
    return of.group or of.word


def _padded(
    statements: Sequence[ast.AnyStatement],
    lines: Sequence[Line],
    signed: bool,
    key: Callable[[ast.AnyStatement], object],
    width: Callable[[Line], int],
) -> list[int]:
    """The width of a column for each line: that of its run, or the line's if that is too wide.
    `signed` columns are those before a sign, so lines without one end a run."""
    result = [width(line) for line in lines]
    start = 0
    for i in range(1, len(lines) + 1):
        if i < len(lines):
            s, previous = statements[i], statements[i - 1]
            apart = s.blank_before or s.comments or s.inner
            alike = not signed or (lines[i].row.aligned and lines[i - 1].row.aligned)
            if not apart and alike and key(s) == key(previous):
                continue
        widest = max(result[start:i])
        if i - start > 1 and widest <= WIDEST_COLUMN:
            result[start:i] = [widest] * (i - start)
        start = i
    return result


# ---- lines ---------------------------------------------------------------------------------


def _pieces(line: Line) -> Pieces:
    row, (keyword, left, kind) = line.row, line.widths
    pieces = [Stretch(line.keyword.ljust(keyword) + " "), *row.left]
    if row.aligned:
        pieces.append(Stretch(" " * (left - len(flat(row.left)))))
    if row.kind:
        pieces.append(Stretch(f" : {row.kind}"))
    if row.sign:
        pieces.append(Stretch(" " * (kind - len(row.kind)) + f" {row.sign} "))
        pieces += row.right
    if line.doc is not None:
        pieces += [Stretch("  "), Stretch(f'"{line.doc}"', 0)]
    return pieces


def _fold(line: Line) -> list[str]:
    """A line as lines of at most 100 columns where its pieces allow it.

    A continued line begins under the sign, so that its operator is aligned with it; what does not
    begin with an operator is indented two columns more.
    """
    row, pieces = line.row, _pieces(line)
    if len(flat(pieces)) <= WIDTH:
        return [flat(pieces)]
    indent = sum(map(len, (flat(row.left), line.keyword))) + 2
    if row.kind:
        indent += line.widths[2] + 3
    indent += max(0, line.widths[1] - len(flat(row.left)))
    indent += max(0, line.widths[0] - len(line.keyword))
    if indent > WIDEST_COLUMN or not row.sign:
        indent = 4
    lines: list[str] = []
    width, breaks = 0, 0
    start = 0
    while start < len(pieces):
        width = _indent(pieces[start], indent) if lines else 0
        best, end = None, start
        while end < len(pieces):
            breaks = pieces[end].depth
            if end > start and breaks < NEVER and (best is None or breaks <= pieces[best].depth):
                best = end
            width += len(pieces[end].text)
            if width > WIDTH and best is not None:
                break
            end += 1
        stop = best if best is not None and end < len(pieces) else len(pieces)
        text = flat(pieces[start:stop]).rstrip()
        lines.append(" " * _indent(pieces[start], indent) + text if lines else text)
        start = stop
    return lines


def _indent(piece: Stretch, indent: int) -> int:
    return indent if piece.text in ("+ ", "- ", "* ", "/ ", "@ ") else indent + 2
