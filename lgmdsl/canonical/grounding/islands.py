"""W401: a graph of an intrinsic structure that falls into several components."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import IntArray, SparseMatrix
from lgmdsl.canonical.grounding.errors import SHOWN, count_of, show
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.errors import Diagnostic
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.tree import ast
from lgmdsl.structures.spatial.graphs import Components
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Trait


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
