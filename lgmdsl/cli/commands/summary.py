"""`lgm summary`: a saved fit on a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from lgmdsl.cli import options
from lgmdsl.cli.data_options import earlier_data_option
from lgmdsl.cli.output import note, show, show_json

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit
    from lgmdsl.workers.task import Jobs


@click.command("summary")
@click.argument("fit", metavar="FIT.nc")
@options.audit_options
@earlier_data_option("The data of the fit, for --audit, --criteria, --profile or --df.")
@click.option("--criteria", is_flag=True, help="Print DIC, WAIC and leave-one-out.")
@options.gathered(
    "intervals",
    click.option(
        "--profile", is_flag=True, help="Print profile-likelihood intervals of hyperparameters."
    ),
    click.option(
        "--level",
        type=float,
        default=0.95,
        metavar="L",
        show_default=True,
        help="The level of --profile.",
    ),
    click.option(
        "--df",
        metavar="W",
        help="Print t-tests of coefficients: satterthwaite or kenward-roger.",
    ),
    click.option("--smooths", is_flag=True, help="Print approximate tests of smooths."),
)
@click.option(
    "--exact", is_flag=True, help="Fit again without each response that leave-one-out flags."
)
@options.jobs_options
@options.map_option
@options.seed_option
@options.json_option
@click.option("--full", is_flag=True, help="Print every entry of every latent.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a csv with a row for each number.")
@options.quantiles_option
def command(
    fit: str,
    audit: options.AuditOptions,
    data: Any,
    criteria: bool,
    intervals: dict[str, Any],
    exact: bool,
    jobs: int | str | None,
    mapping: dict[str, str],
    seed: int,
    as_json: bool,
    full: bool,
    as_csv: bool,
    quantiles: tuple[float, ...],
) -> None:
    """Print the result in FIT.nc: status, log evidence, hyperparameters, latents, reports, and the
    audit where one was made with the fit.

    \b
    lgm summary model.fit.nc
    lgm summary model.fit.nc --audit --data data.npz --jobs 2
    lgm summary model.fit.nc --criteria --exact --data data.npz --jobs 2
    lgm summary model.fit.nc --profile --df satterthwaite --data data.npz
    lgm summary model.fit.nc --smooths
    lgm summary model.fit.nc --csv --quantiles 0.025,0.975
    """
    tables = intervals["profile"] or intervals["df"] is not None
    _check(as_csv, as_json or audit.asked or criteria or tables or intervals["smooths"])
    context = click.get_current_context()
    if data is not None and not (audit.asked or criteria or tables):
        message = "--data is for --audit, --criteria, --profile and --df"
        raise click.UsageError(message, context)
    asked_level = context.get_parameter_source("level") is ParameterSource.COMMANDLINE
    if asked_level and not intervals["profile"]:
        raise click.UsageError("--level is for --profile", context)
    if exact and not criteria:
        raise click.UsageError("--exact: only with --criteria", click.get_current_context())
    if jobs is not None and not (criteria or audit.asked):
        message = "--jobs and --cluster: only with --criteria or --audit"
        raise click.UsageError(message, click.get_current_context())
    from dataclasses import replace

    from lgmdsl.api.fit.restore import load_fit

    result = load_fit(fit)
    if as_csv:
        import numpy as np

        from lgmdsl.api.frames.tidy import tidy_columns
        from lgmdsl.cli.tables import csv_of

        show(csv_of(tidy_columns(result, None, np.array(quantiles))), end="")
        return
    if audit.asked:
        made = result.audit(audit.draws, seed, data, mapping, audit.sampler, jobs)
        result = replace(result, audited=made)
    if criteria:
        text, numbers = criteria_pages(result, data, mapping, exact, jobs)
    made_tables = interval_tables(result, data, mapping, **intervals)
    if as_json:
        from lgmdsl.cli.fit_json import fit_json
        from lgmdsl.cli.tables import records

        fields, left_out = fit_json(result, full)
        if criteria:
            fields["criteria"] = numbers
        fields |= {name: records(columns) for name, (_, columns) in made_tables.items()}
        show_json(fields)
        if left_out:
            note(f"left out, too long: {', '.join(left_out)} (--full prints all)")
    else:
        show(result.summary(full))
        if criteria:
            show(f"\n{text}")
        if made_tables:
            from lgmdsl.cli.tables import aligned

            for title, columns in made_tables.values():
                show(f"\n{title}\n{aligned(columns)}")


def _check(as_csv: bool, other: bool) -> None:
    """Usage of --csv and --quantiles."""
    context = click.get_current_context()
    if as_csv and other:
        message = "--csv has the rows of the fit alone: leave all else out"
        raise click.UsageError(message, context)
    asked = context.get_parameter_source("quantiles") is ParameterSource.COMMANDLINE
    if asked and not as_csv:
        raise click.UsageError("--quantiles is for --csv", context)


def criteria_pages(
    fit: Fit, data: object, mapping: Mapping[str, str], exact: bool = False, jobs: Jobs = None
) -> tuple[str, dict[str, Any]]:
    """The three pages as one text, and their numbers; `exact`, `jobs` of leave-one-out."""
    dic, waic = fit.dic(data, mapping), fit.waic(data, mapping)
    loo = fit.loo(exact=exact, data=data, mapping=mapping, jobs=jobs)
    fields = {
        "dic": dic.dic,
        "p_d": dic.p_d,
        "waic": waic.waic,
        "p_waic": waic.p_waic,
        "elpd_waic": waic.elpd,
        "elpd_waic_se": waic.se,
        "elpd_loo": loo.elpd,
        "elpd_loo_se": loo.se,
        "p_loo": loo.p_loo,
        "flagged": loo.flagged,
        "failed": loo.failed,
        "dic_error": dic.error,
        "elpd_waic_error": waic.error,
        "elpd_loo_error": loo.error,
    }
    return "\n\n".join(map(str, (dic, waic, loo))), fields


def interval_tables(
    fit: Fit,
    data: object,
    mapping: Mapping[str, str],
    profile: bool,
    level: float,
    df: str | None,
    smooths: bool,
) -> dict[str, tuple[str, dict[str, Any]]]:
    """The title and the columns of the tables that were asked for, by their names in JSON."""
    import numpy as np

    from lgmdsl.api.frames.profile import profile_columns
    from lgmdsl.api.frames.tidy import tidy_columns
    from lgmdsl.api.summary.smooths import smooth_columns

    out: dict[str, tuple[str, dict[str, Any]]] = {}
    if df is not None:
        tests = tidy_columns(fit, None, np.zeros(0), df, data, mapping)
        shown = ("term", "mean", "sd", "df", "statistic", "p_value")
        out["tests"] = f"coefficients, t-tests ({df})", {k: tests[k] for k in shown}
    if profile:
        columns = profile_columns(fit, None, level, data, mapping)
        out["profile"] = f"profile intervals, {100.0 * level:g} %", columns
    if smooths:
        out["smooths"] = "smooths, approximate tests", smooth_columns(fit, test=True)
    return out
