"""Coordinates whose best value is the edge of their range, such as a noise sd of 0.

Near it evidence + log prior is linear in the natural value h = lower + e^x: its slope in x is what
is left to gain, and falls like e^x, or e^2x farther out. A search in x takes steps of 1 for ever,
until the evidence is rounding alone, since factorisations beside an sd of 0 hold few digits. The
value is moved instead to where about LEFT nats are left, and stays while the others are searched.
Steps that gain much, but each about the same share of what is left, are no better (a covariance of
400 next to a noise sd: 724 nats in seven steps, still 28 in seven 50 steps later): where the slope
falls about like e^2x from one step to the next, the value is moved at once. It stays there if the
slope is what that law promises; where the maximum is inside, its sign is another.
At the end it goes on to where CLOSEST are left, if the digits of the evidence show what that gains;
where they show less, a maximum is inside after all, and the search goes on in all coordinates.

Where the density of a prior has no bound at an end (`pc_cor1` at 1, gamma of a shape below 1 at 0)
and the evidence is flat on the way there, there is no maximum, and the search ends.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.status import Status
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.numerics.optimisation.lbfgs import Iterate

# Logs and logits this far beyond their start, whose slope outwards is no more than NEAR nats.
FAR, NEAR, LEFT = 3.0, 0.5, 1e-3
# What is left to go, in units of a coordinate, at which a maximum inside is near.
SHORT = 0.45
CLOSEST = 1e-6
# Those that far beyond their start are moved at once where minus the log of the ratio of slopes
# over the step is in LAW, up to EARLY times in vain.
SOON, LAW, EARLY = 1.0, (1.2, 3.0), 3
FALSE = 0.03  # of the promised slope: less may be that of a maximum inside
EARNED = (0.5, 2.5)  # share of what a slope promises that the last move must gain: of e^2x, or e^x
SHOWN = 1e4  # times the rounding of an evidence: a difference that is none of it
BACK = (1.0, 2.0, 4.0, 8.0, 16.0)  # how far back one is tried that gains inwards after all
AHEAD = 1.0  # how much farther out a density must not have fallen to be at an edge
STUCK = 1e-6  # of a value, that a unit of its coordinate moves it by: it is at its end
# A density without a bound has a slope that stays: at least LEAST nats per unit, and PERSISTS of it
# BEYOND farther out. The evidence is flat where its slope is less than IDLE of that.
LEAST, PERSISTS, BEYOND, IDLE = 0.05, 0.9, 4.0, 0.05


@dataclass(frozen=True, eq=False)
class Edges:
    """`held`: (d,) the coordinates that are not searched, at an edge or `pinned`: those that stay
    where the search begins; `inside`: those that were tried at an edge in vain; `vain`: how many
    were moved at once in vain."""

    held: BoolArray
    inside: BoolArray
    pinned: BoolArray
    vain: int = 0

    @classmethod
    def none(cls, size: int, pinned: Collection[int] = ()) -> Edges:
        """No coordinate at an edge yet."""
        kept = np.zeros(size, dtype=bool)
        kept[list(pinned)] = True
        return cls(kept, np.zeros(size, dtype=bool), kept)

    @property
    def reached(self) -> BoolArray:
        """(d,) the coordinates held at an edge."""
        return self.held & ~self.pinned

    def masked(self, gradient: Array) -> Array:
        """The gradient in the coordinates that are searched."""
        return np.where(self.held, 0.0, gradient)

    def near(self, objective: Objective, at: Evaluation) -> BoolArray:
        """(d,) those on their way to an edge that are not at it yet."""
        away, slope = at.x - objective.origin, at.gradient
        close = (np.abs(away) > FAR) & (away * slope > 0.0) & (np.abs(slope) <= NEAR)
        return np.asarray(close & objective.coordinates.ending & ~self.held & ~self.inside)

    def bound_for(self, objective: Objective, last: Evaluation, at: Evaluation) -> BoolArray:
        """(d,) logs whose slope, from the `last` step to this, says that the objective is linear in
        the square of the value all the way to 0."""
        slope, step = at.gradient, at.x - last.x
        free = (objective.coordinates.logs == 1.0) & objective.coordinates.ending & ~self.held
        out = free & ~self.inside & (step < 0.0) & (slope < -NEAR) & (last.gradient < slope)
        out &= at.x < objective.origin - SOON
        if self.vain >= EARLY or not out.any():
            return np.zeros_like(out)
        with np.errstate(all="ignore"):
            power = np.log(slope / last.gradient) / step
        return np.asarray(out & (power > LAW[0]) & (power < LAW[1]))

    def at_once(
        self, objective: Objective, last: Evaluation, at: Evaluation, ahead: Array | None = None
    ) -> tuple[Edges, Evaluation | None]:
        """Move coordinates that are `bound_for` 0 there at once, if slopes and values agree
        there; `ahead`: as in `tried`."""
        bound = _left(self.bound_for(objective, last, at), ahead)
        if not bound.any():
            return self, None
        found = self._moved(objective, at, bound)
        if found is not None and found.value > at.value:
            slope = found.gradient[bound]
            if ((slope < -FALSE * LEFT) & (slope > -2.0 * LEFT)).all():
                beyond = objective.at(found.x - np.where(bound, AHEAD, 0.0), found.posterior)
                if beyond is None or beyond.value >= found.value - 2.0 * LEFT:
                    return replace(self, held=self.held | bound), found
        return replace(self, vain=self.vain + 1), None

    def _moved(self, objective: Objective, at: Evaluation, which: BoolArray) -> Evaluation | None:
        """The fit where about LEFT nats are left in each of some coordinates."""
        length = 0.5 * np.log(np.maximum(np.abs(at.gradient), LEFT) / LEFT)
        x = at.x + np.where(which, np.sign(at.gradient) * length, 0.0)
        return objective.at(x, at.posterior)

    def tried(
        self, objective: Objective, at: Evaluation, ahead: Array | None = None
    ) -> tuple[Edges, Evaluation | None]:
        """Move coordinates `near` an edge to it, if evidence + log prior agrees; else keep them
        `inside`. `ahead`: (d,) how far from here the maximum is, where that is known: towards an
        edge it stays far."""
        near = _left(self.near(objective, at), ahead)
        if not near.any():
            return self, None
        found = self._moved(objective, at, near)
        if found is None or found.value < at.value:
            return replace(self, inside=self.inside | near), None
        there = near & (np.abs(found.gradient) <= 2.0 * LEFT)
        if there.any():
            # A maximum inside looks the same from close by, but farther out the density falls.
            outwards = np.where(there, np.sign(at.gradient) * AHEAD, 0.0)
            beyond = objective.at(found.x + outwards, found.posterior)
            if beyond is not None and beyond.value < found.value - 2.0 * LEFT:
                return replace(self, inside=self.inside | near), None
        return replace(self, held=self.held | there), found

    def released(self, objective: Objective, at: Evaluation) -> tuple[Edges, Evaluation | None]:
        """One that is held but gains inwards, now that the others are at their best: free, and
        moved to the best of a few places on the way back."""
        away = at.x - objective.origin
        inwards = self.reached & (away * at.gradient < -0.1 * LEFT * np.abs(away))
        for j in np.flatnonzero(inwards):
            best = at
            for length in BACK:
                x = at.x.copy()
                x[j] -= np.sign(away[j]) * min(length, abs(away[j]))
                found = objective.at(x, best.posterior)
                if found is None or found.value < best.value:
                    break
                best = found
            if best.value > at.value + LEFT:
                one = np.arange(len(at.x)) == j
                return replace(self, held=self.held & ~one, inside=self.inside | one), best
        return self, None

    def closer(self, objective: Objective, at: Evaluation) -> tuple[Edges, Evaluation | None]:
        """Evaluation with held coordinates moved to where CLOSEST nats are left: at LEFT they make
        nested models differ, and show an sd of 0 as one of a few thousandths. None where that gains
        something else than the slopes promise: less, though digits would show it, has a maximum
        inside after all, for which the coordinates are free; else it is rounding."""
        away, slope = at.x - objective.origin, np.abs(at.gradient)
        outwards = self.reached & (away * at.gradient > 0.0) & (slope > CLOSEST)
        if not outwards.any():
            return self, None
        length = 0.5 * np.log(np.maximum(slope, CLOSEST) / CLOSEST)
        found = objective.at(at.x + np.where(outwards, np.sign(away) * length, 0.0), at.posterior)
        if found is None or found.run.status is not Status.converged:
            return self, None
        promised = 0.5 * float(slope[outwards].sum())
        least, most = EARNED
        earned = found.value - at.value
        if least * promised <= earned <= most * promised:
            return self, found
        digits = max(at.rounding, found.rounding, np.finfo(float).eps * abs(at.value))
        if promised < SHOWN * digits:
            return self, None
        return replace(self, held=self.held & ~outwards, inside=self.inside | outwards), None

    def boundless(self, objective: Objective, at: Evaluation) -> BoolArray:
        """(d,) those on their way to an end where the density of their prior has no bound, which
        the evidence does not keep them from: there is no maximum."""
        space, coordinates = objective.planned.canonical.hypers, objective.coordinates
        away = at.x - np.clip(at.x, *objective.spanned)
        way = np.sign(away)
        far = (coordinates.logs * np.abs(away) > FAR) & coordinates.alone & ~self.held
        out = np.zeros(len(way), dtype=bool)
        if not (far & (way * at.gradient > LEAST)).any():
            return out

        def outwards(x: Array) -> Array:
            slopes = space.log_prior(coordinates.unpack(x), objective.pinned.keys())[1]
            return np.asarray(way * coordinates.pull(slopes, x))

        slope = outwards(at.x)
        flat = np.abs(way * at.gradient - slope) <= IDLE * slope
        for j in np.flatnonzero(far & flat & (slope >= LEAST)):
            ahead = at.x.copy()
            ahead[j] += way[j] * BEYOND / coordinates.logs[j]
            with np.errstate(all="ignore"):
                out[j] = outwards(ahead)[j] >= PERSISTS * slope[j]
        return out

    def pressed(self, objective: Objective, at: Evaluation) -> BoolArray:
        """(d,) those held, and those that the objective presses against the end of their range, the
        value being the end but for rounding, which is where the search ended."""
        coordinates, out = objective.coordinates, self.reached
        pressed = ((at.x - objective.origin) * at.gradient > 0.0) & coordinates.alone
        pressed &= ~self.pinned
        if not pressed.any():
            return out
        further = coordinates.unpack(at.x + np.sign(at.gradient))
        for name, own in coordinates.slices.items():
            value = np.ravel(at.theta[name])
            if len(value) == own.stop - own.start:
                change = np.abs(np.ravel(further[name]) - value)
                out[own] |= pressed[own] & (change <= STUCK * np.abs(value))
        return out


def _left(some: BoolArray, ahead: Array | None) -> BoolArray:
    """(d,) the coordinates among `some` that have more than SHORT to go; all where it is unknown
    how far."""
    return some if ahead is None else np.asarray(some & (ahead > SHORT))


def projected(now: Iterate[Evaluation], held: BoolArray) -> tuple[tuple[Array, Array, float], ...]:
    """The pairs of a search without the coordinates that are held, as far as they curve."""
    kept = []
    for s, y, _ in now.pairs:
        step, change = np.where(held, 0.0, s), np.where(held, 0.0, y)
        product = float(step @ change)
        if product > 1e-14 * math.sqrt(float(step @ step) * float(change @ change)):
            kept.append((step, change, 1.0 / product))
    return tuple(kept)
