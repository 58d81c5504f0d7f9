"""`lgm calibrate`: are a method's posteriors calibrated, on data drawn from the model?"""

from __future__ import annotations

from typing import Any

import click

from lgmdsl import files
from lgmdsl.cli import options
from lgmdsl.cli.data_options import data_argument
from lgmdsl.cli.exit_status import INTERRUPTED, OK, REFUSED, UNFINISHED
from lgmdsl.cli.output import note


@click.command("calibrate")
@options.model_argument
@data_argument(required=False)
@options.sizes_option
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="N",
    help="How many data sets to draw and fit.",
)
@options.gathered(
    "settings",
    options.method_option,
    options.set_option,
    options.bound_option,
    options.option_option,
    options.tol_option,
    options.max_steps_option,
)
@options.jobs_options
@click.option(
    "--record",
    metavar="FILE.jsonl",
    help="Append each run to this file; an existing one is continued.",
)
@click.option(
    "--plot",
    "picture",
    metavar="OUT.png",
    help="Draw the distribution of the ranks there (.png, .svg or .pdf).",
)
@options.seed_option
@options.map_option
@options.json_option
def command(
    model: str,
    data: Any,
    sizes: dict[str, int],
    runs: int,
    settings: dict[str, Any],
    jobs: int | str | None,
    record: str | None,
    picture: str | None,
    seed: int,
    mapping: dict[str, str],
    as_json: bool,
) -> int:
    """Draw data sets from MODEL, fit each, and test whether the posteriors are calibrated.

    \b
    lgm calibrate model.lgm --sizes obs=200,feat=3 --set s=1 --runs 200
    lgm calibrate model.lgm data.npz --method laplace --record runs.jsonl --plot ecdf.png

    Each run draws hyperparameters and latents from their priors, data from the model, fits them,
    and ranks the true values in the posterior; of calibrated posteriors the ranks are uniform.
    Covariates are those of DATA, or drawn by their types. The page also compares the errors of
    means and sds with those that the fits estimated (fit.accuracy, W609). Without --jobs, one
    process for each core makes the runs.

    Exit status 0 if all ranks are within their 95 % bands and no estimate of an error is
    contradicted, 3 if not (or a run ended without a posterior), 1 for an error in the model or the
    data, 130 if it was interrupted.
    """
    from lgmdsl.cli.files import PICTURES, deliver, report, writable
    from lgmdsl.cli.progress import Progress

    place, read_files = None, {"the model": model, "the data": data}
    if picture is not None:
        from lgmdsl.plot.canvas import check_matplotlib

        place = writable(picture, PICTURES, {**read_files, "the record": record})
        check_matplotlib()
    if record is not None:
        writable(record, (".jsonl",), read_files)
    read = options.read_model(model)
    from lgmdsl.api.calibrate.calibrate import calibrate

    with Progress() as progress:
        calibration = calibrate(
            read,
            data,
            sizes,
            runs,
            **settings,
            seed=seed,
            mapping=mapping,
            jobs=jobs,
            record=record,
            on_run=lambda done, wanted: progress.show(f"{done} of {wanted} runs"),
        )
    drawn = place if calibration.tests else None
    lost = deliver(
        None if as_json else calibration.table,
        calibration.as_json() if as_json else None,
        None
        if drawn is None
        else lambda: files.write(drawn, calibration.picture(drawn.suffix[1:])),
    )
    if drawn is not None:
        report(drawn, lost, as_json)
    elif place is not None:
        note(f"{place}: not written: there are too few runs to draw")
    if lost is not None:
        return REFUSED
    if calibration.interrupted:
        return INTERRUPTED
    return UNFINISHED if not calibration.agrees else OK
