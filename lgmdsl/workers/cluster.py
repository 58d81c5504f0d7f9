"""Workers of a Dask cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from typing import Any

from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.workers.refusals import too_large, unreachable
from lgmdsl.workers.store import put

PATIENCE = 10.0  # seconds that a scheduler has to answer
RECENT = 2.0  # seconds that the number of workers is believed
GUESS = 4  # tasks at a time, while a cluster has no workers yet


class Cluster:
    """The workers that a Dask client reaches. `own`: whether the client ends with the work."""

    shared = False  # the scheduler blames a task by itself
    cancels = True

    def __init__(self, client: Any, own: bool) -> None:
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        self.client, self.own = client, own
        self.executor = client.get_executor(pure=False)
        self.name = f"the scheduler {client.scheduler.address}"
        self.broken: tuple[type[BaseException], ...] = (KilledWorker,)
        self.lost: tuple[type[BaseException], ...] = (
            CancelledError, FutureCancelledError, OSError, RuntimeError, TimeoutError,
        )  # fmt: skip
        self._counted = (-RECENT, GUESS)

    @property
    def size(self) -> int:
        """Threads of all workers."""
        when, count = self._counted
        if time.monotonic() - when > RECENT:
            count = sum(self.client.nthreads().values()) or GUESS
            self._counted = time.monotonic(), count
        return count

    def submit(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Begin `fn(*args)` on one of them."""
        import dask

        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
            return self.executor.submit(fn, *args)

    def renew(self) -> bool:
        """The scheduler has new workers by itself."""
        return True

    def put(self, bundles: Mapping[str, bytes]) -> bool:
        """Send bundles to the workers that there are, each once. Raises WorkerError E701 for what
        no worker has room for: a nanny would end one after another while it arrives."""
        needed = 2 * sum(map(len, bundles.values()))  # as it arrives, and as it is kept
        room = self._room()
        if room and needed > room:
            raise too_large(needed, room)
        self.client.run(put, bundles, on_error="ignore")
        return True

    def _room(self) -> int:
        """Bytes that every worker may take; 0 where none has a limit."""
        known = self.client.scheduler_info()["workers"].values()
        return min((int(w["memory_limit"]) for w in known if w["memory_limit"]), default=0)

    def close(self) -> None:
        """Leave the cluster, which goes on."""
        self.executor.shutdown(wait=False)
        if self.own:
            self.client.close()


def connected(address: str) -> Cluster:
    """The cluster of a scheduler at `tcp://host:8786` or `tls://...`.

    Raises MethodError E501 without `distributed`, WorkerError E702 where nothing answers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise MethodError(
            Diagnostic(
                "E501",
                f"workers at `{address}` need the package `distributed`",
                help="pip install 'lgmdsl[cluster]'",
            )
        ) from None
    try:
        made: Any = Client  # it has no types
        return Cluster(made(address, timeout=PATIENCE, set_as_default=False), True)
    except (OSError, TimeoutError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise unreachable(f"a scheduler at `{address}`", reason) from None
