"""How hyperparameters are learned: what is asked for, and what a fit keeps of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lgmdsl.learning.search.maximise import LearningStep


@dataclass(frozen=True)
class LearningOptions:
    """How hyperparameters are learned. `design` of an integration (`auto`: by their number), None
    to maximise. `acceleration` of EM (l-bfgs, squarem or none), None for L-BFGS alone, where no
    prior has corners (a graphical lasso). `batch`: rows and epochs of mini-batches before either.
    `steps`: the most that the search takes, EM's included, if it was said. `errors`: hypers, or
    entries of them, that get standard errors where there are too many for all to have them."""

    design: str | None = None
    acceleration: str | None = None
    batch: tuple[int, int] | None = None
    steps: int | None = None
    errors: tuple[str, ...] = ()

    def of(self, way: str) -> LearningOptions:
        """Options of one way: the design of `integrate`, the acceleration and batches of `em`."""
        out = self if way == "integrate" else replace(self, design=None)
        return out if way == "em" else replace(out, acceleration=None, batch=None)


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
