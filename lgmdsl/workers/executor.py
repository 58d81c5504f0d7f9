"""The seam: whatever takes a function and gives back a future."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable


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
