"""What a worker keeps: the values of bundles by their digests, those used last."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

from lgmdsl.memory import budget

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
