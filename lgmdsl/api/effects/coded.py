"""Columns of a table that a matrix has by contrasts of their levels."""

from __future__ import annotations

from dataclasses import dataclass

from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.dataset.codings import Coding


@dataclass(frozen=True)
class Coded:
    """A column of a table in a matrix: `first` is the place of its first column there."""

    matrix: str
    first: int
    coding: Coding

    @property
    def name(self) -> str:
        """How it is asked for."""
        return f"{self.matrix}[{self.coding.column}]"

    @property
    def places(self) -> range:
        """Its columns of the matrix."""
        return range(self.first, self.first + len(self.coding.labels))

    def entries(self, level: str) -> tuple[tuple[int, float], ...]:
        """The columns of the matrix and what they are in a row of a level."""
        return tuple(zip(self.places, self.coding.rows[level], strict=True))

    def level_at(self, place: int) -> str:
        """The level whose column is at a place of the matrix."""
        others = [v for v in self.coding.levels if v != self.coding.base]
        return others[place - self.first]


def coded_columns(grounded: GroundedModel, matrix: str) -> list[Coded]:
    """The columns of a table that a matrix was made of, in their order; none of other data."""
    out, first = [], 0
    for coding in grounded.codings.get(matrix, ()):
        out.append(Coded(matrix, first, coding))
        first += len(coding.labels)
    return out


def factors(grounded: GroundedModel, matrix: str) -> list[Coded]:
    """Those by contrasts."""
    return [c for c in coded_columns(grounded, matrix) if c.coding.kind]
