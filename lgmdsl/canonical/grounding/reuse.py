"""Data of a fit where new data leave them out, or give them for the members they name alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.canonical.grounding.axes import BoundDatum
from lgmdsl.canonical.grounding.errors import SHOWN, absent, show, unknown_members
from lgmdsl.canonical.grounding.labels import meant_labels
from lgmdsl.canonical.grounding.model import GroundedModel, IndexSet
from lgmdsl.canonical.grounding.usage import Usage
from lgmdsl.dataset import Dataset
from lgmdsl.errors import Diagnostic
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.remedies import key, table
from lgmdsl.vocabulary.lookup import lookup


@dataclass
class Reused:
    """Values and missing entries by name, and problems."""

    values: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, BoolArray] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)


def reused(
    fitted: GroundedModel,
    dataset: Dataset,
    supplied: Collection[str],
    indices: Mapping[str, IndexSet],
    changed: Collection[str],
    usage: Usage,
) -> Reused:
    """Data of the fit that the new source leaves out: where their index sets are the same, or where
    all members that are asked for were fitted. `changed`: the index sets with other members."""
    out = Reused()
    for name, value in fitted.values.items():
        symbol = fitted.model.symbols[name]
        if name in supplied or name in usage.responses or dataset.ask(name) is not None:
            continue
        mask = fitted.missing.get(name)
        reindexed = _at_members(symbol, value, fitted, indices, changed, usage)
        if reindexed is None:
            out.problems.append(_lacking(symbol, dataset, fitted, indices, changed, usage))
            continue
        out.values[name] = reindexed
        if mask is not None:
            out.missing[name] = _at_members(symbol, mask, fitted, indices, changed, usage)
    return out


def _at_members(
    symbol: Symbol,
    value: Any,
    fitted: GroundedModel,
    indices: Mapping[str, IndexSet],
    changed: Collection[str],
    usage: Usage,
) -> Any:
    """The value at the members of changed axes; None where some were not fitted."""
    for axis, dim in enumerate(symbol.dims):
        if dim not in changed:
            continue
        positions = fitted.indices[dim].positions(indices[dim].labels)
        if dim not in usage.steps or (positions < 0).any():
            return None
        if isinstance(value, np.ndarray):
            value = np.take(value, positions, axis=axis)
        else:
            value = value[positions, :] if axis == 0 else value[:, positions]
    return value


def _lacking(
    symbol: Symbol,
    dataset: Dataset,
    fitted: GroundedModel,
    indices: Mapping[str, IndexSet],
    changed: Collection[str],
    usage: Usage,
) -> Diagnostic:
    dim = next(d for d in symbol.dims if d in changed)
    labels = indices[dim].labels
    new = labels[fitted.indices[dim].positions(labels) < 0]
    if new.size and dim not in usage.growing | usage.rows:
        return unknown_members(symbol, fitted.indices[dim], new)
    shown = ", ".join(show(v) for v in new[:4].tolist())
    target = symbol.target
    if target is not None and dataset.key(target) in dataset.keys:
        found = dataset.key(target)
        help = f"if `{found}` is it: {key(symbol.name, found)}"
    elif new.size and not fitted.indices[dim].counted:
        text = new.dtype.kind == "U"
        near = meant_labels(new[:SHOWN].tolist(), fitted.indices[dim].labels) if text else ""
        give = f"give `{symbol.name}` for the new labels of {dim}: {shown}"
        maps = [s.name for s in fitted.model.of_kind("data") if s.target == dim]
        if len(symbol.dims) == 1 and maps and dataset.tabular:
            give += f" (a table of them: {table(maps[0])})"
        help = f"{near} If not, {give}" if near else give
    else:
        help = on_a_scale(fitted.graph, symbol.name)
    return absent(
        symbol,
        dataset.name,
        dataset.keys,
        dataset.suggestion(symbol.name),
        dataset.key(symbol.name),
        help,
    )


def named_part(
    bound: BoundDatum, indices: Mapping[str, IndexSet], asked: Mapping[str, AnyArray]
) -> tuple[int, IndexSet] | None:
    """The axis along which a datum has the members that were named, and no others."""
    for axis, dim in enumerate(bound.symbol.dims if bound.fits and not bound.sparse else ()):
        size = bound.shape[axis]
        if dim in asked and size == asked[dim].size != indices[dim].size:
            return axis, IndexSet(dim, asked[dim])
    return None


def completed(
    value: AnyArray, axis: int, part: IndexSet, whole: IndexSet, known: AnyArray | None
) -> AnyArray | None:
    """A datum over all members: the values given for some, those of the fit for the others; None
    where some have neither."""
    size = 0 if known is None else known.shape[axis]
    uncovered = np.ones(whole.size, dtype=np.bool_)
    positions = whole.positions(part.labels)
    uncovered[positions] = False
    uncovered[:size] = False
    shape = (*value.shape[:axis], whole.size, *value.shape[axis + 1 :])
    if uncovered.any() or (
        known is not None
        and np.delete(known.shape, axis).tolist() != np.delete(shape, axis).tolist()
    ):
        return None
    out = np.zeros(shape, dtype=value.dtype)
    order = np.moveaxis(out, axis, 0)
    if known is not None:
        order[:size] = np.moveaxis(known, axis, 0)
    order[positions] = np.moveaxis(value, axis, 0)
    return out


def on_a_scale(graph: ModelGraph, name: str) -> str:
    """The remedy where new data lack what a response is measured by: its trials, its exposure."""
    for edge in graph.targets[name]:
        statement = graph.by_id[edge.target].statement
        if isinstance(statement, ast.Observe):
            family = lookup("family", statement.family.name.id)
            parameter = None if family is None else family.parameter(edge.argument)
            if parameter is not None and parameter.type == "latent":
                continue  # it is in the predictor
            return (
                f"give `{name}` for the new rows, as `{edge.argument}` of the response "
                f"`{statement.name.id}`, which is predicted on that scale (1 for each unit)"
            )
    return ""
