"""The first place of a search: one that has a fit, and that is not absurd for the data.

The middle of a vague prior may be: a Weibull shape of 700, offsets 1e5 away from the data. Where
the density is so steep in the log of a hyper that no data can want it there, or the fit itself has
not converged, places down the slope are tried; offsets and coefficients start from one M-step
where it promises more than the model could gain by anything else. A start that is given is kept.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.queries.loadings import linear_hypers
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.status import Status
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.learning.em.complete_data import CompleteData
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.starts.factor_axes import from_components, idle_loadings, scattered
from lgmdsl.learning.starts.inverse_wishart import from_the_widest
from lgmdsl.learning.starts.topics import with_distinct_topics
from lgmdsl.remedies import pin

# Starts that are tried where the first has no fit: all coordinates moved by this much, or to this
# part of them, in the end scales of 1, correlations and offsets of 0.
MOVES = (-1.0, 1.0, -2.5, 2.5)
PARTS = (0.5, 0.2, 0.0)
# Nats per datum, of a slope per log or of a promised gain, that only an absurd place has; and the
# least that counts.
STEEP, LEAST = 20.0, 1e3
# Moves down such slopes, in logs, how often, and the steps of a fit at such a place.
AWAY, ROUNDS, TRIAL = (1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 11.0), 3, 15
OFFSETS = 12  # M-steps of offsets at most: each leaves a hundredth


def first_start(objective: Objective, warm: GaussianPosterior | None) -> Evaluation:
    """A start that has a fit, and where loadings have a slope.

    Raises NumericalError E601 where there is no fit at the start nor near it; what the
    method said, a MethodError, where it does not take the model there.
    """
    canonical = objective.planned.canonical
    start = canonical.hypers.start(objective.pinned, objective.begin)
    theta = with_distinct_topics(canonical, start, objective.pinned)
    idle = idle_loadings(objective, theta)
    x = objective.coordinates.pack(scattered(theta, idle))
    for place in (x, *(x + move for move in MOVES), *(part * x for part in PARTS)):
        found = objective.at(place, warm)
        if found is None:
            continue
        if not objective.begin:
            found = _with_offsets(objective, found)
            begun, found = found, _down_slopes(objective, found)
            objective.centre(found.x, found.x != begun.x)
        if idle:
            begin = objective.coordinates.pack(from_components(objective, found, idle))
            found = objective.at(begin, found.posterior) or found
        return from_the_widest(objective, found)
    if objective.refused is not None:
        raise objective.refused
    names = ", ".join(objective.coordinates.names[:6])
    raise NumericalError(
        Diagnostic(
            "E601",
            f"method `{objective.planned.method}` found no usable state at any start of {names}",
            help=f"pin the hyperparameters ({pin('NAME')}) to see where it can start",
        )
    )


def _most(objective: Objective) -> float:
    return max(STEEP * objective.planned.canonical.total_weight, LEAST)


def _down_slopes(objective: Objective, first: Evaluation) -> Evaluation:
    """The highest of places down slopes that are steeper than data can make them."""
    best = first
    for _ in range(ROUNDS):
        steep = _steep(objective, best)
        if not steep.any():
            break
        way = np.where(steep, np.sign(best.gradient), 0.0)
        begin, begun = best.x, best
        for length in AWAY:
            at = objective.at(begin + length * way, most=TRIAL)
            if at is not None and _better(at, best):
                best = at
            elif best is not begun:
                break
        if best is begun:
            break
    return best


def _better(at: Evaluation, best: Evaluation) -> bool:
    """Higher, or a fit in place of none: values of fits that did not converge say little."""
    fitted, before = (e.run.status is Status.converged for e in (at, best))
    return fitted and not before if fitted is not before else at.value > best.value


def _steep(objective: Objective, at: Evaluation) -> Array:
    """(d,) the logs in which the objective is too steep."""
    slopes = np.where(objective.coordinates.alone, np.abs(at.gradient), 0.0)
    return np.asarray(slopes > _most(objective))


def _with_offsets(objective: Objective, first: Evaluation) -> Evaluation:
    """After M-steps of offsets and coefficients, while each gains more than is to be had near the
    data."""
    canonical, coordinates = objective.planned.canonical, objective.coordinates
    linear = linear_hypers(canonical, first.theta, objective.pinned)
    names = tuple(n for n in linear.names if n not in linear.loadings)
    best = first
    complete = CompleteData.of(canonical, coordinates, names, first.theta) if names else None
    for _ in range(OFFSETS if complete is not None else 0):
        assert complete is not None
        slope = best.gradient[complete.x]
        step = complete.step(best.posterior, best.theta, slope)
        if step is None or not 0.5 * float(slope @ step) > _most(objective):
            break
        x = best.x.copy()
        x[complete.x] += step
        at = objective.at(x, best.posterior)
        if at is None or at.value < best.value:
            break
        best = at
    return best
