"""The names declared so far, and every complaint about a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import islice

from lgmdsl.errors import MAX_ERRORS, NOWHERE, Diagnostic, Span, meant, nearest
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.statements import declared_name
from lgmdsl.language.tree.wording import KIND_IN_WORDS, in_line
from lgmdsl.vocabulary.lookup import DATA_TYPES, HYPER_TYPES, lookup

TYPE_NAMES = frozenset((*DATA_TYPES, *HYPER_TYPES))
MOST_CANDIDATES = 400


class Findings:
    """Errors of one pass, in the order they were found."""

    def __init__(self) -> None:
        self.errors: list[Diagnostic] = []

    def error(
        self,
        code: str,
        message: str,
        span: Span = NOWHERE,
        label: str = "",
        *,
        note: str = "",
        help: str = "",
    ) -> None:
        self.errors.append(Diagnostic(code, message, span, label, note=note, help=help))

    @property
    def full(self) -> bool:
        """Whether further errors will only be counted, so that their help need not be sought."""
        return len(self.errors) >= MAX_ERRORS


class Scope:
    """Symbols by name, grown statement by statement.

    A name whose declaration had an error is `broken`: it counts as declared, and its uses say
    nothing more. `witness` gives for each let that depends on the latents one of them;
    `labels` holds those that the text defines; `current` is the name being declared;
    `observed` the first site of each datum.
    """

    def __init__(self, tree: ast.Ast | None = None) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.findings = Findings()
        self.broken: set[str] = set()
        self.witness: dict[str, str] = {}
        self.labels: dict[str, LabelSet] = {}
        self.current: str = ""
        self.observed: dict[str, ast.Observe] = {}
        self._mentioned: set[str] = set()
        self._maps: dict[str, list[Symbol]] = {}
        self._heads: dict[str, list[str]] = {}
        self._later: dict[str, ast.Name] = {}
        for statement in tree.statements if tree else ():
            name = declared_name(statement)
            if name is not None:
                self._later.setdefault(name.id, name)

    @classmethod
    def of(cls, symbols: Mapping[str, Symbol]) -> Scope:
        """The scope of a checked model."""
        scope = cls()
        for symbol in symbols.values():
            scope.declare(symbol)
        return scope

    def silent(self) -> Scope:
        """A scope of the same names that discards complaints."""
        other = copy(self)
        other.findings = Findings()
        other._mentioned = set(self._mentioned)
        return other

    # ---- declaring ---------------------------------------------------------------------------

    def declare(self, symbol: Symbol, *, broken: bool = False) -> None:
        """Make a name known; one already known keeps its first meaning."""
        if symbol.name in self.symbols:
            return
        self.symbols[symbol.name] = symbol
        if broken:
            self.broken.add(symbol.name)
        if symbol.kind == "data" and symbol.target:
            self._maps.setdefault(symbol.target, []).append(symbol)
        if isinstance(symbol.statement, ast.Index):
            definition = symbol.statement.definition
            labels = labels_of(definition, self.labels)
            if labels is not None:
                self.labels[symbol.name] = labels
            if isinstance(definition, ast.Head):
                self._heads.setdefault(definition.of.id, []).append(symbol.name)

    def is_new(self, name: ast.Name) -> bool:
        """Whether a declaration may take this name; complains (E105, E106) if not."""
        known = self.symbols.get(name.id)
        if known is not None:
            first = place_of(known)
            self.findings.error(
                "E106",
                f"`{name.id}` is declared twice",
                name.span,
                f"first declared{in_line(first)} as {KIND_IN_WORDS[known.kind]}",
                help=f"give this one another name, e.g. {name.id}2",
            )
        return known is None

    # ---- using -------------------------------------------------------------------------------

    def resolve(self, name: ast.Name, wanted: str = "name") -> Symbol | None:
        """The symbol of a name; complains (E103, E107) once for each name and returns None."""
        symbol = self.symbols.get(name.id)
        if symbol is not None:
            return None if name.id in self.broken else symbol
        if name.id not in self._mentioned:
            self._mentioned.add(name.id)
            later = self._later.get(name.id)
            if later is None:
                self._unknown(name, wanted)
            elif name.id == self.current:
                self.findings.error(
                    "E107",
                    f"`{name.id}` is used in its own declaration",
                    name.span,
                    "not yet declared here",
                    help="a value takes only names declared above it",
                )
            else:
                self.findings.error(
                    "E107",
                    f"`{name.id}` is used before it is declared",
                    name.span,
                    f"declared in line {later.span.line}" if later.span.known else "",
                    help=f"move the declaration of `{name.id}` above this line",
                )
        return None

    def _unknown(self, name: ast.Name, wanted: str) -> None:
        kinds = ("index",) if wanted == "index" else tuple(KIND_IN_WORDS)
        known = (s.name for s in self.symbols.values() if s.kind in kinds)
        close = self.closest(name.id, known)
        if close:
            help = meant(close)
        elif lookup("function", name.id) or lookup("operator", name.id):
            help = f"`{name.id}` wants brackets: {name.id}(...)"
        elif wanted == "data":
            help = f"declare it above: data {name.id}[...] : real"
        elif wanted == "index":
            help = f"declare it above: index {name.id}"
        else:
            help = f"declare `{name.id}` above, as data, hyper, latent or let"
        self.findings.error(
            "E103",
            f"unknown {'datum' if wanted == 'data' else wanted} `{name.id}`",
            name.span,
            "not declared",
            help=help,
        )

    def closest(self, word: str, known: Iterable[str]) -> str | None:
        """The nearest known word, from candidates few enough to compare in no time; None for
        errors that will only be counted."""
        if self.findings.full:
            return None
        near = [k for k in known if abs(len(k) - len(word)) <= 3 and len(k) <= 80]
        if len(near) > MOST_CANDIDATES:
            near = [k for k in near if k[:1] == word[:1]][:MOST_CANDIDATES]
        return nearest(word, near)

    def declared_later(self, name: str) -> bool:
        """Whether some statement of the file declares the name."""
        return name in self._later

    def mention(self, name: str) -> bool:
        """Whether this is the first complaint about a name."""
        first = name not in self._mentioned
        self._mentioned.add(name)
        return first

    # ---- asking ------------------------------------------------------------------------------

    def maps_to(self, index: str, dims: Iterable[str] | None = None) -> list[str]:
        """The data that map to an index set; with `dims`, those that live on these indices."""
        maps = [] if self.findings.full else self._maps.get(index, [])
        if dims is not None:
            inside = set(dims)
            maps = [m for m in maps if inside.issuperset(m.dims)]
        return [m.name for m in maps]

    def heads_of(self, index: str) -> list[str]:
        """The indices declared as head(index)."""
        return self._heads.get(index, [])


def place_of(symbol: Symbol) -> Span:
    """Where a symbol's name stands in its declaration."""
    name = declared_name(symbol.statement)
    return symbol.statement.span if name is None else name.span


