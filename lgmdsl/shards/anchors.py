"""Where the search for the groups' modes begins: points that a question names, so that its answer
is the same whoever gives it.

    (A,)      the modes at A, found from the prior's mean; the question's are found from them
    (A, X)    the modes at X found from those at A; the question's are found from those at X

A worker that has neither finds both, and then the answer, with the same bits. No question names
more: who is new to a shard makes two more searches at most. A is kept for many problems, and X for
the questions of one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta

# Passes over the rows that a search from a near point takes: one at where it is expected, and one
# where that leads.
NEAR = 2
FIRST = 2  # questions of a problem that are asked from A


class Point(NamedTuple):
    """Hyperparameters, and shared latents (p,); or, for averages over these, their mean and
    `covariance`, laid out as `Eliminated.information`, and the question that rows then answer."""

    theta: Theta
    beta: Array
    covariance: Array | None = None
    question: type | None = None


Near = tuple[Point, ...]


def point_key(point: Point) -> bytes:
    """Key of a point: the same for points that are alike, short where a covariance is long."""
    key = b"".join(
        name.encode() + np.asarray(point.theta[name], dtype=np.float64).tobytes()
        for name in sorted(point.theta)
    )
    key += point.beta.tobytes()
    if point.covariance is None:
        return key
    return key + hashlib.sha256(point.covariance.tobytes()).digest() + repr(point.question).encode()


@dataclass(eq=False)
class Anchors:
    """The A of a fit. `cold`: passes of a search from the prior's mean; `excess`: passes beyond
    `few` that questions from A have taken since it is A; `highest`: of the fits that a search has
    come to, the largest log posterior."""

    current: Point | None = None
    cold: int = 0
    excess: int = 0
    highest: float = -np.inf
    _lock: Any = field(default_factory=Lock, repr=False)

    def begun(self, point: Point) -> Near:
        """From where to ask at a point, in a problem that was asked nothing yet: A, which is the
        first point of all."""
        with self._lock:
            if self.current is None:
                self.current = point
                return ()
            return (self.current,)

    def noted(self, near: Near, passes: int, few: int = NEAR) -> None:
        """The passes that a question has taken, the most of any shard; `few`: from nearby."""
        with self._lock:
            if not near:
                self.cold = max(self.cold, passes)
            elif len(near) == 1:
                self.excess += max(passes - few, 0)

    def reached(self, point: Point, value: float) -> None:
        """A search has come to a fit: the next A, if it is the highest so far and A has cost more
        than a search from the prior's mean. Searches say so one after the other, never while fits
        are made together, so that all questions are the same whatever ends first."""
        with self._lock:
            if value < self.highest:
                return
            self.highest = value
            if self.current is not None and self.excess >= self.cold:
                self.current, self.excess = point, 0


@dataclass(eq=False)
class Path:
    """From where the questions of one problem are asked, one after the other. The first ones move
    far, and are asked from A, until one was near it; those that follow are asked from the last of
    them, X, until one has moved far from it. `few`: passes that a search from nearby takes."""

    anchors: Anchors
    theta: Theta
    few: int = NEAR
    question: type | None = None
    _first: Near | None = None
    _from: Point | None = None
    _left: int = FIRST
    _known: dict[bytes, Near] = field(default_factory=dict)

    def near(self, beta: Array, covariance: Array | None = None) -> Near:
        """From where to ask at beta, (p,), or with the covariance of a `Point`: as before where it
        was asked before."""
        key = point_key(Point({}, beta, covariance, self.question))
        known = self._known.get(key)
        if known is None:
            kept = None if covariance is None else covariance.copy()
            known = self._known[key] = self._new(
                Point(self.theta, beta.copy(), kept, self.question)
            )
        return known

    def noted(self, near: Near, passes: int) -> None:
        """The passes that a question has taken."""
        self.anchors.noted(near, passes, self.few)
        if len(near) == 2 and passes > self.few:
            self._left = 1
        elif len(near) == 1 and passes <= self.few:
            self._left = 0

    def _new(self, point: Point) -> Near:
        if self._first is None:
            near = self.anchors.begun(point)
            self._first = near or (point,)
        elif self._left > 0:
            near = self._first
        else:
            assert self._from is not None, "there are always first ones"
            return (*self._first, self._from)
        self._left -= 1
        self._from = point
        return near
