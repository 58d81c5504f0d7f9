"""What work costs in calls of functions: the same on a busy machine as on an idle one."""

from __future__ import annotations

from collections.abc import Callable
from cProfile import Profile


class Calls:
    """Calls of Python's functions, and of those in C that Python calls, while it is open."""

    def __enter__(self) -> Calls:
        self._profile = Profile()
        self._profile.enable()
        return self

    def __exit__(self, *_: object) -> None:
        self._profile.disable()

    @property
    def number(self) -> int:
        """How many, so far."""
        return sum(entry.callcount for entry in self._profile.getstats())


def calls(work: Callable[[], object]) -> int:
    """How many calls some work takes."""
    with Calls() as counted:
        work()
    return counted.number
