"""The numbers of the factors that are alive, within a share of the memory budget.

A search keeps posteriors where it began and where it stands, each with a factor. Beyond the share
the least recently used give up their numbers, and make them again, to the same digits, when they
are asked for something.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from weakref import WeakKeyDictionary

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.memory import budget
from lgmdsl.numerics.sparse.base import Symbolic

SHARE = 0.25  # of the budget, for the panels of all factors and those ready to be used again


class Numbers:
    """The panel of one factor, None once it was given up."""

    __slots__ = ("panel",)

    def __init__(self, panel: Array) -> None:
        self.panel: Array | None = panel


_alive: OrderedDict[int, Numbers] = OrderedDict()  # the least recently used first
# A panel of a factor that is gone: fresh memory costs as much time as the arithmetic.
_spare: WeakKeyDictionary[Symbolic, Array] = WeakKeyDictionary()
_lock = threading.RLock()  # of which a collection of garbage may come upon itself


def blank(symbolic: Symbolic, size: int) -> Array:
    """A panel to be written to."""
    with _lock:
        panel = _spare.pop(symbolic, None)
        if panel is None:
            _make_room(8.0 * size)
    return np.empty(size) if panel is None else panel


def use(numbers: Numbers) -> None:
    """Note that a factor is in use."""
    with _lock:
        _alive[id(numbers)] = numbers
        _alive.move_to_end(id(numbers))


def give_back(symbolic: Symbolic, numbers: Numbers) -> None:
    """Take back the panel of a factor that is gone."""
    with _lock:
        _alive.pop(id(numbers), None)
        panel, numbers.panel = numbers.panel, None
        if panel is not None:
            _spare[symbolic] = panel


def held() -> int:
    """Bytes of all panels."""
    with _lock:
        alive = (n.panel for n in list(_alive.values()))
        return sum(p.nbytes for p in (*alive, *list(_spare.values())) if p is not None)


def _make_room(wanted: float) -> None:
    """The latest factor in use keeps its panel in any case: where two take turns, neither would be
    there when it is asked."""
    most = SHARE * budget()
    while _spare and held() + wanted > most:
        _spare.popitem()
    while len(_alive) > 1 and held() + wanted > most:
        _, oldest = _alive.popitem(last=False)
        oldest.panel = None
