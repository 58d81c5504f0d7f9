"""Which shards a process holds."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lgmdsl.memory import budget
from lgmdsl.shards import shelf
from lgmdsl.shards.shelf import Shelf


@dataclass(eq=False)
class Shard:
    """One that counts how often it is read."""

    series: str
    there: bool = False
    reads: int = 0

    def forget(self) -> None:
        self.there = False

    def asked(self, on: Shelf, size: float) -> None:
        self.reads += not self.there
        self.there = True
        on.put(self, size)


@pytest.fixture
def third() -> float:
    """A size of which two have room."""
    return 0.4 * shelf.HELD * budget()


def test_of_shards_asked_in_turn_those_that_have_room_stay(third: float) -> None:
    """Were those of long ago given up, none would be there when its turn comes: 30 reads."""
    on, shards = Shelf(), [Shard("a") for _ in range(3)]
    for _ in range(10):
        for one in shards:
            one.asked(on, third)
            assert sum(s.there for s in shards) <= 2
    assert sum(s.reads for s in shards) <= 17


def test_shards_of_another_fit_go_first(third: float) -> None:
    on, old, new = Shelf(), [Shard("a"), Shard("a")], [Shard("b"), Shard("b")]
    for one in (*old, *new, *new, *new):
        one.asked(on, third)
    assert [s.reads for s in new] == [1, 1] and not any(s.there for s in old)


def test_one_that_nobody_has_any_more_takes_no_room(third: float) -> None:
    on, stays = Shelf(), Shard("a")
    stays.asked(on, third)
    Shard("a").asked(on, third)
    for _ in range(3):
        Shard("a").asked(on, third)
    assert stays.there
