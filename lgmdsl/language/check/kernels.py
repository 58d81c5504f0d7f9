"""Kernel expressions of a Gaussian process: calls of kernels joined by `+` and `*`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lgmdsl.language.check.binding import Place, bind, find
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.shapes.shape import Shape
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import text_of
from lgmdsl.vocabulary.signature import Parameter

Check = Callable[[ast.Value, Parameter, Place, Scope, dict[str, Shape]], Shape | None]


def kernel_calls(value: ast.Expr) -> tuple[list[tuple[ast.Expr, bool]], list[ast.Expr]]:
    """The leaves of a kernel expression, each with whether it is in a product, and the joints that
    are neither `+` nor `*`."""
    leaves: list[tuple[ast.Expr, bool]] = []
    wrong: list[ast.Expr] = []
    stack: list[tuple[ast.Expr, bool]] = [(value, False)]
    seen: set[tuple[int, bool]] = set()
    while stack:
        node, product = stack.pop()
        if (id(node), product) in seen:
            continue
        seen.add((id(node), product))
        if isinstance(node, ast.Binary) and node.op in "+*":
            inside = product or node.op == "*"
            stack += [(node.right, inside), (node.left, inside)]
        elif isinstance(node, ast.Binary | ast.Unary):
            wrong.append(node)
        else:
            leaves.append((node, product))
    return leaves, wrong


def check_kernel(value: ast.Expr, place: Place, scope: Scope, check: Check) -> Shape | None:
    """Check every kernel of an expression. In a product all but one may leave out `sd`."""
    leaves, wrong = kernel_calls(value)
    valid = not wrong
    for node in wrong:
        op = node.op if isinstance(node, ast.Binary) else "-"
        scope.findings.error(
            "E108",
            f"kernels are joined by `+` and `*`, not `{op}`",
            node.span,
            "not a kernel",
            help="a sum or product of kernels is a kernel; a difference is not",
        )
    for node, product in leaves:
        valid = _leaf(node, product, place, scope, check) and valid
    return Shape() if valid else None


def _leaf(node: ast.Expr, product: bool, place: Place, scope: Scope, check: Check) -> bool:
    if isinstance(node, ast.Name):
        node = ast.Call(node, span=node.span)
    if not isinstance(node, ast.Call):
        scope.findings.error(
            "E108",
            "`kernel` is a kernel, not a value",
            node.span,
            f"found {text_of(node)}",
            help=f"a factor is written inside a kernel: se(sd = {text_of(node)}, length = ell)",
        )
        return False
    dist = ast.Dist(node.function, node.named, span=node.span)
    signature = find(dist, "kernel", scope)
    if signature is None:
        return False
    if node.positional:
        free = [p.name for p in signature.parameters if p.name not in {a.name for a in node.named}]
        named = [f"{n} = {text_of(v)}" for n, v in zip(free, node.positional, strict=False)]
        named += [f"{a.name} = {text_of(a.value)}" for a in node.named]
        scope.findings.error(
            "E102",
            f"this argument of `{signature.name}` needs its name",
            node.positional[0].span,
            "an unnamed argument",
            note=signature.show(),
            help=f"write {signature.name}({', '.join(named)})",
        )
        return False
    optional = signature.carries_scale if product or place.product else ()
    bound = bind(dist, signature, scope, optional=optional)
    inner = replace(place, name=signature.name, axis=None)
    valid = bound.complete
    for parameter, argument in bound.matched.values():
        valid = check(argument.value, parameter, inner, scope, {}) is not None and valid
    return valid


def carries_scale(value: ast.Value | None) -> bool:
    """Whether some kernel of an expression is given an `sd`."""
    if value is None or isinstance(value, ast.String | ast.Bool):
        return False
    leaves, _ = kernel_calls(value)
    return any(
        isinstance(node, ast.Call) and any(a.name == "sd" for a in node.named) for node, _ in leaves
    )
