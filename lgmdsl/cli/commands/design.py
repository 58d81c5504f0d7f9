"""`lgm design`: which unlabelled cases to have labelled next."""

from __future__ import annotations

from typing import Any

import click

from lgmdsl import files
from lgmdsl.cli.data_options import data_argument
from lgmdsl.cli.exit_status import INTERRUPTED, OK, REFUSED
from lgmdsl.cli.options import (
    jobs_options,
    json_option,
    map_option,
    model_argument,
    read_model,
    seed_option,
    set_option,
)


@click.command("design")
@model_argument
@data_argument(required=True)
@click.option(
    "--candidates", required=True, metavar="POOL.npz", help="Covariates of the unlabelled cases."
)
@click.option(
    "--score",
    default="uncertainty",
    show_default=True,
    metavar="S",
    help="uncertainty, information or random.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many cases to choose.",
)
@click.option(
    "--block",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="K",
    help="Re-fit all sites after so many.",
)
@click.option(
    "--outer",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Outer iterations of a re-fit.",
)
@click.option(
    "--oracle", metavar="LABELS.npz", help="Their labels; without, the next queries are ranked."
)
@click.option("--test", metavar="TEST.npz", help="Covariates and labels of the test cases.")
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
    candidates: str,
    score: str,
    steps: int,
    block: int,
    outer: int,
    oracle: str | None,
    test: str | None,
    record: str | None,
    picture: str | None,
    fixed: dict[str, object],
    jobs: int | str | None,
    seed: int,
    mapping: dict[str, str],
    as_json: bool,
) -> int:
    """Choose cases to label, one by one, by the information expected from their labels.

    \b
    lgm design model.lgm data.npz --candidates pool.npz --steps 10
    lgm design model.lgm data.npz --candidates pool.npz --oracle labels.npz \\
        --steps 200 --block 20 --test test.npz --plot error.png -o design.jsonl

    MODEL has one observation, bernoulli(logit = ...); DATA hold the cases labelled so far. With
    --jobs, --cluster or --scheduler-file workers share the scores of many candidates. Exit
    status 0, 1 for an error in the model or the data, 130 if it was interrupted.
    """
    from lgmdsl.cli.files import PICTURES, deliver, report, writable
    from lgmdsl.cli.progress import Progress

    place = None
    read_files = {
        "the model": model, "the data": data, "the candidates": candidates,
        "the labels": oracle, "the test cases": test,
    }  # fmt: skip
    if picture is not None:
        from lgmdsl.api.pictures.compare_picture import check_matplotlib

        if test is None:
            message = "--plot draws the test error: give the test cases with --test"
            raise click.UsageError(message, context)
        place = writable(picture, PICTURES, {**read_files, "the record": record})
        check_matplotlib()
    if record is not None:
        writable(record, (".jsonl",), read_files)
    read = read_model(model)
    from lgmdsl.api.design.design import design

    with Progress() as progress:
        result = design(
            read,
            data,
            candidates,
            score,
            steps,
            block,
            oracle,
            test,
            fixed,
            seed,
            outer=outer,
            mapping=mapping,
            record=record,
            on_query=lambda done, wanted: progress.show(f"{done} of {wanted} queries"),
            jobs=jobs,
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
