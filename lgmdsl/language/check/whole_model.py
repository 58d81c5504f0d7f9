"""What is said of the model as a whole: there is something to infer."""

from __future__ import annotations

from lgmdsl.errors import NOWHERE
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.tree import ast


def check_whole(tree: ast.Ast, scope: Scope) -> None:
    """Complain of a model without latents and hypers (E109)."""
    if not any(symbol.kind in ("latent", "hyper") for symbol in scope.symbols.values()):
        last = tree.statements[-1].span if tree.statements else tree.span
        scope.findings.error(
            "E109",
            "the model has no latent and no hyper",
            last if last.known else NOWHERE,
            "the file ends without one",
            help="declare one, e.g. latent b0 ~ normal(sd = 10)",
        )
