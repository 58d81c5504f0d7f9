"""Back ends whose rounds are a map of (W, b) without memory: its derivative is their rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.problem import Problem

# (W, b) after one round from (W, b).
Round: TypeAlias = Callable[[Problem, Rows, Rows], tuple[Rows, Rows] | Failed]


@runtime_checkable
class Iterated(Protocol):
    """A back end that converges linearly, at the rate that its round's derivative says."""

    def rounds(self) -> Mapping[str, Round]:
        """Rounds of the back end by name, its own first, then variants with the same fixed
        point."""
