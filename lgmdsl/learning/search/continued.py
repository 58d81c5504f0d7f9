"""Steps of a search that goes on where another ended, numbered as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from lgmdsl.learning.search.maximise import LearningStep

OnStep = Callable[[LearningStep], None]


def numbered(steps: Iterable[LearningStep], done: int) -> tuple[LearningStep, ...]:
    """The steps with `done` before them."""
    return tuple(replace(step, step=step.step + done) for step in steps)


def reporting(on_step: OnStep | None, done: int, first: int = 1) -> OnStep:
    """What reports the steps of a search with `done` before them, from its step `first` on: step 0
    is where the earlier search ended."""

    def report(step: LearningStep) -> None:
        if on_step is not None and step.step >= first:
            on_step(replace(step, step=step.step + done))

    return report
