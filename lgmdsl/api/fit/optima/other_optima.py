"""Other optima of a fit whose sites are not log-concave.

Small posteriors: all modes that are found from many points, weighed by importance sampling; a run
of the method from each that is away from the fit. Others: runs from other starts, as many as cost
no more than the fit did. All of it at the fit's hyperparameters. W602 says what came of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

import numpy as np

from lgmdsl.accuracy.limits import MEAN, SD
from lgmdsl.accuracy.weighted import WeightedPosterior
from lgmdsl.api.fit.optima.other_runs import (
    AWAY,
    EXPECTED,
    FEWEST_STEPS,
    GAIN,
    LEFT,
    LOWEST,
    OPERATIONS,
    PLACES,
    SMALL,
    TRIED,
    Elsewhere,
    Other,
    OtherOptima,
    changed,
    continued,
    distance,
    higher,
    of_runs,
    reached_by,
    run_above,
    run_from,
)
from lgmdsl.api.solve.solved import Solved
from lgmdsl.arrays import Array
from lgmdsl.assess.modes.search import Modes, modes, modes_or_scales, searchable
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.site import log_concave
from lgmdsl.contract.status import Status
from lgmdsl.errors import LgmError
from lgmdsl.inference.driver import Run
from lgmdsl.inference.other_starts import at_point, landmark_starts
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.coordinates.vector import Coordinates


def other_optima(planned: Plan, solved: Solved, settings: FitSettings) -> OtherOptima | None:
    """What other starts lead to at the fit's hyperparameters; None where all sites are log-concave,
    so that there is one optimum."""
    if log_concave(b.site for b in planned.canonical.blocks):
        return None
    status = solved.run.status if solved.learned is None else solved.learned.status
    if Status.interrupted in (status, solved.run.status):
        return OtherOptima(False)
    problem = planned.at(solved.theta, seed=settings.seed)
    steps = max(solved.run.steps, sum(s.steps for s in solved.starts))
    if solved.learned is not None:
        steps = solved.learned.record().iterations
    price = problem.flops + EXPECTED * problem.engine.linear.rows
    allowance = max(OPERATIONS, price * max(steps, 1))
    with np.errstate(all="ignore"):
        optima = _at_theta(planned, problem, solved, settings, allowance)
        if solved.learned is None or optima.better is not None:
            return optima
        return replace(optima, elsewhere=_elsewhere(planned, solved, settings, allowance))


def _at_theta(
    planned: Plan, problem: Problem, solved: Solved, settings: FitSettings, allowance: float
) -> OtherOptima:
    q = solved.posterior.conditioned.unconfined
    if searchable(problem, q):
        known = modes(problem, q, allowance, settings.seed)
        if known is not None:
            return _of_modes(planned, problem, solved, settings, known, allowance)
    optima = of_runs(planned, problem, solved, settings, allowance)
    if not optima.checked or searchable(problem, q):
        return optima
    around = modes_or_scales(problem, q)
    whole = None if around is None else _weighed(around, problem, settings, allowance)
    return replace(optima, modes=around, whole=whole)


# ---- other hyperparameters -----------------------------------------------------------------------


def _elsewhere(
    planned: Plan, solved: Solved, settings: FitSettings, allowance: float
) -> Elsewhere | None:
    """At the values where searches start, and at the outermost points of an integral: what another
    start leads to, where that is higher than what the fit's own leads to."""
    if not planned.backend.spec.comparable:
        return None
    space, pinned = planned.canonical.hypers, settings.fixed.keys()
    base = value(planned.canonical, solved, pinned)
    best: Elsewhere | None = None
    left = allowance
    for theta in _places(planned, solved, settings):
        try:
            problem = planned.at(theta, seed=settings.seed)
            price = problem.flops + EXPECTED * problem.engine.linear.rows
            ends: list[Run] = []
            for start in chain((solved.posterior,), _begun(problem, ends)):
                steps = int(left / price)
                if steps < FEWEST_STEPS:
                    break
                ends.append(run_from(planned, problem, settings, start, steps, base))
                left -= price * max(ends[-1].steps, 1)
            if len(ends) < 2:
                continue
            prior = space.log_prior(theta, pinned)[0]
            least = base - prior + (-LOWEST if best is None else best.gap)
            end = _highest(planned, problem, settings, ends, least)
        except (LgmError, np.linalg.LinAlgError):
            continue
        if end is not None and end.posterior is not None:
            best = Elsewhere(theta, end.posterior, end.trace[-1].objective + prior - base)
    return best


