"""`lgm summary`: a saved fit on a page."""

from __future__ import annotations

from typing import Any

import click

from lgmdsl.cli.data_options import earlier_data_option
from lgmdsl.cli.options import (
    audit_options,
    json_option,
    map_option,
    seed_option,
)
from lgmdsl.cli.output import note, show, show_json


@click.command("summary")
@click.argument("fit", metavar="FIT.nc")
@audit_options
@earlier_data_option("The data of the fit, for --audit or --criteria.")
@click.option("--criteria", is_flag=True, help="Print DIC, WAIC and leave-one-out.")
@map_option
@seed_option
@json_option
@click.option("--full", is_flag=True, help="Print every entry of every latent.")
def command(
    fit: str,
    audit: bool,
    audit_sampler: bool,
    draws: int,
    data: Any,
    criteria: bool,
    mapping: dict[str, str],
    seed: int,
    as_json: bool,
    full: bool,
) -> None:
    """Print the result in FIT.nc: status, log evidence, hyperparameters, latents, reports, and the
    audit where one was made with the fit.

    \b
    lgm summary model.fit.nc
    lgm summary model.fit.nc --audit --data data.npz
    lgm summary model.fit.nc --criteria --data data.npz
    """
    if data is not None and not (audit or criteria):
        raise click.UsageError("--data is for --audit and --criteria", click.get_current_context())
    from dataclasses import replace

    from lgmdsl.api.fit.restore import load_fit

    result = load_fit(fit)
    if audit:
        result = replace(result, audited=result.audit(draws, seed, data, mapping, audit_sampler))
    if criteria:
        from lgmdsl.cli.criteria import criteria as computed

        text, numbers = computed(result, data, mapping)
    if as_json:
        from lgmdsl.cli.fit_json import fit_json

        fields, left_out = fit_json(result, full)
        if criteria:
            fields["criteria"] = numbers
        show_json(fields)
        if left_out:
            note(f"left out, too long: {', '.join(left_out)} (--full prints all)")
    else:
        show(result.summary(full))
        if criteria:
            show(f"\n{text}")
