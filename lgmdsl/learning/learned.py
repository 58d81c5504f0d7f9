"""What was learned of the hyperparameters: their mode, the curvature there, and the integral."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.inference.driver import Run
from lgmdsl.inference.stages import Ran
from lgmdsl.learning.coordinates.hyper_marginals import HyperMarginals
from lgmdsl.learning.coordinates.standardised import Standardised
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.integration.asymptotic import Asymptotic, Chosen, ModeOnly
from lgmdsl.learning.integration.checkpoint import Checkpoint
from lgmdsl.learning.integration.integrate import Integrated
from lgmdsl.learning.integration.visited import Fitted
from lgmdsl.learning.objective.log_posterior import Evaluation
from lgmdsl.learning.search.learning_record import Learning
from lgmdsl.learning.search.maximise import Maximum

# What follows a search, and may be interrupted.
ERRORS, INTEGRATION = "standard errors", "integration"


@dataclass(frozen=True, eq=False)
class Learned:
    """`start`: (d,) the coordinates that searches are centred on; `maximum` of the posterior
    density: of the hyperparameters (map) or of their coordinates (integrate); `frame`: None without
    a curvature; `others`: further modes that matter; `calls`: fits made, of `iterations` steps;
    `idle`: loadings that vanished; `cut_short`: what was interrupted after the search, ERRORS or
    INTEGRATION, or "": all is conditional on the mode; `conflict`: hypers and latents far out in
    their priors, and `alone`: nats below the maximum where other searches ended, if none ended as
    high; `checkpoint`: what an integration can go on from; `chosen`: of the coordinates that
    standard errors were asked for; `vanished`: those at an end where latents are 0 and nothing else
    happens; `stages`: what ran, in its order."""

    start: Array
    maximum: Maximum
    coordinates: Coordinates
    frame: Standardised | None
    integrated: Integrated | None
    calls: int
    iterations: int
    idle: tuple[str, ...] = ()
    others: tuple[Evaluation, ...] = ()
    cut_short: str = ""
    conflict: tuple[str, ...] = ()
    alone: tuple[float, ...] = ()
    checkpoint: Checkpoint | None = None
    chosen: Standardised | None = None
    vanished: tuple[int, ...] = ()
    stages: tuple[Ran, ...] = ()

    @property
    def modes(self) -> tuple[Evaluation, ...]:
        """All that were found, the highest first."""
        return (self.mode, *self.others)

    @property
    def mode(self) -> Evaluation:
        return self.maximum.at

    @property
    def theta(self) -> Theta:
        return self.mode.theta

    @property
    def run(self) -> Run:
        """The fit at the mode."""
        return self.mode.run

    @property
    def of_fit_alone(self) -> bool:
        """Whether the status is that of the fit, not of the search or of the integration."""
        found_mode = self.maximum.status is Status.converged
        return found_mode and self.status is self.run.status

    @property
    def status(self) -> Status:
        """The search's, unless the fit at the mode itself did not converge, or the integration was
        interrupted, or has no integral to show that holds."""
        if self.cut_short:
            return Status.interrupted
        if self.maximum.status is not Status.converged:
            return self.maximum.status
        if self.integrated is not None and not self.integrated.holds:
            return Status.stalled
        return self.mode.run.status

    def evidence(self, log_evidence: float, guarantee: Guarantee) -> tuple[float, Guarantee]:
        """Log evidence of the fit as a whole, with its guarantee, from those at the mode; NaN where
        the density has not fallen off, so that its integral is unknown."""
        integrated = self.integrated
        if integrated is None:
            return log_evidence, guarantee
        # An integral by a rule over bounds or exact evidences is an approximation.
        return integrated.log_evidence if integrated.bounded else math.nan, Guarantee.APPROXIMATE

    @property
    def points(self) -> tuple[tuple[Fitted, float], ...]:
        """The fits that the posterior is a mixture of, and their weights; none at a mode."""
        return () if self.integrated is None else self.integrated.points

    def marginals(self) -> HyperMarginals:
        """The posterior of the hyperparameters."""
        if self.integrated is not None:
            return self.integrated.posterior
        if self.frame is None and self.chosen is not None:
            return Chosen(self.coordinates, self.theta, self.chosen)
        if self.frame is None:
            return ModeOnly(self.coordinates, self.theta)
        return Asymptotic(self.coordinates, self.theta, self.frame)

    def record(self) -> Learning:
        """How it was found."""
        integrated = self.integrated
        return Learning(
            self.maximum.steps,
            self.calls,
            self.iterations,
            integrated.design if integrated else "",
            len(integrated.points) if integrated else 1,
            integrated.modes if integrated else 1,
        )
