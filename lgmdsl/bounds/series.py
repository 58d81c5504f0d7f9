"""Series of bounds: one for each number of pieces, made when its name is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lgmdsl.contract.bound import Bound


@dataclass(frozen=True)
class BoundSeries:
    """Bounds called `stem-R` for R from `fewest` to `most`."""

    stem: str
    fewest: int
    most: int
    make: Callable[[int], Bound]

    def __str__(self) -> str:
        return f"{self.stem}-R (R from {self.fewest} to {self.most})"

    @property
    def middle(self) -> int:
        """The number of pieces of the example."""
        return self.most // 2

    @property
    def example(self) -> Bound:
        """One member: what it gives, and what it applies to, holds for all."""
        return self.make(self.middle)

    def member(self, name: str) -> Bound | None:
        """The bound of that name, None where the name is not of this series."""
        stem, _, size = name.rpartition("-")
        if stem != self.stem or not (size.isascii() and size.isdigit() and len(size) < 4):
            return None
        if str(int(size)) != size or not self.fewest <= int(size) <= self.most:
            return None
        return self.make(int(size))
