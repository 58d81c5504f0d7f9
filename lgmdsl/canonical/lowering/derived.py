"""Reports that are not affine: a tree of functions over affine leaves.

A monotone function of one affine leaf has a transformed marginal; anything else is sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.named import (
    Axis,
    NamedArray,
    Slot,
    expand,
    slot_dims,
    slot_indices,
)
from lgmdsl.canonical.expressions.node import ordered
from lgmdsl.canonical.expressions.operators import Transform
from lgmdsl.canonical.lowering.lower import Lowering
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.vocabulary.operators import ELEMENTWISE

Elementwise: TypeAlias = Callable[[Array], Array]

# The strictly increasing functions of reports. Those of scipy.special are looked up when they are
# called: the module is slow to import.
MONOTONE: Mapping[str, Elementwise] = {
    "exp": np.exp,
    "invlogit": lambda x: special.expit(x),
    "normal_cdf": lambda x: special.ndtr(x),
}
SLOPES: Mapping[str, Elementwise] = {
    "exp": np.exp,
    "invlogit": lambda x: special.expit(x) * special.expit(-x),
    "normal_cdf": lambda x: np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi),
}
DOMAIN: Mapping[str, Elementwise] = {"log": np.log, "sqrt": np.sqrt}

CURVED = (*MONOTONE, *DOMAIN, "softmax")
FOR_REPORTS = tuple(name for name in CURVED if name not in ELEMENTWISE)

ACROSS = ("sum", "softmax")  # those that are not elementwise

SAMPLE = "~sample"


@dataclass(frozen=True, eq=False)
class Leaf:
    """An affine form (or a latent-free value)."""

    form: Affine


@dataclass(frozen=True, eq=False)
class Apply:
    """A function of one value: exp, invlogit, normal_cdf, log, sqrt, negation, or softmax and sum
    over an index."""

    function: str
    operand: Derived
    over: str = ""


@dataclass(frozen=True, eq=False)
class Join:
    """Two values joined by name with + - * / ^ or @."""

    op: str
    left: Derived
    right: Derived


@dataclass(frozen=True, eq=False)
class Gathered:
    """`operand[slots]`, `dims` being the indices that the slots address."""

    operand: Derived
    dims: tuple[str, ...]
    slots: tuple[Slot, ...]


@dataclass(frozen=True, eq=False)
class Operated:
    """An operator on named axes (cumsum, diff, ...) of a value."""

    operand: Derived
    transform: Transform


Derived: TypeAlias = Leaf | Apply | Join | Gathered | Operated


def derive(expr: ast.Value, lowering: Lowering, earlier: Mapping[str, Derived]) -> Derived:
    """The tree of a let or report, its largest affine parts as leaves.

    `earlier` holds the trees of earlier reports that are not affine; affine ones are lowered lets.
    """
    if degree(expr, lowering.grounded.model.symbols, earlier) != "nonlinear":
        return Leaf(lowering.affine(expr))
    if isinstance(expr, ast.Name):
        return earlier[expr.id]
    if isinstance(expr, ast.Indexed):
        return _indexed(expr, lowering, earlier)
    if isinstance(expr, ast.Unary):
        return Apply("-", derive(expr.operand, lowering, earlier))
    if isinstance(expr, ast.Binary):
        left, right = (derive(e, lowering, earlier) for e in (expr.left, expr.right))
        return Join(expr.op, left, right)
    assert isinstance(expr, ast.Call), "numbers are free of latents"
    if expr.function.id not in (*CURVED, "sum"):
        return _operated(expr, lowering, earlier)
    over = ""
    if len(expr.positional) > 1 and isinstance(expr.positional[1], ast.Name):
        over = expr.positional[1].id
    return Apply(expr.function.id, derive(expr.positional[0], lowering, earlier), over)


def _indexed(expr: ast.Indexed, lowering: Lowering, earlier: Mapping[str, Derived]) -> Derived:
    """A report with its indices, gathered through maps, or at a label."""
    tree, dims = earlier[expr.base.id], lowering.grounded.model.symbols[expr.base.id].dims
    slots = tuple(lowering.slot(s, d) for s, d in zip(expr.slots, dims, strict=True))
    if slots == tuple(Axis(d) for d in dims):
        return tree
    chain: list[str] = []
    inner = tree
    while isinstance(inner, Apply) and inner.function not in ACROSS:
        chain.append(inner.function)
        inner = inner.operand
    if not isinstance(inner, Leaf):
        return Gathered(tree, dims, slots)
    # f(x)[who] = f(x[who]): a monotone function of a Gaussian stays one.
    result: Derived = Leaf(af.gather(inner.form, dims, slots))
    for function in reversed(chain):
        result = Apply(function, result)
    return result


def _operated(expr: ast.Call, lowering: Lowering, earlier: Mapping[str, Derived]) -> Derived:
    """mask, or an operator on all axes of its operand, in the order of the text."""
    from lgmdsl.canonical.expressions import operators

    by_name = operators.arguments(expr)
    operand = derive(by_name["expr"], lowering, earlier)
    if expr.function.id == "mask":
        return Join("*", operand, Leaf(lowering.affine(by_name["keep"])))
    psf = lowering.kernel(by_name["psf"]) if "psf" in by_name else None
    order = lowering.order(by_name["expr"])
    dims = tuple(sorted(dims_of(operand), key=lambda d: order.index(d) if d in order else -1))
    return Operated(operand, operators.transform(expr, dims, lowering.sizes, psf))


def dims_of(tree: Derived) -> tuple[str, ...]:
    """The indices of a report's value."""
    known: dict[int, tuple[str, ...]] = {}
    for node in order(tree):
        if isinstance(node, Leaf):
            dims = node.form.dims
        elif isinstance(node, Join):
            left, right = known[id(node.left)], known[id(node.right)]
            dims = co.union(left, right)
            if node.op == "@":
                shared = next(d for d in left if d in right)
                dims = tuple(d for d in dims if d != shared)
        elif isinstance(node, Operated):
            dims = node.transform.after
        elif isinstance(node, Gathered):
            places = dict(zip(node.dims, node.slots, strict=True))
            inside = known[id(node.operand)]
            dims = slot_dims(tuple(places.get(d, Axis(d)) for d in inside))
        else:
            summed = node.over if node.function == "sum" else ""
            dims = tuple(d for d in known[id(node.operand)] if d != summed)
        known[id(node)] = dims
    return known[id(tree)]


