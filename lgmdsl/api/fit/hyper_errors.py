"""What the gap of the evidence does to the posterior of the hyperparameters.

delta(theta) = corrected less reported log evidence changes their density by the factor exp(delta).
Over the points of a mixture it changes the weights; about a mode, a slope g of delta along an axis
one sd long moves the mode by g sds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from lgmdsl.accuracy.better import Unknown, better
from lgmdsl.accuracy.errors import Errors
from lgmdsl.api.fit.solved import Solved
from lgmdsl.arrays import Array
from lgmdsl.assess.modes.weighed import concave, evidence
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.problem import Problem
from lgmdsl.errors import LgmError
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan
from lgmdsl.learning.integration.asymptotic import Asymptotic
from lgmdsl.learning.integration.hyper_posterior import HyperPosterior
from lgmdsl.learning.integration.tilted import tilted
from lgmdsl.learning.integration.visited import Fitted

COVERED = 0.95  # of the points that are looked at, those of which the gap is known
# Points that are looked at beyond a quadratic's, fewer of models of many rows; of the heaviest.
MORE, FEWER, SMALL, BULK = 4, 2, 2000, 0.01
ROUGH = 0.5  # nats that the gaps may be off their curve
LEVELS = (0.05, 0.95)
FEW = 6  # coordinates about a mode


@dataclass(frozen=True, eq=False)
class HyperErrors:
    """`errors` of every learned hyperparameter by name; `gap` of the whole log evidence, in nats;
    what they are nearer to: `corrected`, and the points' `shares` there, where they were
    integrated; `x`, the coordinates of the mode, where they were maximised over."""

    errors: Mapping[str, Errors]
    gap: float
    corrected: HyperPosterior | None = None
    shares: Array | None = None
    x: Array | None = None


def hyper_errors(planned: Plan, solved: Solved, gap: float, seed: int) -> HyperErrors | None:
    """None where they are not known. `gap`: that at the mode."""
    learned = solved.learned
    assert learned is not None
    hypers = learned.marginals()
    if isinstance(hypers, HyperPosterior):
        return _of_mixture(planned, solved, hypers, seed)
    if isinstance(hypers, Asymptotic) and hypers.frame.unknown is None:
        return _about_mode(planned, solved, hypers, gap, seed)
    return None


def _of_mixture(
    planned: Plan, solved: Solved, hypers: HyperPosterior, seed: int
) -> HyperErrors | None:
    learned = solved.learned
    assert learned is not None
    points = learned.points
    shares = np.array([share for _, share in points])
    size = hypers.frame.size
    more = MORE if planned.canonical.linear(solved.theta).rows <= SMALL else FEWER
    count = more + (1 + size) * (2 + size) // 2
    chosen = _spread(hypers.places([f.theta for f, _ in points]), shares, count)
    gaps = np.full(len(points), np.nan)
    for k in chosen:
        gaps[k] = _gap_of(planned, points[k][0], seed)
    known = np.isfinite(gaps)
    if known.sum() < size + 2 or shares[known].sum() < COVERED * shares[chosen].sum():
        return None
    better_ones = tilted(hypers, [f.theta for f, _ in points], shares, gaps)
    if better_ones.rough > ROUGH:
        return None
    after = better_ones.posterior
    errors = {}
    for block in planned.canonical.hypers.blocks:
        of = _named(block.name)
        if (after.sd(of) > 0.0).any():
            errors[block.name] = _between(hypers, after, of)
    return HyperErrors(errors, better_ones.gain, after, better_ones.shares)


def _between(before: HyperPosterior, after: HyperPosterior, of: Callable[[Theta], Array]) -> Errors:
    """Of what is reported `before`, in sds of `after`."""
    sd = after.sd(of).reshape(-1)
    unit = np.where(sd > 0.0, sd, np.inf)
    ends = np.array(LEVELS)
    shift = (before.mean(of) - after.mean(of)).reshape(-1) / unit
    ratio = np.where(sd > 0.0, before.sd(of).reshape(-1) / np.where(sd > 0.0, sd, 1.0), 1.0)
    away = (before.quantile(of, ends) - after.quantile(of, ends)).reshape(len(ends), -1) / unit
    return Errors(shift, ratio - 1.0, np.abs(away).max(axis=0))


def _spread(places: Array, shares: Array, count: int) -> list[int]:
    """Fits that cover the mixture: the heaviest half of `count`, then one after the other what is
    farthest from those before, within the mixture's bulk."""
    order = np.argsort(-shares, kind="stable")
    chosen = [int(k) for k in order[: (count + 1) // 2]]
    eligible = shares > BULK * shares.max()
    gaps = np.min([np.linalg.norm(places - places[k], axis=1) for k in chosen], axis=0)
    while len(chosen) < count:
        k = int(np.where(eligible, gaps, -1.0).argmax())
        if not eligible[k] or gaps[k] <= 0.0:
            break
        chosen.append(k)
        gaps = np.minimum(gaps, np.linalg.norm(places - places[k], axis=1))
    return chosen


def _gap_of(planned: Plan, fitted: Fitted, seed: int) -> float:
    """Corrected less reported log evidence of a fit that was made."""
    try:
        problem = planned.at(fitted.theta, seed=seed)
        q = problem.engine.condition(fitted.weight, fitted.shift)
        if isinstance(q, Failed):
            return math.nan
        return _gap(planned, problem, fitted.theta, q, fitted.log_evidence, seed)
    except (Unknown, LgmError, np.linalg.LinAlgError):
        return math.nan


def _gap(
    planned: Plan, problem: Problem, theta: Theta, q: Conditioned, reported: float, seed: int
) -> float:
    """Corrected less reported log evidence of q: by weighted draws from all modes, where sites are
    not log-concave and these reach the posterior."""
    if not concave(problem.sites):
        exact = evidence(problem, q, seed)
        if math.isfinite(exact):
            return exact - reported
    known = better(planned, theta, q, reported, seed, evidence_alone=True)
    return 0.0 if known is None else known.log_evidence - reported


def _about_mode(
    planned: Plan, solved: Solved, hypers: Asymptotic, gap: float, seed: int
) -> HyperErrors | None:
    frame, coordinates = hypers.frame, hypers.coordinates
    if frame.size > FEW or frame.flat.any():
        return None
    slopes = np.zeros(frame.size)
    for j in range(frame.size):
        ends = [
            _gap_at(planned, solved, coordinates.unpack(frame.mode + side * frame.axes[:, j]), seed)
            for side in (1.0, -1.0)
        ]
        if not np.isfinite(ends).all():
            return None
        slopes[j] = 0.5 * (ends[0] - ends[1])
    step = frame.axes @ slopes
    out = {}
    for block in planned.canonical.hypers.blocks:
        of = _named(block.name)
        here, sd = hypers.mean(of).reshape(-1), hypers.sd(of).reshape(-1)
        if not (sd > 0.0).any():
            continue
        # Along the tangent: a whole step of a log would overstate what a large one does.
        small = 1e-3 * step
        away = (of(coordinates.unpack(frame.mode + small)).reshape(-1) - here) * 1e3
        shift = np.where(sd > 0.0, -away / np.where(sd > 0.0, sd, 1.0), 0.0)
        out[block.name] = Errors(shift, np.zeros(len(shift)), np.abs(shift))
    return HyperErrors(out, gap, x=frame.mode + step)


def _gap_at(planned: Plan, solved: Solved, theta: Theta, seed: int) -> float:
    """Corrected less reported log evidence at theta, fitted from the mode's posterior."""
    try:
        problem = planned.at(theta, seed=seed)
        found = run(planned.backend, problem, Tolerances(), None, solved.posterior).posterior
        if found is None:
            return math.nan
        return _gap(planned, problem, theta, found.conditioned, found.log_evidence, seed)
    except (Unknown, LgmError, np.linalg.LinAlgError):
        return math.nan


def _named(name: str) -> Callable[[Theta], Array]:
    """A hyperparameter as a function of all."""
    return lambda theta: np.asarray(theta[name], dtype=np.float64)
