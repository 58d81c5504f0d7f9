"""A process that makes every j-th run of a calibration: a task comes in by stdin, pickled, from the
process that started it; outcomes go out as JSON lines on stdout."""

from __future__ import annotations

import json
import pickle
import sys
import warnings

from lgmdsl.api.calibrate.run import CalibrationTask, run_once
from lgmdsl.inference.registry import unpack
from lgmdsl.language.load import loads
from lgmdsl.vocabulary.plugins import PluginWarning


def main() -> None:
    """Read (parts, task, numbers), make the runs in order, print each outcome as it is there."""
    warnings.simplefilter("ignore", PluginWarning)  # reported by the process that started this one
    parts, task, numbers = pickle.load(sys.stdin.buffer)
    unpack(parts)
    assert isinstance(task, CalibrationTask)
    model = loads(task.text, task.name)
    for number in numbers:
        sys.stdout.write(f"{json.dumps(run_once(model, task, number).as_json())}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
