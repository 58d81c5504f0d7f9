"""What a process holds: the shards that it has read, and what was made for them last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Protocol, TypeVar
from weakref import ref

from lgmdsl.memory import budget

HELD = 0.5  # of the memory budget, for the rows of shards that a worker keeps
K = TypeVar("K")
V = TypeVar("V")


class Readable(Protocol):
    """What can be read again. `series`: the fit and folder that it is of, whose shards are asked
    one after the other, over and over."""

    @property
    def series(self) -> object: ...

    def forget(self) -> None: ...


class Shelf:
    """The shards that a process holds, for as long as somebody has their sources.

    Where they are too large together, those of other series go first, those that were not asked for
    longest before the others. Of one series it is the one that was asked just before: a question
    goes to all shards in turn, and if those of long ago went, none would be there when its turn
    comes.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: OrderedDict[int, tuple[ref[Readable], float]] = OrderedDict()

    def put(self, source: Readable, size: float) -> None:
        """Note that one was asked, and give up others where they are too large together."""
        with self._lock:
            self._held = OrderedDict((k, v) for k, v in self._held.items() if v[0]() is not None)
            self._held[id(source)] = ref(source), size
            self._held.move_to_end(id(source))
            while len(self._held) > 1 and self._total > HELD * budget():
                known, _ = self._held.pop(self._next(source))
                old = known()
                if old is not None:
                    old.forget()

    def drop(self, source: Readable) -> None:
        """Give one up."""
        with self._lock:
            self._held.pop(id(source), None)
            source.forget()

    def _next(self, asked: Readable) -> int:
        """The one to give up, which is not the one that is asked."""
        rest = list(self._held.items())[:-1]
        for key, (known, _) in rest:
            old = known()
            if old is None or old.series != asked.series:
                return key
        return rest[-1][0]

    @property
    def _total(self) -> float:
        return sum(size for _, size in self._held.values())


SHELF = Shelf()


def kept(known: OrderedDict[K, V], key: K, most: int, make: Callable[[], V]) -> V:
    """What was made for a key; of all, those asked last are kept."""
    if key not in known:
        made = make()
        while len(known) >= most:
            known.popitem(last=False)
        known[key] = made
    known.move_to_end(key)
    return known[key]
