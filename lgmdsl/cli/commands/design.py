"""`lgm design`: which unlabelled cases to have labelled next, or which lines to measure."""

from __future__ import annotations

from typing import Any

import click

from lgmdsl import files
from lgmdsl.cli.data_options import data_argument
from lgmdsl.cli.exit_status import INTERRUPTED, OK, REFUSED
from lgmdsl.cli.options import (
    gathered,
    jobs_options,
    json_option,
    map_option,
    model_argument,
    option_option,
    read_model,
    seed_option,
    set_option,
)

STEPS = 20  # cases


@click.command("design")
@model_argument
@data_argument(required=True)
@click.option(
    "--candidates",
    metavar="POOL.npz",
    help="Covariates of the unlabelled cases; with --by labels of lines.",
)
@click.option(
    "--by",
    metavar="LINE",
    help="Choose lines of measurements: an index of the response, or a key of --candidates.",
)
@gathered(
    "plan",
    click.option(
        "--score",
        metavar="S",
        help="uncertainty (default), information or random; with --by information (default) or "
        "random.",
    ),
    click.option(
        "--steps",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many cases to choose (default 20), or lines (1).",
    ),
    click.option(
        "--block",
        type=click.IntRange(min=1),
        metavar="K",
        help="Re-fit all sites after so many cases (default 20), or lines (1).",
    ),
    click.option(
        "--outer",
        type=click.IntRange(min=1),
        metavar="N",
        help="Outer iterations of a re-fit (default 1; with --by until it converges).",
    ),
    click.option(
        "--oracle",
        metavar="LABELS.npz",
        help="Their labels, or values to measure; without, the next ones are ranked.",
    ),
    click.option(
        "--test",
        metavar="TEST.npz",
        help="Covariates and labels of the test cases; with --by values to compare with.",
    ),
)
@click.option("--method", metavar="M", help="With --by: the method (default double-loop).")
@option_option
@click.option(
    "-o",
    "--record",
    metavar="FILE.jsonl",
    help="Keep each query there, and go on from it after an interrupt.",
)
@click.option(
    "--plot",
    "picture",
    metavar="OUT.png",
    help="Draw test error against labels there (.png, .svg or .pdf).",
)
@set_option
@jobs_options
@seed_option
@map_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    model: str,
    data: Any,
    candidates: str | None,
    by: str | None,
    plan: dict[str, Any],
    method: str | None,
    options: dict[str, str],
    record: str | None,
    picture: str | None,
    fixed: dict[str, object],
    jobs: int | str | None,
    seed: int,
    mapping: dict[str, str],
    as_json: bool,
) -> int:
    """Choose cases to label, one by one, by the information expected from their labels; or lines of
    measurements (--by) by the information that they promise.

    \b
    lgm design model.lgm data.npz --candidates pool.npz --steps 10
    lgm design model.lgm data.npz --candidates pool.npz --oracle labels.npz \\
        --steps 200 --block 20 --test test.npz --plot error.png -o design.jsonl
    lgm design image.lgm data.npz --by row --steps 4
    lgm design image.lgm data.npz --candidates spokes.npz --by spoke \\
        --oracle scan.npz --steps 16

    For cases MODEL has one observation, bernoulli(logit = ...), and DATA hold those labelled so
    far. With --by it has one with Gaussian noise, normal(mean = ..., sd = ...), of which DATA lack
    some entries (declare it real?); LINE is one of its indices, or an array of its shape in
    --candidates with the label of each entry's line. Exit status 0, 1 for an error in the model or
    the data, 130 if it was interrupted.

    With --jobs, --cluster or --scheduler-file workers share the scores of many candidate cases.
    """
    _check_usage(context, candidates, by, method, options, record, jobs)
    given = {n: v for n, v in {**plan, "method": method}.items() if v is not None}
    from lgmdsl.cli.files import PICTURES, deliver, report, writable
    from lgmdsl.cli.progress import Progress

    place = None
    read_files = {
        "the model": model, "the data": data, "the candidates": candidates,
        "the labels": plan["oracle"], "the test cases": plan["test"],
    }  # fmt: skip
    if picture is not None:
        from lgmdsl.plot.canvas import check_matplotlib

        if plan["test"] is None:
            message = "--plot draws the test error: give what to test with by --test"
            raise click.UsageError(message, context)
        place = writable(picture, PICTURES, {**read_files, "the record": record})
        check_matplotlib()
    if record is not None:
        writable(record, (".jsonl",), read_files)
    read = read_model(model)
    from lgmdsl.api.design.design import Design, design
    from lgmdsl.api.design.measurements import MeasurementDesign, design_measurements

    result: Design | MeasurementDesign
    with Progress() as progress:
        if by is None:
            result = design(
                read,
                data,
                candidates,
                steps=given.pop("steps", STEPS),
                fixed=fixed,
                seed=seed,
                **given,
                mapping=mapping,
                record=record,
                on_query=lambda done, wanted: progress.show(f"{done} of {wanted} queries"),
                jobs=jobs,
            )
        else:
            result = design_measurements(
                read,
                data,
                by,
                candidates,
                fixed=fixed,
                seed=seed,
                options=options,
                **given,
                mapping=mapping,
                on_choice=lambda done, wanted: progress.show(f"{done} of {wanted} lines"),
            )
    lost = deliver(
        None if as_json else result.table,
        result.as_json() if as_json else None,
        None if place is None else lambda: files.write(place, result.picture(place.suffix[1:])),
    )
    if place is not None:
        report(place, lost, as_json)
    if lost is not None:
        return REFUSED
    return INTERRUPTED if result.interrupted else OK


def _check_usage(
    context: click.Context,
    candidates: str | None,
    by: str | None,
    method: str | None,
    options: dict[str, str],
    record: str | None,
    jobs: int | str | None,
) -> None:
    """Raise a usage error for options of labels with --by, and of lines without it."""
    if by is None and candidates is None:
        message = "--candidates is missing: give the cases to choose from, or --by LINE for lines"
        raise click.UsageError(message, context)
    if by is None and (method is not None or options):
        given = "--option" if method is None else "--method"
        message = f"{given} is for lines (--by): cases are chosen by the double loop"
        raise click.UsageError(message, context)
    if by is not None and record is not None:
        message = "-o keeps queries of labels: leave it out with --by, or redirect --json"
        raise click.UsageError(message, context)
    if by is not None and jobs is not None:
        message = "--jobs, --cluster and --scheduler-file are for cases: leave them out with --by"
        raise click.UsageError(message, context)
