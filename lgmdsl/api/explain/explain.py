"""The result of compiling a model: sizes, canonical form, rewrites, engine, methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from lgmdsl.api.explain.methods import methods_of
from lgmdsl.api.explain.of_shards import ShardsView, view_of_shards
from lgmdsl.api.explain.outline import Outline, neutral, outline_of
from lgmdsl.api.explain.terms import parameters, show_form
from lgmdsl.api.explain.views import (
    EngineView,
    Explanation,
    HyperView,
    LatentView,
    PartOfSite,
    PartView,
    PlateView,
    SiteView,
)
from lgmdsl.api.settings import check_fixed
from lgmdsl.api.streaming import MANY
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.canonical.lowering.hypers import HyperBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.plates import plates
from lgmdsl.canonical.rotated import fewer_sites
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.dataset import Dataset, Keys
from lgmdsl.engines.choose import Option, Terms, preferred, reason, refusal, table
from lgmdsl.errors import LgmError, listed
from lgmdsl.graph.model_graph import SITES, ModelGraph
from lgmdsl.graph.warnings import warnings_of
from lgmdsl.inference.plan import verdict
from lgmdsl.inference.registry import backends
from lgmdsl.language.load import AnyModel, as_model
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.print_expr import show
from lgmdsl.memory import budget, size_text
from lgmdsl.shards.given import is_sharded
from lgmdsl.streams.refusals import reason_against
from lgmdsl.streams.row_sites import BYTES, COPIES, on_disk
from lgmdsl.streams.streamable import table_of
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Trait


@overload
def explain(
    model: AnyModel,
    data: Mapping[str, Any] | None = None,
    fixed: Mapping[str, object] | None = None,
    *,
    mapping: Keys | None = None,
) -> Explanation:
    """Data by name are no folder."""


@overload
def explain(
    model: AnyModel,
    data: object,
    fixed: Mapping[str, object] | None = None,
    *,
    mapping: Keys | None = None,
) -> Explanation | ShardsView:
    """Data at a path may be a folder of shards."""


def explain(
    model: AnyModel,
    data: object = None,
    fixed: Mapping[str, object] | None = None,
    *,
    mapping: Keys | None = None,
) -> Explanation | ShardsView:
    """Compile a model as far as possible and describe the result; of a folder of shards, what they
    hold, what workers eliminate and what they answer. Without data the form is shown and no
    numbers. Hyperparameters that have no value get an arbitrary one, to size the engines. Raises
    ModelError, and DataError for wrong data; a model that cannot be fitted is explained.
    """
    model = as_model(model, "explain")
    if is_sharded(data):
        return view_of_shards(model, data, mapping, fixed)
    outline = outline_of(model, data, mapping)
    grounded = outline.grounded
    graph, fixed = grounded.graph, check_fixed(fixed)
    linear, note = _linear(outline, outline.canonical, fixed)
    merged_model, fitted = None, linear
    if outline.canonical is not None and outline.has_data:
        merged_model = fewer_sites(outline.canonical)
    if linear is not None and merged_model is not None:
        fitted, note = _linear(outline, merged_model, fixed)
        fold = merged_model.rows.folding
        note = "; ".join(filter(None, [f"sized at {fold.left}" if fold else "", note]))
    options, unsolved = [], None
    if fitted is not None:
        options = table(fitted)
        if all(o.refusal for o in options):
            unsolved = refusal(fitted, options, Terms.of())
    return Explanation(
        model=graph.model.source.name,
        data=grounded.source if outline.has_data else "",
        sizes=_sizes(outline),
        hypers=tuple(_hyper(b, fixed) for b in outline.hypers),
        latents=_latents(outline),
        groups=graph.components,
        plates=_plates(outline, linear),
        parts=_parts(graph, linear),
        sites=_sites(outline, linear),
        constraints=tuple(node.detail for node in graph.of_kind("constrain")),
        rewrites=(
            *((r.block, r.description) for r in outline.rewrites),
            *_merged(merged_model),
        ),
        batches=()
        if outline.dataset is None or outline.canonical is None
        else batches_of(graph, outline.dataset, outline.canonical),
        refused=outline.refused,
        engines=_engines(options),
        engine_reason="" if fitted is None else reason(fitted, options),
        engine_note=note,
        memory_budget=budget(),
        warnings=warnings_of(graph),
        methods=methods_of(outline, graph.model.source.name, unsolved),
    )


def _merged(model: CanonicalModel | None) -> tuple[tuple[str, str], ...]:
    """What the methods that allow for it are given of rows that are alike."""
    folding = None if model is None else model.rows.folding
    if folding is None:
        return ()
    others = listed([name for name, b in backends().items() if not b.spec.additive])
    return tuple((name, f"{text} (all by {others})") for name, text in folding.descriptions)


def _sizes(outline: Outline) -> tuple[tuple[str, int | None, str], ...]:
    """Index sets: name, size (None where only data would tell), and where the labels are from."""
    sizes = []
    for name, index in outline.grounded.indices.items():
        statement = outline.grounded.model.symbols[name].statement
        assert isinstance(statement, ast.Index)
        known = outline.has_data or _declared(statement, outline)
        origin = index.origin if known else "comes with the data"
        sizes.append((name, index.size if known else None, origin))
    return tuple(sizes)


def _declared(statement: ast.Index, outline: Outline) -> bool:
    definition = statement.definition
    while isinstance(definition, ast.Head):
        inner = outline.grounded.model.symbols[definition.of.id].statement
        assert isinstance(inner, ast.Index)
        definition = inner.definition
    return definition is not None


def _hyper(block: HyperBlock, fixed: Mapping[str, object]) -> HyperView:
    name = f"{block.name}[{', '.join(block.dims)}]" if block.dims else block.name
    if block.name in fixed:
        return HyperView(name, block.type, "pinned", str(fixed[block.name]))
    if block.prior is not None:
        return HyperView(name, block.type, f"~ {show(block.prior.dist)}", "")
    if block.value is not None and not block.value.depends:
        value = block.value.evaluate({}).dense()
        shown = f"{float(value):g}" if value.ndim == 0 else "an array"
        return HyperView(name, block.type, "given", shown)
    names = sorted(block.value.depends) if block.value is not None else []
    return HyperView(name, block.type, f"from {', '.join(names)}", "computed")


def _latents(outline: Outline) -> tuple[LatentView, ...]:
    views = []
    for symbol in outline.grounded.model.of_kind("latent"):
        statement = symbol.statement
        assert isinstance(statement, ast.Latent)
        name = f"{symbol.name}[{', '.join(symbol.dims)}]" if symbol.dims else symbol.name
        size = 1
        for dim in symbol.dims:
            size *= outline.grounded.indices[dim].size
        known = outline.has_data or all(
            _declared(outline.grounded.model.symbols[d].statement, outline)  # type: ignore[arg-type]
            for d in symbol.dims
        )
        structure = " * ".join(show(f) for f in statement.factors)
        forms = [lookup("structure", f.name.id) for f in statement.factors]
        proper = not any(s is not None and Trait.IMPROPER in s.traits for s in forms)
        views.append(LatentView(name, structure, size if known else None, proper))
    return tuple(views)


def _sites(outline: Outline, linear: LinearGaussian | None) -> tuple[SiteView, ...]:
    views, number = [], 0
    grounded = outline.grounded
    for node in grounded.graph.of_kind(*SITES):
        statement, block = node.statement, outline.blocks.get(node.id)
        assert isinstance(statement, ast.Observe | ast.Potential)
        shown = _subject(statement, outline)
        if block is None or not outline.lost.isdisjoint(grounded.graph.behind([node.id])):
            views.append(_unlowered(shown, node.label, statement, outline))
            continue
        predictor = linear.predictors[number] if linear is not None else None
        number += 1
        operators: tuple[PartOfSite, ...] = ()
        if predictor is not None and outline.has_data:
            operators = tuple(
                PartOfSite(name, *op.shape, _stored(op), op.is_sparse)
                for name, op in predictor.columns.items()
            )
        entries = 1
        for size in block.data_shape:
            entries *= size
        count = len(block.rows) if outline.has_data else None
        views.append(
            SiteView(
                shown,
                block.family.spec.name,
                block.site.spec.name,
                count,
                entries - len(block.data.rows)
                if outline.has_data and not block.family.spec.potential
                else 0,
                parameters(
                    block.parameters, tuple(a.name for a in statement.family.arguments), grounded
                ),
                tuple(show_form(block.form, grounded)),
                operators,
            )
        )
    return tuple(views)


def _unlowered(
    shown: str, family: str, statement: ast.Observe | ast.Potential, outline: Outline
) -> SiteView:
    """A site that no back end takes yet: its predictor where that could be lowered."""
    argument = family.partition(".")[2]
    value = statement.family.get(argument) if argument else None
    arguments = [a for a in statement.family.arguments if a.name != argument]
    terms: tuple[str, ...] = ()
    if isinstance(value, ast.Name) and value.id in outline.lets:
        terms = tuple(show_form(outline.lets[value.id], outline.grounded))
    elif value is not None:
        terms = (_text(value, outline),)
    parameters = ", ".join(f"{a.name} = {show(a.value)}" for a in arguments)
    return SiteView(shown, family, family, None, 0, parameters, terms, ())


def _text(value: ast.Value, outline: Outline) -> str:
    """The expression as written; a let by what it stands for."""
    if isinstance(value, ast.Name) and value.id in outline.lost:
        statement = outline.grounded.model.symbols[value.id].statement
        assert isinstance(statement, ast.Let)
        return show(statement.value)
    return show(value)


def _subject(statement: ast.Observe | ast.Potential, outline: Outline) -> str:
    if isinstance(statement, ast.Potential):
        return f"potential {show(statement.value)}"
    dims = outline.grounded.model.symbols[statement.name.id].dims
    return f"{statement.name.id}[{', '.join(dims)}]" if dims else statement.name.id


def _stored(operator: Any) -> int:
    rows, columns = operator.shape
    return int(operator.sparse().nnz) if operator.is_sparse else rows * columns


def _linear(
    outline: Outline, canonical: CanonicalModel | None, fixed: Mapping[str, object]
) -> tuple[LinearGaussian | None, str]:
    """The linear-Gaussian part at the given hypers (placeholders for the others), and a remark."""
    if canonical is None:
        return None, "no engine takes this model yet: see what is not available"
    if not outline.has_data:
        return None, "chosen when data are given"
    space = canonical.hypers
    free = [b for b in space.blocks if b.value is None and b.name not in fixed]
    values = {**{b.name: neutral(b) for b in free}, **fixed}
    try:
        linear = canonical.linear(space.theta(values))
    except LgmError as error:
        first = error.diagnostics[0]
        said = (first.message, *first.details, first.help)
        return None, f"not sized: {'; '.join(s for s in said if s)}"
    note = f"sized at placeholder values for {', '.join(b.name for b in free)}" if free else ""
    return linear, note


def _plates(outline: Outline, linear: LinearGaussian | None) -> tuple[PlateView, ...]:
    if linear is None or outline.canonical is None:
        return ()
    independent = plates(outline.canonical, linear)
    return tuple(PlateView(p.index, p.inside, p.shared) for p in independent)


def _parts(graph: ModelGraph, linear: LinearGaussian | None) -> tuple[PartView, ...]:
    """What each component of the graph would cost by itself, where there are several."""
    if linear is None or len(graph.components) == 1:
        return ()
    views = []
    for latents in graph.components:
        part = linear.part([b.name for b in linear.blocks if owner(b.name) in latents])
        best = preferred(table(part)) if part.rows else None
        engine, flops = ("", 0.0) if best is None else (best.name, best.flops)
        views.append(PartView(latents, part.size, part.rows, engine, flops))
    return tuple(views)


def _engines(options: Sequence[Option]) -> tuple[EngineView, ...]:
    best = preferred(options)
    return tuple(EngineView(o.name, o.refusal, o.flops, o is best, o.exact) for o in options)


def batches_of(graph: ModelGraph, dataset: Dataset, canonical: CanonicalModel) -> tuple[str, ...]:
    """Sentences about the rows of a file that can be read by batches; none for other data."""
    if not any(entry.batched for entry in dataset.entries.values()):
        return ()
    table = table_of(graph, dataset)
    if isinstance(table, str):
        return (f"kept in memory: {table}",)
    if table is None or not table.batched:
        return ()
    blocks = [b for b in canonical.blocks if table.index in b.dims]
    able, reasons = [], dict[str, None]()
    for backend in backends().values():
        spec = backend.spec
        if not spec.takes_sums or not verdict(canonical.blocks, backend, None).runs:
            continue
        against = [reason for b in blocks if (reason := reason_against(b, spec))]
        reasons |= dict.fromkeys(against)
        able += [] if against else [spec]
    if not able:
        return tuple(f"kept in memory: {reason}" for reason in reasons)
    when = "by themselves" if table.rows >= MANY else "with `--option rows=streamed`"
    names = listed([spec.name for spec in able])
    out = [f"{table.rows:,} rows over `{table.index}`, read by batches {when} by {names}"]
    out += reasons
    for spec in able:
        if spec.row_sites:
            size = size_text(BYTES * COPIES * table.rows)
            where = "in temporary files" if on_disk(table.rows) else "in memory"
            out.append(f"{spec.name} holds a Gaussian of each row then: about {size} {where}")
    return tuple(out)
