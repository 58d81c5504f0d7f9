"""Other optima of a fit whose sites are not log-concave.

Small posteriors: all modes that are found from many points, weighed by importance sampling; a run
of the method from each that is away from the fit. Others: runs from other starts, as many as cost
no more than the fit did. All of it at the fit's hyperparameters. W602 says what came of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.accuracy.accuracy import MEAN, SD
from lgmdsl.api.fit.solved import Solved
from lgmdsl.arrays import Array
from lgmdsl.assess.modes.search import Modes, modes, modes_or_scales, searchable
from lgmdsl.assess.modes.weighed import ESS, FEWEST, Weighed, affordable, concave, weighed
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import LgmError
from lgmdsl.inference.driver import Run, run
from lgmdsl.inference.options import configured
from lgmdsl.inference.other_starts import at_point, far_start, landmark_starts, started
from lgmdsl.inference.plan import Plan, verdict
from lgmdsl.inference.registry import backends
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.coordinates.vector import Coordinates

# Floating-point operations that the check may take, whatever the fit took: 0.1 to 0.2 s.
OPERATIONS = 5e8
GAIN = 0.05  # nats by which another optimum is higher
AWAY = 0.5  # of the fit's sds: a mode beyond is worth a run of the method
FEWEST_STEPS = 10  # of a run that is begun
# Operations of a row at a step: of methods that ask for expectations, and of those that ask for
# slopes.
EXPECTED, SLOPES = 3e4, 2e3
PLACES = 4  # of an integral's points, beyond where searches start
TRIED, LOWEST = 3, 5.0  # modes from which it runs, and how many nats below the heaviest
SMALL = 0.01  # of the mass: a mode below makes no difference


Starts = Iterable[tuple[str, GaussianPosterior | None]]


@dataclass(frozen=True, eq=False)
class Other:
    """Another optimum: `mean`, (n,), E z there or its mode; `share` of the mass of both; `gap`: how
    many nats its objective is above the fit's, NaN where that is not what is known of it."""

    mean: Array
    share: float
    gap: float = math.nan


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """An optimum at other hyperparameters `theta` that is higher there than the one that the fit
    followed; `gap`: how many nats its evidence and prior are above the fit's at its mode."""

    theta: Theta
    posterior: GaussianPosterior
    gap: float


@dataclass(frozen=True, eq=False)
class OtherOptima:
    """`checked`: whether starts could be tried, and in words what came of them (`note`). `better`:
    a higher optimum of the method's own objective, and `other` an optimum that is no higher but
    changes what is reported. `modes`, `whole`: of small posteriors, the latter where its draws are
    worth enough. `elsewhere`: a higher one at other hyperparameters."""

    checked: bool
    note: str = ""
    better: GaussianPosterior | None = None
    other: Other | None = None
    modes: Modes | None = None
    whole: Weighed | None = None
    elsewhere: Elsewhere | None = None


def other_optima(planned: Plan, solved: Solved, settings: FitSettings) -> OtherOptima | None:
    """What other starts lead to at the fit's hyperparameters; None where all sites are log-concave,
    so that there is one optimum."""
    if concave([b.site for b in planned.canonical.blocks]):
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
    q = solved.posterior.conditioned
    if searchable(problem, q):
        known = modes(problem, q, allowance, settings.seed)
        if known is not None:
            return _of_modes(planned, problem, solved, settings, known, allowance)
    optima = _of_runs(planned, problem, solved, settings, allowance)
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
    if not (planned.backend.spec.monotone or planned.backend.spec.ranks):
        return None
    space, pinned = planned.canonical.hypers, settings.fixed.keys()
    base = value(planned.canonical, solved, pinned)
    best: Elsewhere | None = None
    for theta in _places(planned, solved, settings):
        try:
            problem = planned.at(theta, seed=settings.seed)
            own = _run(planned, problem, settings, solved.posterior, None)
            ends = [_run(planned, problem, settings, s, None) for s in _begun(problem, own)]
            prior = space.log_prior(theta, pinned)[0]
        except (LgmError, np.linalg.LinAlgError):
            continue
        for end in ends:
            if end.posterior is None or end.status is not Status.converged:
                continue
            reached = end.trace[-1].objective
            higher = own.posterior is None or reached > own.trace[-1].objective + GAIN
            gap = reached + prior - base
            if higher and gap > -LOWEST and (best is None or gap > best.gap):
                best = Elsewhere(theta, end.posterior, gap)
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


