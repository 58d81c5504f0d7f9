"""The rows of a comparison: the fit of each method, made one by one or on workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lgmdsl.api.compare.comparison import Compared
from lgmdsl.api.fit.compiled import fit_compiled
from lgmdsl.api.fit.fit import Fit
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.status import Status
from lgmdsl.errors import Diagnostic, LgmError
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.settings import FitSettings
from lgmdsl.language.builder import Model
from lgmdsl.workers.sources import Source
from lgmdsl.workers.task import Task
from lgmdsl.workers.workers import Workers


@dataclass(frozen=True)
class Auditing:
    """How each fit is audited."""

    draws: int
    seed: int
    sampler: bool

    def of(self, name: str, fit: Fit) -> Compared:
        """The fit with its audit, or without it and why."""
        if fit.status is Status.interrupted:
            return Compared(name, fit)
        try:
            made = fit.audit(self.draws, self.seed, sampler=self.sampler)
            return Compared(name, replace(fit, audited=made))
        except LgmError as error:
            return Compared(name, fit, _failure(error))


def one_by_one(
    model: Model,
    canonical: CanonicalModel,
    wanted: Sequence[FitSettings],
    auditing: Auditing | None,
    on_step: Callable[[str, TraceEntry], None] | None,
) -> tuple[list[Compared], list[Exception]]:
    """Every method here, one after another; and the errors of those that failed."""
    rows: list[Compared] = []
    errors: list[Exception] = []
    for one in wanted:
        name = one.method
        if rows and _stopped(rows[-1]):
            rows.append(Compared(name, None, _interrupted()))
            continue
        try:
            rows.append(_row(model, canonical, one, auditing, _reporter(on_step, name)))
        except KeyboardInterrupt:
            if not any(r.fit for r in rows):
                raise
            rows.append(Compared(name, None, _interrupted()))
        except Exception as error:  # noqa: BLE001  a defect in one method is its own affair
            errors.append(error)
            rows.append(Compared(name, None, _failure(error)))
    return rows, errors


def shared(
    workers: Workers,
    model: Model,
    source: Source,
    wanted: Sequence[FitSettings],
    auditing: Auditing | None,
    on_step: Callable[[str, TraceEntry], None] | None,
) -> tuple[list[Compared], list[Exception]]:
    """Every method on a worker."""
    bundle = workers.bundle(source)
    tasks = [
        Task(f"method `{s.method}`", compared, (model, s, auditing), (bundle,)) for s in wanted
    ]
    rows: list[Compared | None] = [None] * len(wanted)
    errors: list[Exception] = []
    try:
        for k, outcome in workers.outcomes(tasks):
            if outcome.error is not None:
                errors.append(outcome.error)
                rows[k] = Compared(wanted[k].method, None, _failure(outcome.error))
                continue
            rows[k] = row = outcome.result
            if on_step is not None and row.fit is not None:
                for entry in row.fit.trace:
                    on_step(row.method, entry)
    except KeyboardInterrupt:
        if not any(r is not None and r.fit for r in rows):
            raise
    names = [s.method for s in wanted]
    whole = [r or Compared(n, None, _interrupted()) for n, r in zip(names, rows, strict=True)]
    return whole, errors


def compared(
    source: Source, model: Model, settings: FitSettings, auditing: Auditing | None
) -> Compared:
    """In a worker: the row of one method."""
    return _row(model, source.canonical, settings, auditing)


def _row(
    model: Model,
    canonical: CanonicalModel,
    settings: FitSettings,
    auditing: Auditing | None,
    on_step: Callable[[TraceEntry], None] | None = None,
) -> Compared:
    fit = fit_compiled(model, canonical, settings, on_step=on_step)
    return Compared(settings.method, fit) if auditing is None else auditing.of(settings.method, fit)


def _reporter(
    on_step: Callable[[str, TraceEntry], None] | None, method: str
) -> Callable[[TraceEntry], None] | None:
    return None if on_step is None else lambda entry: on_step(method, entry)


def _stopped(row: Compared) -> bool:
    if row.fit is not None:
        return row.fit.status is Status.interrupted
    return row.failure is not None and row.failure.code == "interrupted"


def _interrupted() -> Diagnostic:
    return Diagnostic("interrupted", "interrupted before there was a result")


def _failure(error: Exception) -> Diagnostic:
    if isinstance(error, LgmError):
        return error.diagnostics[0]
    if isinstance(error, MemoryError):
        return Diagnostic("E505", "there is not enough memory for this model and data")
    lines = str(error).strip().split("\n")
    return Diagnostic("defect", f"a defect: {type(error).__name__}: {lines[0]}".rstrip(": "))
