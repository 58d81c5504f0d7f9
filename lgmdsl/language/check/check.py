"""Check a syntax tree: every name, argument, index and type, with every error in one pass.

Warnings (W101 to W105) are read off the model graph: `graph.warnings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lgmdsl.errors import NO_SOURCE, NOWHERE, ModelError, Source
from lgmdsl.language.check.declarations import check_data, check_dims, check_index, check_name
from lgmdsl.language.check.hypers import check_hyper
from lgmdsl.language.check.latents import check_latent
from lgmdsl.language.check.sites import check_observe, check_potential, residual_names
from lgmdsl.language.checked import CheckedModel, Degree, Kind, Symbol
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.shapes.shape import RANK, Context, Shape, described, usable
from lgmdsl.language.shapes.shapes import Inference
from lgmdsl.language.shapes.stray_indices import complain_outside
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.statements import declared_name
from lgmdsl.language.tree.wording import text_of, with_dims

# ---- predictors --------------------------------------------------------------------------------


def check_let(statement: ast.Let, scope: Scope) -> None:
    """Check that a let is affine and lists its indices, and declare it."""
    _declare(statement, scope, Context(f"`{statement.name.id}`"))


def check_report(statement: ast.Report, scope: Scope) -> None:
    """Check that a report lists its indices, and declare it; it may be nonlinear."""
    _declare(statement, scope, Context(f"`{statement.name.id}`", reports=True))


def _declare(statement: ast.Let | ast.Report, scope: Scope, context: Context) -> None:
    name = statement.name
    new = check_name(name, scope)
    dims = check_dims(statement.dims, scope)
    inference = Inference(scope, context)
    shape = inference.infer(statement.value)
    valid = shape is not None and usable(shape, statement.value, scope)
    axes = tuple(d.id for d in statement.dims)
    if dims is not None and shape is not None and valid:
        extra = [i for i in shape.indices if i not in dims]
        if extra:
            shown = with_dims(name.id, dims)
            complain_outside(statement.value, extra, dims, shown, inference, scope, may_add=True)
    if not new:
        return
    # A value with an index too many still has the indices on its left.
    known = valid and dims is not None and shape is not None
    kind: Kind = "let" if isinstance(statement, ast.Let) else "report"
    degree: Degree = shape.degree if shape else "constant"
    scope.declare(
        Symbol(name.id, kind, statement, axes, _type(shape), degree=degree),
        broken=not known,
    )
    if shape is not None and shape.latent:
        scope.witness[name.id] = shape.latent


def _type(shape: Shape | None) -> str:
    return shape.type if shape and shape.type in ("positive", "unit") else "real"


def check_constrain(statement: ast.Constrain, scope: Scope) -> None:
    """Check `constrain affine = constant`."""
    context = Context("the constraint")
    inference = Inference(scope, context)
    left = inference.infer(statement.left)
    other = Inference(scope, context)
    right = other.infer(statement.right)
    if left is None or right is None:
        return
    if not (usable(left, statement.left, scope) and usable(right, statement.right, scope)):
        return
    a, b = text_of(statement.left), text_of(statement.right)
    if RANK[right.degree] >= RANK["affine"]:
        help = f"write constrain {a} - ({b}) = 0" if left.latent else f"write constrain {b} = {a}"
        scope.findings.error(
            "E108",
            "the right side of a constraint is free of latents",
            statement.right.span,
            f"it depends on {described(right.latent, scope)}",
            help=help,
        )
        return
    if not left.latent:
        scope.findings.error(
            "E108",
            "a constraint is on latents, and this one has none",
            statement.left.span,
            "no latent here",
            help="name a latent: constrain sum(u, subject) = 0",
        )
        return
    extra = [i for i in right.indices if i not in left.indices]
    if extra:
        complain_outside(statement.right, extra, left.indices, a, other, scope)


# ---- check -------------------------------------------------------------------------------------

CHECKS: Mapping[type[ast.Statement], Callable[[Any, Scope], None]] = {
    ast.Index: check_index,
    ast.Data: check_data,
    ast.Hyper: check_hyper,
    ast.Latent: check_latent,
    ast.Let: check_let,
    ast.Report: check_report,
    ast.Observe: check_observe,
    ast.Potential: check_potential,
    ast.Constrain: check_constrain,
}


def check_statement(statement: ast.AnyStatement, scope: Scope) -> None:
    """Check one statement after those that the scope knows, and declare its name there."""
    name = declared_name(statement)
    scope.current = name.id if name else ""
    CHECKS[type(statement)](statement, scope)


def check(tree: ast.Ast, source: Source | None = None) -> CheckedModel:
    """The model of a tree: its symbols. `source` is the text it came from.

    Raises ModelError with every error of the tree (E102 to E109, E201 to E205, E302), none of them
    a mere consequence of another.
    """
    scope = Scope(tree)
    for statement in tree.statements:
        check_statement(statement, scope)
    if not scope.findings.errors:
        check_whole(tree, scope)
    if scope.findings.errors:
        raise ModelError(scope.findings.errors)
    if source is None:
        source = tree.span.source if tree.span.known else NO_SOURCE
    return CheckedModel(tree, dict(scope.symbols), source)


# ---- whole model -------------------------------------------------------------------------------
# What is said of the model as a whole: there is something to infer.


def check_whole(tree: ast.Ast, scope: Scope) -> None:
    """Complain of a model without latents and hypers (E109), and of a residual that has another
    use (E108)."""
    _check_residuals(tree, scope)
    if not any(symbol.kind in ("latent", "hyper") for symbol in scope.symbols.values()):
        last = tree.statements[-1].span if tree.statements else tree.span
        scope.findings.error(
            "E109",
            "the model has no latent and no hyper",
            last if last.known else NOWHERE,
            "the file ends without one",
            help="declare one, e.g. latent b0 ~ normal(sd = 10)",
        )


def _check_residuals(tree: ast.Ast, scope: Scope) -> None:
    """A latent that is the residual of a datum is that alone: it is y less its mean."""
    for name in residual_names(tree):
        uses = [p for statement in tree.statements for p in _uses(statement, name)]
        if len(uses) > 1:
            scope.findings.error(
                "E108",
                f"`{name}` is the residual of a datum, and has another use",
                min(uses, key=lambda n: n.span.start).span,
                "a residual is y less its mean, and nothing else",
                help="write the data less their mean, or a second latent with noise: sd = s",
            )


def _uses(statement: ast.AnyStatement, name: str) -> list[ast.Name]:
    """Where a statement names a latent, but for its declaration."""
    declares = declared_name(statement)
    if declares is not None and declares.id == name:
        return []
    return [p for p in ast.parts(statement) if isinstance(p, ast.Name) and p.id == name]
