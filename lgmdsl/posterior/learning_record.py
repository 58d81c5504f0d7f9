"""What a fit keeps of how its hyperparameters were learned."""

from __future__ import annotations

from dataclasses import dataclass

from lgmdsl.learning.search.maximise import LearningStep


@dataclass(frozen=True)
class Learning:
    """`steps`: the search for the mode; `fits` and `iterations`: fits made in all and their steps;
    `design`: of the integration, with `points` of weight around `modes` of the density; empty where
    there was none, or where it was interrupted."""

    steps: tuple[LearningStep, ...]
    fits: int
    iterations: int
    design: str
    points: int
    modes: int = 1
