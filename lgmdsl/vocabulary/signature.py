"""A declaration: what a name of the language is and takes, in one place. No numpy here.

The language, the builder, `lgm help`, and the classes that compute (sites, structures, kernels,
hyperpriors) take names, types, defaults and summaries from here and from nowhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Flag, auto
from typing import ClassVar, Literal, NamedTuple

Category = Literal["structure", "kernel", "family", "potential", "prior", "operator", "function"]

# `latent`: affine in the latents. `kernel`: a kernel expression. The other types are those of data
# and hypers: an argument of type `positive` accepts positive and unit, `real` accepts any number.
ArgumentType = Literal[
    "latent", "real", "positive", "unit", "correlation", "count", "integer", "binary", "graph",
    "covariance", "simplex", "ordered", "kernel", "string", "bool", "index", "group", "matrix",
    "any",
]  # fmt: skip

# Which indices an argument may have. `left`: those of the left side (an observed datum,
# a hyper, the expression of a potential). `none`: a single number. `one`: exactly one further
# index. `axis`: the axis of its factor. `input`: the axis, then at most one input dimension (a
# kernel's `length`: the input dimension). `class`: the left's and the observed set. `cut`: the
# left's and a head of the observed set. `classes`: as `class`, or as `cut`, the last class then
# being the reference. `last`: the left's, the last one among them, or a head of it. `rest`: the
# left's but the last. `topic`: the left's but the last, and one further. `emission`: that one
# and the left's last.
Over = Literal[
    "left",
    "none",
    "one",
    "axis",
    "input",
    "class",
    "cut",
    "classes",
    "last",
    "rest",
    "topic",
    "emission",
]


@dataclass(frozen=True)
class Parameter:
    """One argument of a signature.

    `default` is the literal used when it is left out (a number, a string or a bool); `required`
    arguments have none; `choices` restricts a string or a number; `one_of` names the group of
    alternative arguments of which exactly one must be given (bernoulli's logit | probit | cloglog).
    `meaning` says what it is, with its unit. Where an argument without a default is left out a site
    takes `blank`, and NaN for an `open` one (the end of an interval), which no model writes.
    `instead` says what to write in place of an argument that no method takes yet. `of` names the
    parameter for which a `latent` argument is a predictor, in place of its number, on the scale of
    `link`: `log_sd` of `sd`.
    """

    name: str
    type: ArgumentType
    required: bool = True
    default: float | str | bool | None = None
    choices: tuple[str | float, ...] = ()
    one_of: str = ""
    over: Over = "left"
    meaning: str = ""
    blank: float | None = None
    open: bool = False
    instead: str = ""
    of: str = ""
    link: Literal["", "log", "logit"] = ""

    @property
    def linking(self) -> bool:
        """Whether it is the predictor of y, which names the link and the site."""
        return self.type == "latent" and not self.of

    @property
    def left_out(self) -> float | None:
        """The number that stands for the argument where it is left out; None where it cannot be."""
        if self.open:
            return math.nan
        return float(self.default) if isinstance(self.default, int | float) else self.blank

    def show(self) -> str:
        """`exposure: positive = 1`; an optional argument without a default in brackets."""
        text = f"{self.name}: {self.type}"
        if self.default is not None:
            return f"{text} = {literal(self.default)}"
        return text if self.required or self.one_of else f"[{text}]"


# What labels that are numbers or dates mean along an ordered axis. `order`: only which comes first.
# `steps`: equal steps, so that those without data are members too. `positions`: places on a line.
Numbers = Literal["order", "steps", "positions"]


@dataclass(frozen=True)
class Spacing:
    """How an ordered axis is laid out by its labels.

    `at` names the argument that gives positions in place of the labels; with it the axis needs no
    order, and members may share a position. `circle` names the bool argument under which the axis
    closes, and positions become steps.
    """

    numbers: Numbers = "order"
    at: str = ""
    circle: str = ""


@dataclass(frozen=True)
class Mixed:
    """A structure that the compiler writes as two independent blocks and a map of them,
    sd (sqrt(1 - share) first + sqrt(share) second): `share` names the argument, `parts` the two
    structures, each with those of the arguments that it takes."""

    share: str
    parts: tuple[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]]]


class Trait(Flag):
    """What code may ask of a part in place of its name. Of structures, unless it says otherwise."""

    NONE = 0
    IDENTITY = auto()  # the covariance is the identity: an axis without structure
    INDEPENDENT = auto()  # no correlation between members
    IMPROPER = auto()  # density 1 in every direction
    COMPONENTS = auto()  # each connected component of its graph has a separate level
    COVARIANCE = auto()  # its argument of type covariance is its covariance, as it stands
    REPORT_ONLY = auto()  # of functions: applied in reports alone


class Alias(NamedTuple):
    """What other software calls a word: `name` there, `of` which software, `written` how it is
    written here where that is more than the word itself, `note` what else differs."""

    name: str
    of: str
    written: str = ""
    note: str = ""

    def means(self, word: str) -> str:
        """```pc.prec` of R-INLA is `pc_sd` here``, for the word whose other name it is."""
        note = f", {self.note}" if self.note else ""
        return f"`{self.name}` of {self.of} is `{self.written or word}` here{note}"


def also(of: str, names: str, written: str = "", note: str = "") -> tuple[Alias, ...]:
    """The names, between spaces, that some software has for a word."""
    return tuple(Alias(name, of, written, note) for name in names.split())


def spelling(name: str) -> str:
    """A name as it is compared: `pc.prec`, `pc_prec` and `PCPrec` are one."""
    return "".join(c for c in name.casefold() if c.isalnum())


def called(aliases: tuple[Alias, ...], name: str) -> Alias | None:
    """That of some aliases which a name is, spelt in whatever way."""
    wanted = spelling(name)
    return next((a for a in aliases if spelling(a.name) == wanted), None)


@dataclass(frozen=True)
class Signature:
    """A name of the language with its arguments: the one declaration of a part.

    `observed` is the data types a family observes (`index` for a categorical response), or the
    hyper types a prior is for; `ordered_axis` marks structures over one ordered axis, families of
    ordered classes and operators along an index, and `spacing` says what its labels then mean;
    `carries_scale` names the arguments that make a factor carry the scale of a product; `whole`
    marks the structures that take the block at once, of any shape; `positional` is how many
    leading arguments may stand without their names; `other` is a second form of the same name;
    `traits` is what code asks of it in place of its name; `mixed`: the two blocks as which a
    structure is written, which needs no class then.

    For the manual: `summary` is one sentence; `formulas` pairs of a form ("" where there is one;
    of a family its linking argument, perhaps with a variant: `logit.adjacent`) and its formula;
    `scale` the convention of its scale; `support` where it has mass; `example` a complete model
    that uses it; `see_also` other names; `source` the paper (authors, year, equation).
    `without` names those of these fields that do not apply (the source of a sum). `also_called`
    has the names of other software, which messages and `lgm help` answer with this one.
    """

    name: str
    category: Category
    parameters: tuple[Parameter, ...] = ()
    positional: int = 0
    observed: tuple[str, ...] = ()
    ordered_axis: bool = False
    carries_scale: tuple[str, ...] = ()
    summary: str = ""
    whole: bool = False
    other: Signature | None = None
    spacing: Spacing = Spacing()
    traits: Trait = Trait.NONE
    mixed: Mixed | None = None
    formulas: tuple[tuple[str, str], ...] = ()
    scale: str = ""
    support: str = ""
    example: str = ""
    see_also: tuple[str, ...] = ()
    source: str = ""
    without: tuple[str, ...] = ()
    also_called: tuple[Alias, ...] = ()

    def alias(self, name: str) -> Alias | None:
        """What a name of other software is here; None where it is not one of this word's."""
        return called(self.also_called, name)

    def formula(self, form: str = "") -> str:
        """The formula of a form; "" where none is given."""
        return dict(self.formulas).get(form, "")

    @property
    def scales(self) -> tuple[str, ...]:
        """The positive arguments that scale a factor: its covariance is their square times one."""
        return tuple(
            p.name for p in self.parameters if p.name in self.carries_scale and p.type == "positive"
        )

    @property
    def covariance(self) -> str:
        """The argument that is a structure's covariance as it stands; "" where there is none."""
        covariances = [p.name for p in self.parameters if p.type == "covariance"]
        return covariances[0] if covariances and Trait.COVARIANCE in self.traits else ""

    def linking(self, argument: str) -> Signature:
        """The form in which an argument is affine in the latents. Raises ValueError."""
        for form in (self, self.other):
            known = None if form is None else form.parameter(argument)
            if form is not None and known is not None and known.type == "latent":
                return form
        raise ValueError(f"`{self.name}` has no argument `{argument}` of type latent")

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)

    @property
    def defaults(self) -> dict[str, float | str | bool]:
        """The values of arguments that are left out, of those that have one."""
        return {p.name: p.default for p in self.parameters if p.default is not None}

    def form(self, arguments: frozenset[str]) -> Signature:
        """The form of this name that has the most of the given arguments; the first at a tie."""
        if self.other is None:
            return self
        mine = sum(p.name in arguments for p in self.parameters)
        theirs = sum(p.name in arguments for p in self.other.parameters)
        return self.other if theirs > mine else self

    def show(self) -> str:
        """`poisson(log_rate: latent, exposure: positive = 1)`; alternatives joined by `|`."""
        parts: list[str] = []
        previous = ""
        for p in self.parameters:
            if p.one_of and p.one_of == previous:
                parts[-1] += f" | {p.show()}"
            else:
                parts.append(p.show())
            previous = p.one_of
        text = f"{self.name}({', '.join(parts)})" if parts else self.name
        return f"{text} or {self.other.show()}" if self.other else text


class Part:
    """A class that implements a name of the language; its signature declares it."""

    name: ClassVar[str]
    signature: ClassVar[Signature | None] = None

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        signature: object = cls.__dict__.get("signature")
        if isinstance(signature, Signature) and "name" not in cls.__dict__:
            cls.name = signature.name

    @classmethod
    def traits(cls) -> Trait:
        """What its signature declares that code asks in place of its name."""
        return Trait.NONE if cls.signature is None else cls.signature.traits


def literal(value: float | str | bool) -> str:
    """A default or a choice as it is written in a model file."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"
