"""Affine forms and coefficients in the user's names: `X[obs, feat] b[feat]`, `u[who]`."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from lgmdsl.canonical import coefficient as co
from lgmdsl.canonical.affine import Affine, Term
from lgmdsl.canonical.coefficient import Coefficient
from lgmdsl.canonical.ground import GroundedModel
from lgmdsl.canonical.named import Axis, Pick, Slot, Through

# A constant with more entries than this is called by its indices, not by its values.
WHOLE = 1


def show_form(form: Affine, grounded: GroundedModel) -> list[str]:
    """One line for each term: what is summed over what; the offset last."""
    lines = [show_term(t, grounded) for t in form.terms]
    offset = show_coefficient(form.offset, grounded)
    if offset != "0" or not lines:
        lines.append(f"{offset}   (no latent)")
    return lines


def show_term(term: Term, grounded: GroundedModel) -> str:
    """`sum over feat of X[obs, feat] b[feat]`."""
    dims = grounded.model.symbols[term.latent].dims
    slots = [show_slot(s, d, grounded) for s, d in zip(term.slots, dims, strict=True)]
    latent = f"{term.latent}[{', '.join(slots)}]" if slots else term.latent
    factors = [show_coefficient(f, grounded, inner=True) for f in term.factors]
    text = " ".join([*(f for f in factors if f != "1"), latent])
    summed = ", ".join(plain(d) for d in term.summed)
    return f"sum over {summed} of {text}" if summed else text


def show_slot(slot: Slot, axis: str, grounded: GroundedModel) -> str:
    """How one axis is addressed: an index name, a map, or a label in quotes."""
    if isinstance(slot, Axis):
        return plain(slot.dim)
    if isinstance(slot, Pick):
        label = grounded.indices[axis].labels[slot.position]
        return f'"{label}"' if isinstance(label, str) else str(label)
    return _map(slot, grounded) or f"a map from {', '.join(plain(d) for d in slot.dims)}"


def _map(slot: Through, grounded: GroundedModel) -> str:
    for symbol in grounded.model.of_kind("data"):
        value = grounded.values.get(symbol.name)
        if symbol.target is not None and isinstance(value, np.ndarray) and (
            value is slot.positions or np.array_equal(value, slot.positions)
        ):
            return symbol.name
    return ""


def show_coefficient(node: Coefficient, grounded: GroundedModel, inner: bool = False) -> str:
    """A latent-free value: data and hypers by name, numbers as numbers."""
    match node:
        case co.Constant():
            return _constant(node, grounded)
        case co.HyperValue():
            return _with_dims(node.name, node.dims)
        case co.Total():
            text = " + ".join(show_coefficient(t, grounded) for t in node.terms)
            return f"({text})" if inner else text.replace("+ -1 ", "- ")
        case co.Contraction():
            text = " ".join(show_coefficient(f, grounded, True) for f in node.factors)
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


def _constant(node: co.Constant, grounded: GroundedModel) -> str:
    for name, value in grounded.values.items():
        if value is node.values:
            return _with_dims(name, node.dims)
    if isinstance(node.values, np.ndarray) and prod(node.values.shape) <= WHOLE:
        return f"{float(node.values.reshape(-1)[0]):g}" if node.values.size else "nothing"
    return _with_dims("constants", node.dims)


def _with_dims(name: str, dims: tuple[str, ...]) -> str:
    return f"{name}[{', '.join(plain(d) for d in dims)}]" if dims else name


def plain(dim: str) -> str:
    """A summed index under the name that the model gives it."""
    return dim.partition("~")[0]


def parameters(given: Mapping[str, Coefficient], grounded: GroundedModel) -> str:
    """`exposure = time[obs]`; arguments at 1 that the text leaves out are left out here too."""
    shown = {k: show_coefficient(c, grounded) for k, c in given.items()}
    return ", ".join(f"{k} = {v}" for k, v in shown.items() if v != "1")
