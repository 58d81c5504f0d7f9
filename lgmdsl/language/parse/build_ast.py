"""Parse tree to syntax tree, bottom up with a list in place of recursion.

The depth of an expression is limited here, so that every later stage may walk it recursively:
100 nested operands (brackets, arguments, signs, powers) and 250 operators in a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from lgmdsl.errors import Diagnostic, Span
from lgmdsl.language.parse.build_expr import ExpressionRules, is_token
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import LIMITS, MAX_CHAIN, MAX_INDEX_SIZE, MAX_NESTING, TOO_DEEP
from lgmdsl.language.tree.print_model import print_statement
from lgmdsl.language.tree.statements import BY_WORD
from lgmdsl.vocabulary.lookup import lookup

if TYPE_CHECKING:
    from lark import Token, Tree


Make: TypeAlias = Callable[[list[Any], Span], Any]


class Depth(NamedTuple):
    """`nesting` counts operands inside one another; `height` is the height of the tree."""

    nesting: int = 0
    height: int = 0

    @property
    def too_deep(self) -> bool:
        return self.nesting > MAX_NESTING or self.height > MAX_CHAIN


class Builder(ExpressionRules):
    """Builds one statement; what is wrong with it is left in `diagnostics`."""

    def build(self, tree: Tree[Token]) -> ast.AnyStatement | None:
        """The statement, or None where it cannot be used even as a guess."""
        built: dict[int, Any] = {}
        depths: dict[int, Depth] = {}
        for node in tree.iter_subtrees():
            children = [c if is_token(c) else built.pop(id(c)) for c in node.children]
            below = [depths.pop(id(c), Depth()) for c in node.children if not is_token(c)]
            span = Span(self.source, node.meta.start_pos, node.meta.end_pos)
            depth = _depth(node.data, below)
            if depth.too_deep:
                self.diagnostics.append(too_deep(span))
                return None
            depths[id(node)] = depth
            make = cast(Make, getattr(self, f"_{node.data}", self._statement))
            built[id(node)] = make(children, span)
        return cast("ast.AnyStatement", built[id(tree)]) if self.usable else None

    # ---- statements ----------------------------------------------------------------------

    def _size(self, children: list[Any], span: Span) -> ast.Size:
        return ast.Size(self._whole(children[0], 1) or 0, span=span)

    def _range(self, children: list[Any], span: Span) -> ast.Range:
        first, last = self._whole(children[0], 0), self._whole(children[2], 0)
        if first is None or last is None:  # said already
            return ast.Range(0, 0, span=span)
        if last < first:
            self._wrong(
                "the range is empty", span, "the first label comes first", f"{last}..{first}"
            )
        elif last - first >= MAX_INDEX_SIZE:
            self._wrong("the range is too long", span, f"at most {MAX_INDEX_SIZE:,} labels")
        return ast.Range(first, last, span=span)

    def _labels(self, children: list[Any], span: Span) -> ast.Labels:
        texts = tuple(str(c)[1:-1] for c in children if c.type == "STRING")
        return ast.Labels(texts, span=span)

    def _head(self, children: list[Any], span: Span) -> ast.Head:
        return ast.Head(self.named_by(children[2]), span=span)

    def _dims(self, children: list[Any], span: Span) -> tuple[ast.Name, ...]:
        dims = tuple(self.named_by(c) for c in children if c.type == "NAME")
        self._count(dims, span)
        return dims

    def _type(self, children: list[Any], span: Span) -> ast.Type:
        return ast.Type(str(children[0]), len(children) > 1, span=span)

    def _statement(self, children: list[Any], span: Span) -> ast.AnyStatement:
        """A statement of any kind, as its descriptor makes it."""
        statement = BY_WORD[str(children[0])].build(Parts(children, self))
        last = children[-1]
        doc = str(last)[1:-1] if is_token(last) and last.type == "STRING" else None
        return replace(statement, doc=doc, span=span)

    def _hyper(self, children: list[Any], span: Span) -> ast.Hyper:
        """A hyper; a value after `~` and a prior after `=` are put in their places."""
        value = next(c for c in reversed(children) if not is_token(c))
        sign = next(c for c in children if is_token(c) and c.type in ("TILDE", "EQUAL"))
        wrong = ""
        if isinstance(value, ast.Call) and sign.type == "TILDE":
            wrong = "the value of a hyper is introduced with `=`; `~` introduces a prior"
        elif isinstance(value, ast.Call) and lookup("prior", value.function.id):
            wrong = "a prior is introduced with `~`; `=` introduces a value"
            prior = ast.Dist(value.function, value.named, span=value.span)
            self.usable = self.usable and not value.positional
            children = [prior if c is value else c for c in children]
        statement = cast("ast.Hyper", self._statement(children, span))
        if wrong:
            label = f"expected `{'~' if statement.prior else '='}`"
            help = print_statement(statement)
            self.diagnostics.append(Diagnostic("E101", wrong, self._span(sign), label, help=help))
        return statement


class Parts:
    """The children of a statement's parse tree, by kind."""

    def __init__(self, children: list[Any], rules: ExpressionRules) -> None:
        self._children = children
        self._rules = rules

    @property
    def name(self) -> ast.Name:
        """The name after the opening word."""
        return self._rules.named_by(self._children[1])

    @property
    def dims(self) -> tuple[ast.Name, ...]:
        """The index sets in its brackets."""
        return next((c for c in self._children if type(c) is tuple), ())

    @property
    def type(self) -> ast.Type:
        """What stands after the colon."""
        return next(c for c in self._children if isinstance(c, ast.Type))

    @property
    def definition(self) -> ast.Definition | None:
        """The size, range, labels or head of an index set."""
        kinds = (ast.Size, ast.Range, ast.Labels, ast.Head)
        return next((c for c in self._children if isinstance(c, kinds)), None)

    @property
    def values(self) -> tuple[ast.Expr, ...]:
        """The expressions, in their order."""
        kinds = (ast.Number, ast.Name, ast.Indexed, ast.Call, ast.Unary, ast.Binary)
        return tuple(c for c in self._children if isinstance(c, kinds))

    @property
    def distributions(self) -> tuple[ast.Dist, ...]:
        """The distributions, in their order."""
        return tuple(c for c in self._children if isinstance(c, ast.Dist))


def too_deep(span: Span) -> Diagnostic:
    """An expression beyond the limits."""
    shown = Span(span.source, span.start, min(span.end, span.start + 20))
    return Diagnostic(
        "E109",
        TOO_DEEP,
        shown,
        "beyond the limit from here",
        note=LIMITS,
        help="give a part of it a name with `let`",
    )


def _depth(rule: str, below: list[Depth]) -> Depth:
    nesting = max((d.nesting for d in below), default=0)
    height = max((d.height for d in below), default=0)
    if rule == "binary":
        # A row of operators leans to the left and nests nothing; the right operand does.
        return Depth(max(below[0].nesting, below[1].nesting + 1), height + 1)
    if rule in ("negate", "call", "dist"):
        return Depth(nesting + 1, height + 1)
    if rule == "paren":
        return Depth(nesting + 1, height)
    return Depth(nesting, height)
