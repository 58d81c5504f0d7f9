"""Predictions at the rows of a file that are read by batches: more rows than memory holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from lgmdsl.api.predict.pieces import ROWS, even
from lgmdsl.api.predict.predict import Prediction, independent_rows, predict
from lgmdsl.dataset import Dataset, Entry
from lgmdsl.dataset.batches import undecided
from lgmdsl.errors import DataError
from lgmdsl.streams.prepare import of_some

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit


def predicted_pieces(fit: Fit, dataset: Dataset, rows: int = ROWS) -> Iterator[Prediction]:
    """The posterior of a fit at new data, at some `rows` consecutive rows at a time.

    Every row has the marginals that it has in `predict`, which all rows are given to where they do
    not come from one .parquet file, or depend on one another. Raises what `predict` raises, of a
    batch when it is its turn.
    """
    parts = _batched(fit, dataset, rows)
    yield from predict(fit, dataset).pieces() if parts is None else parts


def _batched(fit: Fit, dataset: Dataset, rows: int) -> Iterator[Prediction] | None:
    """Batches of the one .parquet file with more than `rows` rows; None where there is none, or
    where the first batch shows that its rows depend on one another."""
    many = {k: e for k, e in dataset.entries.items() if e.batched and e.shape[0] > rows}
    if len({e.table for e in many.values()}) != 1 or undecided(many, many):
        return None
    parts = _predictions(fit, dataset, many, rows)
    first = next(parts)
    return chain([first], parts) if independent_rows(first) else None


def _predictions(
    fit: Fit, dataset: Dataset, columns: Mapping[str, Entry], rows: int
) -> Iterator[Prediction]:
    size = even(next(iter(columns.values())).shape[0], rows)
    for batch in dataset.batches(size, list(columns)):
        try:
            part = predict(fit, batch.dataset)
        except DataError as error:
            raise of_some(error, f"{batch.first:,} to {batch.stop - 1:,}") from None
        axis = independent_rows(part)
        counted = dataset.ask(axis) is None
        yield replace(part, start=batch.first if counted else 0)
