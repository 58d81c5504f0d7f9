"""Learning the hyperparameters of a plan: the mode, the curvature there and, if wanted, the
integral."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.status import Status
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import Plan
from lgmdsl.learning.coordinates import Coordinates
from lgmdsl.learning.integrate import Integrated, default_design, integrate
from lgmdsl.learning.maximise import RUNAWAY, LearningStep, Maximiser, Maximum
from lgmdsl.learning.objective import Evaluation, Objective
from lgmdsl.learning.standardised import Standardised, standardised

# More hyperparameters than this get no standard errors by differences of gradients.
STANDARD_ERRORS = 50
# Starts that are tried where the first has no fit: all coordinates moved by this much.
MOVES = (-1.0, 1.0, -2.5, 2.5)


@dataclass(frozen=True, eq=False)
class Learned:
    """`start`: (d,) the coordinates where the search began; `maximum` of the posterior density: of
    the hyperparameters (map) or of their coordinates (integrate); `frame`: None without a
    curvature; `calls`: fits made, of `iterations` steps."""

    start: Array
    maximum: Maximum
    coordinates: Coordinates
    frame: Standardised | None
    integrated: Integrated | None
    calls: int
    iterations: int

    @property
    def mode(self) -> Evaluation:
        return self.maximum.at

    @property
    def found_mode(self) -> bool:
        return self.maximum.status is Status.converged

    @property
    def status(self) -> Status:
        """The search's, unless the fit at the mode itself did not converge."""
        if self.maximum.status is Status.converged:
            return self.mode.run.status
        return self.maximum.status


def learn(
    planned: Plan,
    fixed: Mapping[str, object],
    tolerances: Tolerances,
    max_steps: int | None = None,
    warm: GaussianPosterior | None = None,
    integration: str | None = None,
    on_step: Callable[[LearningStep], None] | None = None,
    seed: int = 0,
) -> Learned:
    """Maximise; integrate where `integration` names a design (`auto`: by their number).

    Raises NumericalError E601 where there is no fit at the start nor near it, or where there is
    nothing to integrate because a hyperparameter runs away.
    """
    space = planned.canonical.hypers
    coordinates = Coordinates(space, fixed)
    objective = Objective(planned, coordinates, fixed, tolerances, max_steps, seed)
    first = _first(objective, warm)
    size = coordinates.size
    search = Maximiser(objective, jacobian=integration is not None)
    maximum = search.run(first, on_step)
    if maximum.status is not Status.interrupted and (integration or size <= STANDARD_ERRORS):
        maximum = search.polished(search.climbed(search.with_curvature(maximum)))
    frame, found = None, None
    stopped = maximum.status is Status.interrupted
    if integration is not None and objective.beyond(maximum.at.x, RUNAWAY):
        raise NumericalError(_runaway(maximum.at, objective))
    if maximum.hessian is not None or (integration is not None and not stopped):
        frame = standardised(maximum.at.x, maximum.hessian)
    if integration is not None and frame is not None and not stopped:
        design = default_design(size) if integration == "auto" else integration
        try:
            found = integrate(objective, maximum.at, frame, design)
        except KeyboardInterrupt:
            maximum = replace(maximum, status=Status.interrupted, reason="interrupted")
    return Learned(first.x, maximum, coordinates, frame, found, objective.calls, objective.steps)


def _runaway(at: Evaluation, objective: Objective) -> Diagnostic:
    away = np.abs(at.x - objective.origin) * objective.coordinates.scaled
    j = int(away.argmax())
    name = objective.coordinates.names[j]
    value = np.ravel(at.theta[name])[0] if name in at.theta else np.exp(at.x[j])
    return Diagnostic(
        "E601",
        f"nothing to integrate: the posterior density of `{name}` still rises at {value:.3g}",
        help="give it a prior that keeps it on the scale of the data, or pin it: "
        f"--set {name}=VALUE",
    )


def _first(objective: Objective, warm: GaussianPosterior | None) -> Evaluation:
    x = objective.origin
    for move in (0.0, *MOVES):
        found = objective.at(x + move, warm)
        if found is not None:
            return found
    names = ", ".join(objective.coordinates.names[:6])
    raise NumericalError(
        Diagnostic(
            "E601",
            f"method `{objective.planned.method}` found no usable state at any start of {names}",
            help="pin the hyperparameters (--set NAME=VALUE) to see where it can start",
        )
    )
