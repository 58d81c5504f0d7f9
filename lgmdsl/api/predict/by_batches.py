"""Predictions at the rows of a file that are read by batches: more rows than memory holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from lgmdsl.api.predict.pieces import ROWS, conditioned_once, even
from lgmdsl.api.predict.predict import Prediction, independent_rows, predict
from lgmdsl.api.predict.table import table_columns
from lgmdsl.arrays import Array
from lgmdsl.dataset import Dataset, Entry
from lgmdsl.dataset.batches import undecided
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.streams.prepare import of_some

if TYPE_CHECKING:
    from lgmdsl.api.columns import Columns
    from lgmdsl.posterior.fit_record import FitRecord


def predicted_pieces(
    fit: FitRecord, dataset: Dataset, rows: int = ROWS, first: int = 0
) -> Iterator[Prediction]:
    """The posterior of a fit at new data, at some `rows` consecutive rows at a time. Rows without
    labels are counted from `first`.

    Every row has the marginals that it has in `predict`, which all rows are given to where they do
    not come from one .parquet file, or depend on one another. Raises what `predict` raises, of a
    batch when it is its turn.
    """
    parts = _batched(fit, dataset, rows)
    if parts is None:
        parts = predict(fit, dataset).pieces()
    for part in parts:
        counted = first and dataset.ask(independent_rows(part)) is None
        yield replace(part, start=part.start + first) if counted else part


@dataclass(eq=False)
class Tables:
    """Predictions in turn as tables with quantiles at `levels`. `said` is called with the warnings
    that are new; `names`: the columns, `last`: the prediction that was made last."""

    parts: Iterator[Prediction]
    levels: Array
    said: Callable[[list[Diagnostic]], None]
    names: tuple[str, ...] = ()
    last: Prediction | None = None
    _known: set[str] = field(default_factory=set)

    def columns(self) -> Iterator[Columns]:
        """The columns of each."""
        for part in self.parts:
            new = [w for w in part.warnings if w.message not in self._known]
            self._known.update(w.message for w in new)
            if new:
                self.said(new)
            columns = table_columns(part, self.levels)
            self.names, self.last = tuple(columns), part
            yield columns


def _batched(fit: FitRecord, dataset: Dataset, rows: int) -> Iterator[Prediction] | None:
    """Batches of the one .parquet file with more than `rows` rows; None where there is none, or
    where the first batch shows that its rows depend on one another."""
    many = {k: e for k, e in dataset.entries.items() if e.batched and e.shape[0] > rows}
    if len({e.table for e in many.values()}) != 1 or undecided(many, many):
        return None
    parts = _predictions(fit, dataset, many, rows)
    first = next(parts)
    return chain([first], parts) if independent_rows(first) else None


def _predictions(
    fit: FitRecord, dataset: Dataset, columns: Mapping[str, Entry], rows: int
) -> Iterator[Prediction]:
    fit = conditioned_once(fit)
    size = even(next(iter(columns.values())).shape[0], rows)
    for batch in dataset.batches(size, list(columns)):
        try:
            part = predict(fit, batch.dataset)
        except DataError as error:
            raise of_some(error, f"{batch.first:,} to {batch.stop - 1:,}") from None
        axis = independent_rows(part)
        counted = dataset.ask(axis) is None
        yield replace(part, start=batch.first if counted else 0)
