"""The syntax tree. Frozen, compared by meaning: spans, comments and blank lines do not count.

The builder and the parser both produce these nodes, and every later stage starts from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias

from lgmdsl.errors import NOWHERE, Span


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A part of the tree, with its place in the text."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


# ---- expressions ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A non-negative literal; a negative number is `Unary` around it. `text` keeps its spelling."""

    value: float
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A name: of something declared, a function, a structure, an operator."""

    id: str


@dataclass(frozen=True, slots=True)
class String(Node):
    """A label, or the value of an argument such as `boundary`."""

    value: str


@dataclass(frozen=True, slots=True)
class Bool(Node):
    """`true` or `false`."""

    value: bool


Operator: TypeAlias = Literal["+", "-", "*", "/", "@", "^"]
Slot: TypeAlias = "Name | String | Number"


@dataclass(frozen=True, slots=True)
class Indexed(Node):
    """`base[slot, ...]`: an index name keeps the axis, a map gathers, a label or number picks."""

    base: Name
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """`name = value` inside a distribution or a call."""

    name: str
    value: Value
    name_span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`function(positional, ..., name = value, ...)`, an operator, a function or a kernel."""

    function: Name
    positional: tuple[Expr, ...] = ()
    named: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-operand`."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`left op right`."""

    op: Operator
    left: Expr
    right: Expr
    op_span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        """Walks the left spine, so that a long row of operators needs no deep stack."""
        if not isinstance(other, Binary):
            return NotImplemented
        mine: object = self
        theirs: object = other
        while isinstance(mine, Binary) and isinstance(theirs, Binary):
            if mine.op != theirs.op or mine.right != theirs.right:
                return False
            mine, theirs = mine.left, theirs.left
        return mine == theirs


Expr: TypeAlias = Number | Name | Indexed | Call | Unary | Binary
Value: TypeAlias = Expr | String | Bool


@dataclass(frozen=True, slots=True)
class Dist(Node):
    """`name(argument = value, ...)`: a structure, a family, a potential or a hyperprior."""

    name: Name
    arguments: tuple[Argument, ...] = ()

    def get(self, name: str) -> Value | None:
        """The value given for an argument, or None."""
        return next((a.value for a in self.arguments if a.name == name), None)


# ---- statements ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Size(Node):
    """`= 3`: labels 0, 1, 2."""

    size: int


@dataclass(frozen=True, slots=True)
class Range(Node):
    """`= 1..366`: labels are the integers, both ends included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Labels(Node):
    """`= {"walk", "bike"}`."""

    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Head(Node):
    """`= head(class)`: all labels but the last."""

    of: Name


Definition: TypeAlias = Size | Range | Labels | Head


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement(Node):
    """`comments` are the full-line comments above, `trailing` the one at the end of the line,
    `inner` those between (kept, at their statement), `blank_before` whether an empty line precedes.
    """

    doc: str | None = None
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    inner: tuple[str, ...] = field(default=(), compare=False, repr=False)
    trailing: str | None = field(default=None, compare=False, repr=False)
    blank_before: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Index(Statement):
    """`index name = definition`; without one, size and labels come with the data."""

    name: Name
    definition: Definition | None = None


@dataclass(frozen=True, slots=True)
class Type(Node):
    """`real`, `binary`, ... or the name of an index set; `missing` is the `?`."""

    name: str
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Data(Statement):
    """`data name[dims] : type`."""

    name: Name
    dims: tuple[Name, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Hyper(Statement):
    """Exactly one of `prior` and `value` is set."""

    name: Name
    dims: tuple[Name, ...]
    type: Type
    prior: Dist | None = None
    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class Latent(Statement):
    """`latent name[dims] ~ factor * factor`, one structure for each axis."""

    name: Name
    dims: tuple[Name, ...]
    factors: tuple[Dist, ...]


@dataclass(frozen=True, slots=True)
class Let(Statement):
    """`let name[dims] = value`."""

    name: Name
    dims: tuple[Name, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Report(Statement):
    """`report name[dims] = value`."""

    name: Name
    dims: tuple[Name, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Observe(Statement):
    """`observe name ~ family`."""

    name: Name
    family: Dist


@dataclass(frozen=True, slots=True)
class Potential(Statement):
    """`potential value ~ family`."""

    value: Expr
    family: Dist


@dataclass(frozen=True, slots=True)
class Constrain(Statement):
    """`constrain left = right`."""

    left: Expr
    right: Expr


AnyStatement: TypeAlias = (
    Index | Data | Hyper | Latent | Let | Report | Observe | Potential | Constrain
)


@dataclass(frozen=True, slots=True)
class Ast(Node):
    """A whole file. `end_comments` follow the last statement."""

    statements: tuple[AnyStatement, ...]
    version: int = 1
    header_comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    header_trailing: str | None = field(default=None, compare=False, repr=False)
    end_comments: tuple[str, ...] = field(default=(), compare=False, repr=False)


# ---- mentions ----------------------------------------------------------------------------------
# The one walk over an expression for the names that it mentions.


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention of a declared name. `slot`: as a slot, `u[who]`; `operand`: as a
    whole operand of `@`."""

    name: Name
    slot: bool = False
    operand: bool = False


def parts(node: object) -> Iterator[Node]:
    """A node, or those of a tuple, and every node below, in no order that is promised. A part that
    occurs twice (built in Python) is read once."""
    waiting, seen = [node], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, tuple):
            waiting.extend(part)
        elif isinstance(part, Node):
            yield part
            waiting.extend(getattr(part, f.name) for f in fields(part) if f.name != "span")


def mentions(value: Value, operand: bool = False) -> Iterator[Mention]:
    """Every mention in the order of the text: operands, slots and arguments of calls, not the
    functions that are called. A part that occurs twice (built in Python) is read once.

    `operand`: whether the value itself is a whole operand.
    """
    # A stack, not recursion: a sum of thousands of terms is a tree thousands of levels deep.
    waiting: list[tuple[Value, bool, bool]] = [(value, False, operand)]
    seen: set[tuple[int, bool, bool]] = set()
    while waiting:
        node, slot, whole = waiting.pop()
        key = id(node), slot, whole
        if key in seen:
            continue
        seen.add(key)
        match node:
            case Name():
                yield Mention(node, slot, whole)
            case Indexed(base=base, slots=slots):
                waiting += [(s, True, False) for s in reversed(slots) if isinstance(s, Name)]
                waiting.append((base, False, whole))
            case Call(positional=positional, named=named):
                waiting += [(argument.value, False, False) for argument in reversed(named)]
                waiting += [(part, False, False) for part in reversed(positional)]
            case Unary(operand=inner):
                waiting.append((inner, False, False))
            case Binary(op=op, left=left, right=right):
                waiting += [(right, False, op == "@"), (left, False, op == "@")]


def names_in(value: Value) -> Iterator[Name]:
    """The names of `mentions`."""
    return (mention.name for mention in mentions(value))


# ---- limits ------------------------------------------------------------------------------------
# Limits that keep every text under a second and every walk of a tree inside Python's stack.


MAX_CHARACTERS = 1_000_000
MAX_TOKENS = 20_000  # words, signs and comments in a file
MAX_NESTING = 100  # brackets, signs and powers inside one another
MAX_CHAIN = 250  # operators in a row
MAX_INDICES = 16  # of one name
MAX_INDEX_SIZE = 10**8  # labels that a file may declare by a size or a range

TOO_DEEP = "the expression is nested too deeply"
LIMITS = (
    f"at most {MAX_NESTING} brackets, signs or powers inside one another, and {MAX_CHAIN} "
    "operators in a row"
)
