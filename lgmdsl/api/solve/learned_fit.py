"""A fit with the posterior of its hyperparameters: marginals and mixture points."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from lgmdsl.api.solve.recondition import point_of
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.inference.driver import Run
from lgmdsl.inference.stages import Ran
from lgmdsl.learning.coordinates.hyper_marginals import HyperMarginals
from lgmdsl.learning.integration.checkpoint import Checkpoint
from lgmdsl.learning.integration.visited import Fitted
from lgmdsl.learning.search.learning_record import Learning
from lgmdsl.posterior.hyper_points import HyperPoint

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord


class LearnedHypers(Protocol):
    """Hyperparameters as they were learned: a mode with its curvature, an integral, or factors."""

    @property
    def theta(self) -> Theta:
        """The hyperparameters that the fit shows, and is conditional on where one q(z) is all."""

    @property
    def run(self) -> Run:
        """The fit at theta."""

    @property
    def status(self) -> Status:
        """The status of the whole search."""

    @property
    def of_fit_alone(self) -> bool:
        """Whether the status is that of the fit at theta, and not of a search for theta."""

    @property
    def points(self) -> tuple[tuple[Fitted, float], ...]:
        """The fits that the posterior is a mixture of, with their weights; none for one q(z)."""

    def evidence(self, log_evidence: float, guarantee: Guarantee) -> tuple[float, Guarantee]:
        """Log evidence of the whole, with its guarantee, from the fit's at theta."""

    def marginals(self) -> HyperMarginals:
        """The posterior of the hyperparameters."""

    def record(self) -> Learning:
        """How they were found."""

    @property
    def stages(self) -> tuple[Ran, ...]:
        """What ran to find them, in its order; none of ways that are one search."""

    @property
    def checkpoint(self) -> Checkpoint | None:
        """What an integration that was interrupted goes on from; None of other ways."""


def with_hypers(fit: FitRecord, learned: LearnedHypers, way: str) -> FitRecord:
    """The fit at theta as one of all hyperparameters; `way`: map, em, integrate or vb."""
    log_evidence, guarantee = learned.evidence(fit.log_evidence, fit.guarantee)
    return replace(
        fit,
        hyper=way,
        log_evidence=log_evidence,
        guarantee=guarantee,
        hyper_marginals=learned.marginals(),
        mixed=tuple(_point(fit, fitted, share) for fitted, share in learned.points),
        learning=learned.record(),
    )


def _point(fit: FitRecord, fitted: Fitted, share: float) -> HyperPoint:
    return point_of(fit, fitted.theta, share, fitted.log_evidence, fitted.weight, fitted.shift)
