"""The shape of a signature: what a name of the language takes. No numpy here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Category = Literal["structure", "kernel", "family", "potential", "prior", "operator", "function"]

# `latent`: affine in the latents. `kernel`: a kernel expression. The other types are those of data
# and hypers: an argument of type `positive` accepts positive and unit, `real` accepts any number.
ArgumentType = Literal[
    "latent", "real", "positive", "unit", "correlation", "count", "integer", "binary", "graph",
    "covariance", "simplex", "ordered", "kernel", "string", "bool", "index", "group", "matrix",
    "any",
]  # fmt: skip

# Which indices an argument may have. `left`: those of what stands on the left (an observed datum,
# a hyper, the expression of a potential). `none`: a single number. `one`: exactly one index of its
# own. `axis`: the axis of its factor. `input`: the axis, then at most one input dimension (a
# kernel's `length`: the input dimension). `class`: the left's and the observed set. `cut`: the
# left's and a head of the observed set. `classes`: as `class`, or as `cut`, the last class then
# being the reference. `last`: the left's, the last one among them, or a head of it. `rest`: the
# left's but the last. `topic`: the left's but the last, and one of its own. `emission`: that one
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
    """

    name: str
    type: ArgumentType
    required: bool = True
    default: float | str | bool | None = None
    choices: tuple[str | float, ...] = ()
    one_of: str = ""
    over: Over = "left"

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
class Signature:
    """A name of the language with its arguments.

    `observed` is the data types a family observes (`index` for a categorical response), or the
    hyper types a prior is for; `ordered_axis` marks structures over one ordered axis, families of
    ordered classes and operators along an index, and `spacing` says what its labels then mean;
    `carries_scale` names the arguments that make a factor carry the scale of a product; `whole`
    marks the structures that take the block at once, of any shape; `positional` is how many
    leading arguments may stand without their names; `other` is a second form of the same name.
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

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)

    @property
    def defaults(self) -> dict[str, float | str | bool]:
        """The values of arguments that are left out, of those that have one."""
        return {p.name: p.default for p in self.parameters if p.default is not None}

    def form(self, given: frozenset[str]) -> Signature:
        """The form of this name that has the most of the given arguments; the first at a tie."""
        if self.other is None:
            return self
        mine = sum(p.name in given for p in self.parameters)
        theirs = sum(p.name in given for p in self.other.parameters)
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


def literal(value: float | str | bool) -> str:
    """A default or a choice as it is written in a model file."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"
