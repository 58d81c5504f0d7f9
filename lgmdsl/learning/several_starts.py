"""Searches from several starts: the highest maximum, and the others that matter.

A search ends early where it has come to the basin of a maximum that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.contract.status import Status
from lgmdsl.learning.integration.other_modes import OtherMode
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.ahead import NATS, Ahead, Top, alike, in_basin
from lgmdsl.learning.search.continued import numbered
from lgmdsl.learning.search.maximise import Maximiser, Maximum
from lgmdsl.learning.starts.from_data import Corner

# Modes that much lower have less than a thousandth of the mass.
MATTERS = 7.0
# Searches that end within so many nats of each other have found the same.
SAME = 0.2
# Half-way between modes the density is so many nats below the lower one.
VALLEY = 0.1


@dataclass(frozen=True, eq=False)
class Modes:
    """The `highest` maximum; `others`: further local maxima within MATTERS nats of it, the highest
    first; `alone`: nats below it of the ends of all other searches, where none ended as high."""

    highest: Maximum
    others: tuple[Evaluation, ...] = ()
    alone: tuple[float, ...] = ()


def from_corners(search: Maximiser, found: Maximum, starts: Sequence[Corner]) -> Modes:
    """The maxima that further starts lead to, `found` being that of the first search. Workers are
    asked beforehand which searches lead to nothing new, as most do; the others are made here."""
    maxima, tops = [found], list[Top]()

    def known(at: Evaluation) -> bool:
        tops.extend(_top(search, m) for m in maxima[len(tops) :])
        return any(in_basin(search, top, at) for top in tops)

    again = replace(search, known=known)
    ahead = Ahead(search, [start.at for start in starts if not start.open])
    try:
        for start in starts:
            if start.open or known(start.at) or ahead.leads_nowhere(start.at, tops):
                continue
            _add(search, maxima, again.run(start.at))
    except KeyboardInterrupt:
        best = _highest(search, maxima)
        return Modes(replace(best, status=Status.interrupted, reason="interrupted"))
    return _modes(search, maxima)


def from_everywhere(
    search: Maximiser,
    modes: Modes,
    climbs: Iterable[tuple[Evaluation, Callable[[Evaluation], Maximum]]],
) -> Modes:
    """The maxima of further searches, each to its end: none is taken to lead to what is known, so
    that those that end as high as the highest agree with it, if they began elsewhere: the first of
    them begins where the search so far did."""
    maxima, first = [modes.highest], search.value(modes.highest.at)
    heights: list[float] = []
    try:
        for at, climb in climbs:
            end = climb(at)
            heights.append(search.value(end.at))
            if abs(heights[-1] - first) > SAME:  # else the same, or its mirror image
                _add(search, maxima, end)
    except KeyboardInterrupt:
        best = _highest(search, maxima)
        return Modes(replace(best, status=Status.interrupted, reason="interrupted"))
    found = _modes(search, maxima)
    top = search.value(found.highest.at)
    others = found.others if found.highest is not modes.highest else (*modes.others, *found.others)
    heights[:1] = [max([first, *heights[:1]])]
    below = np.sort(top - np.array(heights))
    agreed = np.count_nonzero(below <= SAME) > 1
    return Modes(found.highest, others, () if agreed else tuple(below[1:].tolist()))


def _modes(search: Maximiser, maxima: Sequence[Maximum]) -> Modes:
    highest = _highest(search, maxima)
    others = [m for m in maxima if m is not highest and m.status is Status.converged]
    others.sort(key=lambda m: -search.value(m.at))
    least = search.value(highest.at) - MATTERS
    relevant = (m.at for m in others if search.value(m.at) > least and _apart(search, m, [highest]))
    return Modes(highest, tuple(relevant))


def further_mode(
    objective: Objective, mode: Evaluation, other: OtherMode | None
) -> Evaluation | None:
    """A fit at the mode that an integral around the first one did not hold; None where there is
    none, or it is the first under other names or signs, which no average of both would tell."""
    if other is None or other.kind != "apart":
        return None
    return objective.at(objective.coordinates.pack(other.theta), mode.posterior)


def _add(search: Maximiser, maxima: list[Maximum], end: Maximum) -> None:
    """The end of a search to the maxima, if it is higher than all, or another one."""
    if end.status is Status.interrupted:
        raise KeyboardInterrupt
    higher = search.value(end.at) > search.value(_highest(search, maxima).at) + NATS
    if higher or (end.status is Status.converged and _apart(search, end, maxima)):
        done = maxima[0].steps
        maxima.append(replace(end, steps=(*done, *numbered(end.steps, done[-1].step))))


def _highest(search: Maximiser, maxima: Sequence[Maximum]) -> Maximum:
    return max(maxima, key=lambda m: search.value(m.at))


def _top(search: Maximiser, found: Maximum) -> Top:
    return Top(found.at.x, search.value(found.at), found.spread())


def _apart(search: Maximiser, end: Maximum, others: Sequence[Maximum]) -> bool:
    """Whether there is a valley between a maximum and each of the others."""
    for other in others:
        if alike(_top(search, end), _top(search, other)):
            return False
        middle = search.objective.at(0.5 * (end.at.x + other.at.x), end.at.posterior)
        lower = min(search.value(end.at), search.value(other.at))
        if middle is not None and search.value(middle) > lower - VALLEY:
            return False
    return True
