"""`lgm info`: what a model declares."""

from __future__ import annotations

from typing import Any

import click

from lgmdsl.cli import options
from lgmdsl.cli.data_options import data_argument
from lgmdsl.cli.output import show, show_json


@click.command("info")
@options.model_argument
@data_argument(required=False)
@options.map_option
@options.json_option
def command(model: str, data: Any, mapping: dict[str, str], as_json: bool) -> None:
    """List what MODEL declares, with descriptions; with DATA also sizes, labels and ranges.

    \b
    lgm info model.lgm
    lgm info model.lgm data.npz
    """
    from lgmdsl.api.explain.info import info

    result = info(options.read_model(model), data, mapping=mapping)
    if as_json:
        show_json(result.as_json())
    else:
        show(str(result))
