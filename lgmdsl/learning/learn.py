"""Learning the hyperparameters of a plan: the mode (by EM first, if wanted), the curvature there
and, if wanted, the integral."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.queries.scales import vanishing
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.status import Status
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.inference.stages import Stage, through
from lgmdsl.learning.chosen_errors import chosen_errors, coordinates_of
from lgmdsl.learning.coordinates.standardised import Standardised, standardised
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.em.em import ACCELERATIONS, EM
from lgmdsl.learning.em.sparse_search import sparse_maximum, sparse_slices
from lgmdsl.learning.integration.checkpoint import Checkpoint, checkpoint
from lgmdsl.learning.integration.integrate import default_design, integrate
from lgmdsl.learning.integration.visited import Known
from lgmdsl.learning.learned import ERRORS, INTEGRATION, Learned
from lgmdsl.learning.objective.elsewhere import WorkersOfFits
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.pilot import piloted
from lgmdsl.learning.search.continued import numbered, released, reporting, to_the_top
from lgmdsl.learning.search.endless import ExactFit, endless, off_the_plateau
from lgmdsl.learning.search.learning_record import LearningOptions
from lgmdsl.learning.search.maximise import (
    NOISE,
    RISING,
    RUNAWAY,
    LearningStep,
    Maximiser,
    Maximum,
    expected,
)
from lgmdsl.learning.several_starts import Modes, from_corners, from_everywhere, further_mode
from lgmdsl.learning.starts.against_priors import against_priors, conflicts
from lgmdsl.learning.starts.factor_axes import reported, vanished
from lgmdsl.learning.starts.first import first_start
from lgmdsl.learning.starts.from_data import Corner, corners, highest_start, real_units
from lgmdsl.learning.unidentified import DenseHessian, frame_of, unidentified

if TYPE_CHECKING:
    from lgmdsl.learning.em.batches import Batches

# A coordinate (log, logit) this far beyond its start is on its way to an end of its type.
FAR = 3.0
# More hyperparameters than this get no standard errors by differences of gradients.
STANDARD_ERRORS = 50


@dataclass(frozen=True, eq=False)
class Searching:
    """What is known on the way. `warm` and `begin`: where the caller begins; `batches`: of rows,
    where they were asked for; `chosen`: coordinates that standard errors were asked for; `first`:
    the start, `starts` others; `maximum`, `others`, `conflict` and `alone`: as in `Learned`;
    `made`: what is known of an integration that goes on; `ended`: status and reason of a search
    that had come to its end before anything was interrupted."""

    search: Maximiser
    options: LearningOptions
    on_step: Callable[[LearningStep], None] | None = None
    warm: GaussianPosterior | None = None
    begin: Theta = field(default_factory=dict)
    batches: Batches | None = None
    chosen: tuple[int, ...] = ()
    first: Evaluation | None = None
    starts: tuple[Corner, ...] = ()
    maximum: Maximum | None = None
    others: tuple[Evaluation, ...] = ()
    conflict: tuple[str, ...] = ()
    alone: tuple[float, ...] = ()
    made: Known | None = None
    ended: tuple[Status, str] | None = None
    learned: Learned | None = None

    @property
    def objective(self) -> Objective:
        return self.search.objective

    @property
    def fits(self) -> int:
        return self.objective.calls

    @property
    def cut(self) -> bool:
        return self.maximum is not None and self.maximum.status is Status.interrupted

    @property
    def stopped(self) -> bool:
        """Whether the search is over: also at data fitted exactly, where no other could end
        higher."""
        return self.cut or (self.maximum is not None and self.maximum.exact is not None)

    def interrupted(self) -> Searching:
        """With the best that was found, or the start."""
        if self.first is None:
            raise KeyboardInterrupt
        if self.maximum is None:
            step = LearningStep(0, self.search.value(self.first), np.inf, 0)
            return replace(self, maximum=Maximum.interrupted(self.first, step))
        return replace(self, maximum=_interrupted(self.maximum))

    @property
    def start(self) -> Evaluation:
        assert self.first is not None
        return self.first

    @property
    def found(self) -> Maximum:
        assert self.maximum is not None
        return self.maximum

    @property
    def integration(self) -> str | None:
        return self.options.design

    @cached_property
    def cornered(self) -> bool:
        """Whether priors have corners: an entry is exactly 0 at the maximum, or it is not."""
        return bool(sparse_slices(self.objective))

    @property
    def free(self) -> bool:
        """Whether other starts and searches may follow: of all rows, and as many as it takes."""
        return self.batches is None and self.options.steps is None and not self.cornered

    @property
    def by_em(self) -> bool:
        return self.options.acceleration is not None

    @property
    def few(self) -> bool:
        """Whether there are few enough coordinates for a curvature."""
        return self.objective.coordinates.size <= STANDARD_ERRORS

    @property
    def smooth(self) -> bool:
        """Whether there is a curvature at the maximum to tell standard errors by."""
        return self.few and not self.cornered and not (self.found.away and not self.integration)

    @property
    def climbing(self) -> bool:
        """Whether the curvature is there to climb by: all of it, but for the ends of EM."""
        return bool(self.integration) or (self.smooth and not self.by_em)


def learn(
    planned: Plan,
    settings: FitSettings,
    options: LearningOptions,
    warm: GaussianPosterior | None = None,
    on_step: Callable[[LearningStep], None] | None = None,
    begin: Theta | None = None,
    on_point: Callable[[int, int], None] | None = None,
    resume: Checkpoint | None = None,
    elsewhere: WorkersOfFits | None = None,
) -> Learned:
    """Maximise, with the curvature there for up to STANDARD_ERRORS of them; integrate where the
    options name a design. `begin`: where the search starts, by name, of hypers that do not start
    in the middle of their priors. `on_point`: as in `Objective`. `resume`: an integration that goes
    on, whose posterior at the mode is `warm`. `elsewhere`: as in `Objective`.

    Raises NumericalError E601 where there is no fit at the start nor near it, or where there is
    nothing to integrate because a hyperparameter runs away, and MethodError E104 where standard
    errors are asked for of what is no free hyper.
    """
    space, fixed, integrating = planned.canonical.hypers, settings.fixed, options.design is not None
    coordinates = Coordinates(space, fixed, closed=not integrating, apart=integrating)
    chosen = coordinates_of(coordinates, options.errors)
    objective = Objective(
        planned,
        coordinates,
        fixed,
        settings.tolerances,
        settings.max_steps,
        settings.seed,
        begin=begin or {},
        on_point=on_point,
        elsewhere=elsewhere,
    )
    if resume is not None and integrating:
        again = Maximiser(replace(objective), True)
        resumed = resume.resumed(again.objective, warm)
        if resumed is not None:
            mode, others = resumed
            conflict, alone = resume.search.conflict, resume.search.alone
            state = Searching(again, options, None, warm, first=mode.at, maximum=mode)
            state = replace(state, others=others, conflict=conflict, alone=alone)
            return _at_the_mode(replace(state, made=resume.known(coordinates)))
    search = Maximiser(objective, integrating)
    search = search if options.steps is None else replace(search, limit=options.steps)
    batches = None
    if options.batch is not None:
        from lgmdsl.learning.em.batches import Batches

        batches = Batches.of(objective, *options.batch)
    state = Searching(search, options, on_step, warm, begin or {}, batches, tuple(chosen))
    state, searched = through(TO_THE_MODE, state)
    state, refined = through(AT_THE_MODE, replace(state, ended=_ended(state)))
    assert state.learned is not None
    return replace(state.learned, stages=(*searched, *refined))


def _without_end(
    search: Maximiser, maximum: Maximum, on_step: Callable[[LearningStep], None] | None
) -> Maximum:
    """A maximum whose edges include the coordinates along which the density rises for ever, or the
    one next to the plateau that it was on."""
    objective = search.objective
    away = endless(objective, maximum.at, _curvature(maximum))
    higher = off_the_plateau(objective, maximum.at, away) if away else None
    if higher is not None:
        done = maximum.steps[-1].step
        objective.scales = real_units(objective, higher)  # a plateau has none
        further = search.run(higher, reporting(on_step, done))
        further = replace(further, steps=(*maximum.steps, *numbered(further.steps, done)))
        maximum = search.climbed(search.with_curvature(further))
        maximum = search.polished(to_the_top(search, maximum, on_step))
        away = endless(objective, maximum.at, _curvature(maximum))
    edges = tuple(sorted({*maximum.edges, *away}))
    return maximum if edges == maximum.edges else replace(maximum, edges=edges)


def _curvature(maximum: Maximum) -> Array:
    """(d, d) the Hessian, NaN where it could not be had."""
    size = len(maximum.at.x)
    return np.full((size, size), np.nan) if maximum.hessian is None else maximum.hessian


def _ended(state: Searching) -> tuple[Status, str] | None:
    return None if state.cut else (state.found.status, state.found.reason)


def _interrupted(maximum: Maximum) -> Maximum:
    return replace(maximum, status=Status.interrupted, reason="interrupted")


def _at_the_mode(state: Searching) -> Learned:
    """What follows a mode: standardised coordinates, and the integral, where one is wanted and
    nothing was interrupted."""
    search, maximum, integration, others = (
        state.search,
        state.found,
        state.integration,
        state.others,
    )
    objective, stopped = state.objective, state.cut
    frame, integrated, cut_short = None, None, ""
    if stopped and state.ended is not None:  # at the curvature, after the search
        status, reason = state.ended
        maximum = replace(maximum, status=status, reason=reason)
        cut_short = ERRORS if integration is None else INTEGRATION
    made = Known() if state.made is None else state.made
    if integration is not None and maximum.exact is not None:
        raise NumericalError(_fitted_exactly(maximum.exact))
    if integration is not None and objective.beyond(maximum.at.x, RUNAWAY):
        raise NumericalError(_runaway(maximum.at, objective))
    if maximum.hessian is not None or (integration is not None and not stopped):
        frame = _frame(objective, maximum, integration is not None)
    if integration is not None and frame is not None and not stopped:
        size = objective.coordinates.size
        design = default_design(size) if integration == "auto" else integration
        try:
            integrated = integrate(objective, maximum.at, frame, design, others, made)
            missed = further_mode(objective, maximum.at, integrated.other)
            if missed is not None:  # once more, around that one too
                others = (*others, missed)
                if missed.density > maximum.at.density + NOISE:
                    others = (*others[:-1], maximum.at)
                    maximum = search.polished(search.with_curvature(search.run(missed)))
                    frame = _frame(objective, maximum, True)
                integrated = integrate(objective, maximum.at, frame, design, others, made)
        except KeyboardInterrupt:
            cut_short = INTEGRATION
    resumable = integration is not None and not stopped
    conflict, alone = state.conflict, state.alone
    return Learned(
        objective.origin,
        maximum,
        objective.coordinates,
        frame,
        integrated,
        objective.calls,
        objective.steps,
        () if integration is not None else vanished(objective, maximum.at),
        others,
        cut_short,
        conflict,
        alone,
        checkpoint(objective, maximum, others, made, conflict, alone) if resumable else None,
        vanished=_vanished(objective, maximum),
    )


def _vanished(objective: Objective, maximum: Maximum) -> tuple[int, ...]:
    """The coordinates on their way to where latents are 0 and nothing else happens."""
    coordinates, at = objective.coordinates, maximum.at
    away = at.x - objective.origin
    far = coordinates.scaled & (np.abs(away) > FAR)
    far[list(maximum.edges)] = True
    if not far.any():
        return ()
    ends = vanishing(objective.planned.canonical, at.theta, objective.pinned.keys())
    toward = np.zeros(len(away))
    for name, sign in ends.items():
        toward[coordinates.slices[name]] = -sign
    return tuple(np.flatnonzero(far & (away * toward > 0.0)).tolist())


def _climbs(
    search: Maximiser, first: Evaluation, by_em: bool
) -> Iterator[tuple[Evaluation, Callable[[Evaluation], Maximum]]]:
    """Further searches where priors and data contradict each other: the other of L-BFGS and EM from
    the first start, and EM from others."""

    def em(start: Evaluation) -> Maximum:
        return _by_em(search, start, ACCELERATIONS[0], None, None)

    yield first, search.run if by_em else em
    for start in against_priors(search.objective, first):
        yield start, em


def _falling(search: Maximiser, found: Maximum) -> Maximum:
    """Without a Hessian by which the objective rises: the point is no maximum to tell sds of. In
    units of the coordinates: next to a singular covariance those of others are rounding."""
    if found.hessian is None or not np.isfinite(found.hessian).all():
        return replace(found, hessian=None)
    units = search.objective.units(found.at.x)
    rising = np.linalg.eigvalsh(units[:, None] * found.hessian * units)[-1] > RISING
    return replace(found, hessian=None) if rising else found


def _frame(objective: Objective, found: Maximum, integrated: bool) -> Standardised:
    """Standardised coordinates; what a maximum leaves open (rotations, edges) is not in them."""
    if integrated or found.hessian is None or not np.isfinite(found.hessian).all():
        return standardised(found.at.x, found.hessian, objective.coordinates.scaled)
    unknown = unidentified(objective, found.at, DenseHessian(found.hessian), found.edges)
    return frame_of(found.at.x, found.hessian, unknown, objective.coordinates.scaled)


def _runaway(at: Evaluation, objective: Objective) -> Diagnostic:
    every = np.ones(objective.coordinates.size, dtype=np.bool_)
    j = objective.farthest_of(at, every)
    name = objective.coordinates.names[j]
    value = objective.entry(at.x, j)
    return Diagnostic(
        "E601",
        f"nothing to integrate: the posterior density of `{name}` still rises at {value:.3g}",
        help=expected(objective, at, every),
    )


def _fitted_exactly(exact: ExactFit) -> Diagnostic:
    return Diagnostic(
        "E601",
        f"nothing to integrate: {exact.cause}",
        details=("data without noise, such as a constant response, do not determine it",),
        help=exact.remedy,
    )


def _by_em(
    search: Maximiser,
    first: Evaluation,
    acceleration: str,
    on_step: Callable[[LearningStep], None] | None,
    limit: int | None,
) -> Maximum:
    """EM to its end, or to where L-BFGS goes on; L-BFGS alone where no M-step is closed."""
    em = EM.of(search.objective, first.theta, acceleration)
    if em is None:
        return search.run(first, on_step)
    if sparse_slices(search.objective) and acceleration == ACCELERATIONS[0]:
        return sparse_maximum(em, first, on_step)
    em = em if limit is None else replace(em, limit=limit)
    climbed = em.run(first, on_step)
    if acceleration != "l-bfgs" or climbed.status is Status.interrupted:
        size = search.objective.coordinates.size
        return Maximum(
            climbed.at, climbed.status, climbed.steps, lambda: np.ones(size), None, climbed.reason
        )
    done = len(climbed.steps) - 1
    further = replace(search, limit=max(search.limit - done, 0))
    maximum = further.run(climbed.at, reporting(on_step, done), em.metric(climbed.at))
    return replace(maximum, steps=(*climbed.steps, *numbered(maximum.steps[1:], done)))


def _from_batches(batches: Batches) -> Evaluation:
    """Where mini-batches lead from the start that the first of them gives."""
    first = first_start(next(batches.parts()), None)
    evaluation = batches.objective.at(batches.run(first.x)) or batches.objective.at(first.x)
    return first_start(batches.objective, None) if evaluation is None else evaluation


def _why_sample(state: Searching) -> str:
    told = state.warm is not None or bool(state.begin) or not state.free or state.by_em
    return "" if told else "nothing says where to begin"


def _from_sample(state: Searching) -> Searching:
    pilot = piloted(state.search)
    found = None if pilot is None else pilot.climbed(state.search, state.on_step)
    if pilot is None or found is None:
        return state
    return replace(state, first=pilot.first, maximum=found)


def _why_first(state: Searching) -> str:
    if state.maximum is not None:
        return ""
    if state.batches is not None:
        return "mini-batches lead there"
    return "values were given" if state.begin else "the middle of the priors, or nearer to the data"


def _first(state: Searching) -> Searching:
    if state.batches is not None:
        return replace(state, first=_from_batches(state.batches))
    return replace(state, first=first_start(state.objective, state.warm))


def _why_starts(state: Searching) -> str:
    if state.maximum is not None or state.batches is not None or state.cornered:
        return ""
    return "the data may be on other scales"


def _starts(state: Searching) -> Searching:
    found = corners(state.search, state.start)
    if not found:
        return state
    first = state.start if state.begin else highest_start(state.search, state.start, found)
    return replace(state, first=first, starts=tuple(found))


def _why_search(state: Searching) -> str:
    if state.maximum is not None:
        return ""
    return "EM" if _em_first(state) else "L-BFGS"


def _em_first(state: Searching) -> bool:
    """Whether EM's steps come first; those of mini-batches were EM's."""
    if state.batches is not None and state.options.acceleration == ACCELERATIONS[0]:
        return state.cornered
    return state.by_em or state.cornered


def _search(state: Searching) -> Searching:
    search, first = state.search, state.start
    state.objective.scales = real_units(state.objective, first)
    if _em_first(state):
        acceleration = state.options.acceleration or ACCELERATIONS[0]
        found = _by_em(search, first, acceleration, state.on_step, state.options.steps)
    else:
        found = search.run(first, state.on_step)
    return replace(state, maximum=found)


def _why_second_search(state: Searching) -> str:
    early = state.found.status in (Status.iteration_limit, Status.stalled)
    if not (early and state.free):
        return ""
    closed = EM.of(state.objective, state.start.theta, ACCELERATIONS[0]) is not None
    return f"the first ended early: {state.found.status.value}" if closed else ""


def _second_search(state: Searching) -> Searching:
    """The higher of the maximum and what the other of L-BFGS and EM finds from the same start."""
    search, first, maximum = state.search, state.start, state.found
    done = maximum.steps[-1].step
    later = reporting(state.on_step, done)
    if state.by_em:
        again = search.run(first, later)
    else:
        again = _by_em(search, first, ACCELERATIONS[0], later, None)
    if again.status is Status.interrupted:
        return replace(state, maximum=_interrupted(maximum))
    higher = search.value(again.at) > search.value(maximum.at)
    steps = (*maximum.steps, *numbered(again.steps[1:], done))
    return replace(state, maximum=replace(again if higher else maximum, steps=steps))


def _why_corners(state: Searching) -> str:
    number = len(state.starts) if state.few else 0
    return f"{number} other start{'' if number == 1 else 's'}" if number else ""


def _corners(state: Searching) -> Searching:
    modes = from_corners(state.search, state.found, state.starts)
    return replace(state, maximum=modes.highest, others=modes.others, alone=modes.alone)


def _why_everywhere(state: Searching) -> str:
    return "priors and data contradict each other" if state.free else ""


def _everywhere(state: Searching) -> Searching:
    conflict = conflicts(state.objective, state.found.at)
    if not conflict:
        return state
    so_far = Modes(state.found, state.others, state.alone)
    climbs = _climbs(state.search, state.start, state.by_em)
    modes = from_everywhere(state.search, so_far, climbs)
    conflict = conflict if modes.alone else ()
    state = replace(state, others=modes.others, conflict=conflict, alone=modes.alone)
    return replace(state, maximum=modes.highest)


def _why_maximised(state: Searching) -> str:
    return "" if state.integration else "values are reported"


def _released(state: Searching) -> Searching:
    found = released(state.search, state.found, state.on_step)
    return state if found is state.found else replace(state, maximum=found)


def _reported(state: Searching) -> Searching:
    at = reported(state.objective, state.found.at)
    return state if at is state.found.at else replace(state, maximum=replace(state.found, at=at))


def _why_curvature(state: Searching) -> str:
    if state.integration:
        return "an integral is over it"
    wanted = state.smooth and (not state.by_em or state.found.status is Status.converged)
    return "standard errors" if wanted else ""


def _curved(state: Searching) -> Searching:
    found = state.search.with_curvature(state.found)
    return replace(state, maximum=state.search.climbed(found) if state.climbing else found)


def _top(state: Searching) -> Searching:
    found = to_the_top(state.search, state.found, state.on_step)
    climbing = state.climbing
    found = state.search.polished(found) if climbing else _falling(state.search, found)
    return state if found is state.found else replace(state, maximum=found)


def _why_endless(state: Searching) -> str:
    wanted = state.smooth and not state.integration and state.found.status is Status.converged
    return "the density may rise for ever" if wanted else ""


def _endless(state: Searching) -> Searching:
    found = _without_end(state.search, state.found, state.on_step)
    return state if found is state.found else replace(state, maximum=found)


def _why_learned(state: Searching) -> str:
    return f"the integral ({state.integration})" if state.integration else "its standard errors"


def _learned(state: Searching) -> Searching:
    """What follows from the mode; after an interrupt, the mode alone."""
    maximum = state.found
    try:
        learned = _at_the_mode(state)
        if learned.frame is None and state.chosen and maximum.status is Status.converged:
            errors = chosen_errors(state.objective, maximum, np.array(state.chosen))
            learned = replace(learned, chosen=errors, calls=state.fits)
    except KeyboardInterrupt:  # before there was anything to integrate, or after all
        bare = replace(_interrupted(maximum), hessian=None)
        learned = _at_the_mode(replace(state, maximum=bare))
    return replace(state, learned=learned)


# From nothing to the mode.
TO_THE_MODE = (
    Stage("a sample of the rows", _why_sample, _from_sample),
    Stage("start", _why_first, _first),
    Stage("other starts", _why_starts, _starts),
    Stage("search", _why_search, _search),
    Stage("second search", _why_second_search, _second_search),
    Stage("searches from other starts", _why_corners, _corners),
    Stage("searches from everywhere", _why_everywhere, _everywhere),
    Stage("exact zeros", _why_maximised, _released),
)
# From the mode to what is known of the posterior around it.
AT_THE_MODE = (
    Stage("axes of factors", _why_maximised, _reported),
    Stage("curvature", _why_curvature, _curved),
    Stage("top", _why_curvature, _top),
    Stage("ends of the range", _why_endless, _endless),
    Stage("posterior", _why_learned, _learned, always=True),
)
