"""From a checked model to its graph: one node for each declaration and each site."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from lgmdsl.graph.model_graph import Edge, IndexSet, ModelGraph, Node
from lgmdsl.graph.references import indices, mentioned
from lgmdsl.language.checked import CheckedModel, Symbol
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import names_in
from lgmdsl.language.tree.print_expr import show
from lgmdsl.language.tree.print_model import print_statement
from lgmdsl.language.tree.statements import described
from lgmdsl.vocabulary.lookup import lookup

Symbols = Mapping[str, Symbol]


def model_graph(checked: CheckedModel) -> ModelGraph:
    """The graph of a checked model: nodes in the order of the text, edges in that of mention."""
    symbols = checked.symbols
    nodes: list[Node] = []
    edges: dict[tuple[str, str, str, str], Edge] = {}
    users: dict[str, dict[str, None]] = {}
    taken: dict[str, int] = {}
    for statement in checked.tree.statements:
        if isinstance(statement, ast.Index) and isinstance(statement.definition, ast.Head):
            users.setdefault(statement.definition.of.id, {})[statement.name.id] = None
        if not described(statement).in_graph:
            continue
        node = _node(statement, symbols, taken)
        nodes.append(node)
        for index in _declared_over(statement):
            users.setdefault(index, {})[node.id] = None
        for reference in mentioned(statement):
            name = reference.name.id
            if name not in symbols:
                continue  # a kernel without arguments
            if symbols[name].kind == "index":
                users.setdefault(name, {})[node.id] = None
                continue
            key = name, node.id, reference.role, reference.argument
            known = edges.get(key)
            if known is None:
                edges[key] = Edge(*key, operand=reference.operand, span=reference.name.span)
            elif known.operand and not reference.operand:
                edges[key] = replace(known, operand=False)
    sets = tuple(_index_sets(checked, users))
    return ModelGraph(tuple(nodes), tuple(edges.values()), sets, checked)


def _declared_over(statement: ast.AnyStatement) -> Iterator[str]:
    """The index sets that a declaration names: its own, and the one that its type is."""
    if described(statement).indexed:
        yield from _ids(getattr(statement, "dims"))  # noqa: B009
    if isinstance(statement, ast.Data):
        yield statement.type.name


def site_name(family: ast.Dist, symbols: Symbols, *, potential: bool = False) -> str:
    """`poisson.log_rate` for a family, `laplace` for a potential.

    The argument after the dot is the first given one that may depend on the latents and that, if
    several are given, does; predictors of other parameters follow (`normal.mean.log_sd`).
    """
    if potential:
        return family.name.id
    signature = lookup("family", family.name.id)
    if signature is None:
        return family.name.id
    variants = [signature] if signature.other is None else [signature, signature.other]
    linking = [p.name for v in variants for p in v.parameters if p.linking]
    others = [p.name for v in variants for p in v.parameters if p.of]
    affine = [a for a in family.arguments if _touches_latents(a.value, symbols)]
    links = [a for a in family.arguments if a.name in linking]
    chosen = next(iter([a for a in links if a in affine] or links), None)
    if chosen is None:
        return family.name.id
    further = [a.name for a in affine if a.name in others]
    return ".".join((family.name.id, chosen.name, *further))


def _touches_latents(value: ast.Value, symbols: Symbols) -> bool:
    named = (symbols[name.id] for name in names_in(value) if name.id in symbols)
    return any(s.degree in ("affine", "nonlinear") or s.kind == "latent" for s in named)


def _node(statement: ast.AnyStatement, symbols: Symbols, taken: dict[str, int]) -> Node:
    text, doc = print_statement(statement), statement.doc or ""
    match statement:
        case ast.Data(name=name, dims=dims, type=kind):
            type_ = kind.name + ("?" if kind.missing else "")
            return Node(name.id, "data", name.id, _ids(dims), type_, type_, doc, text, statement)
        case ast.Hyper(name=name, dims=dims, type=kind, prior=prior, value=value):
            detail = f"~ {prior.name.id}" if prior else f"= {_brief(value)}"
            return Node(
                name.id, "hyper", name.id, _ids(dims), kind.name, detail, doc, text, statement
            )
        case ast.Latent(name=name, dims=dims, factors=factors):
            detail = "~ " + " * ".join(_structure(f) for f in factors)
            return Node(name.id, "latent", name.id, _ids(dims), "", detail, doc, text, statement)
        case ast.Let(name=name, dims=dims, value=value):
            detail = f"= {_brief(value)}"
            return Node(name.id, "let", name.id, _ids(dims), "", detail, doc, text, statement)
        case ast.Report(name=name, dims=dims, value=value):
            detail = f"= {_brief(value)}"
            return Node(name.id, "report", name.id, _ids(dims), "", detail, doc, text, statement)
        case ast.Observe(name=name, family=family):
            site = site_name(family, symbols)
            plates = symbols[name.id].dims if name.id in symbols else ()
            id_ = _unique(f"observe {name.id}", taken)
            return Node(id_, "observe", site, plates, site, "", doc, text, statement)
        case ast.Potential(value=value, family=family):
            site = site_name(family, symbols, potential=True)
            id_ = _unique(f"potential {_brief(value)}", taken)
            detail = f"on {_brief(value)}"
            plates = indices(value, symbols)
            return Node(id_, "potential", site, plates, site, detail, doc, text, statement)
        case ast.Constrain(left=left, right=right):
            id_ = _unique(f"constrain {_brief(left)}", taken)
            detail = f"{_brief(left)} = {_brief(right)}"
            dims_of = indices(left, symbols)
            return Node(id_, "constrain", "constraint", dims_of, "", detail, doc, text, statement)
        case ast.Index():
            raise ValueError("an index set is not a node")
        case _:
            assert_never(statement)


def _index_sets(
    checked: CheckedModel, users: Mapping[str, Mapping[str, None]]
) -> Iterator[IndexSet]:
    labels: dict[str, tuple[str, ...]] = {}
    sizes: dict[str, int | None] = {}
    for statement in checked.tree.statements:
        if not isinstance(statement, ast.Index):
            continue
        name = statement.name.id
        match statement.definition:
            case ast.Size(size=size):
                labels[name], sizes[name] = (), size
            case ast.Range(first=first, last=last):
                labels[name], sizes[name] = (), last - first + 1
            case ast.Labels(labels=given):
                labels[name], sizes[name] = given, len(given)
            case ast.Head(of=of):
                whole = sizes.get(of.id)
                labels[name] = labels.get(of.id, ())[:-1]
                sizes[name] = None if whole is None else whole - 1
            case None:
                labels[name], sizes[name] = (), None
        used = tuple(users.get(name, ()))
        yield IndexSet(name, sizes[name], labels[name], statement.doc or "", used, statement)


def _structure(factor: ast.Dist) -> str:
    kernel = factor.get("kernel")
    return f"{factor.name.id}({_kernels(kernel)})" if kernel is not None else factor.name.id


def _kernels(kernel: ast.Value) -> str:
    """`se + periodic * se`: the kernel without its arguments."""
    match kernel:
        case ast.Call(function=function):
            return function.id
        case ast.Binary(op=op, left=left, right=right):
            return f"{_kernels(left)} {op} {_kernels(right)}"
        case _:
            return _brief(kernel)


def _brief(value: ast.Value | None) -> str:
    return "" if value is None else show(value)


def _unique(id_: str, taken: dict[str, int]) -> str:
    taken[id_] = taken.get(id_, 0) + 1
    return id_ if taken[id_] == 1 else f"{id_} #{taken[id_]}"


def _ids(dims: Iterable[ast.Name]) -> tuple[str, ...]:
    return tuple(d.id for d in dims)
