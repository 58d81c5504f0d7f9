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
    from lgmdsl.api.predict.predict import Prediction


@click.command("predict")
@click.argument("fit", metavar="FIT.nc")
@click.argument("new", metavar="NEW")
@click.option("-o", "--output", metavar="FILE", help="Write to a .nc, .csv or .npz file.")
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

    A csv has one row for each row of NEW, with its columns; MAP_status says of groups whether they
    are `fitted` or `new`. .nc, .npz and --json have no columns of NEW, and the probability of each
    value of binary and count responses.

    The rows are those of NEW, in its order. Structures over an ordered index set (ar1 ar rw1 rw2
    seasonal ou) take labels before, between and beyond those of the fit: a column with the index's
    name. Responses, and censoring information, need not be there.
    """
    from lgmdsl.cli.files import deliver, paths_of, report, writable

    place = None
    if output is not None:
        read_files = {"the fit": fit, "the new data": new, "the data": data}
        place = writable(output, SUFFIXES, read_files)
    from lgmdsl.api.fit.restore import load_fit
    from lgmdsl.api.predict.predict import predict
    from lgmdsl.cli.output import diagnose
    from lgmdsl.dataset import read

    old, tables = _parted(data)
    wanted = read([new, tables] if tables else new, mapping)
    if old is not None:
        before = read(old)
        wanted = replace(wanted, entries={**before.entries, **wanted.entries})
    prediction = predict(load_fit(fit), wanted)
    if prediction.warnings:
        diagnose(prediction.warnings)
    if not as_json and (place is None or place.suffix == ".csv"):
        return _csv(prediction, quantiles, place)
    predicted = prediction.to_dataset(quantiles)
    lost = deliver(
        None,
        {"data": [*paths_of([new, data])], **fields(predicted)} if as_json else None,
        None if place is None else lambda: write(place, predicted),
    )
    if place is not None:
        report(place, lost, as_json, ", ".join(map(str, predicted.data_vars)))
    return OK if lost is None else REFUSED


def _csv(prediction: Prediction, quantiles: tuple[float, ...], place: Path | None) -> int:
    """The table, in pieces where it is long: to a file, or to stdout."""
    import numpy as np

    from lgmdsl.api.predict.table import outside, table_columns
    from lgmdsl.cli.files import deliver, report
    from lgmdsl.cli.output import note, show
    from lgmdsl.files import write_pieces

    names: list[str] = []

    def pieces() -> Iterator[str]:
        for part in prediction.pieces():
            columns = table_columns(part, np.array(quantiles))
            yield csv_of(columns, header=not names, exact=part.carried)
            names[:] = columns

    lost = None
    if place is None:
        for piece in pieces():
            show(piece, end="")
    else:
        lost = deliver(None, None, lambda: write_pieces(place, pieces()))
        report(place, lost, False, ", ".join(names))
    if left := outside(prediction):
        note(f"left out, not over the rows of the table: {', '.join(left)} (-o FILE.nc has all)")
    return OK if lost is None else REFUSED


def _parted(data: Any) -> tuple[str | None, dict[str, Path] | None]:
    """The file of the fit's data, and the tables of the new ones."""
    if not isinstance(data, list):
        return data, None
    return (data[0] if len(data) > 1 else None), data[-1]
