"""`lgm methods`: the computed table of sites and methods, or the verdicts on one model."""

from __future__ import annotations

import click

from lgmdsl.cli import options
from lgmdsl.cli.output import show, show_json


@click.command("methods")
@click.argument("model", metavar="[MODEL]", required=False)
@click.option("--markdown", is_flag=True, help="Print the table in Markdown.")
@options.json_option
def command(model: str | None, markdown: bool, as_json: bool) -> None:
    """Show which sites each method can take; with MODEL, which methods run it and why not.

    \b
    lgm methods
    lgm methods model.lgm
    """
    from lgmdsl.api.explain.methods import MethodTable, methods

    if model is not None and markdown:
        raise click.UsageError("--markdown prints the whole table: leave MODEL out")
    listing = methods(None if model is None else options.read_model(model))
    if as_json:
        show_json(listing.as_json())
    elif markdown and isinstance(listing, MethodTable):
        show(listing.markdown(), end="")
    else:
        show(str(listing))
