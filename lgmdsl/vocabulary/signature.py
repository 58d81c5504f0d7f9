"""A declaration: what a name of the language is and takes, in one place. No numpy here.

The language, the builder, `lgm help`, and the classes that compute (sites, structures, kernels,
hyperpriors) take names, types, defaults and summaries from here and from nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

from lgmdsl.vocabulary.modifiers import modifiers_of
from lgmdsl.vocabulary.parameter import ArgumentType as ArgumentType
from lgmdsl.vocabulary.parameter import Over as Over
from lgmdsl.vocabulary.parameter import Parameter as Parameter
from lgmdsl.vocabulary.parameter import literal as literal

Category = Literal["structure", "kernel", "family", "potential", "prior", "operator", "function"]

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


@dataclass(frozen=True)
class Basis:
    """A structure that the compiler writes as coefficients of a basis over the positions of the
    members, some of density 1 and the others normal with its scale, and a map of them: `at`, `size`
    and `kind` name the arguments for positions, number of coefficients and kind of basis. Without a
    kind it is a product of a basis for each column of the positions, each with a size and a scale
    of its own; `centred` names the argument by which it is their interaction alone, `shrink` that
    by which nothing is of density 1, `period` the length after which it repeats itself."""

    at: str
    size: str
    kind: str = ""
    centred: str = ""
    shrink: str = ""
    period: str = ""


class Trait(Flag):
    """What code may ask of a part in place of its name. Of structures, unless it says otherwise."""

    NONE = 0
    IDENTITY = auto()  #: the covariance is the identity: an axis without structure
    INDEPENDENT = auto()  #: no correlation between members
    IMPROPER = auto()  #: density 1 in every direction
    COMPONENTS = auto()  #: each connected component of its graph has a separate level
    COVARIANCE = auto()  #: its argument of type covariance is its covariance, as it stands
    SMOOTH = auto()  #: a smooth function along its axis, one of which is a row of `fit.smooths()`
    REPORT_ONLY = auto()  #: of functions: applied in reports alone


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


def singulars(name: str) -> tuple[str, ...]:
    """What a name may be the plural of, the likeliest first: `families` of `family`."""
    endings = (("ies", "y"), ("es", ""), ("s", ""))
    return tuple(name.removesuffix(of) + one for of, one in endings if name.casefold().endswith(of))


def called(aliases: tuple[Alias, ...], name: str) -> Alias | None:
    """The alias that a name is, spelt in whatever way; None where it is none of them."""
    wanted = spelling(name)
    return next((a for a in aliases if spelling(a.name) == wanted), None)


@dataclass(frozen=True)
class Signature:
    """A name of the language with its arguments: the one declaration of a part.

    `observed` is the data types a family observes (`index` for a categorical response), or the
    hyper types a prior is for; `ordered_axis` marks structures over one ordered axis, families of
    ordered classes and operators along an index, and `spacing` says what its labels then mean;
    `carries_scale` names the arguments that make a factor carry the scale of a product; `whole`
    marks the structures that take the block at once, of any shape; `positional` is how many leading
    arguments may stand without their names; `other` is a second form of the same name; `traits` is
    what code asks of it in place of its name; `mixed`: the two blocks as which a structure is
    written, `basis`: the coefficients, which needs no class then. `modifiers` are the arguments of
    every family of its kind (`weight`), which `parameters` does not list.

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
    basis: Basis | None = None
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
    def rewritten(self) -> bool:
        """Whether the compiler writes it as others, so that no class computes it."""
        return self.mixed is not None or self.basis is not None

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

    @cached_property
    def modifiers(self) -> tuple[Parameter, ...]:
        """The arguments that every family of its kind takes, after its own."""
        if self.category != "family":
            return ()
        return modifiers_of(self.observed, self.parameters)

    @property
    def accepted(self) -> tuple[Parameter, ...]:
        """The name's own arguments and those of every family of its kind."""
        return (*self.parameters, *self.modifiers)

    def parameter(self, name: str) -> Parameter | None:
        """The argument of a name, one of every family of its kind too."""
        return next((p for p in self.accepted if p.name == name), None)

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
