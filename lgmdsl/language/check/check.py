"""Check a syntax tree: every name, argument, index and type, with every error in one pass.

Warnings (W101 to W105) are read off the model graph: `graph.warnings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lgmdsl.errors import NO_SOURCE, ModelError, Source
from lgmdsl.language.check.declarations import check_data, check_index
from lgmdsl.language.check.hypers import check_hyper
from lgmdsl.language.check.latents import check_latent
from lgmdsl.language.check.predictors import check_constrain, check_let, check_report
from lgmdsl.language.check.sites import check_observe, check_potential
from lgmdsl.language.check.whole_model import check_whole
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.statements import declared_name

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
