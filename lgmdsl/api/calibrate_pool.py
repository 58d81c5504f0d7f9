"""Runs of a calibration on several cores: worker processes, one BLAS thread each.

The workers are started as `python -m`, not forked: the caller may be any script or notebook, and a
copy of a process with running BLAS threads may hang. A part that was registered at run time is
known in its own process only; installed plug-ins are known everywhere.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from lgmdsl.api.calibrate_run import Outcome, Task
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.memory import VARIABLE, budget

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def outcomes(task: Task, numbers: Sequence[int], jobs: int) -> Iterator[Outcome]:
    """The outcomes of these runs, in the order in which they end. The workers end with the
    iterator, however it ends. Raises NumericalError E601 where a worker dies."""
    arrived: queue.Queue[Outcome | int] = queue.Queue()
    workers = [_start(task, numbers[k::jobs]) for k in range(min(jobs, len(numbers)))]
    readers = [threading.Thread(target=_read, args=(w, arrived), daemon=True) for w in workers]
    try:
        for reader in readers:
            reader.start()
        left = len(workers)
        while left:
            item = arrived.get()
            if isinstance(item, Outcome):
                yield item
            elif item == 0:
                left -= 1
            else:
                raise NumericalError(
                    Diagnostic(
                        "E601", f"a worker process ended with status {item}",
                        help="run it with --jobs 1 to see why",
                    )
                )  # fmt: skip
    finally:
        for worker, reader in zip(workers, readers, strict=True):
            worker.kill()
            reader.join()


def _start(task: Task, numbers: Sequence[int]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    environment[VARIABLE] = str(budget())  # the caller's: its engines are the workers' too
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    worker = subprocess.Popen(
        [sys.executable, "-m", "lgmdsl.api.calibrate_worker"], env=environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        start_new_session=True,  # an interrupt from the keyboard is this process's to handle
    )  # fmt: skip
    assert worker.stdin is not None
    with worker.stdin as pipe:
        pickle.dump((task, list(numbers)), pipe)
    return worker


def _read(worker: subprocess.Popen[bytes], arrived: queue.Queue[Any]) -> None:
    assert worker.stdout is not None
    with worker.stdout as lines:
        for line in lines:
            if line.endswith(b"\n"):  # the last line of a killed worker may be half a line
                arrived.put(Outcome.of_json(json.loads(line)))
    arrived.put(worker.wait())
