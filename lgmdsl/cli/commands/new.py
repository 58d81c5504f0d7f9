"""`lgm new`: a model to begin with, for a table."""

from __future__ import annotations

from typing import Any

import click

from lgmdsl.cli import options
from lgmdsl.cli.data_options import data_argument
from lgmdsl.cli.exit_status import OK, REFUSED


@click.command("new")
@data_argument(required=True)
@click.option("--response", metavar="COLUMN", default="", help="The column to be explained.")
@click.option("-o", "--output", metavar="MODEL.lgm", help="Write the model there.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@options.json_option
def command(data: Any, response: str, output: str | None, force: bool, as_json: bool) -> int:
    """Write a model for the table DATA (.csv .parquet), with comments.

    \b
    lgm new data.csv > model.lgm
    lgm new data.csv --response cases -o model.lgm
    lgm new visits.csv --data site=sites.csv --data neighbours=pairs.csv

    A generalised linear model: a slope for each column of numbers, an effect for each column of
    groups, a random walk over dates; an exposure or a number of trials where a column is called
    like one. Times beside an event (0 and 1, or two labels such as dead and alive) are lifetimes.
    A table of --data describes the groups of a column of DATA (NAME is that column), or is a graph
    of them: two columns, the ends of each edge. The model fits as it is (its first lines say with
    which command); what it leaves out it names with the reason.
    """
    from lgmdsl.cli.files import deliver, kept, report, writable

    place = None
    if output is not None:
        place = writable(output, (".lgm",), {"the data": data})
        if not force:
            kept(place)
    from lgmdsl import files
    from lgmdsl.api.explain.skeleton import skeleton

    text = skeleton(data, response, _written(data, output))
    lost = deliver(
        text if place is None and not as_json else None,
        {"model": text} if as_json else None,
        None if place is None else lambda: files.write(place, memoryview(text.encode())),
    )
    if place is not None:
        report(place, lost, as_json)
    return OK if lost is None else REFUSED


def _written(data: Any, output: str | None) -> dict[str, str]:
    """The paths as they are in the command that fits the model, by the names of their tables."""
    main, tables = (data, {}) if isinstance(data, str) else (data[0], data[-1])
    if not isinstance(main, str):
        raise click.UsageError(
            "name the table itself too: lgm new DATA", click.get_current_context()
        )
    paths = {"": main, **{name: str(path) for name, path in tables.items()}}
    return paths if output is None else {**paths, "model": output}
