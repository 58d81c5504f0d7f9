"""Columns of a table that a matrix was made of, as they are or by contrasts of their levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.dataset.tables import Coding


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
        """Columns of the matrix that stand for the table's column."""
        return range(self.first, self.first + len(self.coding.labels))

    def entries(self, level: object) -> tuple[tuple[int, float], ...]:
        """The columns of the matrix and what they are in a row of a level, or of a number where the
        column is there as it is."""
        if not self.coding.kind:
            return ((self.first, float(str(level))),)
        level = str(level)
        return tuple(zip(self.places, self.coding.rows[level], strict=True))

    def level_at(self, place: int) -> str:
        """The level whose column is at a place of the matrix."""
        others = [v for v in self.coding.levels if v != self.coding.base]
        return others[place - self.first]

    def groups(self, rows: Array) -> tuple[IntArray, list[str] | list[float]]:
        """The group of each row of the matrix, (..., columns), by the levels or the distinct values
        of the column; and what these are."""
        if not self.coding.kind:
            known, places = np.unique(rows[..., self.first], return_inverse=True)
            return places.reshape(rows.shape[:-1]), known.tolist()
        levels = [*self.coding.levels]
        codes = np.array([self.coding.rows[level] for level in levels])
        part = rows[..., None, self.first : self.first + len(self.coding.labels)]
        return (part == codes).all(axis=-1).argmax(axis=-1), levels


def coded_columns(grounded: GroundedModel, matrix: str) -> list[Coded]:
    """The columns of a table that a matrix was made of, in their order; none of other data."""
    out, first = [], 0
    if len(grounded.model.symbols[matrix].dims) < 2:
        return []  # the contrast of two levels, which is 0 and 1
    for coding in grounded.codings.get(matrix, ()):
        out.append(Coded(matrix, first, coding))
        first += len(coding.labels)
    return out


def made_of(grounded: GroundedModel, column: str) -> list[str]:
    """The data that were made of a column of a table, which the model does not name."""
    known = grounded.codings.items()
    return [name for name, parts in known if column in {c.column for c in parts}]


def factors(grounded: GroundedModel, matrix: str) -> list[Coded]:
    """Columns of a table that a matrix was made of by contrasts."""
    return [c for c in coded_columns(grounded, matrix) if c.coding.kind]
