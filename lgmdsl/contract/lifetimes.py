"""What families of lifetimes answer in addition: their survivor function, to its last digits."""

from __future__ import annotations

from abc import ABC, abstractmethod

from lgmdsl.arrays import Array


class Lifetimes(ABC):
    """Families with a survivor function of their own: 1 - cdf loses the digits of a small one."""

    @abstractmethod
    def log_survival_at(self, s: Array) -> Array:
        """log P(Y > y | s), (N,), whatever was observed of the row and from when; 0 at y = 0."""