def _highest(
    planned: Plan, problem: Problem, settings: FitSettings, ends: Sequence[Run], least: float
) -> Run | None:
    """The run that ends highest of rough runs but the first, which began at the fit: GAIN above the
    first's end and above `least`; else None. Runs that may be so go on to the fit's tolerances."""
    exact = not planned.backend.spec.monotone
    left = 0.0 if exact else LEFT
    own, best = ends[0], None
    level = -math.inf if own.posterior is None else own.trace[-1].objective
    for end in ends[1:]:
        if end.posterior is None or end.status is not Status.converged:
            continue
        if end.trace[-1].objective + left <= max(level + GAIN, least):
            continue
        if not exact:
            end = continued(planned, problem, settings, end, None)
            if own.posterior is not None and own is ends[0]:
                own = continued(planned, problem, settings, own, None)
                level = own.trace[-1].objective if own.posterior is not None else level
            if end.posterior is None or end.status is not Status.converged:
                continue
        reached = end.trace[-1].objective
        if reached > max(level + GAIN, least):
            best, least = end, reached
    return best


def _places(planned: Plan, solved: Solved, settings: FitSettings) -> list[Theta]:
    """Hyperparameters at which other starts are tried."""
    learned = solved.learned
    assert learned is not None
    out: list[Theta] = [planned.canonical.hypers.start(settings.fixed)]
    points = [f.theta for f, share in learned.points if share > SMALL]
    coordinates = Coordinates(planned.canonical.hypers, settings.fixed)
    if points:
        x = np.array([coordinates.pack(theta) for theta in points])
        ends = {int(x[:, j].argmax()) for j in range(x.shape[1])}
        ends |= {int(x[:, j].argmin()) for j in range(x.shape[1])}
        out += [points[k] for k in sorted(ends)[:PLACES]]
    return out


def _begun(problem: Problem, made: Sequence[Run]) -> Iterator[GaussianPosterior]:
    """The heaviest modes of a small posterior that are away from the first run's end, which was
    `made` by the time that this is asked; landmarks of others."""
    first = made[0].posterior
    if first is None:
        return
    q = first.conditioned.unconfined
    known = modes(problem, q) if searchable(problem, q) else None
    if known is None:
        yield from (start for _, start in islice(landmark_starts(problem, q), TRIED))
        return
    sd = np.sqrt(np.maximum(q.latent_variance, 0.0))
    away = distance(known.z, q.latent_mean, sd) > AWAY
    heavy = known.log_mass > known.log_mass[0] - LOWEST
    for z in known.z[heavy & away][:TRIED]:
        start = at_point(problem, z)
        if start is not None:
            yield start


# ---- small posteriors ----------------------------------------------------------------------------


def _of_modes(
    planned: Plan,
    problem: Problem,
    solved: Solved,
    settings: FitSettings,
    known: Modes,
    allowance: float,
) -> OtherOptima:
    q = solved.posterior.conditioned
    sd = np.sqrt(np.maximum(q.latent_variance, 0.0))
    away = distance(known.z, q.latent_mean, sd)
    heavy = known.log_mass > known.log_mass[0] - LOWEST
    better = None
    if planned.backend.spec.comparable:
        candidates = np.flatnonzero(heavy & (away > AWAY))[:TRIED]
        starts = (at_point(problem, known.z[k]) for k in candidates)
        wanted = reached_by(solved) + GAIN
        runs = (
            run_above(planned, problem, settings, s, None, wanted) for s in starts if s is not None
        )
        better = higher(runs, solved)
    whole = _weighed(known, problem, settings, allowance)
    share = known.share if whole is None else whole.share
    own = int(np.argmin((known.u**2).sum(axis=1)))
    rest = np.where(np.arange(len(known)) == own, 0.0, share)
    k = int(rest.argmax())
    other = None
    if rest[k] > SMALL and _matters(planned, problem, solved, whole, known.z[k], rest[k]):
        other = Other(known.z[k], float(rest[k]))
    number = int(np.count_nonzero(share > SMALL))
    found = "one mode" if number == 1 else f"{number} modes that matter"
    note = f"not log-concave: searches from {known.points} points find {found}"
    return OtherOptima(True, note, better, other, known, whole)


def _weighed(
    known: Modes, problem: Problem, settings: FitSettings, allowance: float
) -> WeightedPosterior | None:
    """None where the draws are too few, or worth too little."""
    from lgmdsl.assess.modes.weighed import ESS, FEWEST, affordable, weighed

    draws = affordable(problem.engine.linear, allowance)
    if draws < FEWEST:
        return None
    whole = weighed(known, problem.engine.linear, draws, settings.seed)
    return whole if whole.ess >= ESS else None


def _matters(
    planned: Plan,
    problem: Problem,
    solved: Solved,
    whole: WeightedPosterior | None,
    z: Array,
    share: float,
) -> bool:
    """Whether what is reported of a latent is off, by the draws or by a mixture of both modes."""
    q = solved.posterior.conditioned
    if whole is None or not planned.backend.spec.evidence:
        return changed(q.latent_mean, np.sqrt(np.maximum(q.latent_variance, 0.0)), z, share)
    errors = whole.errors(q)
    return bool((np.abs(errors.mean) > MEAN).any() or (np.abs(errors.sd) > SD).any())


def value(canonical: CanonicalModel, solved: Solved, pinned: Collection[str]) -> float:
    """What a search for hyperparameters climbs: log evidence + log prior."""
    return reached_by(solved) + canonical.hypers.log_prior(solved.theta, pinned)[0]
