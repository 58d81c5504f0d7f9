"""The shapes that operators and functions give, and where they are allowed."""

from __future__ import annotations

from dataclasses import replace

from lgmdsl.language.checked import Degree
from lgmdsl.language.shapes.calls import BoundCall, applied, type_of
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.shapes.shape import RANK, Context, Shape, described, higher, usable
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import (
    bracketed,
    has_indices,
    quoted,
    shown_index,
    text_of,
    with_dims,
)
from lgmdsl.vocabulary.operators import REPORT_ONLY


def call_shape(
    node: ast.Call, bound: BoundCall, operands: list[Shape | None], scope: Scope, context: Context
) -> Shape | None:
    """The shape of a call, or None after a complaint."""
    if not bound.ok or bound.signature is None or None in operands:
        return None
    shapes = [s for s in operands if s is not None]
    if not all(usable(s, e, scope) for s, e in zip(shapes, bound.operands, strict=True)):
        return None
    if bound.signature.category == "function":
        return _function(node, bound, shapes[0], scope, context)
    return _operator(node, bound, shapes, scope, context)


def _function(
    node: ast.Call, bound: BoundCall, inner: Shape, scope: Scope, context: Context
) -> Shape | None:
    name = node.function.id
    shown = with_dims("p", inner.indices)
    if name in REPORT_ONLY and not context.reports:
        scope.findings.error(
            "E203" if inner.latent else "E108",
            f"{context.subject} is not linear in the latents"
            if inner.latent
            else f"`{name}` is allowed only in a report",
            node.span,
            f"`{name}` of {described(inner.latent, scope)}" if inner.latent else "not a report",
            help=f"`{name}` is allowed only in a report: report {shown} = {text_of(node)}",
        )
        return None
    if RANK[inner.degree] >= RANK["affine"] and not context.reports:
        scope.findings.error(
            "E203",
            f"{context.subject} is not linear in the latents",
            node.span,
            f"`{name}` of {described(inner.latent, scope)}",
            help=f"`{name}` of a latent is allowed only in a report; "
            "outside it takes data and hypers",
        )
        return None
    if name == "softmax":
        index = bound.settings.get("index")
        if _axis(node, index, inner, scope) is None:
            return None
    degree: Degree = "nonlinear" if RANK[inner.degree] >= RANK["affine"] else inner.degree
    value = None if inner.value is None else applied(name, inner.value)
    if inner.value is not None and value is None and name in ("log", "exp", "sqrt"):
        scope.findings.error(
            "E108",
            f"`{text_of(node)}` is not a finite number",
            node.span,
            f"{name} of {inner.value:g}",
            help="write another number",
        )
        return None
    kind = {"exp": "positive", "sqrt": "positive", "log": "real"}.get(name, "unit")
    return Shape(
        inner.indices, degree, kind if value is None else type_of(value), value, inner.latent
    )


def _operator(
    node: ast.Call, bound: BoundCall, shapes: list[Shape], scope: Scope, context: Context
) -> Shape | None:
    name, inner = node.function.id, replace(shapes[0], atom=False, value=None, type="real")
    match name:
        case "sum" | "diff" | "cumsum":
            axis = _axis(node, bound.settings.get("index"), inner, scope)
            if axis is None:
                return None
            if name == "sum":
                return replace(inner, indices=tuple(i for i in inner.indices if i != axis))
            return inner if name == "cumsum" else _diff(node, bound, inner, axis, scope, context)
        case "conv2":
            return _conv2(node, bound, inner, shapes[1], scope, context)
        case "mask":
            return _mask(node, bound, inner, shapes[1], scope)
    if not inner.indices:
        scope.findings.error(
            "E108",
            f"`{name}` wants an expression with an index",
            node.span,
            f"`{text_of(bound.operands[0])}` is a single number",
            help=f"leave `{name}` out",
        )
        return None
    return inner


