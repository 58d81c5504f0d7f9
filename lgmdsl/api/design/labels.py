"""Labels of cases, from the same source or from an oracle, matched by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.grounding.axes import BoundDatum, align, bind
from lgmdsl.canonical.grounding.errors import about, absent, wrong_shape
from lgmdsl.canonical.grounding.ground import IndexSet, ground_new
from lgmdsl.canonical.grounding.labels import LabelArray
from lgmdsl.canonical.grounding.labels import labels_of as as_labels
from lgmdsl.dataset import Dataset, Entry
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.language.checked import Symbol

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord


def labels_of(fit: FitRecord, response: int, cases: Dataset, kind: str) -> Array:
    """(J,) labels, 0 or 1, of cases from their source.

    Raises DataError: E305 where it has none, E304 for missing ones, and what grounding finds (E301
    for another length, E303 for values that are not binary).
    """
    symbol, _ = _asked(fit, response, cases)
    grounded = ground_new(fit.canonical.grounded, cases)
    missing = grounded.missing.get(symbol.name)
    if missing is not None and missing.any():
        index = grounded.indices[symbol.dims[0]]
        first = index.labels[int(np.flatnonzero(missing)[0])]
        raise DataError(
            Diagnostic(
                "E304",
                f"the {kind} lack `{symbol.name}` in {int(missing.sum())} cases",
                symbol.statement.span,
                details=(f"first at {index.name} {first}",),
                help="leave these cases out",
                layout="plain",
            )
        )
    return np.asarray(grounded.values[symbol.name], dtype=np.float64)


def answers_of(
    fit: FitRecord, response: int, cases: Dataset, members: IndexSet, oracle: Dataset
) -> Array:
    """(J,) labels, 0 or 1, of candidates by an oracle, in the order of `members`.

    They are matched by the labels of the index, under its own name or on the datum's axis; by
    position where neither the candidates nor the oracle have any. Raises DataError E302 for labels
    that the candidates do not have, and where the oracle lacks theirs; and what `labels_of` raises.
    """
    symbol, entry = _asked(fit, response, oracle)
    bound = bind(symbol, entry, oracle)
    if isinstance(bound, Diagnostic):
        raise DataError(bound)
    if bound.fits:
        bound = _matched(bound, members, oracle)
    loaded = bound.raw
    plain = Entry(entry.name, entry.source, bound.shape, lambda: loaded)
    both = replace(cases, entries={**cases.entries, cases.key(symbol.name): plain})
    return labels_of(fit, response, both, "candidates")


def _asked(fit: FitRecord, response: int, source: Dataset) -> tuple[Symbol, Entry]:
    """The datum that is observed, and its entry. Raises DataError E305 where there is none."""
    symbol = fit.canonical.grounded.model.symbols[fit.canonical.blocks[response].name]
    entry = source.ask(symbol.name)
    if entry is not None:
        return symbol, entry
    close, key = source.suggestion(symbol.name), source.key(symbol.name)
    raise DataError(absent(symbol, source.name, source.keys, close, key))


def _matched(bound: BoundDatum, members: IndexSet, oracle: Dataset) -> BoundDatum:
    # A frame's default 0..n-1 names no case.
    labels = None if bound.weak else bound.labels[0]
    if labels is None:
        labels = _key_labels(bound, members, oracle)
    if labels is None and not members.counted:
        raise DataError(
            Diagnostic(
                "E302",
                f"the oracle's `{bound.symbol.name}` has no labels of `{members.name}`",
                bound.symbol.statement.span,
                details=(about(members),),
                help=f"give the oracle a key `{members.name}` with the label of each entry",
                layout="plain",
            )
        )
    if labels is None:
        return bound
    named = replace(bound, labels=(labels,), weak=False)
    aligned = align(named, {members.name: members}, {})
    if isinstance(aligned, Diagnostic):
        raise DataError(aligned)
    return aligned


def _key_labels(bound: BoundDatum, members: IndexSet, oracle: Dataset) -> LabelArray | None:
    """Labels that the oracle holds under the index's own name."""
    key = oracle.key(members.name)
    entry = oracle.entries.get(key)
    if entry is None or entry is bound.entry:
        return None
    loaded, origin = entry.loaded, f"{entry.source}:{key}"
    if not isinstance(loaded.values, np.ndarray) or loaded.values.ndim != 1:
        raise DataError(
            Diagnostic(
                "E301",
                f"index `{members.name}` takes its labels from {origin}",
                bound.symbol.statement.span,
                f"which has the shape {loaded.shape}",
                help=f"rename `{key}`, or give one label each",
            )
        )
    labels = as_labels(loaded)
    if labels.values.shape != bound.shape:
        index = IndexSet(members.name, labels.values, f"from {origin}")
        raise DataError(wrong_shape(bound.symbol, bound.shape, {members.name: index}))
    return labels