# ---- labels ------------------------------------------------------------------------------------
# The labels of an index as far as the model text defines them.


@dataclass(frozen=True, slots=True)
class LabelSet:
    """The first `count` of some labels: positions by label, or a range of whole numbers. A head
    shares them with the set it is a head of."""

    known: Mapping[str, int] | range
    count: int

    @property
    def named(self) -> bool:
        """Whether the labels are text, not whole numbers."""
        return not isinstance(self.known, range)

    @property
    def last(self) -> int:
        """The last whole number."""
        return self.known[self.count - 1] if isinstance(self.known, range) else self.count - 1

    def first(self, most: int) -> list[str]:
        """The first few labels, as text."""
        return [str(v) for v in islice(self.known, min(most, self.count))]

    def __contains__(self, label: str) -> bool:
        if not isinstance(self.known, range):
            return self.known.get(label, self.count) < self.count
        digits = label[1:] if label.startswith("-") else label
        if not digits.isdecimal() or not digits.isascii() or len(digits) > 18:
            return False
        return int(label) in self.known[: self.count]


def labels_of(
    definition: ast.Size | ast.Range | ast.Labels | ast.Head | None,
    known: Mapping[str, LabelSet],
) -> LabelSet | None:
    """The labels that a definition gives, or None where they come with the data."""
    match definition:
        case ast.Labels(labels=labels):
            return LabelSet({v: k for k, v in enumerate(labels)}, len(labels))
        case ast.Size(size=size):
            return LabelSet(range(size), max(0, size))
        case ast.Range(first=first, last=last):
            return LabelSet(range(first, last + 1), max(0, last + 1 - first))
        case ast.Head(of=of):
            whole = known.get(of.id)
            return LabelSet(whole.known, max(0, whole.count - 1)) if whole else None
    return None
