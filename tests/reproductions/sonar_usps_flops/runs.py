"""Courses of coordinate ascent and of Opper and Archambeau's form on sonar and USPS: Khan 2012,
section 3.6.2.

    python -m tests.reproductions.sonar_usps_flops.runs

puts the courses that `courses.csv` lacks into it, each when it has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from tests.reproductions.courses import SOLVERS, Course, keep, kept
from tests.reproductions.flops import NAMES, run, standardised, title

FOLDER = Path(__file__).parent
SHARED = FOLDER.parents[2].parent / "shared"
SHOWN = [(-1.0, -1.0), (-1.0, 2.5), (1.0, 1.0), (3.5, 3.5)]  # (log s, log sd) of figure 3.1


@dataclass(frozen=True)
class DataSet:
    """`rows`: how many, at random. `budget`: CPU seconds of a run."""

    name: str
    file: str
    rows: int
    standardise: bool
    budget: float

    def read(self, shared: Path) -> tuple[Array, BoolArray]:
        with np.load(shared / "data" / self.file) as file:
            X, y = np.asarray(file["X"], dtype=float), np.asarray(file["y"]) > 0
        pick = np.random.default_rng(0).permutation(len(X))[: self.rows]
        return (standardised(X) if self.standardise else X)[pick], y[pick]

    def __len__(self) -> int:
        return self.rows

    @property
    def head(self) -> str:
        return f"{self.name}, "


# 80 % of 208 rows; of 1,540 as many as section 4.7 learns from.
SONAR = DataSet("sonar", "sonar.npz", 166, standardise=True, budget=60.0)
USPS = DataSet("usps", "usps_3v5.npz", 767, standardise=False, budget=100.0)
DATA = (SONAR, USPS)


def computed(of: DataSet, at: tuple[float, float], name: str, shared: Path) -> Course:
    return run(at, name, of.read(shared), of.budget)


def main() -> None:
    for of in DATA:
        for at in SHOWN:
            for name in NAMES:
                if (of.head + title(*at), name) not in kept(FOLDER):
                    found = computed(of, at, name, SHARED)
                    keep(FOLDER, of.head + title(*at), SOLVERS[name], found)


if __name__ == "__main__":
    main()