def _axis(node: ast.Call, index: ast.Value | None, inner: Shape, scope: Scope) -> str | None:
    """The axis of the expression that the index argument names; it may be a shortened one."""
    name = node.function.id
    if isinstance(index, ast.Name):
        for axis in inner.indices:
            if axis.partition("~")[0] == index.id:
                return axis
        has = has_indices(inner.indices)
        scope.findings.error(
            "E201",
            f"index `{index.id}` does not belong to the expression in `{name}`",
            index.span,
            f"the expression {has}",
            help=f"write one of {quoted([shown_index(i) for i in inner.indices])}"
            if inner.indices
            else f"a single number needs no `{name}`",
        )
        return None
    if len(inner.indices) == 1:
        return inner.indices[0]
    scope.findings.error(
        "E104",
        f"`{name}` wants `index`",
        node.span,
        f"the expression {has_indices(inner.indices)}",
        note=f"{name}(expr: any, index: index)",
        help=f"name the index: {name}({text_of(node.positional[0]) if node.positional else '...'}, "
        f"{shown_index(inner.indices[-1]) if inner.indices else 'obs'})",
    )
    return None


def _diff(
    node: ast.Call, bound: BoundCall, inner: Shape, axis: str, scope: Scope, context: Context
) -> Shape | None:
    boundary = bound.settings.get("boundary")
    if isinstance(boundary, ast.String) and boundary.value != "none":
        return inner
    order = bound.settings.get("order")
    lost = int(order.value) if isinstance(order, ast.Number) else 1
    base, _, before = axis.partition("~")
    if not context.potential:
        scope.findings.error(
            "E201",
            f"`diff` without a boundary shortens `{base}`, and is allowed only in a potential",
            node.span,
            f"has {bracketed(_swap(inner.indices, axis, f'{base}~{lost}'))}",
            help='add boundary = "zero" (or "circular", "reflect"), which keeps the length',
        )
        return None
    total = lost + (int(before) if before else 0)
    return replace(inner, indices=_swap(inner.indices, axis, f"{base}~{total}"))


def _swap(indices: tuple[str, ...], old: str, new: str) -> tuple[str, ...]:
    return tuple(new if i == old else i for i in indices)


def _conv2(
    node: ast.Call, bound: BoundCall, inner: Shape, psf: Shape, scope: Scope, context: Context
) -> Shape | None:
    for shape, expr, role in (
        (inner, bound.operands[0], "an image"),
        (psf, bound.operands[1], "a kernel"),
    ):
        if len(shape.indices) != 2:
            scope.findings.error(
                "E108",
                f"`conv2` wants {role} over two indices",
                expr.span,
                f"`{text_of(expr)}` {has_indices(shape.indices)}",
                help='e.g. conv2(u, psf, boundary = "zero") with u[row, col], psf[krow, kcol]',
            )
            return None
    if psf.latent and not context.reports:
        scope.findings.error(
            "E203",
            f"{context.subject} is not linear in the latents",
            bound.operands[1].span,
            f"the kernel depends on {described(psf.latent, scope)}",
            help="the kernel `psf` is data or a hyper",
        )
        return None
    if psf.latent:
        return replace(inner, degree="nonlinear")
    return replace(inner, degree=higher(inner.degree, psf.degree))


def _mask(
    node: ast.Call, bound: BoundCall, inner: Shape, keep: Shape, scope: Scope
) -> Shape | None:
    expr = bound.operands[1]
    if keep.type != "binary" or keep.degree != "constant":
        scope.findings.error(
            "E108",
            "`keep` of `mask` is binary data",
            expr.span,
            f"`{text_of(expr)}` is {keep.type if keep.atom else 'an expression'}",
            help=f"declare it: data keep{bracketed(inner.indices)} : binary",
        )
        return None
    extra = [i for i in keep.indices if i not in inner.indices]
    if extra:
        scope.findings.error(
            "E201",
            f"index `{shown_index(extra[0])}` does not belong to the expression in `mask`",
            expr.span,
            f"the expression {has_indices(inner.indices)}",
            help=f"`keep` marks entries of the expression: keep{bracketed(inner.indices)}",
        )
        return None
    return inner
