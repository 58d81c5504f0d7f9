"""The order of index sets: whether it is known where it is needed, and axes in equal steps.

An order comes from labels in the model, labels bound under the index's name, an ordered
categorical, numbers or dates. Text without a given order is E307.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.expressions.operators import arguments
from lgmdsl.canonical.grounding.axes import BoundDatum
from lgmdsl.canonical.grounding.errors import SHOWN, count_of, show
from lgmdsl.canonical.grounding.label_line import Line, Uneven, equal_steps, looks_like_dates
from lgmdsl.canonical.grounding.labels import LabelArray, labels_of, plain
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.dataset import Loaded
from lgmdsl.errors import Diagnostic, Span, listed
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.tree import ast
from lgmdsl.remedies import either
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Category, Numbers, Signature

# Levels that a remedy writes out.
WRITTEN = 8


def settled(
    index: IndexSet,
    needs: Sequence[Need],
    open_ended: bool,
    maps: Sequence[BoundDatum],
    key: LabelArray | None,
) -> IndexSet | Diagnostic:
    """An index set as those who need its order take it.

    `open_ended`: its members came with the data, so steps without data become members too.
    `maps` are the data whose values are its labels, `key` the labels under its own name. Returns
    E307 for an order that is not given, E302 for truth values, and for labels that are not in equal
    steps, where places are wanted.
    """
    if not needs or not index.size:
        return index
    placing = next((n for n in needs if n.numbers != "order"), None)
    if placing is not None and open_ended:
        truth = next((b.symbol.name for b in maps if b.values.dtype.kind == "b"), "")
        truth = key.truth * index.name if key is not None else "" if index.given else truth
        if truth:
            return _truth_values(index, placing, truth)
    if not index.ordered:
        return unordered(index, needs, maps)
    line = index.line
    if line is None:
        return index
    stepping = next((n for n in needs if n.numbers == "steps"), None)
    if stepping is not None:
        return _stepped(index, stepping, open_ended)
    positioned = next((n for n in needs if n.numbers == "positions"), None)
    if positioned is not None and not line.distinct:
        return _too_close(index, positioned)
    return index


def _stepped(index: IndexSet, need: Need, open_ended: bool) -> IndexSet | Diagnostic:
    """The index in equal steps; the order of its members is that of the line."""
    line = index.line
    assert line is not None, "text has no steps"
    if index.counted:
        return index
    try:
        labels = equal_steps(line)
    except Uneven as error:
        return _uneven(index, line, need, str(error))
    if not open_ended:  # the model says which members there are
        whole = labels.size == index.size
        return index if whole else _uneven(index, line, need, "some steps are left out")
    if np.array_equal(labels, index.labels):
        return index
    added = index.positions(labels) < 0
    return replace(index, labels=plain(labels), added=added if added.any() else None)


def _truth_values(index: IndexSet, need: Need, given: str) -> Diagnostic:
    return Diagnostic(
        "E302",
        f"`{given}` holds truth values, which have no distances, and `{need.user}` wants these",
        need.span,
        help=f"give `{given}` as whole numbers or dates, or make the latent over {index.name} "
        "independent: normal(sd = ...)",
    )


def unordered(index: IndexSet, needs: Sequence[Need], maps: Sequence[BoundDatum]) -> Diagnostic:
    """E307: text without a given order."""
    users = listed([f"`{u}`" for u in dict.fromkeys(n.user for n in needs)])
    shown = [show(v) for v in index.labels[:WRITTEN].tolist()]
    listing = ", ".join(shown) + (", ..." if index.size > WRITTEN else "")
    name, few = index.name, ", ".join(shown[:2]) + (", ..." if index.size > 2 else "")
    verb = "need" if len({n.user for n in needs}) > 1 else "needs"
    remedies = [f"in the model: index {name} = {{{listing}}}"]
    lead = "name the labels in their order (here they are only sorted), "
    if looks_like_dates(index.labels):
        lead = either(
            "if these are dates, write them as 2024-01-31 (ISO 8601); else name the labels in "
            "their order, ",
            "if these are dates: pandas.to_datetime(..., dayfirst=...), or text as 2024-01-31; "
            "else name the labels in their order, ",
        )
    if not any(b.entry.table for b in maps):
        remedies.append(either(f"a key `{name}` of the data", f'data["{name}"] = [{few}]'))
    if maps:
        column = maps[0].symbol.name
        levels = f"pd.Categorical({column}, [{few}], ordered=True)"
        remedies.append(
            either(
                f"`{column}` as an ordered categorical of a .parquet file", f"{column} = {levels}"
            )
        )
    return Diagnostic(
        "E307",
        f"the order of index `{name}`, which {users} {verb}, is not given",
        needs[0].span,
        f"{name} has {count_of(index.size, 'label')}, {index.origin}: {listing}",
        help=f"{lead}{'; or '.join(remedies)}",
    )


def by_levels(name: str, maps: Sequence[BoundDatum]) -> IndexSet | Diagnostic | None:
    """The levels of the ordered categoricals that map into an index set, unused ones too; None
    where no map is one, E307 where two differ."""
    known = [(b, labels_of(Loaded(b.levels)).values) for b in maps if b.levels is not None]
    if not known:
        return None
    widest, levels = max(known, key=lambda pair: pair[1].size)
    origin = f"from the levels of {widest.symbol.name}"
    index = IndexSet(name, plain(levels), origin, given=True)
    for b, others in known:
        positions = index.positions(others)
        if (positions < 0).any() or (np.diff(positions) <= 0).any():
            return disagreeing(index, widest.symbol.name, b.symbol.name, others)
    return index


def disagreeing(index: IndexSet, name: str, other: str, levels: AnyArray) -> Diagnostic:
    """E307: two ordered categoricals that map into one index set differ."""
    return Diagnostic(
        "E307",
        f"`{name}` and `{other}` give different orders of index `{index.name}`",
        details=(f"{name}: {_shown(index.labels)}", f"{other}: {_shown(levels)}"),
        help=f"give both the same levels, or name them in the model: index {index.name} = "
        f"{{{_shown(index.labels)}}}",
        layout="plain",
    )


def _uneven(index: IndexSet, line: Line, need: Need, why: str) -> Diagnostic:
    shown = _shown(line.labels[np.argsort(line.places, kind="stable")])
    return Diagnostic(
        "E302",
        f"`{need.user}` wants equal steps, and the labels of `{index.name}` have none: {why}",
        need.span,
        f"{index.name} has {count_of(index.size, 'label')}, {index.origin}: {shown}",
        help="for positions at any distance: ou(sd = ..., rate = ...), or rw1 or rw2, which take "
        "the labels as positions; or give labels in equal steps",
    )


def _too_close(index: IndexSet, need: Need) -> Diagnostic:
    places = index.places
    assert places is not None, "only points of a line are too close"
    order = np.argsort(places, kind="stable")
    gaps = np.diff(places[order])
    same = np.flatnonzero(gaps <= 1e-14 * np.abs(places[order][1:]))
    pair = index.labels[order[same[0] : same[0] + 2]]
    computed = (gaps[same] > 0.0).any()
    return Diagnostic(
        "E302",
        f"labels of `{index.name}` are too close together for `{need.user}` to distinguish",
        need.span,
        f"{_shown(pair)}{'' if len(same) == 1 else f' and {len(same) - 1} more'}",
        help="they are equal to 15 digits: round them in the data (in pandas: column.round(12))"
        if computed
        else f"measure positions from a closer origin: {need.user}(at = ...), with one number for "
        f"each member of {index.name}",
    )


def _shown(labels: AnyArray) -> str:
    return ", ".join(show(v) for v in labels[:SHOWN].tolist()) + (
        ", ..." if labels.size > SHOWN else ""
    )


def misplaced(index: IndexSet, new: AnyArray, needs: Sequence[Need]) -> Diagnostic | None:
    """E302 where labels that new data bring to a fitted axis are no points of its line."""
    need = next((n for n in needs if n.numbers != "order"), None)
    if need is None or index.line is None or not index.spaced:
        return None
    kind = index.line.unit
    whole = IndexSet(index.name, new)
    if whole.line is not None and whole.line.unit == kind:
        return None
    wanted = "numbers" if kind == "number" else f"dates (by the {kind})"
    return Diagnostic(
        "E302",
        f"`{index.name}` takes new members by {wanted}, as in the fit",
        need.span,
        f"found {_shown(new)}; the fit has {_shown(index.labels)}",
        help="write the new labels as those of the fit are written",
    )


# ---- order needs -------------------------------------------------------------------------------
# Which index sets need an order, and for whom: read off what structures, families and operators
# declare (`ordered_axis`, `spacing`), never off their names.


@dataclass(frozen=True)
class Need:
    """`user` (a name of the language) needs an order of `index`; `numbers` is what labels that are
    numbers or dates mean to it; `span` is its place in the text."""

    index: str
    user: str
    numbers: Numbers
    span: Span


def needs_of(model: CheckedModel) -> Mapping[str, tuple[Need, ...]]:
    """All needs, by index set."""
    needs: dict[str, tuple[Need, ...]] = {}
    for need in _needs(model):
        needs[need.index] = (*needs.get(need.index, ()), need)
    return needs


def spacing_of(factor: ast.Dist) -> tuple[Signature, Numbers] | None:
    """The structure of a factor and what labels mean along its axis; None where the axis needs no
    order, because it has none or because an argument gives the positions."""
    signature = _ordered("structure", factor.name.id)
    if signature is None or (signature.spacing.at and factor.get(signature.spacing.at) is not None):
        return None
    circle = factor.get(signature.spacing.circle) if signature.spacing.circle else None
    closed = isinstance(circle, ast.Bool) and circle.value
    return signature, "steps" if closed else signature.spacing.numbers


def _needs(model: CheckedModel) -> Iterator[Need]:
    for statement in model.tree.statements:
        if isinstance(statement, ast.Index) and isinstance(statement.definition, ast.Head):
            yield Need(statement.definition.of.id, "head", "order", statement.definition.span)
        elif isinstance(statement, ast.Latent):
            for dim, factor in zip(statement.dims, statement.factors, strict=False):
                spaced = spacing_of(factor)
                if spaced is not None:
                    yield Need(dim.id, spaced[0].name, spaced[1], factor.span)
        elif isinstance(statement, ast.Observe):
            symbol, family = model.symbols.get(statement.name.id), statement.family.name
            target = symbol.target if symbol is not None else None
            if target is not None and _ordered("family", family.id) is not None:
                yield Need(target, family.id, "order", family.span)
        for call in calls_in(statement):
            signature = _ordered("operator", call.function.id)
            if signature is not None:
                yield from _along(call, signature)


def _along(call: ast.Call, signature: Signature) -> Iterator[Need]:
    by_name = arguments(call)
    for parameter in signature.parameters:
        value = by_name.get(parameter.name)
        if parameter.type == "index" and isinstance(value, ast.Name):
            yield Need(value.id, signature.name, "order", call.function.span)


def _ordered(category: Category, name: str) -> Signature | None:
    signature = lookup(category, name)
    return signature if signature is not None and signature.ordered_axis else None


def calls_in(node: ast.Node) -> Iterator[ast.Call]:
    """The operators and functions that are called under a node."""
    return (part for part in ast.parts(node) if isinstance(part, ast.Call))
