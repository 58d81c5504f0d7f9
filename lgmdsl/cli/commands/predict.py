"""`lgm predict`: a saved fit at new data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lgmdsl.cli.data_options import earlier_data_option
from lgmdsl.cli.exit_status import OK, REFUSED
from lgmdsl.cli.options import json_option, map_option, quantiles_option
from lgmdsl.cli.tables import SUFFIXES, csv_of, fields, write

if TYPE_CHECKING:
    from lgmdsl.api.columns import Columns
    from lgmdsl.api.predict.predict import Prediction
    from lgmdsl.dataset import Dataset

TABLES = (".csv", ".parquet")  # written row by row


@click.command("predict")
@click.argument("fit", metavar="FIT.nc")
@click.argument("new", metavar="NEW")
@click.option("-o", "--output", metavar="FILE", help="Write to a .nc, .csv, .parquet or .npz file.")
@earlier_data_option("The data of the fit, if its file lacks some.")
@quantiles_option
@map_option
@json_option
def command(
    fit: str,
    new: str,
    output: str | None,
    data: Any,
    quantiles: tuple[float, ...],
    mapping: dict[str, str],
    as_json: bool,
) -> int:
    """Predict at the rows, levels, inputs and labels in NEW from the result in FIT.nc.

    \b
    lgm predict model.fit.nc new.csv -o predictions.csv
    lgm predict model.fit.nc new.csv --quantiles 0.025,0.975

    Gives mean, sd and quantiles of every predictor and report there, and of the response, whose
    quantiles are those of y itself (predictive intervals). Without -o prints csv.

    A csv or .parquet file has one row for each row of NEW, with its columns; MAP_status says of
    groups whether they are `fitted` or `new`. Rows of a .parquet file NEW are read, predicted and
    written by batches, however many they are. .nc, .npz and --json have no columns of NEW, and the
    probability of each value of binary and count responses.

    The rows are those of NEW, in its order. Structures over an ordered index set (ar1 ar rw1 rw2
    seasonal ou) take labels before, between and beyond those of the fit: a column with the index's
    name. Responses, and censoring information, need not be there.
    """
    from lgmdsl.cli.files import deliver, paths_of, report, writable

    place = None
    if output is not None:
        read_files = {"the fit": fit, "the new data": new, "the data": data}
        place = writable(output, (*SUFFIXES, ".parquet"), read_files)
    table = not as_json and (place is None or place.suffix in TABLES)
    if place is not None and place.suffix == ".parquet":
        from lgmdsl.dataset.parquet import check_pyarrow

        if as_json:
            raise click.UsageError(
                "--json prints what a .nc or .npz file holds, not a .parquet file"
            )
        check_pyarrow(place.name)
    from lgmdsl.api.fit.restore import load_fit
    from lgmdsl.api.predict.by_batches import predicted_pieces
    from lgmdsl.api.predict.predict import predict
    from lgmdsl.cli.output import diagnose
    from lgmdsl.dataset import read

    old, tables = _parted(data)
    wanted = read([new, tables] if tables else new, mapping)
    if old is not None:
        before = read(old)
        wanted = replace(wanted, entries={**before.entries, **wanted.entries})
    if table:
        return _table(predicted_pieces(load_fit(fit), wanted), quantiles, place, wanted)
    prediction = predict(load_fit(fit), wanted)
    if prediction.warnings:
        diagnose(prediction.warnings)
    predicted = prediction.to_dataset(quantiles)
    lost = deliver(
        None,
        {"data": [*paths_of([new, data])], **fields(predicted)} if as_json else None,
        None if place is None else lambda: write(place, predicted),
    )
    if place is not None:
        report(place, lost, as_json, ", ".join(map(str, predicted.data_vars)))
    return OK if lost is None else REFUSED


def _table(
    parts: Iterator[Prediction], quantiles: tuple[float, ...], place: Path | None, wanted: Dataset
) -> int:
    """The table, in pieces where it is long: to a file, or to stdout."""
    from lgmdsl.api.predict.table import outside
    from lgmdsl.cli.files import deliver, report
    from lgmdsl.cli.output import note, show
    from lgmdsl.files import write_filled, write_pieces

    pieces = _Pieces(parts, quantiles)
    lost = None
    if place is None:
        for text in pieces.texts():
            show(text, end="")
    elif place.suffix == ".csv":
        lost = deliver(None, None, lambda: write_pieces(place, pieces.texts()))
    else:
        from lgmdsl.dataset.parquet import column_types, write_parquet

        types = column_types(wanted.entries)
        lost = deliver(
            None,
            None,
            lambda: write_filled(place, lambda f: write_parquet(f, pieces.columns(), types)),
        )
    if place is not None:
        report(place, lost, False, ", ".join(pieces.names))
    left = outside(pieces.last) if pieces.last is not None else ()
    if left:
        note(f"left out, not over the rows of the table: {', '.join(left)} (-o FILE.nc has all)")
    return OK if lost is None else REFUSED


class _Pieces:
    """Tables of predictions in turn; each warning is printed when it is new."""

    def __init__(self, parts: Iterator[Prediction], quantiles: tuple[float, ...]) -> None:
        self.parts, self.quantiles = parts, quantiles
        self.names: tuple[str, ...] = ()
        self.last: Prediction | None = None
        self.said: set[str] = set()

    def columns(self) -> Iterator[Columns]:
        import numpy as np

        from lgmdsl.api.predict.table import table_columns
        from lgmdsl.cli.output import diagnose

        for part in self.parts:
            new = [w for w in part.warnings if w.message not in self.said]
            self.said.update(w.message for w in new)
            if new:
                diagnose(new)
            columns = table_columns(part, np.array(self.quantiles))
            self.names, self.last = tuple(columns), part
            yield columns

    def texts(self) -> Iterator[str]:
        header = True
        for columns in self.columns():
            assert self.last is not None, "a part was made"
            yield csv_of(columns, header=header, exact=self.last.carried)
            header = False


def _parted(data: Any) -> tuple[str | None, dict[str, Path] | None]:
    """The file of the fit's data, and the tables of the new ones."""
    if not isinstance(data, list):
        return data, None
    return (data[0] if len(data) > 1 else None), data[-1]
