"""The file a calibration writes as it goes: a line for each run."""

from __future__ import annotations

import os

from lgmdsl.api.calibrate.run import CalibrationTask, RunOutcome
from lgmdsl.api.record import Lines
from lgmdsl.errors import DataError


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
