"""The file a design writes as it goes: a line for each query and each block, and at the end the
site weights from which the next block starts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lgmdsl.acquisition.sequence import BlockEnd, Query
from lgmdsl.api.record import Lines
from lgmdsl.contract.engine import Rows
from lgmdsl.dataset import Keys
from lgmdsl.errors import DataError

SOURCES = ("data", "candidates", "oracle", "test")


@dataclass(frozen=True)
class DesignTask:
    """What a design is. `text` and `name` are the model's; the rest as in `design`."""

    text: str
    name: str
    data: Any
    candidates: Any
    oracle: Any
    test: Any
    mapping: Keys | None
    fixed: Mapping[str, object] | None
    score: str
    steps: int
    block: int
    outer: int
    seed: int


@dataclass(frozen=True)
class CoursePoint:
    """After `included` inclusions: the lower bound on the log evidence of the labels there are,
    and the share of wrong test cases (None without test cases)."""

    included: int
    log_evidence: float
    test_error: float | None


class DesignRecord:
    """Queries, points, and the weights after the first `settled` queries (None before a block has
    ended): on disk, or nowhere where `path` is None."""

    def __init__(self, path: str | os.PathLike[str] | None, task: DesignTask) -> None:
        # More steps of the same design go on from those there are.
        self.lines = Lines(path, "design", task, hashed=SOURCES, free=("steps", "name"))
        self.block = task.block
        self.queries: list[Query] = []
        self.points: dict[int, CoursePoint] = {}
        self.settled = 0
        self.weight: Rows | None = None
        try:
            for row in self.lines.rows:
                self._take(row)
        except (KeyError, TypeError, ValueError):
            raise DataError(self.lines.unusable("holds a line that is of no design")) from None
        numbers = [q.number for q in self.queries]
        if numbers != [*range(1, len(numbers) + 1)] or self.settled > len(numbers):
            raise DataError(self.lines.unusable("lacks the line of a query"))

    def query(self, query: Query) -> None:
        """Keep one more query; it is on disk when this returns."""
        self.queries.append(query)
        self.lines.append(asdict(query))

    def point(self, point: CoursePoint, refit: BlockEnd | None = None) -> None:
        """Keep the end of a block, and where the next one starts if the block is a whole one."""
        self.points[point.included] = point
        if refit is not None and point.included % self.block == 0:
            self.settled, self.weight = point.included, refit.weight
        self.lines.replace(self._rows())

    def _rows(self) -> Iterable[Mapping[str, Any]]:
        for query in self.queries:
            yield asdict(query)
        for point in self.points.values():
            yield asdict(point)
        if self.weight is not None:
            yield {"settled": self.settled, "weight": [w.tolist() for w in self.weight]}

    def _take(self, row: Mapping[str, Any]) -> None:
        if "number" in row:
            self.queries.append(Query(**row))
        elif "included" in row:
            point = CoursePoint(**row)
            self.points[point.included] = point
        else:
            self.settled = int(row["settled"])
            self.weight = tuple(np.array(w, dtype=np.float64) for w in row["weight"])
