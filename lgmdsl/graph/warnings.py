"""What a model declares without effect, read off its graph: W101 to W105.

W101 declared and never used, W102 a latent that reaches no site, W103 no observation and no
potential, W104 a site that no latent reaches, W105 a covariate that may have missing entries.
"""

from __future__ import annotations

from collections.abc import Iterator

from lgmdsl.errors import NOWHERE, Diagnostic, Span
from lgmdsl.graph.model_graph import FACTORS, LETS, SITES, Edge, IndexSet, ModelGraph, Node
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import KIND_IN_WORDS
from lgmdsl.vocabulary.lookup import lookup


def warnings_of(graph: ModelGraph) -> tuple[Diagnostic, ...]:
    """All warnings of a model as it is written, before any data."""
    return (
        *_without_sites(graph),
        *_sites_without_latents(graph),
        *_missing_covariates(graph),
        *_idle_latents(graph),
        *_unused(graph),
    )


def _without_sites(graph: ModelGraph) -> Iterator[Diagnostic]:
    latents = graph.of_kind("latent")
    if latents and not graph.of_kind(*SITES):
        yield _warning(
            "W103",
            "the model has no observation and no potential",
            _place(latents[0]),
            "its posterior is its prior",
            help="add one, e.g. observe y ~ normal(mean = b0, sd = 1)",
        )


def _sites_without_latents(graph: ModelGraph) -> Iterator[Diagnostic]:
    if not graph.of_kind("latent"):  # a model of hypers alone
        return
    for site in graph.of_kind(*SITES):
        if not graph.touched[site.id]:
            statement = site.statement
            assert isinstance(statement, ast.Observe | ast.Potential)
            yield _warning(
                "W104",
                "no latent reaches this site",
                statement.family.name.span,
                "it depends on data and hypers only",
                help="name a latent, or a let of latents, in it",
            )


def _missing_covariates(graph: ModelGraph) -> Iterator[Diagnostic]:
    """Data with gaps in what sites and constraints are computed from, but for arguments that may be
    open (an end of an interval); maps are judged with the data."""
    factors = {node.id for node in graph.of_kind(*FACTORS)}
    whole = [e for id in factors for e in graph.sources[id] if not _open(graph, e)]
    computed = {e.source for e in whole}
    computed.update(graph.behind([id for id in computed if graph.by_id[id].kind in LETS]))
    for node in graph.of_kind("data"):
        symbol = graph.model.symbols[node.id]
        if node.id in computed and symbol.optional and symbol.target is None:
            uses = [e for e in graph.targets[node.id] if e in whole or e.target in computed]
            span = uses[0].span
            yield _warning(
                "W105",
                f"`{node.id}` may have missing entries, and a predictor uses it",
                span,
                "a missing covariate is an error when the data come",
                help=f"declare it without `?`: {symbol.type}",
            )


def _open(graph: ModelGraph, edge: Edge) -> bool:
    """Whether a mention stands in an argument of a site that takes missing values."""
    statement = graph.by_id[edge.target].statement
    if not isinstance(statement, ast.Observe) or not edge.argument:
        return False
    signature = lookup("family", statement.family.name.id)
    parameter = signature.parameter(edge.argument) if signature else None
    return parameter is not None and parameter.open


def _idle_latents(graph: ModelGraph) -> Iterator[Diagnostic]:
    """Latents that something uses, and no site or constraint."""
    if not graph.of_kind(*SITES):
        return
    reached = {name for node in graph.of_kind(*FACTORS) for name in graph.latents_of(node.id)}
    for node in graph.of_kind("latent"):
        if node.id not in reached and graph.targets[node.id]:
            yield _warning(
                "W102",
                f"latent `{node.id}` reaches no observation and no potential",
                _place(node),
                "its posterior is its prior",
                help="use it in a predictor, or leave it out",
            )


def _unused(graph: ModelGraph) -> Iterator[Diagnostic]:
    sets = {index.name: index for index in graph.index_sets}
    observed = set(graph.observed)
    for name, symbol in graph.model.symbols.items():
        declared: IndexSet | Node = sets[name] if name in sets else graph.by_id[name]
        used = declared.users if isinstance(declared, IndexSet) else graph.targets[name]
        if used or symbol.kind == "report" or name in observed:
            continue
        kind = KIND_IN_WORDS[symbol.kind]
        yield _warning(
            "W101",
            f"`{name}` is declared and never used",
            _place(declared),
            f"{kind} that nothing depends on",
            help="use it, or leave the statement out"
            + (": the data need not hold it then" if symbol.kind == "data" else ""),
        )


def _place(declared: IndexSet | Node) -> Span:
    """Where a declared name stands."""
    name = getattr(declared.statement, "name", None)
    return name.span if isinstance(name, ast.Name) else NOWHERE


def _warning(code: str, message: str, span: Span, label: str, *, help: str) -> Diagnostic:
    return Diagnostic(code, message, span, label, help=help, severity="warning")
