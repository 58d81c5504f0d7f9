"""Levels of a covariate, and which of them are compared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """A value that the covariate is set to: `value` in all rows, or the row's own and `shift`.
    `column`: of a matrix; None of a covariate with one axis. `entries`: of several columns, which
    are one level of a factor together."""

    column: int | None
    value: float | None = None
    shift: float = 0.0
    entries: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Comparison:
    """The response at level `high` against the mean of those at `low` (none: alone), over
    `divisor`. `words`: of the difference, and of the ratio."""

    term: str
    words: tuple[str, str]
    high: int
    low: tuple[int, ...]
    divisor: float = 1.0
