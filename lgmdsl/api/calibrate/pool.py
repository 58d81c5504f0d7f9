"""Runs of a calibration on several cores: worker processes, one BLAS thread each.

The workers are started as `python -m`, not forked: the caller may be any script or notebook, and a
copy of a process with running BLAS threads may hang. Parts that were registered at run time are
sent with the task where their classes can be imported; installed plug-ins are known everywhere.
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

from lgmdsl.api.calibrate.run import CalibrationTask, RunOutcome
from lgmdsl.api.third_parties import word_of, words_in
from lgmdsl.errors import Diagnostic, MethodError, NumericalError
from lgmdsl.inference.registry import packed
from lgmdsl.language.load import loads
from lgmdsl.memory import VARIABLE, budget
from lgmdsl.remedies import number

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def outcomes(task: CalibrationTask, numbers: Sequence[int], jobs: int) -> Iterator[RunOutcome]:
    """The outcomes of these runs, in the order in which they end. The workers end with the
    iterator, however it ends.

    Raises NumericalError E601 where a worker dies, MethodError E501 where workers cannot have a
    part that the runs use.
    """
    parts = _parts(task)
    arrived: queue.Queue[RunOutcome | int] = queue.Queue()
    workers = [_start(task, parts, numbers[k::jobs]) for k in range(min(jobs, len(numbers)))]
    readers = [threading.Thread(target=_read, args=(w, arrived), daemon=True) for w in workers]
    try:
        for reader in readers:
            reader.start()
        running = len(workers)
        while running:
            item = arrived.get()
            if isinstance(item, RunOutcome):
                yield item
            elif item == 0:
                running -= 1
            else:
                raise NumericalError(
                    Diagnostic(
                        "E601",
                        f"a worker process ended with status {item}",
                        help=f"run it with {number('jobs', 1)} to see why",
                    )
                )
    finally:
        for worker, reader in zip(workers, readers, strict=True):
            worker.kill()
            reader.join()


def _parts(task: CalibrationTask) -> bytes:
    """The parts registered at run time, for `registry.unpack`."""
    parts, refused = packed()
    used = set(words_in(loads(task.text, task.name).tree)) if refused else set()
    for entry in refused:
        word = word_of(entry)
        if word is not None and word not in used:
            continue
        raise MethodError(
            Diagnostic(
                "E501",
                f"worker processes cannot have the {entry.kind.words} `{entry.name}`: its class "
                "is defined in a script, a notebook or a function, from where it is not imported",
                help=f"move it to a separate module, or run it with {number('jobs', 1)}",
            )
        )
    return parts


def _start(task: CalibrationTask, parts: bytes, numbers: Sequence[int]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    environment[VARIABLE] = str(budget())  # the caller's: its engines are the workers' too
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    worker = subprocess.Popen(
        [sys.executable, "-m", "lgmdsl.api.calibrate.worker"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # an interrupt from the keyboard is this process's to handle,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # on Windows too
    )
    assert worker.stdin is not None
    with worker.stdin as pipe:
        pickle.dump((parts, task, list(numbers)), pipe)
    return worker


def _read(worker: subprocess.Popen[bytes], arrived: queue.Queue[Any]) -> None:
    assert worker.stdout is not None
    with worker.stdout as lines:
        for line in lines:
            if line.endswith(b"\n"):  # the last line of a killed worker may be half a line
                arrived.put(RunOutcome.of_json(json.loads(line)))
    arrived.put(worker.wait())