def _begun(problem: Problem, own: Run) -> list[GaussianPosterior]:
    """The heaviest modes of a small posterior; landmarks of others."""
    if own.posterior is None:
        return [start for _, start in landmark_starts(problem)]
    q = own.posterior.conditioned
    known = modes(problem, q) if searchable(problem, q) else None
    if known is None:
        return [start for _, start in landmark_starts(problem, q)][:TRIED]
    sd = np.sqrt(np.maximum(q.latent_variance, 0.0))
    away = _distance(known.z, q.latent_mean, sd) > AWAY
    heavy = known.log_mass > known.log_mass[0] - LOWEST
    starts = [at_point(problem, z) for z in known.z[heavy & away][:TRIED]]
    return [s for s in starts if s is not None]


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
    away = _distance(known.z, q.latent_mean, sd)
    heavy = known.log_mass > known.log_mass[0] - LOWEST
    better = None
    if planned.backend.spec.monotone or planned.backend.spec.ranks:
        candidates = np.flatnonzero(heavy & (away > AWAY))[:TRIED]
        starts = (at_point(problem, known.z[k]) for k in candidates)
        runs = (_run(planned, problem, settings, s, None) for s in starts if s is not None)
        better = _higher(runs, solved)
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
) -> Weighed | None:
    """None where the draws are too few, or worth too little."""
    draws = affordable(problem.engine.linear, allowance)
    if draws < FEWEST:
        return None
    whole = weighed(known, problem.engine.linear, draws, settings.seed)
    return whole if whole.ess >= ESS else None


def _matters(
    planned: Plan, problem: Problem, solved: Solved, whole: Weighed | None, z: Array, share: float
) -> bool:
    """Whether what is reported of a latent is off, by the draws or by a mixture of both modes."""
    q = solved.posterior.conditioned
    if whole is None or not planned.backend.spec.evidence:
        return changed(q.latent_mean, np.sqrt(np.maximum(q.latent_variance, 0.0)), z, share)
    errors = whole.errors(q)
    return bool((np.abs(errors.mean) > MEAN).any() or (np.abs(errors.sd) > SD).any())


def changed(mean: Array, sd: Array, other: Array, share: float) -> bool:
    """Whether an optimum of the same widths, elsewhere, changes a mean or an sd by more than is
    tolerated."""
    free = sd > 0.0
    d = np.where(free, other - mean, 0.0) / np.where(free, sd, 1.0)
    wider = np.sqrt(1.0 + share * (1.0 - share) * d**2)
    return bool((share * np.abs(d) > MEAN * wider).any() or (wider > 1.0 / (1.0 - SD)).any())


# ---- others --------------------------------------------------------------------------------------


def _of_runs(
    planned: Plan, problem: Problem, solved: Solved, settings: FitSettings, allowance: float
) -> OtherOptima:
    """Runs of the method itself; where a method that asks for slopes alone can run the model, from
    the ends of its runs that matter, which cost a tenth."""
    q = solved.posterior.conditioned
    ranks = planned.backend.spec.monotone or planned.backend.spec.ranks
    ends = [s for s in solved.starts if s.status is Status.converged and s.mean is not None]
    left = allowance
    starts = _starts(problem, solved, settings)
    quick = _quick(planned)
    screened = 0
    if quick is not None:
        starts, screened, spent = _screened(quick, problem, solved, settings, starts, left)
        left -= spent
    tried, runs = {s.name for s in solved.starts}, []
    price = problem.flops + EXPECTED * problem.engine.linear.rows
    for name, start in starts:
        steps = int(left / price)
        if name in tried or steps < max(1, min(solved.run.steps, FEWEST_STEPS)):
            continue
        result = _run(planned, problem, settings, start, steps)
        if result.status is Status.interrupted:
            return OtherOptima(False)
        left -= price * max(result.steps, 1)
        runs.append(result)
        if result.status is Status.converged:
            ends.append(started(name, result))
    count = max(screened, len(solved.starts)) + len(runs)
    if count < 2:
        return OtherOptima(False)
    better = _higher(iter(runs), solved) if ranks else None
    top, sd = _reached(solved), np.sqrt(np.maximum(q.latent_variance, 0.0))
    others = []
    for end in ends:
        share = _share(end.objective - top) if ranks else 0.5
        if end.mean is not None and changed(q.latent_mean, sd, end.mean, share):
            others.append(Other(end.mean, share, end.objective - top))
    other = max(others, key=lambda o: o.share, default=None)
    agree = "agree" if other is None and better is None else "do not agree"
    return OtherOptima(True, f"not log-concave: {count} starts {agree}", better, other)


