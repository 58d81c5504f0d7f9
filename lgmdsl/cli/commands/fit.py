"""`lgm fit`: a model and data to a posterior."""

from __future__ import annotations

import _thread
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import click

from lgmdsl.cli import options
from lgmdsl.cli.data_options import data_argument
from lgmdsl.cli.exit_status import INTERRUPTED, OK, REFUSED, UNFINISHED
from lgmdsl.cli.output import diagnose, note
from lgmdsl.errors import LgmError, NumericalError

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit
    from lgmdsl.workers.task import Jobs


@click.command("fit")
@options.model_argument
@data_argument(required=True)
@click.option("-o", "--output", metavar="OUT.nc", help="Write the result there (NetCDF).")
@options.gathered(
    "settings",
    options.method_option,
    options.hyper_option,
    options.set_option,
    options.start_option,
    options.bound_option,
    options.option_option,
    options.tol_option,
    options.max_steps_option,
    click.option("--start-from", metavar="OUT.nc", help="Start from an earlier result."),
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0.0, min_open=True),
    metavar="S",
    help="Stop after S seconds with what there is.",
)
@click.option(
    "--groups", metavar="DIR", help="Of shards: write the groups' latents to this new folder."
)
@options.map_option
@options.audit_options
@options.jobs_options
@options.seed_option
@options.json_option
@click.option("--full", is_flag=True, help="Print every entry of every latent.")
def command(
    model: str,
    data: Any,
    output: str | None,
    settings: dict[str, Any],
    time_limit: float | None,
    groups: str | None,
    mapping: dict[str, str],
    audit: options.AuditOptions,
    jobs: int | str | None,
    seed: int,
    as_json: bool,
    full: bool,
) -> int:
    """Fit MODEL to DATA (.npz .csv .parquet .nc) and print a summary.

    \b
    lgm fit model.lgm data.npz -o model.fit.nc
    lgm fit model.lgm data.npz --method laplace --set s=0.5 --json
    lgm fit model.lgm data.npz --audit

    Exit status 0 if it converged, 1 for an error in the model, the data or the method, 3 if it
    did not converge (the result so far is written, with its status), 130 if it was interrupted.

    Ctrl-C and --time-limit stop a fit, with the result so far as `interrupted`; with -o it is
    written, and --start-from goes on from it: a search where it was, an integration with the fits
    that it had. With --jobs, --cluster or --scheduler-file workers share the fits at several
    values of the hyperparameters, and the draws of --audit; digits do not change.

    DATA may be a folder of shards (`lgm shard`): workers then share the rows, and --groups writes
    the groups' latents, which the result does not hold.
    """
    from lgmdsl.cli.files import deliver, report, writable
    from lgmdsl.cli.progress import Progress

    if audit.asked:
        from lgmdsl.accuracy.tails import check_arviz

        check_arviz()
    if output is not None:
        read_files = {"the model": model, "the data": data}
        read_files["the fit to start from"] = settings["start_from"]
        writable(output, (".nc",), read_files)
    read = options.read_model(model)
    if groups is not None:
        from lgmdsl.shards.manifest import check_folders

        check_folders(data, groups)
    from lgmdsl.api.fit.fitting import fit

    limit = TimeLimit(time_limit)
    try:
        with Progress() as progress, limit:
            result = fit(
                read,
                data,
                **settings,
                seed=seed,
                mapping=mapping,
                on_step=progress.on_step,
                jobs=jobs,
            )
    except KeyboardInterrupt:
        if limit.passed:
            raise _too_early(time_limit) from None
        raise
    status, failure = _status(result), None
    if limit.passed and status == INTERRUPTED:
        status = UNFINISHED
        note(f"stopped by the time limit of {time_limit:g} s: {result.status.value}")
    if audit.asked and status != INTERRUPTED and not limit.passed:
        result, failure = audited(result, audit.draws, seed, audit.sampler, jobs)
    page: str | None = None
    fields: dict[str, Any] | None = None
    left_out: tuple[str, ...] = ()
    if as_json:
        from lgmdsl.cli.fit_json import fit_json

        fields, left_out = fit_json(result, full)
        if failure is not None:
            fields["audit"] = {"errors": [d.as_json() for d in failure.diagnostics]}
    else:
        page = result.summary(full)
    lost = deliver(page, fields, None if output is None else lambda: result.save(output))
    if left_out:
        note(f"left out, too long: {', '.join(left_out)} (--full prints all)")
    if result.warnings:
        diagnose(result.warnings)
    if output is not None:
        report(output, lost, as_json)
    if groups is not None and status != INTERRUPTED:
        result.groups(data, groups, mapping=mapping, jobs=jobs)
        note(f"wrote {groups}")
    if failure is not None:
        diagnose(failure.diagnostics, failure.left_out)
    return status if failure is None and lost is None else REFUSED


def _too_early(seconds: float | None) -> NumericalError:
    return NumericalError.of(
        "E601",
        f"there is no result within the time limit of {seconds:g} s",
        help="raise --time-limit, or take a faster way: --method laplace --hyper map",
    )


def _status(result: Fit) -> int:
    from lgmdsl.contract.status import Status

    if result.status is Status.converged:
        return OK
    return INTERRUPTED if result.status is Status.interrupted else UNFINISHED


def audited(
    fit: Fit, draws: int, seed: int, sampler: bool = False, jobs: Jobs = None
) -> tuple[Fit, LgmError | None]:
    """The fit with its audit, or without it and why: a finished fit is not lost."""
    from dataclasses import replace

    try:
        return replace(fit, audited=fit.audit(draws, seed, sampler=sampler, jobs=jobs)), None
    except LgmError as error:
        return fit, error


# ---- time limit ----------------------------------------------------------------------------------
# `--time-limit`: a fit is interrupted after so many seconds, as by Ctrl-C.


class TimeLimit:
    """Interrupts the main thread once `seconds` have passed (None: never), on every system.
    `passed`: whether it did. The interrupt never comes after the block, and it comes where Ctrl-C
    is ignored too, as by what a shell script starts with `&`."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self.passed = seconds, False
        self._lock, self._inside = threading.Lock(), False
        self._timer: threading.Timer | None = None
        self._ignoring = False

    def __enter__(self) -> Self:
        self._inside = True
        if self.seconds is not None:
            main = threading.current_thread() is threading.main_thread()
            if main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
                self._ignoring = True
                signal.signal(signal.SIGINT, self._heard)
            self._timer = threading.Timer(self.seconds, self._interrupt)
            self._timer.daemon = True
            self._timer.start()
        return self

    def _heard(self, number: int, frame: FrameType | None) -> None:
        """In place of a SIGINT that is ignored: only the limit's own is not."""
        if self.passed:
            raise KeyboardInterrupt

    def _interrupt(self) -> None:
        with self._lock:
            if self._inside:
                self.passed = True
                _thread.interrupt_main()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            with self._lock:
                self._inside = False
            if self._timer is not None:
                self._timer.cancel()
        except KeyboardInterrupt:  # it came just before
            self._inside = False
            if not self.passed:
                raise
        finally:
            if self._ignoring:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                self._ignoring = False
