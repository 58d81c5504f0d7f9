"""`lgm impute`: a model and data to data without gaps."""

from __future__ import annotations

from typing import Any

import click

from lgmdsl.cli.data_options import data_argument
from lgmdsl.cli.exit_status import INTERRUPTED, OK, REFUSED, UNFINISHED
from lgmdsl.cli.options import (
    bound_option,
    hyper_option,
    json_option,
    map_option,
    max_steps_option,
    method_option,
    model_argument,
    option_option,
    read_model,
    seed_option,
    set_option,
    tol_option,
)
from lgmdsl.cli.output import diagnose, note
from lgmdsl.cli.tables import WRITERS, fields, outside_table, table, write
from lgmdsl.errors import listed


@click.command("impute")
@model_argument
@data_argument(required=True)
@click.option("-o", "--output", metavar="FILE", help=f"Write to a {listed([*WRITERS], 'or')} file.")
@method_option
@hyper_option
@set_option
@bound_option
@option_option
@tol_option
@max_steps_option
@map_option
@seed_option
@json_option
def command(
    model: str,
    data: Any,
    output: str | None,
    method: str,
    hyper: str,
    fixed: dict[str, object],
    bound: str | None,
    options: dict[str, str],
    tol: float | None,
    max_steps: int | None,
    mapping: dict[str, str],
    seed: int,
    as_json: bool,
) -> int:
    """Fit MODEL to DATA and complete every observed datum that has missing entries (`?`).

    \b
    lgm impute model.lgm data.npz -o filled.npz

    Gives y as observed with the predictive mean where it is missing, y_sd (0 where observed), and
    for binary data y_probability of each value. Classes are given as their probabilities, over one
    more axis of y (1 and 0 where observed). Without -o prints csv. Exit status as of `lgm fit`.
    """
    from lgmdsl.cli.files import deliver, report, writable
    from lgmdsl.cli.progress import Progress

    place = None
    if output is not None:
        place = writable(output, tuple(WRITERS), {"the model": model, "the data": data})
    read = read_model(model)
    from lgmdsl.api.fit.fitting import fit
    from lgmdsl.contract.status import Status
    from lgmdsl.posterior.labelled import dataset

    with Progress() as progress:
        result = fit(
            read,
            data,
            method,
            hyper,
            fixed,
            bound,
            options,
            None,
            seed,
            tol,
            max_steps,
            mapping=mapping,
            on_step=progress.on_step,
        )
    completed = result.impute()
    imputed = dataset(completed.arrays())
    missing = {n: int(completed.missing(n).sum()) for n in completed}
    lost = deliver(
        table(imputed) if place is None and not as_json else None,
        {"status": str(result.status), "missing": missing, **fields(imputed)} if as_json else None,
        None if place is None else lambda: write(place, imputed),
    )
    note(str(completed))
    csv = not as_json if place is None else place.suffix == ".csv"
    outside = outside_table(imputed) if csv else ()
    if place is not None:
        report(
            place, lost, as_json, ", ".join(str(n) for n in imputed.data_vars if n not in outside)
        )
    if outside:
        note(f"left out, not over the rows of the table: {', '.join(outside)} (-o FILE.nc has all)")
    if result.warnings:
        diagnose(result.warnings)
    if lost is not None:
        return REFUSED
    if result.status is Status.converged:
        return OK
    return INTERRUPTED if result.status is Status.interrupted else UNFINISHED
