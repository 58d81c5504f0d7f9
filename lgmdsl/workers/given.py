"""An executor of the caller's: threads, MPI processes, loky's or Ray's pools."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import Any

from lgmdsl.workers.executor import Executor


class Given:
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
