"""Runs of a fit's method from other starts, and what is kept of other optima."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.accuracy.limits import MEAN, SD
from lgmdsl.accuracy.weighted import WeightedPosterior
from lgmdsl.api.solve.solved import Solved
from lgmdsl.arrays import Array
from lgmdsl.assess.modes.search import Modes
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.inference.driver import Run, Tolerances, run
from lgmdsl.inference.other_starts import far_start, landmark_starts, started
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.registry import backends
from lgmdsl.inference.scout import plan_by
from lgmdsl.inference.settings import FitSettings

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
# Runs of a method whose objective rises at every step are rough at first: to changes of so many
# nats and residuals of so many sds. What they may gain after that, in nats: 0.008 at most in 25
# runs of relevance vectors.
ROUGH, LOOSE, LEFT = 0.005, 0.03, 0.025
SAME = 0.1  # of the fit's sds: a rough end within is the fit's


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
    whole: WeightedPosterior | None = None
    elsewhere: Elsewhere | None = None


def changed(mean: Array, sd: Array, other: Array, share: float) -> bool:
    """Whether an optimum of the same widths, elsewhere, changes a mean or an sd by more than is
    tolerated."""
    free = sd > 0.0
    d = np.where(free, other - mean, 0.0) / np.where(free, sd, 1.0)
    wider = np.sqrt(1.0 + share * (1.0 - share) * d**2)
    return bool((share * np.abs(d) > MEAN * wider).any() or (wider > 1.0 / (1.0 - SD)).any())


def of_runs(
    planned: Plan, problem: Problem, solved: Solved, settings: FitSettings, allowance: float
) -> OtherOptima:
    """Runs of the method itself; where a method that asks for slopes alone can run the model, from
    the ends of its runs that matter, which cost a tenth."""
    q = solved.posterior.conditioned
    ranks = planned.backend.spec.comparable
    ends = [s for s in solved.starts if s.status is Status.converged and s.mean is not None]
    left = allowance
    starts = _starts(problem, solved, settings)
    quick = None if q.errors is not None else _quick(planned)  # an engine that estimates takes few
    screened = 0
    if quick is not None:
        starts, screened, spent = _screened(quick, problem, solved, settings, starts, left)
        left -= spent
    tried, runs = {s.name for s in solved.starts}, list[Run]()
    sd = np.sqrt(np.maximum(q.latent_variance, 0.0))
    top = reached_by(solved)

    def elsewhere(end: GaussianPosterior) -> bool:
        return bool(distance(end.conditioned.latent_mean[None], q.latent_mean, sd)[0] > SAME)

    price = problem.flops + EXPECTED * problem.engine.linear.rows
    for name, start in starts:
        steps = int(left / price)
        if name in tried or steps < max(1, min(solved.run.steps, FEWEST_STEPS)):
            continue
        result = run_above(planned, problem, settings, start, steps, top + GAIN, elsewhere)
        if result.status is Status.interrupted:
            return OtherOptima(False)
        left -= price * max(result.steps, 1)
        runs.append(result)
        if result.status is Status.converged:
            ends.append(started(name, result))
    count = max(screened, len(solved.starts)) + len(runs)
    if count < 2:
        return OtherOptima(False)
    better = higher(iter(runs), solved) if ranks else None
    others = []
    for end in ends:
        share = share_of(end.objective - top) if ranks else 0.5
        if end.mean is not None and changed(q.latent_mean, sd, end.mean, share):
            others.append(Other(end.mean, share, end.objective - top))
    other = max(others, key=lambda o: o.share, default=None)
    agree = "agree" if other is None and better is None else "do not agree"
    return OtherOptima(True, f"not log-concave: {count} starts {agree}", better, other)


def share_of(gap: float) -> float:
    """Mass of an optimum `gap` nats above another, as a share of both."""
    return float(1.0 / (1.0 + math.exp(-min(max(gap, -50.0), 50.0))))


def _quick(planned: Plan) -> Plan | None:
    """A plan of the same model by a method that knows the mode alone; None if the plan's is one, or
    none runs."""
    if planned.backend.spec.needs is Pointwise:
        return None
    known = (b for b in backends().values() if b.spec.needs is Pointwise)
    plans = (plan_by(planned, b) for b in known if b.spec.ranks and b.spec.evidence)
    return next((p for p in plans if p is not None), None)


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
        result = run_from(quick, at, settings, start, steps)
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
        new = all(distance(mean[None], m, sd)[0] > AWAY for m in places)
        if new and gap > -LOWEST and distance(mean[None], here.latent_mean, sd)[0] > AWAY:
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


def run_from(
    planned: Plan,
    problem: Problem,
    settings: FitSettings,
    start: GaussianPosterior | None,
    most: int | None,
    rough: float | None = None,
) -> Run:
    """The method from a start, or from its own, in `most` steps or the fit's limit; `rough`: about
    what is reached, where a rough end of a method whose objective rises does."""
    limit = settings.max_steps or planned.backend.spec.max_steps
    steps, wanted = limit if most is None else min(limit, most), settings.tolerances
    if rough is not None and planned.backend.spec.monotone:
        change = ROUGH / max(1.0, abs(rough))
        wanted = Tolerances(max(wanted.evidence, change), max(wanted.mean, LOOSE))
    return run(planned.backend, problem, wanted, steps, start)


def run_above(
    planned: Plan,
    problem: Problem,
    settings: FitSettings,
    start: GaussianPosterior | None,
    most: int | None,
    wanted: float,
    also: Callable[[GaussianPosterior], bool] = lambda end: False,
) -> Run:
    """A rough run, which goes on to the fit's tolerances where its end may still come to be
    `wanted` or more, or where its posterior is one of those `also` asked for."""
    first = run_from(planned, problem, settings, start, most, wanted)
    end = first.posterior
    if end is None or first.status is not Status.converged or not planned.backend.spec.monotone:
        return first
    if first.trace[-1].objective + LEFT < wanted and not also(end):
        return first
    return continued(planned, problem, settings, first, most)


def continued(
    planned: Plan, problem: Problem, settings: FitSettings, rough: Run, most: int | None
) -> Run:
    """A run to the fit's tolerances from the end of a rough one, whose steps count."""
    left = None if most is None else max(most - rough.steps, 0)
    following = run_from(planned, problem, settings, rough.posterior, left)
    return replace(following, steps=rough.steps + following.steps)


def higher(runs: Iterator[Run], solved: Solved) -> GaussianPosterior | None:
    """The highest end that is above the fit's, if there is one."""
    best, top = None, reached_by(solved) + GAIN
    for result in runs:
        if result.posterior is not None and result.status is Status.converged:
            reached = result.trace[-1].objective
            if reached > top:
                best, top = result.posterior, reached
    return best


def reached_by(solved: Solved) -> float:
    """The objective of a fit."""
    return solved.run.trace[-1].objective


def distance(z: Array, mean: Array, sd: Array) -> Array:
    """(k,) the largest, of any latent, in sds."""
    free = sd > 0.0
    return np.asarray((np.abs(z - mean) / np.where(free, sd, np.inf)).max(axis=1, initial=0.0))
