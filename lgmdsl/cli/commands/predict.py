"""`lgm predict`: a saved fit at new data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lgmdsl.cli import options
from lgmdsl.cli.data_options import earlier_data_option
from lgmdsl.cli.exit_status import OK, REFUSED
from lgmdsl.cli.tables import ROW_WRITERS, WRITERS, fields, texts, write, write_rows
from lgmdsl.errors import listed

if TYPE_CHECKING:
    from lgmdsl.api.predict.predict import Prediction
    from lgmdsl.dataset import Dataset

ENDINGS = tuple(dict.fromkeys((*WRITERS, *ROW_WRITERS)))


@click.command("predict")
@click.argument("fit", metavar="FIT.nc")
@click.argument("new", metavar="NEW")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help=f"Write to a {listed(ENDINGS, 'or')} file; of shards, to files in this new folder.",
)
@earlier_data_option("The data of the fit, if its file lacks some.")
@options.quantiles_option
@options.map_option
@options.jobs_options
@options.json_option
def command(
    fit: str,
    new: str,
    output: str | None,
    data: Any,
    quantiles: tuple[float, ...],
    mapping: dict[str, str],
    jobs: int | str | None,
    as_json: bool,
) -> int:
    """Predict at the rows, levels, inputs and labels in NEW from the result in FIT.nc.

    \b
    lgm predict model.fit.nc new.csv -o predictions.csv
    lgm predict model.fit.nc new.csv --quantiles 0.025,0.975
    lgm predict model.fit.nc new.csv --quantiles none

    Gives mean, sd and quantiles of every predictor and report there, and of the response, whose
    quantiles are those of y itself (predictive intervals). Without -o prints csv.

    A csv or .parquet file has one row for each row of NEW, with its columns; MAP_status says of
    groups whether they are `fitted` or `new`. Rows of a .parquet file NEW are read, predicted and
    written by batches, however many they are. .nc, .npz and --json have no columns of NEW, and the
    probability of each value of binary and count responses.

    The rows are those of NEW, in its order. Structures over an ordered index set (ar1 ar rw1 rw2
    seasonal ou) take labels before, between and beyond those of the fit: a column with the index's
    name. Responses, and censoring information, need not be there.

    NEW may be a folder of shards (`lgm shard`): -o names a new folder, which gets a .parquet file
    for each, and workers (--jobs, --cluster) share them. Of a fit to shards these are the shards of
    the fit, or others with --data FOLDER, the shards of the fit.
    """
    from lgmdsl.shards.given import is_sharded

    if is_sharded(new):
        return _shards(fit, new, output, data, quantiles, mapping, jobs, as_json)
    if jobs is not None:
        raise click.UsageError("--jobs and --cluster share the rows of shards, and NEW is a file")
    from lgmdsl.cli.files import deliver, paths_of, report, writable

    place = None
    if output is not None:
        read_files = {"the fit": fit, "the new data": new, "the data": data}
        place = writable(output, ENDINGS, read_files)
    table = not as_json and (place is None or place.suffix in ROW_WRITERS)
    if place is not None and place.suffix == ".parquet":
        from lgmdsl.dataset.arrow import check_pyarrow

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


def _shards(
    fit: str,
    new: str,
    output: str | None,
    data: Any,
    quantiles: tuple[float, ...],
    mapping: dict[str, str],
    jobs: int | str | None,
    as_json: bool,
) -> int:
    """Predictions at the rows of shards, to files in a folder."""
    if output is None:
        raise click.UsageError("NEW is a folder of shards: name a new folder for -o")
    from lgmdsl.shards.given import is_sharded

    if isinstance(data, list) and not is_sharded(data):
        data = [new, *data]
    if data is not None and not is_sharded(data):
        raise click.UsageError("--data is the folder of shards that the fit was made of")
    from lgmdsl.api.fit.restore import load_fit
    from lgmdsl.api.predict.by_shards import predict_shards
    from lgmdsl.cli.output import diagnose, note, show_json
    from lgmdsl.shards.manifest import check_new

    check_new(Path(output))
    written = predict_shards(load_fit(fit), new, output, data, quantiles, mapping or None, jobs)
    if written.warnings:
        diagnose(written.warnings)
    if as_json:
        show_json({"files": list(map(str, written.paths)), "columns": list(written.columns)})
    else:
        note(f"wrote {output}: {', '.join(written.columns)}")
    if written.left_out:
        note(f"left out, not over the rows of the table: {', '.join(written.left_out)}")
    return OK


def _table(
    parts: Iterator[Prediction], quantiles: tuple[float, ...], place: Path | None, wanted: Dataset
) -> int:
    """The table, in pieces where it is long: to a file, or to stdout."""
    import numpy as np

    from lgmdsl.api.predict.by_batches import Tables
    from lgmdsl.api.predict.table import outside
    from lgmdsl.cli.files import deliver, report
    from lgmdsl.cli.output import diagnose, note, show

    pieces = Tables(parts, np.array(quantiles), diagnose)
    lost = None
    if place is None:
        for text in texts(pieces):
            show(text, end="")
    else:
        lost = deliver(None, None, lambda: write_rows(place, pieces, wanted))
    if place is not None:
        report(place, lost, False, ", ".join(pieces.names))
    left = outside(pieces.last) if pieces.last is not None else ()
    if left:
        note(f"left out, not over the rows of the table: {', '.join(left)} (-o FILE.nc has all)")
    return OK if lost is None else REFUSED


def _parted(data: Any) -> tuple[str | None, dict[str, Path] | None]:
    """The file of the fit's data, and the tables of the new ones."""
    if not isinstance(data, list):
        return data, None
    return (data[0] if len(data) > 1 else None), data[-1]