def _share(gap: float) -> float:
    """Of the mass, that of an optimum `gap` nats above another."""
    return float(1.0 / (1.0 + math.exp(-min(max(gap, -50.0), 50.0))))


def _quick(planned: Plan) -> Plan | None:
    """The same model by a method that knows the mode alone, if the plan's is not one."""
    if planned.backend.spec.needs is Pointwise:
        return None
    for backend in backends().values():
        spec = backend.spec
        if spec.needs is Pointwise and spec.ranks and spec.evidence:
            judged = verdict(planned.canonical.blocks, backend, None)
            if judged.runs:
                return Plan(
                    planned.canonical, configured(backend, {}), judged.routes, planned.terms
                )
    return None


def _screened(
    quick: Plan,
    problem: Problem,
    solved: Solved,
    settings: FitSettings,
    starts: Starts,
    allowance: float,
) -> tuple[Starts, int, float]:
    """The ends of the quick method's runs that matter, as starts, the highest first; how many were
    made, and for how many operations."""
    q = solved.posterior.conditioned
    own = GaussianPosterior(q.weight, q.shift, q, -math.inf, Guarantee.APPROXIMATE)
    at = quick.at(solved.theta, problem.engine)
    price = problem.flops + SLOPES * problem.engine.linear.rows
    made, spent = list[tuple[str, Run]](), 0.0
    for name, start in (("this fit", own), *starts):
        steps = int((allowance - spent) / price)
        if steps < FEWEST_STEPS:
            break
        result = _run(quick, at, settings, start, steps)
        spent += price * max(result.steps, 1)
        if result.posterior is not None and result.status is Status.converged:
            made.append((name, result))
    if not made or made[0][0] != "this fit":
        return [], len(made), spent
    base = made[0][1]
    assert base.posterior is not None
    here = base.posterior.conditioned
    sd = np.sqrt(np.maximum(here.latent_variance, 0.0))
    chosen: list[tuple[float, str, GaussianPosterior]] = []
    for name, result in made[1:]:
        end = result.posterior
        assert end is not None
        gap = result.trace[-1].objective - base.trace[-1].objective
        places = [p.conditioned.latent_mean for _, _, p in chosen]
        mean = end.conditioned.latent_mean
        new = all(_distance(mean[None], m, sd)[0] > AWAY for m in places)
        if new and gap > -LOWEST and _distance(mean[None], here.latent_mean, sd)[0] > AWAY:
            chosen.append((gap, name, end))
    chosen.sort(key=lambda c: -c[0])
    return [(name, end) for _, name, end in chosen[:TRIED]], len(made), spent


def _starts(problem: Problem, solved: Solved, settings: FitSettings) -> Starts:
    """The back end's own, where the fit is from another; landmarks; the far side of the fit."""
    if not solved.starts:
        yield "own start", None
    q = solved.posterior.conditioned
    yield from landmark_starts(problem, q)
    far = far_start(problem, q, settings.seed)
    if far is not None:
        yield "a far draw", far


def _run(
    planned: Plan,
    problem: Problem,
    settings: FitSettings,
    start: GaussianPosterior | None,
    most: int | None,
) -> Run:
    limit = settings.max_steps or planned.backend.spec.max_steps
    steps = limit if most is None else min(limit, most)
    return run(planned.backend, problem, settings.tolerances, steps, start)


def _higher(runs: Iterator[Run], solved: Solved) -> GaussianPosterior | None:
    """The highest end that is above the fit's, if there is one."""
    best, top = None, _reached(solved) + GAIN
    for result in runs:
        if result.posterior is not None and result.status is Status.converged:
            reached = result.trace[-1].objective
            if reached > top:
                best, top = result.posterior, reached
    return best


def _reached(solved: Solved) -> float:
    return solved.run.trace[-1].objective


def _distance(z: Array, mean: Array, sd: Array) -> Array:
    """(k,) the largest, of any latent, in sds."""
    free = sd > 0.0
    return np.asarray((np.abs(z - mean) / np.where(free, sd, np.inf)).max(axis=1, initial=0.0))


def value(canonical: CanonicalModel, solved: Solved, pinned: Collection[str]) -> float:
    """What a search for hyperparameters climbs: log evidence + log prior."""
    return _reached(solved) + canonical.hypers.log_prior(solved.theta, pinned)[0]
