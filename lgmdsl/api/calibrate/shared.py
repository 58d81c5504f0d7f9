"""Runs of a calibration on workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lgmdsl.api.calibrate.run import CalibrationTask, RunOutcome, run_once
from lgmdsl.dataset import read
from lgmdsl.language.builder import Model
from lgmdsl.language.load import loads
from lgmdsl.workers.sources import DataFile
from lgmdsl.workers.task import Task
from lgmdsl.workers.workers import Workers


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
