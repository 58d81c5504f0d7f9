"""Profile-likelihood intervals of hyperparameters: where the maximum over all others has fallen.

    l_p(v) = max over all other coordinates of evidence + log prior, the one being v
    zeta(v) = sign(v - v^) sqrt(2 (l(v^) - l_p(v))),   ends where zeta = -z and z

z is the normal quantile: 1.96 for a level of 0.95, so that 2 (l - l_p) is at the chi-square
quantile of one degree of freedom (Venzon and Moolgavkar 1988). Under flat priors l is the log
likelihood. The signed root zeta is close to linear in v (Bates, Maechler, Bolker and Walker 2015,
section 5.1), and its slope is known at each maximum: -l_j / zeta, with the partial derivative l_j,
since those of the others vanish there. Newton's steps on zeta end within a few maximisations.

A one-to-one function of a value has the same function of its interval, so the coordinates (logs,
logits) are as good as the values. Those of covariances are log sds and atanh of correlations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.status import Status
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.maximise import NOISE, Maximiser
from lgmdsl.learning.starts.from_data import real_units

# Maximisations for one end, and how far zeta may be from z there: an end is then off by 3e-6 of an
# interval of level 0.95.
MAX_MAXIMA, ZETA_TOLERANCE = 40, 1e-5
# Units of a log or logit that a step takes at most, and beyond which the value is the end of its
# range but for 1e-4 of it. Of another coordinate: times the last distance that the next may be
# away, and times its first.
LONGEST_STEP, EDGE_DISTANCE, GROWTH, FARTHEST_SDS = 2.0, 10.0, 4.0, 1e3
# Least curvature of a log or logit that is not at an end of its range, and how far one that is is
# moved inwards before others are held elsewhere: its slope at the end is below what is climbed for.
EDGE_CURVATURE, INWARDS = 1e-3, 3.0
FARTHEST_START = 5.0  # units of a log or logit from the maximum, of a maximisation's start


class Reached(Enum):
    """How a search for an end of an interval ended."""

    ROOT = "the profile has fallen far enough at"
    EDGE = "the profile has not fallen far enough at the end of the range,"
    OPEN = "the profile has not fallen far enough up to"
    HIGHER = "the profile rises above the maximum at"
    STOPPED = "a maximisation did not converge beyond"


@dataclass(frozen=True, eq=False)
class ProfileEnd:
    """One end of an interval in a coordinate, on a `side` (-1 or 1): `x` (d,) all coordinates
    there, or as far as the profile was followed; `why`: of a maximisation that did not converge."""

    side: float
    reached: Reached
    x: Array
    why: str = ""


@dataclass(frozen=True, eq=False)
class _Place:
    """A maximum with one coordinate pinned: its distance `away` from the overall maximum, zeta and
    its slope in that distance."""

    at: Evaluation
    away: float
    zeta: float
    slope: float


@dataclass(frozen=True, eq=False)
class Profile:
    """Profiles about a maximum. `search`: of the objective, without its Jacobian; `top`: the fit at
    the maximum; `hessian`: (d, d) there; `at_edge`: (d,) -1 or 1 for the end of its range that a
    coordinate is at, else 0."""

    search: Maximiser
    top: Evaluation
    hessian: Array
    at_edge: Array

    @classmethod
    def about(cls, objective: Objective, top: Evaluation) -> Profile | None:
        """Profiles about the fit at a maximum; None without a curvature there."""
        search = Maximiser(objective, jacobian=False)
        objective.scales = real_units(objective, top, 0.0)
        hessian = search.hessian(top, objective.units(top.x))
        if hessian is None or not np.isfinite(hessian).all():
            return None
        flat = objective.coordinates.scaled & (-np.diag(hessian) < EDGE_CURVATURE)
        at_edge = np.where(flat, np.where(top.gradient >= 0.0, 1.0, -1.0), 0.0)
        objective.origin = top.x - 2.0 * INWARDS * at_edge
        objective.span(objective.origin)
        return cls(search, top, hessian, at_edge)

    @property
    def objective(self) -> Objective:
        """What is maximised."""
        return self.search.objective

    def interval(self, j: int, level: float) -> tuple[ProfileEnd, ProfileEnd]:
        """Lower and upper end of the interval of a level in (0, 1) of coordinate j."""
        target = float(special.ndtri(0.5 + 0.5 * level))
        lower, upper = (self._end(j, side, target) for side in (-1.0, 1.0))
        return lower, upper

    def _end(self, j: int, side: float, target: float) -> ProfileEnd:
        """Newton's steps on the signed root, within the bracket that is known."""
        top, scaled = self.top, bool(self.objective.coordinates.scaled[j])
        if self.at_edge[j] == side:
            return ProfileEnd(side, Reached.EDGE, top.x)
        inside, outside = _Place(top, 0.0, 0.0, math.inf), math.inf
        tangent = self._tangent(j)
        away = target * math.sqrt(max(tangent[j], 0.0))
        if scaled:
            away = min(away, LONGEST_STEP) or LONGEST_STEP
            farthest = (
                EDGE_DISTANCE * (1.0 + abs(self.at_edge[j])) / self.objective.coordinates.logs[j]
            )
        else:
            away = away or float(self.objective.units(top.x)[j])
            farthest = FARTHEST_SDS * away
        for _ in range(MAX_MAXIMA):
            place, why = self._at(j, side, away, inside, tangent)
            if place is None and why:
                return ProfileEnd(side, Reached.STOPPED, inside.at.x, why)
            if place is None:  # there is no fit so far out
                outside = away
                away = 0.5 * (inside.away + outside)
                if outside - inside.away < ZETA_TOLERANCE * outside:
                    break
                continue
            if place.at.value > top.value + NOISE:
                return ProfileEnd(side, Reached.HIGHER, place.at.x)
            if abs(place.zeta - target) <= ZETA_TOLERANCE:
                return ProfileEnd(side, Reached.ROOT, place.at.x)
            if place.zeta < target:
                if away >= farthest:
                    edge = scaled and self._has_end(j, side)
                    return ProfileEnd(side, Reached.EDGE if edge else Reached.OPEN, place.at.x)
                inside = place
            else:
                outside = away
            step = (target - place.zeta) / place.slope if place.slope > 0.0 else math.inf
            away = self._next(place.away + step, inside.away, outside, scaled, farthest)
        return ProfileEnd(side, Reached.OPEN, inside.at.x)

    def _next(
        self, wanted: float, inside: float, outside: float, scaled: bool, farthest: float
    ) -> float:
        """Where Newton's step leads, or the middle of the bracket where that is outside of it."""
        if math.isfinite(outside):
            return wanted if inside < wanted < outside else 0.5 * (inside + outside)
        most = inside + LONGEST_STEP if scaled else GROWTH * inside
        return min(wanted if inside < wanted < most else most, farthest)

    def _has_end(self, j: int, side: float) -> bool:
        """Whether the range of a log or logit ends on a side: logs have an end below alone."""
        natural = self.objective.coordinates.natural
        far = self.top.x + side * EDGE_DISTANCE * np.eye(len(self.top.x))[j]
        farther = far + side * EDGE_DISTANCE * np.eye(len(self.top.x))[j]
        values = natural(np.array([self.top.x, far, farther]), self.top.theta)[:, j]
        return bool(abs(values[2] - values[1]) < abs(values[1] - values[0]))

    def _tangent(self, j: int) -> Array:
        """(d,) column j of the inverse information: the direction in which others follow."""
        free = self.at_edge == 0.0
        free[j] = True
        where = np.flatnonzero(free)
        inner = -self.hessian[np.ix_(where, where)]
        unit = np.zeros(len(where))
        unit[np.searchsorted(where, j)] = 1.0
        out = np.zeros(len(self.top.x))
        try:
            out[where] = np.linalg.solve(inner, unit)
        except np.linalg.LinAlgError:
            out[j] = 1.0 / max(float(-self.hessian[j, j]), 1e-300)
        return out

    def _at(
        self, j: int, side: float, away: float, inside: _Place, tangent: Array
    ) -> tuple[_Place | None, str]:
        """The maximum with coordinate j pinned so far away on a side; None where there is no fit,
        and why its search ended early, if it did."""
        x0 = self.top.x
        if inside.away > 0.0:
            line = x0 + (inside.at.x - x0) * (away / inside.away)
        else:
            line = x0 + tangent * (side * away / tangent[j] if tangent[j] > 0.0 else 0.0)
        # On the way to an end of its range another coordinate would be extrapolated without end.
        scaled, logs = self.objective.coordinates.scaled, self.objective.coordinates.logs
        most = np.where(scaled, FARTHEST_START / np.maximum(logs, 1.0), np.inf)
        line = np.clip(line, x0 - most, x0 + most) - INWARDS * self.at_edge
        first: Evaluation | None = None
        for start in (line, inside.at.x, x0):
            x = start.copy()
            x[j] = x0[j] + side * away
            first = self.objective.at(x, inside.at.posterior)
            if first is not None:
                break
        if first is None:
            return None, ""
        found = replace(self.search, pinned=(j,)).run(first)
        if found.status is Status.interrupted:
            raise KeyboardInterrupt
        if found.status is not Status.converged:
            return None, found.reason or found.status.value
        fallen = max(self.top.value - found.at.value, 0.0)
        zeta = math.sqrt(2.0 * fallen)
        slope = -side * float(self.search.gradient(found.at)[j])
        return _Place(found.at, away, zeta, slope / zeta if zeta > 0.0 else math.inf), ""
