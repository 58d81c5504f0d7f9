"""The M-steps in closed form of hypers that do not enter the predictors linearly."""

from __future__ import annotations

from typing import Protocol

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.em.covariances import covariances
from lgmdsl.learning.em.noise import noises
from lgmdsl.learning.em.simplices import probabilities
from lgmdsl.learning.objective.log_posterior import Evaluation
from lgmdsl.learning.search.metric import Metric


class ClosedStep(Protocol):
    """The M-step of one hyper."""

    @property
    def name(self) -> str: ...

    def step(
        self, canonical: CanonicalModel, now: Evaluation, theta: Theta, stretch: float = 1.0
    ) -> Array | None:
        """Coordinates of the hyper at the maximum of the complete-data objective, at the q of `now`
        and the other hypers of `theta`, or `stretch` times as far; None where it has none."""

    def curvature(self, now: Evaluation) -> Array | Metric | None:
        """Minus the second derivatives of that objective in the coordinates, (k,) a diagonal or
        (k, k), or products with their inverse, about at its maximum; None where nobody knows."""


def closed_steps(
    canonical: CanonicalModel, coordinates: Coordinates, theta: Theta
) -> tuple[ClosedStep, ...]:
    """M-steps in closed form that the model has, in the order in which they are made."""
    return (
        *noises(canonical, coordinates, theta),
        *covariances(canonical, coordinates),
        *probabilities(canonical, coordinates),
    )
