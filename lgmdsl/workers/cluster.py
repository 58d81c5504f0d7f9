"""Workers of a Dask cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from threading import Lock
from typing import Any

from lgmdsl.errors import MethodError
from lgmdsl.workers.perform import put
from lgmdsl.workers.refusals import too_large, unreachable, without_certificate

PATIENCE = 10.0  # seconds that a scheduler has to answer
RECENT = 2.0  # seconds that the number of workers is believed
ENCRYPTED = ("tls://", "wss://")
GUESS = 4  # tasks at a time, while a cluster has no workers yet


class Cluster:
    """The workers that a Dask client reaches. `own`: whether the client ends with the work."""

    shared = False  # the scheduler blames a task by itself
    cancels = True
    homes = True

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
        self._known: tuple[float, dict[str, int]] = (-RECENT, {})
        self._homes: dict[int, str] = {}
        self._at: dict[str, Any] = {}
        self._lock = Lock()

    @property
    def size(self) -> int:
        """Threads of all workers."""
        return sum(self._threads().values()) or GUESS

    def _threads(self) -> dict[str, int]:
        """Threads of each worker by its address, at most `RECENT` seconds old."""
        when, threads = self._known
        if time.monotonic() - when > RECENT:
            threads = dict(self.client.nthreads())
            self._known = time.monotonic(), threads
        return threads

    def submit(self, fn: Callable[..., Any], *args: Any, home: int | None = None) -> Any:
        """Begin `fn(*args)` on one of them: of a `home` on the same one, while it lives."""
        import dask

        executor = self.executor if home is None else self._home(home)
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
            return executor.submit(fn, *args)

    def _home(self, home: int) -> Any:
        """The executor of the worker that a home is. One that is new, or whose worker has ended, is
        the worker that is home to the fewest. (The scheduler takes another one where it has ended
        since, or has much to do.)"""
        with self._lock:
            threads = self._threads()
            if not threads:
                return self.executor
            if self._homes.get(home) not in threads:
                counts = Counter(self._homes.values())
                self._homes[home] = min(sorted(threads), key=lambda a: counts[a] / threads[a])
            address = self._homes[home]
            if address not in self._at:
                self._at[address] = self.client.get_executor(
                    pure=False, workers=[address], allow_other_workers=True
                )
            return self._at[address]

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
        for executor in (self.executor, *self._at.values()):
            executor.shutdown(wait=False)
        if self.own:
            self.client.close()


def connected(address: str) -> Cluster:
    """The cluster of a scheduler at `tcp://host:8786` or `tls://...`.

    Certificates for TLS are those of Dask's configuration.

    Raises MethodError E501 without `distributed`, WorkerError E702 where nothing answers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise MethodError.of(
            "E501",
            f"workers at `{address}` need the package `distributed`",
            help="pip install 'lgmdsl[cluster]'",
        ) from None
    try:
        made: Any = Client  # it has no types
        if address.startswith(ENCRYPTED) and not _certified():
            raise without_certificate(f"a scheduler at `{address}`")
        return Cluster(made(address, timeout=PATIENCE, set_as_default=False), True)
    except (OSError, TimeoutError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise unreachable(f"a scheduler at `{address}`", reason) from None


def _certified() -> bool:
    """Whether Dask's configuration names certificates. Raises OSError for files that are no such
    thing, or not there."""
    from distributed import Security

    security: Any = Security  # it has no types
    return security().get_connection_args("client")["ssl_context"] is not None
