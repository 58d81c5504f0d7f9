"""`lgm predict`: a saved fit at new data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lgmdsl.cli.data_options import earlier_data_option
from lgmdsl.cli.exit_status import OK, REFUSED
from lgmdsl.cli.options import json_option, map_option
from lgmdsl.cli.tables import SUFFIXES, fields, outside_table, table, write


@click.command("predict")
@click.argument("fit", metavar="FIT.nc")
@click.argument("new", metavar="NEW")
@click.option("-o", "--output", metavar="FILE", help="Write to a .nc, .csv or .npz file.")
@earlier_data_option("The data of the fit, if its file lacks some.")
@map_option
@json_option
def command(
    fit: str, new: str, output: str | None, data: Any, mapping: dict[str, str], as_json: bool
) -> int:
    """Predict at the rows, levels, inputs and labels in NEW from the result in FIT.nc.

    \b
    lgm predict model.fit.nc new.npz -o predictions.csv

    Gives mean and sd of every predictor and report there, and of the response; for binary and
    count responses also the probability of each value. Without -o prints csv.

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
    from lgmdsl.cli.output import diagnose, note
    from lgmdsl.dataset import read

    old, tables = _parted(data)
    wanted = read([new, tables] if tables else new, mapping)
    if old is not None:
        before = read(old)
        wanted = replace(wanted, entries={**before.entries, **wanted.entries})
    prediction = predict(load_fit(fit), wanted)
    if prediction.warnings:
        diagnose(prediction.warnings)
    predicted = prediction.to_dataset()
    lost = deliver(
        table(predicted) if place is None and not as_json else None,
        {"data": [*paths_of([new, data])], **fields(predicted)} if as_json else None,
        None if place is None else lambda: write(place, predicted),
    )
    csv = not as_json if place is None else place.suffix == ".csv"
    outside = outside_table(predicted) if csv else ()
    if place is not None:
        inside = (str(n) for n in predicted.data_vars if n not in outside)
        report(place, lost, as_json, ", ".join(inside))
    if outside:
        note(f"left out, not over the rows of the table: {', '.join(outside)} (-o FILE.nc has all)")
    return OK if lost is None else REFUSED


def _parted(data: Any) -> tuple[str | None, dict[str, Path] | None]:
    """The file of the fit's data, and the tables of the new ones."""
    if not isinstance(data, list):
        return data, None
    return (data[0] if len(data) > 1 else None), data[-1]
