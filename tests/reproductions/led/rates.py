"""Errors of sparse models of LED digits over rates of the graphical lasso: Khan 2012, figure 4.10.

    python -m tests.reproductions.led.rates [--splits 10]

puts the points that `rates.csv` lacks into it, each when it is there, the cheap bounds first. Of
each split and bound the rates next to the best one are tried, until the best lies between two that
are worse. 10 % of the cases for learning, 50 % for testing, a fifth of these to choose a rate by.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from lgmdsl.arrays import Array
from tests.reproductions.led.digits import BOUNDS, bits, digits, learned, sparse, split
from tests.reproductions.record import table

FOLDER = Path(__file__).parent
SHARED = FOLDER.parents[2].parent / "shared"
# Of the lasso on the precision.
RATES = (0.1, 0.3, 1.0, 3.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0, 2560.0, 5120.0)
FIRST = {"B": 3.0, "J": 10.0, "Q20": 320.0}  # where a search over them begins


@dataclass(frozen=True)
class Point:
    """`choice`, `error`: bits of the fifth by which a rate is chosen, and of the others; `zeros`:
    share of the precision's entries off its diagonal; `variance`: the largest."""

    split: int
    bound: str
    rate: float
    choice: float
    error: float
    zeros: float
    variance: float
    seconds: float


def of_split(y: Array, number: int) -> tuple[Array, Array, Array]:
    """Cases for learning and testing, and the entries held out."""
    return split(y, number, 0.1, 0.5)


def point(y: Array, number: int, short: str, rate: float) -> Point:
    """One fit, and two shares of the test cases."""
    train, test, out = of_split(y, number)
    asked, bound = sparse(rate), BOUNDS[short]
    began = time.process_time()
    fit = learned(asked, {"y": train}, bound)
    seconds = time.process_time() - began
    held = len(test) // 5
    choice, error = (
        bits(asked, fit, bound, {}, test[k], out[k]) for k in (slice(held), slice(held, None))
    )
    s, q = np.asarray(fit.theta["S"]), np.asarray(fit.precision("S").values)
    zeros = float(np.mean(q[~np.eye(len(q), dtype=bool)] == 0.0))
    return Point(number, short, rate, choice, error, zeros, float(s.max()), seconds)


def points() -> list[Point]:
    """Those of `rates.csv`."""
    path = FOLDER / "rates.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        return [Point(int(k), b, *map(float, rest)) for k, b, *rest in list(csv.reader(lines))[1:]]


def keep(found: Sequence[Point]) -> None:
    header = [f.name for f in fields(Point)]
    table(FOLDER, header, sorted(map(astuple, found)), name="rates", digits=5)


def missing(tried: Sequence[Point], first: float) -> float | None:
    """The rate to try next of one split and bound: `first`, then the neighbours of the best by its
    `choice`; None where these are there, or the grid ends."""
    if not tried:
        return first
    known = {p.rate for p in tried}
    k = RATES.index(min(tried, key=lambda p: p.choice).rate)
    return next((r for r in RATES[max(k - 1, 0) : k + 2] if r not in known), None)


def of_bound(found: Sequence[Point], number: int, short: str) -> list[Point]:
    return [p for p in found if (p.split, p.bound) == (number, short)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    given, y = parser.parse_args(), digits(SHARED)
    for short, first in FIRST.items():
        for number in range(given.splits):
            while (rate := missing(of_bound(points(), number, short), first)) is not None:
                keep([*points(), point(y, number, short, rate)])


if __name__ == "__main__":
    main()
