"""A first point at which every observation is possible, where some site's support depends on s.

Rows outside are pulled to a point inside (their family gives it by slope and curvature there, see
`Property.LIMITED`) with a weight that doubles from round to round; rows that left are held until
they are past that point; all others are held weakly where they are. Each round conditions the
engine once.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.joint import SumsOfRows
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property

ROUNDS = 80
WEAK = 1e-6  # weight of what is inside, in units of its curvature
OUTSIDE = "no latents were found for which every row lies within the support of its family"


def possible(problem: Problem, s: Rows) -> bool:
    """Whether the density of every row is positive at s."""
    limited = [Property.LIMITED in site.spec.properties for site in problem.sites]
    if not any(limited):
        return True
    values = problem.log_density(s)
    return not any(
        bool(np.isneginf(value).any()) for value, some in zip(values, limited, strict=True) if some
    )


def within(problem: Problem, s: Rows) -> tuple[Rows, Rows] | None:
    """(s, alpha) at which every row is possible, from s; None where none was found. Sums over rows
    say of no row whether it is."""
    if any(isinstance(site, SumsOfRows) for site in problem.sites):
        return None
    pulls = [_Pull(len(x)) for x in s]
    for _ in range(ROUNDS):
        weight, slope = [], []
        for site, answer, x, pull in zip(problem.sites, problem.answers, s, pulls, strict=True):
            assert isinstance(answer, Pointwise)
            a = answer.pointwise(x)
            held = WEAK * rows.absolute(np.clip(a.curvature, -1e12, 1e12))
            if Property.LIMITED not in site.spec.properties:
                weight.append(held)
                slope.append(np.zeros_like(x))
                continue
            pull.update(np.isneginf(a.value), -a.curvature, a.slope, x)
            weight.append(np.where(pull.active, pull.weight, np.maximum(held, WEAK)))
            slope.append(np.where(pull.active, pull.weight * (pull.target - x), 0.0))
        q = problem.engine.condition(tuple(weight), rows.shift_of(tuple(slope), tuple(weight), s))
        if isinstance(q, Failed):
            return None
        s = q.mean
        if possible(problem, s):
            return s, rows.slope_of(q.shift, q.weight, q.mean)
    return None


class _Pull:
    """What draws the rows of one block inside."""

    def __init__(self, count: int) -> None:
        self.weight, self.target, self.side = np.zeros((3, count))
        self.active = np.zeros(count, dtype=np.bool_)

    def update(self, outside: BoolArray, stiffness: Array, slope: Array, s: Array) -> None:
        """Update from what the rows answer at s."""
        safe = np.where(outside, stiffness, 1.0)
        self.target = np.where(outside, s + slope / safe, self.target)
        self.side = np.where(outside, np.sign(slope), self.side)
        self.weight = np.where(outside, np.maximum(2.0 * self.weight, safe), self.weight)
        behind = (self.weight > 0.0) & ((self.target - s) * self.side > 0.0)
        self.active = np.asarray(outside | behind, dtype=np.bool_)
