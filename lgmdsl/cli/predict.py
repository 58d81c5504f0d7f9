"""`lgm predict`: a saved fit at new data."""

from __future__ import annotations

from typing import Any

import click

from lgmdsl.cli.options import json_option, map_option
from lgmdsl.cli.output import note, show, show_json
from lgmdsl.cli.tables import SUFFIXES, fields, table, write


@click.command("predict")
@click.argument("fit", metavar="FIT.nc")
@click.argument("new", metavar="NEW")
@click.option("-o", "--output", metavar="FILE", help="Write to a .nc, .csv or .npz file.")
@click.option("--data", metavar="OLD", help="The data of the fit, should its file lack some.")
@map_option
@json_option
def command(
    fit: str, new: str, output: str | None, data: str | None, mapping: dict[str, str], as_json: bool
) -> None:
    """Predict at the rows, levels and inputs in NEW from the result in FIT.nc.

    \b
    lgm predict model.fit.nc new.npz -o predictions.csv

    Gives mean and sd of every predictor and report there, and of the response; for binary and
    count responses also the probability of each value. Without -o prints csv.
    """
    from lgmdsl.cli.files import writable

    place = writable(output, SUFFIXES) if output is not None else None
    from lgmdsl.api.restore import load_fit
    from lgmdsl.dataset import read

    sources = [new] if data is None else [new, data]
    wanted = read(new, mapping) if data is None else _merged(new, data, mapping)
    found = load_fit(fit).predict(wanted).to_dataset()
    if place is not None:
        write(place, found)
        note(f"{place}: written ({', '.join(str(n) for n in found.data_vars)})")
    if as_json:
        show_json({"data": sources, **fields(found)})
    elif place is None:
        show(table(found), end="")


def _merged(new: str, old: str, mapping: dict[str, str]) -> Any:
    """The new data, and from the old what the new leave out."""
    from dataclasses import replace

    from lgmdsl.dataset import read

    first, second = read(new, mapping), read(old)
    return replace(first, entries={**second.entries, **first.entries})
