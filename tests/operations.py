"""What work costs in calls of functions: the same on a busy machine as on an idle one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


class Calls:
    """Calls of Python's functions, and of those in C that Python calls, while it is open."""

    def __init__(self) -> None:
        self.number = 0

    def __enter__(self) -> Calls:
        self.before = sys.getprofile()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self.before)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        self.number += event in ("call", "c_call")


def calls(work: Callable[[], object]) -> int:
    """How many calls some work takes."""
    with Calls() as counted:
        work()
    return counted.number
