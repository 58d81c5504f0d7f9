"""Worker processes on this machine: a pool of `concurrent.futures` that is made anew when it
breaks.

Processes are spawned, not forked (a copy of a process with running BLAS threads may hang), and the
caller's script is not run in them again: a script needs no `if __name__ == "__main__"`. They take
their tasks from pipes; nothing listens on the network. They ignore Ctrl-C, which is the caller's to
handle, and end with it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import spawn
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

_SPAWNING = threading.Lock()


class Pool:
    """`size` lanes of one process each, started when tasks come to them. A process that ends takes
    the tasks of its lane with it."""

    name = "the pool of worker processes"
    broken: tuple[type[BaseException], ...] = (BrokenProcessPool,)
    lost: tuple[type[BaseException], ...] = ()
    shared = True  # several tasks may wait in a lane, and all of them fail
    cancels = False  # an executor that breaks trips over futures that were cancelled (Python 3.11)
    homes = True

    def __init__(self, size: int) -> None:
        self.size = size
        self._lanes: dict[int, _Lane] = {}
        self._lock = threading.Lock()

    @property
    def processes(self) -> tuple[SpawnProcess, ...]:
        """The processes that were started, lane by lane."""
        return tuple(p for k in sorted(self._lanes) for p in self._lanes[k].processes)

    def submit(self, fn: Callable[..., Any], *args: Any, home: int | None = None) -> Future[Any]:
        """Begin `fn(*args)` in the lane that is its `home`, or in the one that has least to do."""
        with self._lock:
            number = self._idle() if home is None else home % self.size
            lane = self._lanes.get(number)
            if lane is None:
                lane = self._lanes[number] = _Lane()
            return lane.submit(fn, *args)

    def _idle(self) -> int:
        busy = {k: lane.flying for k, lane in self._lanes.items()}
        return min(range(self.size), key=lambda k: (busy.get(k, 0), k not in busy))

    def renew(self) -> bool:
        """New processes in the lanes that are broken; in all, where none is known to be."""
        with self._lock:
            some = [k for k, lane in self._lanes.items() if lane.broken] or list(self._lanes)
            lanes = [self._lanes.pop(k) for k in some]
        for lane in lanes:
            lane.close()
        return True

    def put(self, bundles: object) -> bool:
        """Whether bundles could be sent to all workers at once: they go with tasks here."""
        return False

    def close(self) -> None:
        """End the processes, whatever they do."""
        with self._lock:
            lanes, self._lanes = list(self._lanes.values()), {}
        for lane in lanes:
            lane.kill()
        for lane in lanes:
            lane.close()


class _Lane:
    """A process, its tasks one after the other. `flying`: how many it has."""

    def __init__(self) -> None:
        self.processes: list[SpawnProcess] = []
        self.executor = ProcessPoolExecutor(1, _Context(self.processes), _begin)
        self.flying, self.broken = 0, False
        self._lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], *args: Any) -> Future[Any]:
        try:
            future = self.executor.submit(fn, *args)
        except BrokenProcessPool:
            self.broken = True
            raise
        with self._lock:
            self.flying += 1
        future.add_done_callback(self._done)
        return future

    def _done(self, future: Future[Any]) -> None:
        with self._lock:
            self.flying -= 1
        if not future.cancelled() and isinstance(future.exception(), BrokenProcessPool):
            self.broken = True

    def kill(self) -> None:
        for process in self.processes:
            with suppress(ValueError, OSError):  # one that is closed or was never begun
                process.kill()

    def close(self) -> None:
        self.kill()
        self.executor.shutdown(wait=True)


def _begin() -> None:
    """Begin a worker: the keyboard's interrupt is the caller's to handle, and the caller's end this
    worker's (one that waits at its pipe for a caller that was killed would wait for ever)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


class _Worker(SpawnProcess):
    """A process that does not run the caller's script."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        with _without_script():
            return SpawnProcess._Popen(process_obj)


class _Context(SpawnContext):
    """Spawned processes, all kept in a list."""

    def __init__(self, started: list[SpawnProcess]) -> None:
        super().__init__()
        self._started = started

    def Process(self, *args: Any, **named: Any) -> SpawnProcess:  # type: ignore[override]
        """A worker."""
        process = _Worker(*args, **named)
        self._started.append(process)
        return process


@contextmanager
def _without_script() -> Iterator[None]:
    """While this thread starts a process, nothing is said of `__main__`: tasks name functions of
    modules alone. Other threads' processes are as always."""
    whole, own = spawn.get_preparation_data, threading.get_ident()

    def without(name: str) -> dict[str, Any]:
        data = whole(name)
        if threading.get_ident() == own:
            data = {k: v for k, v in data.items() if not k.startswith("init_main_from")}
        return data

    with _SPAWNING:
        whole = spawn.get_preparation_data
        spawn.get_preparation_data = without
        try:
            yield
        finally:
            spawn.get_preparation_data = whole
