"""Graphs: an adjacency matrix or an (E, 2) array of label pairs, to one symmetric csr matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray, IntArray, SparseMatrix
from lgmdsl.canonical.grounding.axes import BoundDatum
from lgmdsl.canonical.grounding.errors import (
    SHOWN,
    count_of,
    places,
    show,
    tally,
    wrong_labels,
    wrong_values,
)
from lgmdsl.canonical.grounding.labels import labels_of
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.canonical.grounding.warnings import dropped_loops
from lgmdsl.errors import Diagnostic
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.tree import ast
from lgmdsl.structures.spatial.graphs import Components
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Trait


def graph_of(bound: BoundDatum, index: IndexSet) -> tuple[Any | None, list[Diagnostic]]:
    """The adjacency (csr, float64 ones, no diagonal) and what is wrong or was dropped.

    Pairs may come in one direction or both, and more than once; loops are dropped with W303.
    Raises nothing: E302 for unknown labels, E303 for weights or a matrix that is not symmetric.
    """
    if bound.pairs:
        return _from_pairs(bound, index)
    return _from_matrix(bound, index)


def _from_pairs(bound: BoundDatum, index: IndexSet) -> tuple[Any | None, list[Diagnostic]]:
    labels = labels_of(bound.raw)
    if labels.missing.any():
        return None, [
            wrong_values(
                bound.symbol,
                f"{int(labels.missing.sum())} missing ends",
                f"rows {', '.join(map(str, np.flatnonzero(labels.missing.any(axis=1))[:5]))}",
                "drop these pairs",
                f"`{bound.symbol.name}` has pairs with a missing end",
            )
        ]
    ends = index.positions(labels.values)
    unknown = ends < 0
    if unknown.any():
        rows = np.flatnonzero(unknown.any(axis=1))
        more = f" and {rows.size - 5} more" if rows.size > 5 else ""
        where = f"in rows {', '.join(map(str, rows[:5].tolist()))}{more}"
        remedy = ""
        if index.counted and labels.values.dtype.kind == "i":
            low, high = int(labels.values.min()), int(labels.values.max())
            if low >= 1 and high == index.size:
                remedy = f"{bound.symbol.name} - 1"
        return None, [wrong_labels(bound.symbol, index, labels.values[unknown], where, remedy)]
    return _assembled(bound, ends[:, 0], ends[:, 1], index)


def _from_matrix(bound: BoundDatum, index: IndexSet) -> tuple[Any | None, list[Diagnostic]]:
    import scipy.sparse as sp

    name, values = bound.symbol.name, bound.values
    weights: AnyArray = values.data if bound.sparse else values
    if weights.dtype.kind not in "biuf":
        return None, [wrong_values(bound.symbol, tally(weights), "", "give 0 and 1")]
    if bound.missing is not None or (weights.dtype.kind == "f" and np.isnan(weights).any()):
        return None, [wrong_values(bound.symbol, "missing entries", "", f"np.nan_to_num({name})")]
    odd = (weights != 0) & (weights != 1)
    if odd.any():
        where = "" if bound.sparse else places(odd, bound.symbol.dims, {index.name: index})
        return None, [
            wrong_values(
                bound.symbol, tally(weights[odd]), where, f"{name} != 0 (a graph has no weights)"
            )
        ]
    matrix = sp.csr_array(values)
    matrix.eliminate_zeros()
    rows, columns = matrix.nonzero()
    forward = rows.astype(np.int64) * index.size + columns
    backward = columns.astype(np.int64) * index.size + rows
    lone = ~np.isin(forward, backward)
    if lone.any():
        first = int(np.flatnonzero(lone)[0])
        ends = [show(index.labels[rows[first]]), show(index.labels[columns[first]])]
        return None, [
            wrong_values(
                bound.symbol,
                f"{int(lone.sum())} of {lone.size} edges in one direction only",
                f"the first from {ends[0]} to {ends[1]}",
                _in_both_directions(bound),
                f"the graph `{name}` is not symmetric",
            )
        ]
    return _assembled(bound, rows, columns, index)


def _in_both_directions(bound: BoundDatum) -> str:
    name = bound.symbol.name
    if Path(bound.entry.source).suffix:
        return f"give each neighbour under both members in {bound.entry.source}"
    return f"{name}.maximum({name}.T)" if bound.sparse else f"np.maximum({name}, {name}.T)"


def _assembled(
    bound: BoundDatum, rows: AnyArray, columns: AnyArray, index: IndexSet
) -> tuple[Any, list[Diagnostic]]:
    import scipy.sparse as sp

    notes: list[Diagnostic] = []
    loops = rows == columns
    if loops.any():
        member = show(index.labels[int(rows[np.flatnonzero(loops)[0]])])
        notes.append(dropped_loops(bound.symbol, int(loops.sum()), member))
        rows, columns = rows[~loops], columns[~loops]
    both: Any = np.concatenate([rows, columns]), np.concatenate([columns, rows])
    shape: Any = (index.size, index.size)
    matrix: Any = sp.csr_array((np.ones(both[0].size), both), shape=shape, dtype=np.float64)
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix, notes


# ---- islands -----------------------------------------------------------------------------------
# W401: a graph of an intrinsic structure that falls into several components.


def disconnected(
    model: CheckedModel, name: str, graph: SparseMatrix, index: IndexSet
) -> list[Diagnostic]:
    """One warning for each intrinsic structure over the graph `name`; none where it is connected.
    (Without any edge it is refused later.)"""
    parts = Components.of(graph)
    if graph.nnz == 0 or len(parts.sizes) == 1:
        return []
    several = np.flatnonzero(parts.sizes > 1)
    several = several[np.argsort(-parts.sizes[several], kind="stable")]
    alone = np.flatnonzero(parts.alone)
    defects = []
    if len(several) > 1:
        defects.append(f"{len(several)} components")
    if len(alone):
        defects.append(f"{count_of(len(alone), 'member')} without neighbours")
    message = f"the graph `{name}` splits into {' and '.join(defects)}"
    if len(several) == 1:
        message = f"the graph `{name}` has {defects[0]}"
    details = []
    if len(several) > 1:
        sizes = ", ".join(str(parts.sizes[c]) for c in several[:SHOWN])
        more = f" and {len(several) - SHOWN} more" if len(several) > SHOWN else ""
        smallest = _members(index, np.flatnonzero(parts.label == several[-1]))
        details.append(f"components of {sizes}{more}; the smallest holds {smallest}")
    if len(alone):
        details.append(f"without neighbours: {_members(index, alone)}")
    notes = []
    if len(several) > 1:
        notes.append("each component sums to zero and is scaled by itself")
    if len(alone):
        notes.append("a member without neighbours is independent of all others, N(0, sd^2)")
    return [
        Diagnostic(
            "W401",
            message,
            value.span,
            f"of `{factor.name.id}`",
            details=tuple(details),
            note="; ".join(notes),
            severity="warning",
            help=f"nothing to do if this is intended; otherwise join them by pairs in `{name}`",
        )
        for factor, value in _uses(model, name)
    ]


def _uses(model: CheckedModel, name: str) -> list[tuple[ast.Dist, ast.Value]]:
    uses: list[tuple[ast.Dist, ast.Value]] = []
    for statement in model.tree.statements:
        if not isinstance(statement, ast.Latent):
            continue
        for factor in statement.factors:
            value = factor.get("graph")
            known = lookup("structure", factor.name.id)
            level = known is not None and Trait.COMPONENTS in known.traits
            if level and isinstance(value, ast.Name) and value.id == name:
                uses.append((factor, value))
    return uses


def _members(index: IndexSet, positions: IntArray) -> str:
    shown = ", ".join(show(index.labels[k]) for k in positions[:SHOWN])
    return f"{shown} and {len(positions) - SHOWN} more" if len(positions) > SHOWN else shown
