"""`lgm compare`: several methods on one model and data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lgmdsl.cli import options
from lgmdsl.cli.data_options import data_argument
from lgmdsl.cli.exit_status import INTERRUPTED, OK, REFUSED, UNFINISHED
from lgmdsl.cli.output import diagnose

if TYPE_CHECKING:
    from lgmdsl.api.compare.comparison import Comparison

FORM = "METHOD.NAME=VALUE"


def _options(
    context: click.Context, _: click.Parameter, texts: tuple[str, ...]
) -> dict[str, dict[str, object]]:
    given: dict[str, dict[str, object]] = {}
    for key, value in options.split(texts, "--option", FORM).items():
        method, dot, name = key.rpartition(".")
        if not dot or not method or not name:
            raise click.UsageError(f"--option takes {FORM}, not `{key}={value}`", context)
        given.setdefault(method, {})[name] = value
    return given


@click.command("compare")
@options.model_argument
@data_argument(required=True)
@click.option(
    "--method",
    "methods",
    metavar="M",
    multiple=True,
    help="A method, as often as wanted (default: all that can run it).",
)
@click.option(
    "--plot",
    "picture",
    metavar="OUT.png",
    help="Draw runs and marginals there (.png, .svg or .pdf).",
)
@options.gathered(
    "settings",
    options.hyper_option,
    options.set_option,
    options.bound_option,
    click.option(
        "--option",
        "options",
        metavar=FORM,
        multiple=True,
        callback=_options,
        help="An option of one of the methods.",
    ),
    options.tol_option,
    options.max_steps_option,
)
@options.map_option
@options.audit_options
@options.jobs_options
@options.seed_option
@options.json_option
def command(
    model: str,
    data: Any,
    methods: tuple[str, ...],
    picture: str | None,
    settings: dict[str, Any],
    mapping: dict[str, str],
    audit: options.AuditOptions,
    jobs: int | str | None,
    seed: int,
    as_json: bool,
) -> int:
    """Fit MODEL to DATA with several methods and print how they differ.

    \b
    lgm compare model.lgm data.npz
    lgm compare model.lgm data.npz --method laplace --method lcl --plot out.png
    lgm compare model.lgm data.npz --audit --jobs 2

    Exit status 0 if a method converged, 1 for an error in the model or the data or if no method
    can run it, 3 if none converged, 130 if it was interrupted.
    """
    from lgmdsl.cli.files import PICTURES, deliver, report, writable
    from lgmdsl.cli.progress import Progress

    place = None
    if picture is not None:
        from lgmdsl.plot.canvas import check_matplotlib

        place = writable(picture, PICTURES, {"the model": model, "the data": data})
        check_matplotlib()
    read = options.read_model(model)
    from lgmdsl.api.compare.compare import compare

    with Progress() as progress:
        comparison = compare(
            read,
            data,
            methods or None,
            **settings,
            seed=seed,
            mapping=mapping,
            audit=audit.draws if audit.asked else False,
            audit_sampler=audit.sampler,
            on_step=lambda method, entry: progress.on_step(entry, method),
            jobs=jobs,
        )
    lost = deliver(
        None if as_json else comparison.table,
        comparison.as_json() if as_json else None,
        None if place is None else lambda: comparison.plot(place),
    )
    _warn(comparison)
    if place is not None:
        report(place, lost, as_json)
    return _status(comparison) if lost is None else REFUSED


def _warn(comparison: Comparison) -> None:
    """The warnings of the fits, each once; that one stopped early is in the table, and how far
    apart they are is what it shows."""
    shown = ("W601", "W609")
    warnings = [w for f in comparison.fits.values() for w in f.warnings if w.code not in shown]
    if warnings:
        # Methods word the same warning with their own numbers.
        diagnose({(w.code, w.message, w.span): w for w in reversed(warnings)}.values())


def _status(comparison: Comparison) -> int:
    from lgmdsl.contract.status import Status

    if any(f.status is Status.interrupted for f in comparison.fits.values()):
        return INTERRUPTED
    if any(r.failure and r.failure.code == "interrupted" for r in comparison):
        return INTERRUPTED
    return OK if comparison.converged else UNFINISHED
