"""`lgm new`: a model to begin with, for a table."""

from __future__ import annotations

import click

from lgmdsl.cli.exit_status import OK, REFUSED
from lgmdsl.cli.options import json_option


@click.command("new")
@click.argument("data", metavar="DATA")
@click.option("--response", metavar="COLUMN", default="", help="The column to be explained.")
@click.option("-o", "--output", metavar="MODEL.lgm", help="Write the model there.")
@json_option
def command(data: str, response: str, output: str | None, as_json: bool) -> int:
    """Write a model for the table DATA (.csv .parquet), with comments.

    \b
    lgm new data.csv > model.lgm
    lgm new data.csv --response cases -o model.lgm

    A generalised linear model: a slope for each column of numbers, an effect for each column of
    groups, a random walk over dates. It fits as it stands (its first lines say with which command);
    what it leaves out it names with the reason.
    """
    from lgmdsl.cli.files import deliver, report, writable

    place = None
    if output is not None:
        place = writable(output, (".lgm",), {"the data": data})
    from lgmdsl import files
    from lgmdsl.api.explain.skeleton import skeleton

    text = skeleton(data, response)
    lost = deliver(
        text if place is None and not as_json else None,
        {"model": text} if as_json else None,
        None if place is None else lambda: files.write(place, memoryview(text.encode())),
    )
    if place is not None:
        report(place, lost, as_json)
    return OK if lost is None else REFUSED
