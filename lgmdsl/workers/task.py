"""What travels: tasks to workers, and their replies.

A task is a function that can be imported, small arguments, and bundles: what many tasks share (a
model with its data, site parameters), named by the sha256 of its bytes. A worker keeps bundles; one
that it lacks it asks for, and the task comes again with it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from lgmdsl.workers.refusals import unsendable


@dataclass(frozen=True)
class Bundle:
    """Bytes that are sent to each worker once, by their `digest` (a sha256 in hex)."""

    digest: str
    content: bytes = field(repr=False)

    @classmethod
    def of(cls, value: object) -> Bundle:
        """A value's. Raises MethodError E501 for one that cannot be pickled."""
        try:
            content = pickle.dumps(value, protocol=5)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise unsendable((str(error).splitlines() or [type(error).__name__])[0]) from error
        return cls(hashlib.sha256(content).hexdigest(), content)


@dataclass(frozen=True)
class Task:
    """`call(*values of bundles, *arguments)`; `name`: its subject in messages, as in `run 7`;
    `home`: tasks of one number go to one worker while there is one, which keeps what they need."""

    name: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    bundles: tuple[Bundle, ...] = ()
    home: int | None = None


@dataclass(frozen=True)
class Context:
    """What results depend on beyond the task: the memory `budget` (bytes) by which engines are
    chosen, how many `threads` BLAS takes, the digest of the `parts` registered at run time. `home`:
    the caller's process, which has all of this already."""

    budget: int
    threads: int
    parts: str
    home: tuple[str, int]


class Payload(NamedTuple):
    """A task as it is sent; `inline`: the bundles that come with it, by digest."""

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    digests: tuple[str, ...]
    inline: Mapping[str, bytes]
    context: Context


class Answer(Enum):
    """What a worker replies. The words cross, so that versions of lgmdsl understand each other."""

    DONE = "done"  # the pickled result
    RAISED = "raised"  # the pickled exception
    MISSING = "missing"  # digests
    VERSION = "version"  # its own
    MODULE = "module"  # what cannot be imported


Reply = tuple[str, Any]


@cache
def _host() -> str:
    return socket.gethostname()


def here() -> tuple[str, int]:
    """This process among all on all machines."""
    return _host(), os.getpid()


# ---- executor ----------------------------------------------------------------------------------
# The seam: whatever takes a function and gives back a future.


class Future(Protocol):
    """A result that is not there yet, as in `concurrent.futures`."""

    def result(self) -> Any:
        """The result, or the exception raised."""
        ...

    def cancel(self) -> bool:
        """Give it up, if it has not begun."""
        ...

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call `fn` with this future when it is done."""
        ...


@runtime_checkable
class Executor(Protocol):
    """An executor like those of `concurrent.futures`: ThreadPoolExecutor, ProcessPoolExecutor,
    those of `mpi4py.futures`, loky's pools and Dask's `Client.get_executor()`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Begin `fn(*args)` somewhere; a Future."""
        ...

    def shutdown(self, wait: bool = True) -> None:
        """Take no more."""
        ...


# What `jobs` takes: None (this process), a number of processes, the address of a Dask scheduler, a
# Dask Client, or an executor.
Jobs: TypeAlias = "int | str | Executor | Any | None"
