"""`lgm plot`: a saved fit as pictures."""

from __future__ import annotations

from typing import Any

import click

from lgmdsl.cli import options
from lgmdsl.cli.data_options import earlier_data_option
from lgmdsl.cli.output import note, show, show_json


@click.command("plot")
@click.argument("fit", metavar="FIT.nc")
@click.option(
    "--out",
    "directory",
    metavar="DIR",
    required=True,
    help="Write the pictures there; created if missing.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["png", "svg", "pdf"]),
    default="png",
    show_default=True,
    help="Kind of file.",
)
@click.option(
    "--names",
    metavar="NAME,...",
    multiple=True,
    help="Draw only what is named (pit: the histogram of transforms).",
)
@earlier_data_option("The data of the fit, which pit.png needs.")
@options.map_option
@options.json_option
def command(
    fit: str,
    directory: str,
    format_: str,
    names: tuple[str, ...],
    data: Any,
    mapping: dict[str, str],
    as_json: bool,
) -> None:
    """Draw the result in FIT.nc into DIR, a file for each picture, and list the files.

    Effects with bands, lines by group, dots with whiskers or heat maps (latent_f.png, let_eta.png,
    report_p.png, scalars.png), maps and surfaces where there are coordinates (map_f.png), a panel
    for each latent (terms.png), marginals of learned hyperparameters with their priors (hyper.png),
    and with --data what was observed and predicted (response_y.png) and leave-one-out transforms
    (pit.png).

    \b
    lgm plot model.fit.nc --out pictures
    lgm plot model.fit.nc --out pictures --data data.npz
    lgm plot model.fit.nc --out pictures --names f,s --format pdf
    """
    chosen = [n.strip() for text in names for n in text.split(",") if n.strip()]
    if names and not chosen:
        raise click.UsageError("--names takes NAME,...", click.get_current_context())
    from lgmdsl.cli.files import spared

    spared(directory, f".{format_}", {"the fit": fit, "the data": data})
    from lgmdsl.api.fit.restore import load_fit
    from lgmdsl.api.pictures.pictures import plot

    drawn = plot(load_fit(fit), directory, format_, chosen or None, data, mapping)
    if as_json:
        show_json({"files": [str(f) for f in drawn.files], "left_out": drawn.left_out})
    else:
        for file in drawn.files:
            show(str(file))
    for line in drawn.left_out:
        note(f"left out: {line}")
