"""`lgm explain`: what the compiler makes of a model."""

from __future__ import annotations

from typing import Any

import click

from lgmdsl.cli import options
from lgmdsl.cli.data_options import data_argument
from lgmdsl.cli.output import diagnose, show, show_json


@click.command("explain")
@options.model_argument
@data_argument(required=False)
@options.set_option
@options.map_option
@options.json_option
def command(
    model: str, data: Any, fixed: dict[str, object], mapping: dict[str, str], as_json: bool
) -> None:
    """Show what the compiler makes of MODEL, and which methods can run it.

    \b
    lgm explain model.lgm
    lgm explain model.lgm data.npz

    Sizes, sparsity, priors, predictors, rewrites, the engine and why, and for each method whether
    it runs and why not. What this version cannot fit yet is listed, and is no error here.
    """
    from lgmdsl.api.explain.explain import explain

    read = options.read_model(model)
    explanation = explain(read, data, fixed, mapping=mapping)
    if as_json:
        show_json(explanation.as_json())
        return
    if explanation.warnings:
        diagnose(explanation.warnings)
    show(str(explanation))
