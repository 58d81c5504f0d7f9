"""How a word is called from Python: one signature for all the roles that it has.

`lgm.normal` is a structure, a family, a potential and a hyperprior: its arguments are those of all
of them, and required is what every one of them requires. `inspect.signature` and the types that
checkers read are made from this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lgmdsl.vocabulary.signature import Parameter, Signature

NUMBER, EXPRESSION = "Expression | float", "Expression"
_PLAIN = {"bool": "bool", "string": "str"}
_SYMBOLIC = frozenset(
    ("covariance", "simplex", "ordered", "graph", "matrix", "kernel", "index", "group")
)


@dataclass(frozen=True)
class PythonArgument:
    """`annotation` as Python writes it; `required`, or the `default`, None where the argument is
    left out; `positional`: whether it may be given without its name."""

    name: str
    annotation: str
    required: bool
    default: float | str | bool | None
    positional: bool


def python_call(signatures: Sequence[Signature]) -> tuple[PythonArgument, ...]:
    """The arguments of a word with these declarations, in the order of the first that has each."""
    forms = [f for s in signatures for f in (s, s.other) if f is not None]
    names = list(dict.fromkeys(p.name for f in forms for p in f.accepted))
    return tuple(_union(name, forms) for name in names)


def _union(name: str, forms: Sequence[Signature]) -> PythonArgument:
    owners = [(f, p) for f in forms if (p := f.parameter(name)) is not None]
    everywhere = len(owners) == len(forms)
    required = everywhere and all(_required(f, p) for f, p in owners)
    defaults = {p.default for _, p in owners}
    default = next(iter(defaults)) if everywhere and len(defaults) == 1 else None
    kinds = dict.fromkeys(kind for _, p in owners for kind in _annotation(p).split(" | "))
    left_out = [] if required or default is not None else ["None"]
    positional = any(p in f.parameters[: f.positional] for f, p in owners)
    return PythonArgument(name, " | ".join([*kinds, *left_out]), required, default, positional)


def _required(form: Signature, parameter: Parameter) -> bool:
    """Not one of alternatives, nor a scale that another factor of a product may carry."""
    shared = parameter.name in form.scales and not form.whole
    return parameter.required and not parameter.one_of and not shared


def _annotation(parameter: Parameter) -> str:
    if parameter.choices:
        if all(isinstance(c, str) for c in parameter.choices):
            return f"Literal[{', '.join(repr(c) for c in parameter.choices)}]"
        return "float"
    if parameter.type in _SYMBOLIC:
        return EXPRESSION
    return _PLAIN.get(parameter.type, NUMBER)
