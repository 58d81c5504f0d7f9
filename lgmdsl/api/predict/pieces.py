"""New data in pieces of consecutive rows: a prediction of a million rows holds those of one piece.

Every row has the marginals that it has among all others, since nothing that predictions may ask for
runs over rows (E302), and new members follow the prior given the fitted ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lgmdsl.canonical.grounding.ground import GroundedModel
from lgmdsl.dataset import Dataset, Entry, Loaded
from lgmdsl.posterior.mixture import CACHED

if TYPE_CHECKING:
    from lgmdsl.api.predict.predict import Prediction
    from lgmdsl.posterior.fit_record import FitRecord

# Rows of a piece: with 50 hyperparameter points some 100 MB for each quantity.
ROWS = 50_000


def pieces(
    predicted: Callable[[FitRecord, Dataset], Prediction],
    fit: FitRecord,
    dataset: Dataset,
    dim: str,
    size: int,
    rows: int = ROWS,
) -> Iterator[Prediction] | None:
    """Predictions (`predicted`) at `rows` members of `dim` at a time, of `size`; None where the
    entries of a source do not say which of their axes that is."""
    known = _axes(fit.canonical.grounded, dataset, dim, size)
    if known is None:
        return None
    whole, axes = known
    counted, fit = whole.ask(dim) is None, conditioned_once(fit)
    rows = even(size, rows)
    return (
        replace(
            predicted(fit, _cut(whole, axes, slice(start, min(start + rows, size)))),
            start=start if counted else 0,
        )
        for start in range(0, size, rows)
    )


def conditioned_once(fit: FitRecord) -> FitRecord:
    """The fit whose points keep their Gaussians, where these are small, for all pieces."""
    small = sum(b.size for b in fit.canonical.latents) <= CACHED
    return replace(fit, mixed=tuple(p.held() for p in fit.mixed)) if small else fit


def even(size: int, rows: int) -> int:
    """Rows of a piece where `size` rows are divided evenly into pieces of at most `rows`: the last
    is as long as the others, so that each shows the same axes."""
    return math.ceil(size / math.ceil(size / rows))


def _axes(
    fitted: GroundedModel, dataset: Dataset, dim: str, size: int
) -> tuple[Dataset, Mapping[str, int | None]] | None:
    """The entries, and which axis of each runs over `dim`."""
    entries, mapping = dict(dataset.entries), dict(dataset.mapping)
    axes: dict[str, int | None] = {
        k: 0 if e.table and e.shape == (size,) else None for k, e in entries.items()
    }
    for symbol in (*fitted.model.of_kind("data"), *fitted.model.of_kind("index")):
        entry, key = dataset.ask(symbol.name), dataset.key(symbol.name)
        if entry is None:
            continue
        if key not in dataset.entries:  # made of several
            key = symbol.name
            entries[key] = entry
            mapping.pop(key, None)
        dims = (symbol.name,) if symbol.kind == "index" else symbol.dims
        if dim not in dims:
            continue
        axis = entry.dims.index(dim) if dim in entry.dims else dims.index(dim)
        if axis >= len(entry.shape) or entry.shape[axis] != size:
            return None
        axes[key] = axis
    return replace(dataset, entries=entries, mapping=mapping), axes


def _cut(dataset: Dataset, axes: Mapping[str, int | None], rows: slice) -> Dataset:
    entries = {}
    for key, entry in dataset.entries.items():
        axis = axes.get(key)
        entries[key] = entry if axis is None else _part(entry, axis, rows)
    return replace(dataset, entries=entries)


def _part(entry: Entry, axis: int, rows: slice) -> Entry:
    """Some members of one axis of an entry."""
    count = rows.stop - rows.start
    shape = tuple(count if k == axis else n for k, n in enumerate(entry.shape))
    labels = tuple(  # row numbers are no labels: those of a part would name other rows
        label if k != axis or label is None else None if entry.weak else label.rows(rows)
        for k, label in enumerate(entry.labels)
    )
    return replace(entry, shape=shape, labels=labels, loader=partial(_loaded, entry, axis, rows))


def _loaded(entry: Entry, axis: int, rows: slice) -> Loaded:
    return entry.loaded.rows((*(slice(None),) * axis, rows))
