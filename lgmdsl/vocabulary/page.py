"""A page of the manual as data: what `lgm help NAME`, editors and the builder's docstrings show."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lgmdsl.vocabulary.lookup import CATEGORIES, IN_WORDS, categories, lookup, names
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import Category, Parameter, Signature, literal

WIDTH = 88

_OF_WORDS = ("call", "formulas", "support", "scale", "methods", "example", "see_also", "source")
_OF_CALLS = ("call", "formulas", "support", "scale", "example", "see_also", "source")
_OF_PARTS = ("summary", "formulas", "support", "advice", "example", "see_also")

# The kinds of pages, in the order of the manual, and the fields that a page of each kind has; one
# that does not apply to a word is named by its declaration (`without`).
FIELDS: dict[str, tuple[str, ...]] = {
    "statement": ("call", *_OF_PARTS),
    "reserved word": _OF_PARTS,
    "type": _OF_PARTS,
    "observation family": ("summary", "takes", *_OF_WORDS),
    "structure": ("summary", *_OF_WORDS),
    "kernel": ("summary", *_OF_WORDS),
    "hyperprior": ("summary", "takes", "ways", *_OF_CALLS),
    "potential": ("summary", *_OF_WORDS),
    "operator": ("summary", *_OF_WORDS),
    "function": ("summary", *_OF_CALLS),
    "method": ("call", "guarantee", *_OF_PARTS, "source"),
    "bound": ("call", "guarantee", "methods", *_OF_PARTS, "source"),
    "engine": ("call", *_OF_PARTS),
    "option": ("summary", "call", "arguments", "support", "advice", "example", "see_also"),
    "treatment of hyperparameters": ("call", *_OF_PARTS, "source"),
    "status": _OF_PARTS,
    "guarantee": _OF_PARTS,
    "topic": ("summary", "text", "example", "see_also"),
    "concept": ("summary", "text", "example", "see_also"),
    "argument": ("summary", "arguments", "example", "see_also"),
}

# The words of each category as the kinds of pages call them.
KIND_OF: Mapping[Category, str] = IN_WORDS


@dataclass(frozen=True)
class Argument:
    """One argument or option: `default` and `choices` as they are written; "" without a default."""

    name: str
    type: str
    required: bool
    meaning: str
    default: str = ""
    choices: tuple[str, ...] = ()
    owner: str = ""

    @classmethod
    def of(cls, parameter: Parameter) -> Argument:
        """The entry of a declared argument; alternatives of which one is given are not required."""
        return cls(
            parameter.name,
            parameter.type,
            parameter.required and not parameter.one_of,
            parameter.meaning,
            "" if parameter.default is None else literal(parameter.default),
            tuple(literal(c) for c in parameter.choices),
        )

    def __str__(self) -> str:
        """`sum_to_zero: bool = true`, an optional one without a default in brackets."""
        text = f"{self.owner} {self.name}".strip() + (f": {self.type}" if self.type else "")
        if self.default:
            return f"{text} = {self.default}"
        return text if self.required else f"[{text}]"


@dataclass(frozen=True)
class Page:
    """One meaning of a word.

    `call` is how it is written, `takes` the data or hyper types that it is for (of a bound, the
    sites), `formulas` pairs of a form ("" where there is one) and its formula, `methods` pairs of a
    form and the methods that take it (of a method: how it answers sites, and which; of a guarantee:
    what gives it), `ways` the treatments of hyperparameters that do, `text` the prose of a topic.
    `also_called` has its names in other software. `without`: the fields of its kind that do not
    apply.
    """

    kind: str
    name: str
    summary: str
    call: str = ""
    arguments: tuple[Argument, ...] = ()
    takes: tuple[str, ...] = ()
    formulas: tuple[tuple[str, str], ...] = ()
    support: str = ""
    scale: str = ""
    guarantee: str = ""
    methods: tuple[tuple[str, str], ...] = ()
    ways: tuple[str, ...] = ()
    advice: str = ""
    text: str = ""
    example: str = ""
    see_also: tuple[str, ...] = ()
    source: str = ""
    also_called: tuple[str, ...] = ()
    without: tuple[str, ...] = field(default=())

    @classmethod
    def noted(cls, kind: str, name: str, summary: str, notes: Notes, **more: Any) -> Page:
        """The page of a part that has notes."""
        return cls(
            kind,
            name,
            summary,
            formulas=(("", notes.formula),) if notes.formula else (),
            support=notes.support,
            advice=notes.advice,
            example=notes.example,
            see_also=notes.see_also,
            also_called=tuple(f"{a.name} ({a.of})" for a in notes.also_called),
            without=notes.without,
            **more,
        )

    def missing(self) -> tuple[str, ...]:
        """The fields that a page of this kind has, that apply and are empty."""
        return tuple(f for f in FIELDS[self.kind] if f not in self.without and not getattr(self, f))

    def as_json(self) -> dict[str, Any]:
        """Plain values for `lgm help NAME --json`."""
        return asdict(self)

    def __str__(self) -> str:
        """The page as text, of at most `WIDTH` columns."""
        parts = [_filled(f"{self.kind} `{self.name}`: {self.summary}", "", "  ")]
        if self.call:
            parts.append(textwrap.indent(self.call, "    "))
        if self.arguments:
            parts.append("\n".join(_row(a) for a in self.arguments))
        if self.text:
            parts.append(self.text.rstrip("\n"))
        taken, says = _METHODS.get(self.kind, "methods"), _FORMULA.get(self.kind, "formula")
        facts = (
            (_TAKES.get(self.kind, "takes"), ", ".join(self.takes)),
            *((f"{says}, {form}" if form else says, text) for form, text in self.formulas),
            ("scale", self.scale),
            (_SUPPORT.get(self.kind, "support"), self.support),
            ("guarantee", self.guarantee),
            *((f"{taken}, {form}" if form else taken, text) for form, text in self.methods),
            ("hyperparameters by", ", ".join(self.ways)),
            ("advice", self.advice),
        )
        lines = [_filled(f"{word}: {text}", "", "    ") for word, text in facts if text]
        if lines:
            parts.append("\n".join(lines))
        if self.example:
            parts.append("example\n" + textwrap.indent(self.example.rstrip("\n"), "    "))
        last = (
            ("also called", ", ".join(self.also_called)),
            ("see also", ", ".join(self.see_also)),
            ("source", self.source),
        )
        lines = [_filled(f"{word}: {text}", "", "    ") for word, text in last if text]
        if lines:
            parts.append("\n".join(lines))
        return "\n\n".join(parts) + "\n"


_TAKES = {"observation family": "observes", "hyperprior": "for hypers of type", "bound": "sites"}
_METHODS = {"method": "sites", "guarantee": "given by"}
# What kinds call a field of which the usual name says too little.
_FORMULA = {
    "statement": "meaning", "reserved word": "as in", "type": "values", "status": "meaning",
    "guarantee": "meaning", "treatment of hyperparameters": "meaning",
}  # fmt: skip
_SUPPORT = {
    "statement": "takes", "reserved word": "in", "status": "outcome",
    **dict.fromkeys(("type", "method", "bound", "engine", "option", "guarantee"), "for"),
    "treatment of hyperparameters": "for",
}  # fmt: skip


def page_of(signature: Signature) -> Page:
    """The page of a declaration; which methods take it is not known here."""
    seen: dict[str, Argument] = {}
    for form in (signature, signature.other):
        for parameter in form.accepted if form else ():
            argument = Argument.of(parameter)
            seen.setdefault(str(argument), argument)
    return Page(
        KIND_OF[signature.category],
        signature.name,
        signature.summary,
        signature.show().replace(" or ", "\nor "),
        tuple(seen.values()),
        signature.observed,
        signature.formulas,
        signature.support,
        signature.scale,
        example=signature.example,
        see_also=signature.see_also,
        source=signature.source,
        also_called=tuple(f"{a.name} ({a.of})" for a in signature.also_called),
        without=signature.without,
    )


def declared_pages(name: str) -> tuple[Page, ...]:
    """The page of every declaration of a name, in the order of the manual; none of an unknown."""
    known = (lookup(c, name) for c in categories(name))
    return tuple(page_of(s) for s in known if s is not None)


def every_name() -> tuple[str, ...]:
    """All names that are declared."""
    return tuple(dict.fromkeys(n for c in CATEGORIES for n in names(c)))


def _row(argument: Argument) -> str:
    choices = f" ({' | '.join(argument.choices)})" if argument.choices else ""
    meaning = f"  {argument.meaning}" if argument.meaning else ""
    return _filled(f"{argument}{choices}{meaning}", "    ", "        ")


def _filled(text: str, first: str, rest: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
