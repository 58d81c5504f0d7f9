"""`lgm summary`: a saved fit on a page."""

from __future__ import annotations

import click

from lgmdsl.cli.options import json_option
from lgmdsl.cli.output import note, show, show_json


@click.command("summary")
@click.argument("fit", metavar="FIT.nc")
@json_option
@click.option("--full", is_flag=True, help="Print every entry of every latent.")
def command(fit: str, as_json: bool, full: bool) -> None:
    """Print the result in FIT.nc: status, log evidence, hyperparameters, latents, reports.

    \b
    lgm summary model.fit.nc
    """
    from lgmdsl.api.restore import load_fit

    result = load_fit(fit)
    if as_json:
        from lgmdsl.cli.fit_json import fit_json

        fields, left_out = fit_json(result, full)
        show_json(fields)
        if left_out:
            note(f"left out, too long: {', '.join(left_out)} (--full prints all)")
    else:
        show(result.summary(full))
