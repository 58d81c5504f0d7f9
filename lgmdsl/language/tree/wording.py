"""Words for messages: expressions, dims and positions in the user's own spelling."""

from __future__ import annotations

from collections.abc import Sequence

from lgmdsl.errors import Span
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.statements import STATEMENTS

LONGEST = 60

# Which opener declares each kind of symbol, in a sentence.
KIND_IN_WORDS = {s.word: s.declares for s in STATEMENTS if s.declares}


def text_of(expr: ast.Value | ast.Dist) -> str:
    """The expression as the user wrote it; rebuilt (and cut at a length) where it has no text."""
    span = expr.span
    if span.known:
        text = " ".join(span.source.text[span.start : span.end].split())
        return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    return f"{expr.name.id}(...)" if isinstance(expr, ast.Dist) else _rebuilt(expr)


def _rebuilt(expr: ast.Value, depth: int = 4) -> str:
    if depth == 0:
        return "..."
    match expr:
        case ast.Number():
            return expr.text or f"{expr.value:g}"
        case ast.Name():
            return expr.id
        case ast.String():
            return f'"{expr.value}"'
        case ast.Bool():
            return str(expr.value).lower()
        case ast.Indexed():
            return f"{expr.base.id}[{', '.join(_rebuilt(s) for s in expr.slots)}]"
        case ast.Call():
            parts = [_rebuilt(p, depth - 1) for p in expr.positional]
            parts += [f"{a.name} = {_rebuilt(a.value, depth - 1)}" for a in expr.named]
            return f"{expr.function.id}({', '.join(parts)})"
        case ast.Unary():
            return f"-{_rebuilt(expr.operand, depth - 1)}"
        case ast.Binary():
            left, right = _rebuilt(expr.left, depth - 1), _rebuilt(expr.right, depth - 1)
            return f"{left} {expr.op} {right}"


def with_dims(name: str, dims: Sequence[str]) -> str:
    """`eta[obs]`, or the bare name of a scalar."""
    return f"{name}[{', '.join(dims)}]" if dims else name


def bracketed(indices: Sequence[str]) -> str:
    """`[obs, feat]`; a shortened axis `row~1` reads `row less 1`."""
    return f"[{', '.join(shown_index(i) for i in indices)}]"


def shown_index(index: str) -> str:
    """An index as messages call it: `row~1` is `row less 1`."""
    base, _, cut = index.partition("~")
    return f"{base} less {cut}" if cut else base


def has_indices(indices: Sequence[str]) -> str:
    """`has index [subject]`, `has no index`."""
    return f"has index {bracketed(indices)}" if indices else "has no index"


def in_line(span: Span) -> str:
    """` (line 10)`, or nothing for a part that the builder made."""
    return f" (line {span.line})" if span.known else ""


def quoted(names: Sequence[str], most: int = 8) -> str:
    """`a`, `b` and `c`, cut after a number of them."""
    words = [f"`{n}`" for n in names[:most]]
    if len(names) > most:
        return ", ".join(words) + f" and {len(names) - most} more"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
