"""How far an integration came: its mode and its fits, from which a later one goes on.

The mode, the curvature there and every fit that was made are kept as they are, so that the points
of the design are the same to the last bit and none is fitted twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.status import Status
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.integration.visited import Fitted, Known
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.maximise import LearningStep, Maximum


@dataclass(frozen=True, eq=False)
class Search:
    """What the search for the mode left: the objective's centre, `spanned` starts, units and
    largest rounding, and what the search found out on its way."""

    centre: Array
    spanned: tuple[Array, Array]
    scales: Array
    roughest: float
    refined: bool
    edges: tuple[int, ...]
    conflict: tuple[str, ...]
    alone: tuple[float, ...]

    @classmethod
    def of(
        cls,
        objective: Objective,
        maximum: Maximum,
        conflict: tuple[str, ...],
        alone: tuple[float, ...],
    ) -> Search:
        """Record of the search by an objective whose mode was found."""
        assert objective.roughest is not None, "there were fits"
        return cls(
            objective.origin,
            objective.spanned,
            objective.scales,
            objective.roughest,
            objective.refined,
            maximum.edges,
            conflict,
            alone,
        )


@dataclass(frozen=True, eq=False)
class Point:
    """One fit, at coordinates x (d,)."""

    x: Array
    density: float
    gradient: Array
    log_evidence: float
    converged: bool
    weight: Rows
    shift: Rows

    @classmethod
    def of(cls, x: Array, fitted: Fitted) -> Point:
        """What a file needs of a fit at x."""
        return cls(
            x,
            fitted.density,
            fitted.density_gradient,
            fitted.log_evidence,
            fitted.converged,
            fitted.weight,
            fitted.shift,
        )

    def fitted(self, coordinates: Coordinates) -> Fitted:
        """The fit again."""
        return Fitted(
            coordinates.unpack(self.x),
            self.density,
            self.gradient,
            self.log_evidence,
            self.weight,
            self.shift,
            self.converged,
        )


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """`mode` (d,) and `hessian` (d, d) of the density of the coordinates there; `others` (k, d),
    further modes, with `curved` (k, d, d), NaN where their Hessians are not known; `points`: the
    fits; `steps`: of the search for the mode."""

    mode: Array
    hessian: Array
    others: Array
    curved: Array
    search: Search
    points: tuple[Point, ...]
    steps: tuple[LearningStep, ...] = ()

    def known(self, coordinates: Coordinates) -> Known:
        """Fits and Hessians by their places, as `Visited` looks them up."""
        return Known(
            {p.x.tobytes(): p.fitted(coordinates) for p in self.points},
            {
                x.tobytes(): h
                for x, h in zip(self.others, self.curved, strict=True)
                if np.isfinite(h).all()
            },
        )

    def resumed(
        self, objective: Objective, warm: GaussianPosterior | None
    ) -> tuple[Maximum, tuple[Evaluation, ...]] | None:
        """The mode, and the others, fitted again from `warm`, the posterior at the mode; None where
        that is no fit any more. The objective is as the search left it."""
        if len(self.mode) != objective.coordinates.size:
            return None
        search = self.search
        objective.origin, objective.spanned = search.centre, search.spanned
        objective.scales, objective.roughest = search.scales, search.roughest
        if search.refined:
            objective.refine()
        mode = objective.at(self.mode, warm)
        if mode is None or mode.run.status is not Status.converged:
            return None
        others = [objective.at(x, mode.posterior) for x in self.others]
        steps = self.steps or (LearningStep(0, mode.density, 0.0, objective.calls),)
        known = tuple(o for o in others if o is not None)
        maximum = Maximum(
            mode,
            Status.converged,
            steps,
            lambda: np.ones(len(self.mode)),
            self.hessian,
            edges=search.edges,
        )
        return maximum, known


def checkpoint(
    objective: Objective,
    maximum: Maximum,
    others: tuple[Evaluation, ...],
    made: Known,
    conflict: tuple[str, ...],
    alone: tuple[float, ...],
) -> Checkpoint | None:
    """What an integration has so far; None where its mode is not known."""
    hessian = maximum.hessian
    if hessian is None or maximum.status is not Status.converged or maximum.away:
        return None
    places = [
        (np.frombuffer(key, dtype=np.float64), fitted) for key, fitted in list(made.fits.items())
    ]
    size = len(maximum.at.x)
    further = [o.x for o in others if (o.x != maximum.at.x).any()]
    unknown = np.full((size, size), np.nan)
    return Checkpoint(
        maximum.at.x,
        hessian,
        np.array(further).reshape(-1, size),
        np.array([made.hessians.get(x.tobytes(), unknown) for x in further]).reshape(
            -1, size, size
        ),
        Search.of(objective, maximum, conflict, alone),
        tuple(Point.of(x, fitted) for x, fitted in places),
    )
