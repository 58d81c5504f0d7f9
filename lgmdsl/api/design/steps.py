"""Checks of what a design is asked for: its score and its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lgmdsl.api.page import counted
from lgmdsl.errors import MethodError, suggestion
from lgmdsl.remedies import number


def check_score(score: str, known: Sequence[str]) -> None:
    """Raise MethodError E103 for a score that is not among those known."""
    if score not in known:
        message = suggestion(score, known, f"scores: {', '.join(known)}")
        raise MethodError.of("E103", f"unknown score `{score}`", help=message)


def check_counts(counts: Mapping[str, object]) -> None:
    """Raise MethodError E108 for what is no whole number from 1."""
    for name, value in counts.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            message = f"`{name}` must be a whole number from 1"
            raise MethodError.of("E108", message, details=(f"got {value!r}",), help=number(name, 1))


def check_steps(steps: int, number: int, word: str) -> None:
    """Raise MethodError E108 for more steps than there are candidates, each called `word`."""
    if steps > number:
        message = f"`steps` is {steps}, more than the {counted(number, word)}"
        if number == 1:
            message = f"`steps` is {steps}, and there is 1 {word}"
        raise MethodError.of("E108", message, help=f"ask for {number} at most")
