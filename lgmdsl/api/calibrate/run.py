"""Runs of a calibration: one, many on workers, and the file that they write.

One run of a calibration: draw data from the model, fit them, place the truth in the fit, and
keep what the fit says of its own errors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from lgmdsl.api.calibrate.claims import NO_CLAIM, Claim
from lgmdsl.api.calibrate.placed import Truth, placed
from lgmdsl.api.fit.fitting import fit_data
from lgmdsl.api.record import Lines
from lgmdsl.api.simulate.simulate import simulated
from lgmdsl.dataset import Keys, read
from lgmdsl.errors import DataError, LgmError
from lgmdsl.inference.settings import FitSettings
from lgmdsl.language.builder import Model
from lgmdsl.language.load import loads
from lgmdsl.workers.sources import DataFile
from lgmdsl.workers.task import Task
from lgmdsl.workers.workers import Workers


@dataclass(frozen=True)
class CalibrationTask:
    """What all runs share. `text` and `name` are the model's; `data` its given covariates."""

    text: str
    name: str
    data: Any = None
    mapping: Keys | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    settings: FitSettings = field(default_factory=FitSettings)


@dataclass(frozen=True)
class RunOutcome:
    """Run `number`: values in [0, 1] by quantity, uniform over runs where the posterior is exact;
    what the fit claims of its errors; `failure` where there was no posterior (or no data); `notes`
    on how the data were drawn."""

    number: int
    values: Mapping[str, float]
    converged: bool = True
    method: str = ""
    failure: str = ""
    claim: Claim = NO_CLAIM
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {
            "run": self.number, "values": dict(self.values), "converged": self.converged,
            "method": self.method, "failure": self.failure, "claim": self.claim.as_json(),
            "notes": list(self.notes),
        }  # fmt: skip

    @classmethod
    def of_json(cls, row: Mapping[str, Any]) -> RunOutcome:
        return cls(
            int(row["run"]),
            {str(k): float(v) for k, v in row["values"].items()},
            bool(row["converged"]),
            str(row["method"]),
            str(row["failure"]),
            Claim.of_json(row["claim"]),
            tuple(map(str, row.get("notes", ()))),
        )


def run_once(model: Model, task: CalibrationTask, number: int) -> RunOutcome:
    """One run. Its digits depend on the task and the number alone.

    An error in a fit of drawn data is the run's outcome; one that the first draw meets already (no
    size for an index, a hyper without a value) is the model's and raised by run 0.
    """
    rng = np.random.default_rng([task.settings.seed, number])
    seed = int(rng.integers(2**62))
    try:
        drawn = simulated(
            model, task.data, task.sizes, task.settings.fixed, seed, mapping=task.mapping
        )
        data, notes = drawn.data, tuple(f"{w.code}: {w.message}" for w in drawn.warnings)
        fit = fit_data(model, data, replace(task.settings, seed=seed))
    except LgmError as error:
        if number == 0:
            raise
        return RunOutcome(number, {}, False, "", str(error).splitlines()[0])
    values = dict(placed(fit, Truth.of(fit, drawn, task.settings.fixed), rng))
    return RunOutcome(number, values, fit.converged, fit.method, "", Claim.of(fit), notes)


# ---- shared ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SharedTask:
    """A task as it goes to workers: data from a file go as its path, what else there is as arrays
    that have been read."""

    task: CalibrationTask
    file: DataFile | None

    @classmethod
    def of(cls, task: CalibrationTask) -> SharedTask:
        """The task, its data read or their file known."""
        if isinstance(task.data, str | os.PathLike):
            return cls(replace(task, data=None), DataFile.of(task.data))
        data = None if task.data is None else read(task.data, task.mapping)
        return cls(replace(task, data=data), None)

    @cached_property
    def opened(self) -> tuple[Model, CalibrationTask]:
        """The model and the task with its data. Raises WorkerError E703."""
        task = self.task
        if self.file is not None:
            task = replace(task, data=read(self.file.checked(), task.mapping))
        return loads(task.text, task.name), task


def run_shared(shared: SharedTask, number: int) -> RunOutcome:
    """In a worker: one run."""
    return run_once(*shared.opened, number)


def shared_runs(
    workers: Workers, task: CalibrationTask, numbers: Sequence[int]
) -> Iterator[RunOutcome]:
    """The outcomes of these runs, in the order in which they end."""
    bundle = workers.bundle(SharedTask.of(task))
    tasks = [Task(f"run {number}", run_shared, (number,), (bundle,)) for number in numbers]
    for _, outcome in workers.outcomes(tasks):
        yield outcome.value()


# ---- record ------------------------------------------------------------------------------------
# The file a calibration writes as it goes: a line for each run.


class CalibrationRecord:
    """Outcomes on disk, or nowhere where `path` is None."""

    def __init__(self, path: str | os.PathLike[str] | None, task: CalibrationTask) -> None:
        self.lines = Lines(path, "calibration", task, hashed=("data",), free=("hyper", "start"))
        try:
            self.done = {o.number: o for o in map(RunOutcome.of_json, self.lines.rows)}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError(self.lines.unusable("holds a line that is no run")) from None

    def add(self, outcome: RunOutcome) -> None:
        """Keep one more outcome; it is on disk when this returns."""
        self.done[outcome.number] = outcome
        self.lines.append(outcome.as_json())
