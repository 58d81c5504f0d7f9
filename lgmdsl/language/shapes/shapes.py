"""Shapes of expressions: indices by name, degree in the latents, type.

Every rule of the index algebra is in `_combine` and its kin: join by name, `@` contracts the one
shared index, a slot keeps, gathers or picks. A shape of None means that the reason is already
reported, so that nothing above it complains again. Expressions are walked with an explicit stack:
a chain of any length is no recursion.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from lgmdsl.errors import ModelError
from lgmdsl.language.checked import Degree, Symbol
from lgmdsl.language.shapes.call_shapes import call_shape
from lgmdsl.language.shapes.calls import BoundCall, bind_call, folded, type_of
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.shapes.shape import (
    RANK,
    Context,
    Shape,
    as_hyper,
    described,
    higher,
    join,
    name_shape,
    usable,
    where,
)
from lgmdsl.language.shapes.slots import indexed_shape
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import bracketed, has_indices, quoted, shown_index, text_of

ANYWHERE = Context("the expression", reports=True, potential=True)


class Inference:
    """Shapes of all nodes of one expression, kept by identity."""

    def __init__(self, scope: Scope, context: Context) -> None:
        self.scope = scope
        self.context = context
        self.shapes: dict[int, Shape | None] = {}
        self.calls: dict[int, BoundCall] = {}

    def infer(self, root: ast.Expr) -> Shape | None:
        """The shape of an expression, or None after a complaint."""
        for node in self._postorder(root):
            self.shapes[id(node)] = self._combine(node)
        return self.shapes[id(root)]

    def _children(self, node: ast.Expr) -> tuple[ast.Expr, ...]:
        match node:
            case ast.Binary():
                return (node.left, node.right)
            case ast.Unary():
                return (node.operand,)
            case ast.Call():
                bound = self.calls[id(node)] = bind_call(node, self.scope)
                return bound.operands
        return ()

    def _postorder(self, root: ast.Expr) -> Iterator[ast.Expr]:
        stack: list[tuple[ast.Expr, bool]] = [(root, False)]
        begun: set[int] = set()
        while stack:
            node, ready = stack.pop()
            if ready:
                yield node
            elif id(node) not in begun:
                # A part that the builder used twice is visited once.
                begun.add(id(node))
                stack.append((node, True))
                stack.extend((child, False) for child in reversed(self._children(node)))

    def _combine(self, node: ast.Expr) -> Shape | None:
        match node:
            case ast.Number():
                if math.isfinite(node.value):
                    return Shape(value=node.value, type=type_of(node.value))
                self._not_finite(node)
                return None
            case ast.Name():
                return name_shape(node, self.scope, self.context)
            case ast.Indexed():
                return indexed_shape(node, self.scope, self.context)
            case ast.Unary():
                inner = self.shapes[id(node.operand)]
                if inner is None or not usable(inner, node.operand, self.scope):
                    return None
                value = None if inner.value is None else -inner.value
                kind = "real" if value is None else type_of(value)
                return replace(inner, value=value, type=kind, atom=False)
            case ast.Call():
                bound = self.calls[id(node)]
                operands = [self.shapes[id(o)] for o in bound.operands]
                return call_shape(node, bound, operands, self.scope, self.context)
        return self._binary(node)

    def _binary(self, node: ast.Binary) -> Shape | None:
        left, right = self.shapes[id(node.left)], self.shapes[id(node.right)]
        if left is None or right is None:
            return None
        if not (usable(left, node.left, self.scope) and usable(right, node.right, self.scope)):
            return None
        indices = (
            self._contracted(node, left, right)
            if node.op == "@"
            else self._joined(node, left, right)
        )
        degree = None if indices is None else self._degree(node, left, right)
        if indices is None or degree is None:
            return None
        value = None
        if node.op == "/" and right.value == 0:
            self._not_finite(node)
            return None
        if left.value is not None and right.value is not None:
            value = folded(node.op, left.value, right.value)
            if value is None:
                self._not_finite(node)
                return None
        positive = {left.type, right.type} <= {"positive", "unit", "count", "binary"}
        kind = "positive" if positive and node.op in "+*/^" else "real"
        latent = left.latent or right.latent
        return Shape(indices, degree, kind if value is None else type_of(value), value, latent)

    def _not_finite(self, node: ast.Expr) -> None:
        self.scope.findings.error(
            "E108",
            f"`{text_of(node)}` is not a finite number",
            node.span,
            "a finite number is wanted",
            help="numbers range to 1e308, and nothing is divided by zero",
        )

    def _joined(self, node: ast.Binary, left: Shape, right: Shape) -> tuple[str, ...] | None:
        indices, clash = join(left.indices, right.indices)
        if clash:
            self.scope.findings.error(
                "E201",
                f"the two sides of `{node.op}` differ along `{clash.partition('~')[0]}`",
                node.span,
                f"left has {bracketed(left.indices)}, right has {bracketed(right.indices)}",
                help='give `diff` a boundary, which keeps the length: boundary = "zero"',
            )
            return None
        return indices

    def _contracted(self, node: ast.Binary, left: Shape, right: Shape) -> tuple[str, ...] | None:
        shared = [i for i in left.indices if i in right.indices]
        if len(shared) == 1:
            gone = shared[0]
            indices, clash = join(
                tuple(i for i in left.indices if i != gone),
                tuple(i for i in right.indices if i != gone),
            )
            return indices if not clash else self._joined(node, left, right)
        a, b = text_of(node.left), text_of(node.right)
        if shared:
            message = f"`@` contracts one index, but `{a}` and `{b}` share {len(shared)}"
            names = [shown_index(i) for i in shared]
            label = f"both have {quoted(names)}"
            help = f"name the one to sum over: sum({a} * {b}, {names[-1]})"
        else:
            message = f"`@` contracts a shared index, but `{a}` and `{b}` share none"
            label = f"left {has_indices(left.indices)}, right {has_indices(right.indices)}"
            help = self._no_shared(node, left, right)
        self.scope.findings.error("E202", message, node.span, label, help=help)
        return None

    def _no_shared(self, node: ast.Binary, left: Shape, right: Shape) -> str:
        a, b = text_of(node.left), text_of(node.right)
        for missing, present, wrapped in ((right, left, node.right), (left, right, node.left)):
            for index in missing.indices:
                maps = self.scope.maps_to(index, present.indices)
                if maps and isinstance(wrapped, ast.Name) and len(missing.indices) == 1:
                    picked = f"{wrapped.id}[{maps[0]}]"
                    pair = (a, picked) if wrapped is node.right else (picked, b)
                    return f"`{maps[0]}` maps to {index}: write {pair[0]} * {pair[1]}"
        if not left.indices or not right.indices:
            return f"a single number is multiplied with `*`: {a} * {b}"
        wanted = right.indices[0]
        return f"write {a} * {b} for all pairs, or give one side an index of the other: {wanted}"

    def _degree(self, node: ast.Binary, left: Shape, right: Shape) -> Degree | None:
        rank = max(RANK[left.degree], RANK[right.degree])
        if rank < RANK["affine"]:
            return higher(left.degree, right.degree)
        linear = {
            "+": True,
            "-": True,
            "/": right.latent == "",
            "^": False,
            "*": not (left.latent and right.latent),
            "@": not (left.latent and right.latent),
        }[node.op]
        if linear:
            return higher(left.degree, right.degree)
        if self.context.reports:
            return "nonlinear"
        self._not_affine(node, left, right)
        return None

    def _not_affine(self, node: ast.Binary, left: Shape, right: Shape) -> None:
        one, two = left.latent, right.latent
        message = f"{self.context.subject} is not linear in the latents"
        if node.op == "^":
            it = one or two
            label = f"a power of {described(it, self.scope)}"
            help = "a power is allowed only in a report, or on data and hypers"
        elif node.op == "/":
            label = f"divided by {described(two, self.scope)}"
            help = f"declare it as `hyper`, e.g. {as_hyper(two, self.scope)}"
        elif one == two:
            label = f"{described(one, self.scope)} is multiplied by itself"
            help = "a product of latents is allowed only in a report"
        else:
            label = (
                f"both `{one}`{where(one, self.scope)} and `{two}`{where(two, self.scope)}"
                " are latent"
            )
            help = f"declare one of them as `hyper`, e.g. {as_hyper(one, self.scope)}"
        self.scope.findings.error("E203", message, node.span, label, help=help)


def shape_of(expr: ast.Expr, symbols: Mapping[str, Symbol]) -> Shape:
    """The shape of an expression of a checked model. Raises ModelError where it has none."""
    scope = Scope.of(symbols)
    shape = Inference(scope, ANYWHERE).infer(expr)
    if shape is None or scope.findings.errors:
        raise ModelError(scope.findings.errors)
    return shape
