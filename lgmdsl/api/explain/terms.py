"""Affine forms and coefficients in the user's names: `X[obs, feat] b[feat]`, `u[who]`."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine, Term
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.expressions.named import Axis, Pick, Slot, Through
from lgmdsl.canonical.grounding.ground import GroundedModel
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.errors import listed

# A constant with more entries than this is called by its indices, not by its values.
WHOLE = 1
# Parts of an expression that is written out.
LONGEST = 300


def show_form(form: Affine, grounded: GroundedModel) -> list[str]:
    """One line for each term: what is summed over what; the offset last."""
    lines = [show_term(t, grounded) for t in form.terms]
    offset = show_coefficient(form.offset, grounded)
    if offset != "0" or not lines:
        lines.append(f"{offset}   (no latent)")
    return lines


def show_term(term: Term, grounded: GroundedModel) -> str:
    """`sum over feat of X[obs, feat] b[feat]`."""
    if term.applied is None:
        dims, name = grounded.model.symbols[owner(term.latent)].dims, term.latent
    else:
        inner = added([show_term(t, grounded) for t in term.applied.terms])
        name = term.applied.transform.written.replace(".", inner, 1)
        dims = tuple(plain(d) for d in term.applied.transform.after)
    slots = [show_slot(s, d, grounded) for s, d in zip(term.slots, dims, strict=True)]
    whole = term.applied is not None and slots == list(dims)
    latent = f"{name}[{', '.join(slots)}]" if slots and not whole else name
    text = _product(term.factors, latent, grounded)
    summed = ", ".join(plain(d) for d in term.summed)
    if not summed:
        return text
    sign = "- " if text.startswith("- ") else ""
    return f"{sign}sum over {summed} of {text.removeprefix('- ')}"


def _product(factors: tuple[Coefficient, ...], last: str, grounded: GroundedModel) -> str:
    """`X[obs, feat] b[feat] / sd`, with a leading `- ` for an odd number of factors -1."""
    numbers: list[str] = []
    above: list[str] = []
    sign, below = 1, ""
    for factor in factors:
        if _is_number(factor, -1.0):
            sign = -sign
        elif isinstance(factor, co.Power) and _is_number(factor.exponent, -1.0):
            below += f" / {show_coefficient(factor.base, grounded, inner=True)}"
        elif not _is_number(factor, 1.0):
            scalar = isinstance(factor, co.Constant) and not factor.dims
            where = numbers if scalar else above
            where.append(show_coefficient(factor, grounded, inner=True))
    words = [*numbers, *above, *([last] if last else [])]
    text = " ".join(words or ["1"]) + below
    return text if sign > 0 else f"- {text}"


def _is_number(node: Coefficient, value: float) -> bool:
    return (
        isinstance(node, co.Constant)
        and not node.dims
        and isinstance(node.values, np.ndarray)
        and float(node.values) == value
    )


def added(terms: list[str]) -> str:
    """`a + b - c`."""
    text = terms[0].replace("- ", "-", 1) if terms[0].startswith("- ") else terms[0]
    for term in terms[1:]:
        text += f" - {term[2:]}" if term.startswith("- ") else f" + {term}"
    return text


def show_slot(slot: Slot, axis: str, grounded: GroundedModel) -> str:
    """How one axis is addressed: an index name, a map, or a label in quotes."""
    if isinstance(slot, Axis):
        return plain(slot.dim)
    if isinstance(slot, Pick):
        label = grounded.indices[axis].labels[slot.position]
        return f'"{label}"' if isinstance(label, str) else str(label)
    return _map(slot, grounded) or f"a map from {', '.join(plain(d) for d in slot.dims)}"


def _map(slot: Through, grounded: GroundedModel) -> str:
    maps = {
        s.name: grounded.values[s.name]
        for s in grounded.model.of_kind("data")
        if s.target is not None and s.name in grounded.values
    }
    same = [name for name, value in maps.items() if value is slot.positions]
    same += [n for n, v in maps.items() if np.array_equal(np.asarray(v), slot.positions)]
    return same[0] if same else ""


def show_coefficient(node: Coefficient, grounded: GroundedModel, inner: bool = False) -> str:
    """A latent-free value: data and hypers by name, numbers as numbers; a long one by its size."""
    if node.size > LONGEST:
        words = f"{len(node.order):,} operations on {listed(sorted(node.depends)) or 'data'}"
        return f"({words})" if inner else words
    match node:
        case co.Constant():
            return _constant(node, grounded)
        case co.HyperValue():
            return _with_dims(node.name, node.dims)
        case co.Total():
            text = added([_signed(t, grounded) for t in node.terms])
            return f"({text})" if inner else text
        case co.Contraction():
            text = _product(node.factors, "", grounded)
            gone = {d for f in node.factors for d in f.dims} - set(node.dims)
            over = ", ".join(sorted(plain(d) for d in gone))
            return f"(sum over {over} of {text})" if over else text
        case co.Power():
            base, top = (show_coefficient(n, grounded, True) for n in (node.base, node.exponent))
            return f"{base}^{top}"
        case co.Elementwise():
            return f"{node.function}({show_coefficient(node.operand, grounded)})"
        case co.Gather():
            whole = show_coefficient(node.operand, grounded, True).partition("[")[0]
            slots = [
                show_slot(s, d, grounded)
                for s, d in zip(node.slots, node.operand.dims, strict=True)
            ]
            return f"{whole}[{', '.join(slots)}]"
    return _with_dims("a value", node.dims)


def _signed(node: Coefficient, grounded: GroundedModel) -> str:
    """A summand, a negative number with its sign apart."""
    text = show_coefficient(node, grounded)
    return f"- {text[1:]}" if text.startswith("-") and text[1:2] != " " else text


def _constant(node: co.Constant, grounded: GroundedModel) -> str:
    for name, value in grounded.values.items():
        if value is node.values:
            return _with_dims(name, node.dims)
        if node.dims and _negated(node.values, value):
            return "-" + _with_dims(name, node.dims)
    if isinstance(node.values, np.ndarray) and prod(node.values.shape) <= WHOLE:
        return f"{float(node.values.reshape(-1)[0]):g}" if node.values.size else "nothing"
    return _with_dims("constants", node.dims)


def _negated(values: object, datum: object) -> bool:
    """Whether constants are a datum's negative, zero where it is missing: a moved response."""
    return (
        isinstance(values, np.ndarray)
        and isinstance(datum, np.ndarray)
        and values.shape == datum.shape
        and datum.dtype.kind == "f"
        and bool(np.array_equal(values, -np.nan_to_num(datum)))
    )


def _with_dims(name: str, dims: tuple[str, ...]) -> str:
    return f"{name}[{', '.join(plain(d) for d in dims)}]" if dims else name


def plain(dim: str) -> str:
    """A summed index under the name that the model gives it."""
    return dim.partition("~")[0]


def parameters(
    nodes: Mapping[str, Coefficient], written: tuple[str, ...], grounded: GroundedModel
) -> str:
    """`exposure = time[obs]`, for the arguments that the text gives."""
    return ", ".join(
        f"{k} = {show_coefficient(c, grounded)}" for k, c in nodes.items() if k in written
    )