Degree: TypeAlias = Literal["free", "affine", "nonlinear"]
_RANK: Mapping[Degree, int] = {"free": 0, "affine": 1, "nonlinear": 2}


def degree(
    expr: ast.Value, symbols: Mapping[str, Symbol], earlier: Mapping[str, Derived]
) -> Degree:
    """How an expression depends on the latents: not at all, affinely, or otherwise (as do the
    functions that only reports have, whatever their argument)."""
    if isinstance(expr, ast.Name | ast.Indexed):
        name = expr.id if isinstance(expr, ast.Name) else expr.base.id
        if name in earlier:
            return "nonlinear"
        known = symbols[name].degree
        return known if known in ("affine", "nonlinear") else "free"
    if isinstance(expr, ast.Unary):
        return degree(expr.operand, symbols, earlier)
    if isinstance(expr, ast.Call):
        inner = degree(expr.positional[0], symbols, earlier) if expr.positional else "free"
        curved = FOR_REPORTS if inner == "free" else CURVED
        return "nonlinear" if expr.function.id in curved else inner
    if not isinstance(expr, ast.Binary):
        return "free"
    left, right = (degree(e, symbols, earlier) for e in (expr.left, expr.right))
    worse = max(left, right, key=_RANK.__getitem__)
    if worse != "affine" or expr.op in "+-":
        return worse
    linear = right == "free" if expr.op == "/" else expr.op in "*@" and "free" in (left, right)
    return "affine" if linear else "nonlinear"


def order(tree: Derived) -> tuple[Derived, ...]:
    """All parts of a report, each once (an earlier report may be used many times), operands before
    what is made of them."""
    return ordered(tree, _operands)


def _operands(node: Derived) -> tuple[Derived, ...]:
    if isinstance(node, Join):
        return (node.left, node.right)
    return () if isinstance(node, Leaf) else (node.operand,)


def leaves(tree: Derived) -> tuple[Leaf, ...]:
    """The affine leaves, left to right, each once."""
    return tuple(node for node in order(tree) if isinstance(node, Leaf))


