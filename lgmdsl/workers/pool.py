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
    """`size` processes, started with the first task."""

    name = "the pool of worker processes"
    broken: tuple[type[BaseException], ...] = (BrokenProcessPool,)
    lost: tuple[type[BaseException], ...] = ()
    shared = True  # a worker that ends takes all tasks in flight with it
    cancels = False  # an executor that breaks trips over futures that were cancelled (Python 3.11)

    def __init__(self, size: int) -> None:
        self.size = size
        self._executor: ProcessPoolExecutor | None = None
        self._processes: list[SpawnProcess] = []

    @property
    def processes(self) -> tuple[SpawnProcess, ...]:
        """Those that were started, in order."""
        return tuple(self._processes)

    def submit(self, fn: Callable[..., Any], *args: Any) -> Future[Any]:
        """Begin `fn(*args)` in one of the processes."""
        if self._executor is None:
            self._executor = ProcessPoolExecutor(self.size, _Context(self._processes), _begin)
        return self._executor.submit(fn, *args)

    def renew(self) -> bool:
        """Processes that are all new."""
        self.close()
        return True

    def put(self, bundles: object) -> bool:
        """Whether bundles could be sent to all workers at once: they go with tasks here."""
        return False

    def close(self) -> None:
        """End the processes, whatever they do."""
        executor, self._executor = self._executor, None
        if executor is None:
            return
        for process in self._processes:
            with suppress(ValueError, OSError):  # one that is closed or was never begun
                process.kill()
        executor.shutdown(wait=True)
        self._processes.clear()


def _begin() -> None:
    """In a worker: the keyboard's interrupt is the caller's to handle, and the caller's end this
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
