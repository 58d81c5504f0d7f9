"""From what `jobs` was given to workers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from lgmdsl.errors import MethodError
from lgmdsl.workers.refusals import unreachable
from lgmdsl.workers.task import Executor, Jobs
from lgmdsl.workers.workers import Crew, Workers

ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://.+")
WANTED = (
    'a number of processes from 1, the address of a Dask scheduler ("tcp://host:8786"), a Dask '
    "Client, or an executor with submit and shutdown"
)


def check_jobs(jobs: Jobs) -> None:
    """Raise MethodError E108 for what is no `jobs`."""
    if jobs is None or _is_client(jobs):
        return
    message = f"`jobs` must be {WANTED}"
    if isinstance(jobs, int | np.integer) and not isinstance(jobs, bool):
        if jobs >= 1:
            return
        message = "`jobs` must be a whole number from 1"
    if isinstance(jobs, str) and ADDRESS.fullmatch(jobs):
        return
    if not isinstance(jobs, str | type) and isinstance(jobs, Executor):
        return
    raise MethodError.of("E108", message, details=(f"got {jobs!r}",))


@contextmanager
def opened(jobs: Jobs, parts: bytes = b"") -> Iterator[Workers | None]:
    """Workers for as long as the context lasts; None where `jobs` is None or 1: all is done in this
    process. Processes that a number asks for start with the first task and end with the context,
    however that ends. `parts`: those registered at run time, for `registry.unpack`.

    Raises MethodError E108, E501 without `distributed`, WorkerError E702 for a scheduler that does
    not answer.
    """
    check_jobs(jobs)
    if jobs is None or _is_one(jobs):
        yield None
        return
    workers = Workers(_crew(jobs), parts)
    try:
        yield workers
    finally:
        workers.close()


def scheduler_address(path: str) -> str:
    """The address in a file that `dask scheduler --scheduler-file` wrote. Raises WorkerError E702
    for a file without one."""
    try:
        with open(path, encoding="utf-8") as file:
            address = json.load(file)["address"]
    except OSError as error:
        raise unreachable(f"the scheduler of `{path}`", (error.strerror or "").lower()) from None
    except (ValueError, KeyError, TypeError):
        address = None
    if not isinstance(address, str) or not ADDRESS.fullmatch(address):
        raise unreachable(f"the scheduler of `{path}`", "the file holds no address")
    return address


def in_this_process(jobs: Jobs) -> bool:
    """Whether tasks see what is registered here: none are sent, or to threads."""
    return jobs is None or _is_one(jobs) or _is_threads(jobs)


def _is_one(jobs: Jobs) -> bool:
    return isinstance(jobs, int | np.integer) and jobs == 1


def _is_threads(jobs: Jobs) -> bool:
    if isinstance(jobs, int | np.integer | str):
        return False
    from concurrent.futures import ThreadPoolExecutor

    return isinstance(jobs, ThreadPoolExecutor)


def _crew(jobs: Any) -> Crew:
    if isinstance(jobs, int | np.integer):
        from lgmdsl.workers.pool import Pool

        return Pool(int(jobs))
    if isinstance(jobs, str):
        from lgmdsl.workers.cluster import connected

        return connected(jobs)
    if _is_client(jobs):
        from lgmdsl.workers.cluster import Cluster

        return Cluster(jobs, False)

    return GivenExecutor(jobs)


def _is_client(jobs: Jobs) -> bool:
    """A Dask Client, without an import of it."""
    return callable(getattr(jobs, "get_executor", None)) and hasattr(jobs, "scheduler_info")


# ---- given -------------------------------------------------------------------------------------
# An executor of the caller's: threads, MPI processes, loky's or Ray's pools.


class GivenExecutor:
    """An executor that somebody else made, and shuts down."""

    lost: tuple[type[BaseException], ...] = ()
    broken: tuple[type[BaseException], ...] = (BrokenExecutor,)
    shared = True
    cancels = True
    homes = False

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.name = f"the executor {type(executor).__name__}"

    @property
    def size(self) -> int:
        """Tasks at a time: what the executor says, or one a core."""
        for name in ("_max_workers", "num_workers", "max_workers"):
            count = getattr(self.executor, name, None)
            if isinstance(count, int) and count > 0:
                return count
        return os.cpu_count() or 1

    def submit(self, fn: Callable[..., Any], *args: Any, home: int | None = None) -> Any:
        """Begin `fn(*args)`, anywhere."""
        return self.executor.submit(fn, *args)

    def renew(self) -> bool:
        """No: it is the caller's."""
        return False

    def put(self, bundles: object) -> bool:
        """Whether bundles could be sent to all workers at once."""
        return False

    def close(self) -> None:
        """Nothing: its maker shuts it down."""