def monotone(tree: Derived) -> tuple[Affine, Elementwise] | None:
    """(affine form, increasing function) where the report is one, else None."""
    chain: list[Elementwise] = []
    while isinstance(tree, Apply) and tree.function in MONOTONE:
        chain.append(MONOTONE[tree.function])
        tree = tree.operand
    if not isinstance(tree, Leaf) or not chain:
        return None

    def composed(x: Array) -> Array:
        for function in reversed(chain):
            with np.errstate(over="ignore"):
                x = function(x)
        return x

    return tree.form, composed


def slope(tree: Derived, x: Array) -> Array:
    """The derivative of a monotone report's function at x, by the chain rule."""
    chain: list[str] = []
    while isinstance(tree, Apply):
        chain.append(tree.function)
        tree = tree.operand
    out = np.ones_like(x)
    with np.errstate(all="ignore"):
        for function in reversed(chain):
            out, x = out * SLOPES[function](x), MONOTONE[function](x)
    return out


def evaluate(tree: Derived, draws: Mapping[int, NamedArray]) -> NamedArray:
    """The report at draws of its leaves (keyed by identity), each with a leading sample axis."""
    values: dict[int, NamedArray] = {}
    for node in order(tree):
        if isinstance(node, Leaf):
            values[id(node)] = draws[id(node)]
        elif isinstance(node, Apply):
            values[id(node)] = _apply(node, values[id(node.operand)])
        elif isinstance(node, Gathered):
            values[id(node)] = _gathered(node, values[id(node.operand)])
        elif isinstance(node, Operated):
            values[id(node)] = _transformed(node.transform, values[id(node.operand)])
        else:
            values[id(node)] = _join(node.op, values[id(node.left)], values[id(node.right)])
    return values[id(tree)]


def _join(op: str, left: NamedArray, right: NamedArray) -> NamedArray:
    if op != "@":
        return _joined(op, left, right)
    shared = next(d for d in left.dims if d in right.dims and d != SAMPLE)
    return _summed(_joined("*", left, right), shared)


_OPERATIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "^": np.power,
}


def _joined(op: str, left: NamedArray, right: NamedArray) -> NamedArray:
    dims = co.union(left.dims, right.dims)
    sizes = {d: n for p in (left, right) for d, n in zip(p.dims, p.dense().shape, strict=True)}
    with np.errstate(all="ignore"):
        values = _OPERATIONS[op](expand(left, dims, sizes), expand(right, dims, sizes))
    return NamedArray(dims, values)


def _apply(node: Apply, value: NamedArray) -> NamedArray:
    if node.function == "sum":
        return _summed(value, node.over)
    if node.function == "softmax":
        axis = value.dims.index(node.over) if node.over else len(value.dims) - 1
        return NamedArray(value.dims, special.softmax(value.dense(), axis=axis))
    if node.function == "-":
        return NamedArray(value.dims, -value.dense())
    function = MONOTONE.get(node.function) or DOMAIN[node.function]
    with np.errstate(all="ignore"):
        return NamedArray(value.dims, function(value.dense()))


def _gathered(node: Gathered, value: NamedArray) -> NamedArray:
    places = dict(zip(node.dims, node.slots, strict=True))
    slots = tuple(places.get(d, Axis(d)) for d in value.dims)
    dims = slot_dims(slots)
    values = value.dense()
    sizes = dict(zip(value.dims, values.shape, strict=True))
    return NamedArray(dims, values[slot_indices(slots, dims, sizes)])


def _transformed(transform: Transform, value: NamedArray) -> NamedArray:
    """Apply a transform to values, each sample of a leading axis on its own."""
    values = value.dense()
    count = values.shape[value.dims.index(SAMPLE)] if SAMPLE in value.dims else 1
    sizes = dict(zip(transform.before, transform.grid, strict=True)) | {SAMPLE: count}
    flat = expand(value, (*transform.before, SAMPLE), sizes).reshape(-1, count)
    done = transform.operator.matvec(np.ascontiguousarray(flat, dtype=np.float64))
    return NamedArray((SAMPLE, *transform.after), done.T.reshape(count, *transform.result))


def _summed(value: NamedArray, over: str) -> NamedArray:
    axis = value.dims.index(over)
    return NamedArray(tuple(d for d in value.dims if d != over), value.dense().sum(axis=axis))
