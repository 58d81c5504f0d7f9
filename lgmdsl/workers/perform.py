"""What a worker does with a task."""

from __future__ import annotations

import os
import pickle
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

from lgmdsl import __version__
from lgmdsl.memory import VARIABLE, budget
from lgmdsl.workers.task import Answer, Context, Payload, Reply, here

_LOCK = Lock()
_unpacked: set[str] = set()


def perform(version: str, *sent: bytes) -> Reply:
    """The reply to a task of a caller with some version of lgmdsl. `sent` is not opened where the
    versions differ: its classes may."""
    if version != __version__:
        return Answer.VERSION.value, __version__
    try:
        payload: Payload = pickle.loads(sent[0])
        context = payload.context
        at_home = context.home == here()
        wanted = payload.digests if at_home or not context.parts else _with(payload)
        values, missing = STORE.values(wanted, payload.inline)
    except ImportError as error:
        return Answer.MODULE.value, str(error)
    if missing:
        return Answer.MISSING.value, missing
    try:
        if not at_home:
            _as_at_home(context, values[len(payload.digests) :])
        result = payload.call(*values[: len(payload.digests)], *payload.arguments)
        return Answer.DONE.value, pickle.dumps(result, protocol=5)
    except Exception as error:  # noqa: BLE001  whatever it is, the caller raises it
        return Answer.RAISED.value, _pickled(error)


def _with(payload: Payload) -> tuple[str, ...]:
    return (*payload.digests, payload.context.parts)


def _as_at_home(context: Context, parts: list[Any]) -> None:
    """Let this process compute the caller's bits: its budget, parts and number of BLAS threads."""
    import scipy.linalg  # noqa: F401  its BLAS has to be here before threads are set

    from lgmdsl.inference.registry import load_entry_points, unpack
    from lgmdsl.numerics.blas_threads import adopt
    from lgmdsl.vocabulary.plugins import PluginWarning

    with _LOCK:
        os.environ[VARIABLE] = str(context.budget)
        adopt(context.threads)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)  # the caller has reported it
            load_entry_points()
        if context.parts and context.parts not in _unpacked:
            unpack(parts[0])
            _unpacked.add(context.parts)


def _pickled(error: Exception) -> bytes:
    error.add_note("in a worker:\n" + "".join(traceback.format_exception(error)))
    try:
        return pickle.dumps(error, protocol=5)
    except Exception:  # noqa: BLE001  a stranger's exception may not cross
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"), protocol=5)


# ---- store -------------------------------------------------------------------------------------
# What a worker keeps: the values of bundles by their digests, those used last.


SHARE = 0.25  # of the memory budget


class Store:
    """Values by digest; those that were not used for longest go where they are many."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._size = 0

    def put(self, digest: str, content: bytes) -> None:
        """Keep a bundle's value."""
        with self._lock:
            if digest not in self._values:
                self._values[digest] = pickle.loads(content), len(content)
                self._size += len(content)

    def values(
        self, digests: Sequence[str], inline: Mapping[str, bytes]
    ) -> tuple[list[Any], list[str]]:
        """The values of bundles, some of which have come with the task; and the digests of those
        that are not here."""
        for digest, content in inline.items():
            self.put(digest, content)
        with self._lock:
            missing = [d for d in dict.fromkeys(digests) if d not in self._values]
            found = [self._values[d][0] for d in digests] if not missing else []
            for digest in digests:
                if digest in self._values:
                    self._values.move_to_end(digest)
            self._forget(set(digests))
        return found, missing

    def drop(self, digests: Iterable[str]) -> None:
        """Forget some, where they are here."""
        with self._lock:
            for digest in digests:
                _, size = self._values.pop(digest, (None, 0))
                self._size -= size

    def _forget(self, wanted: set[str]) -> None:
        most = SHARE * budget()
        for digest in list(self._values):
            if self._size <= most:
                return
            if digest not in wanted:
                self._size -= self._values.pop(digest)[1]


STORE = Store()


def put(bundles: Mapping[str, bytes]) -> None:
    """Keep bundles in this process (sent to every worker of a cluster)."""
    for digest, content in bundles.items():
        STORE.put(digest, content)
