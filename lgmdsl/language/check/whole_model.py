"""What is said of the model as a whole: it has latents and sites, and uses what it declares."""

from __future__ import annotations

from lgmdsl.errors import NOWHERE
from lgmdsl.language.shapes.scope import Findings, Scope, place_of
from lgmdsl.language.shapes.shapes import names_in
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import KIND_IN_WORDS


def check_whole(tree: ast.Ast, scope: Scope) -> None:
    """Complain of a model without latents (E109); warn W101 to W105."""
    findings = scope.findings
    latents = [s for s in scope.symbols.values() if s.kind == "latent"]
    sites = [s for s in tree.statements if isinstance(s, ast.Observe | ast.Potential)]
    if not latents:
        last = tree.statements[-1].span if tree.statements else tree.span
        findings.error(
            "E109", "the model has no latent", last if last.known else NOWHERE,
            "the file ends without one", help="declare one, e.g. latent b0 ~ normal(sd = 10)",
        )  # fmt: skip
        return
    if not sites:
        findings.warn(
            "W103", "the model has no observation and no potential", place_of(latents[0]),
            "its posterior is its prior",
            help="add one, e.g. observe y ~ normal(mean = b0, sd = 1)",
        )  # fmt: skip
    reached = _reached(tree, scope, findings)
    if sites:
        for symbol in latents:
            if symbol.name not in reached and symbol.name in scope.used:
                findings.warn(
                    "W102", f"latent `{symbol.name}` reaches no observation and no potential",
                    place_of(symbol), "its posterior is its prior",
                    help="use it in a predictor, or leave it out",
                )  # fmt: skip
    _unused(tree, scope, findings)


def _reached(tree: ast.Ast, scope: Scope, findings: Findings) -> set[str]:
    """All names that a site or a constraint depends on; warns W104 and W105."""
    lets = {s.name.id: s.value for s in tree.statements if isinstance(s, ast.Let)}
    of_latents = {n for n, s in scope.symbols.items() if s.kind == "latent" or s.degree == "affine"}
    reached: set[str] = set()
    stack: list[ast.Value] = []
    for statement in tree.statements:
        if isinstance(statement, ast.Constrain):
            stack += (statement.left, statement.right)
        if not isinstance(statement, ast.Observe | ast.Potential):
            continue
        given = [a.value for a in statement.family.arguments]
        if isinstance(statement, ast.Potential):
            given.append(statement.value)
        stack += given
        if not any(n.id in of_latents for v in given for n in names_in(v)):
            findings.warn(
                "W104", "no latent reaches this site", statement.family.name.span,
                "it depends on data and hypers only",
                help="name a latent, or a let of latents, in it",
            )  # fmt: skip
    warned: set[str] = set()
    while stack:
        for name in names_in(stack.pop()):
            symbol = scope.symbols.get(name.id)
            if symbol is None:
                continue
            missing = isinstance(symbol.statement, ast.Data) and symbol.statement.type.missing
            if missing and symbol.target is None and name.id not in warned:
                warned.add(name.id)
                findings.warn(
                    "W105", f"`{name.id}` may have missing entries, and a predictor uses it",
                    name.span, "a missing covariate is an error when the data come",
                    help=f"declare it without `?`: {symbol.type}",
                )  # fmt: skip
            if name.id not in reached:
                reached.add(name.id)
                if name.id in lets:
                    stack.append(lets[name.id])
    return reached


def _unused(tree: ast.Ast, scope: Scope, findings: Findings) -> None:
    observed = {s.name.id for s in tree.statements if isinstance(s, ast.Observe)}
    for symbol in scope.symbols.values():
        if symbol.kind == "report" or symbol.name in scope.used or symbol.name in observed:
            continue
        kind = KIND_IN_WORDS[symbol.kind]
        findings.warn(
            "W101", f"`{symbol.name}` is declared and never used", place_of(symbol),
            f"{kind} that nothing depends on",
            help="use it, or leave the statement out"
            + (": the data need not hold it then" if symbol.kind == "data" else ""),
        )  # fmt: skip
