"""An argument of a declaration. No numpy here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

# `latent`: affine in the latents. `kernel`: a kernel expression. The other types are those of data
# and hypers: an argument of type `positive` accepts positive and unit, `nonnegative` those and
# counts, `real` any number.
ArgumentType = Literal[
    "latent", "real", "positive", "nonnegative", "unit", "correlation", "count", "integer",
    "binary", "graph", "covariance", "simplex", "ordered", "kernel", "string", "bool", "index",
    "group", "matrix", "any",
]  # fmt: skip

# Which indices an argument may have. `left`: those of the left side (an observed datum, a hyper,
# the expression of a potential). `none`: a single number. `one`: exactly one further index. `lags`:
# at most one further index. `axis`: the axis of its factor. `member`: that axis, or none. `others`:
# the left's but that axis. `input`: the axis, then at most one
# input dimension (a kernel's `length`: the input dimension). `class`: the left's and the observed
# set. `cut`: the left's and a head of the observed set. `classes`: as `class`, or as `cut`, the
# last class then being the reference. `last`: the left's, the last one among them, or a head of it.
# `rest`: the left's but the last. `topic`: the left's but the last, and one further. `emission`:
# that one and the left's last. `piece`: the left's, and one further index of pieces of time.
# `inner`: a head of that one, and nothing else.
Over = Literal[
    "left",
    "none",
    "one",
    "lags",
    "axis",
    "member",
    "others",
    "input",
    "class",
    "cut",
    "classes",
    "last",
    "rest",
    "topic",
    "emission",
    "piece",
    "inner",
]


@dataclass(frozen=True)
class Parameter:
    """One argument of a signature.

    `default` is the literal used when it is left out (a number, a string or a bool); `required`
    arguments have none; `choices` restricts a string or a number; `one_of` names the group of
    alternative arguments of which exactly one must be given (bernoulli's logit | probit | cloglog).
    `meaning` says what it is, with its unit. Where an argument without a default is left out a site
    takes `blank`, and NaN for an `open` one (the end of an interval), which no model writes.
    `instead` says what to write in place of an argument that a form of the family lacks. A `known`
    one is a number or data: no hyper is in it. `of` names the parameter for which a `latent`
    argument is a predictor, in place of its number, on the scale of `link`: `log_sd` of `sd`. A
    `noise` one is a latent, all that y differs by from its mean.
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
    known: bool = False
    of: str = ""
    link: Literal["", "log", "logit"] = ""
    noise: bool = False

    @property
    def linking(self) -> bool:
        """Whether it is the predictor of y, which names the link and the site."""
        return self.type == "latent" and not self.of and not self.noise

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


def literal(value: float | str | bool) -> str:
    """A default or a choice as it is written in a model file."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"
