"""Learning the hyperparameters of a plan: the mode (by EM first, if wanted), the curvature there
and, if wanted, the integral."""

# Long because it is the order of the steps of learning, from start to integral, on one page.
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.queries.sizes import vanishing
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.inference.driver import Run
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.chosen_errors import chosen_errors, coordinates_of
from lgmdsl.learning.coordinates.hyper_marginals import HyperMarginals
from lgmdsl.learning.coordinates.standardised import Standardised, standardised
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.em.batches import Batches
from lgmdsl.learning.em.em import ACCELERATIONS, EM
from lgmdsl.learning.em.sparse_search import sparse_maximum, sparse_slices
from lgmdsl.learning.integration.asymptotic import Asymptotic, Chosen, ModeOnly
from lgmdsl.learning.integration.checkpoint import Checkpoint, checkpoint
from lgmdsl.learning.integration.integrate import Integrated, default_design, integrate
from lgmdsl.learning.integration.visited import Fitted, Known
from lgmdsl.learning.objective.elsewhere import Elsewhere
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.pilot import piloted
from lgmdsl.learning.search.continued import numbered, reporting
from lgmdsl.learning.search.endless import endless, off_the_plateau
from lgmdsl.learning.search.exact_zeros import released
from lgmdsl.learning.search.learning_record import Learning, LearningOptions
from lgmdsl.learning.search.maximise import NOISE, RISING, RUNAWAY, LearningStep, Maximiser, Maximum
from lgmdsl.learning.search.top import to_the_top
from lgmdsl.learning.several_starts import Modes, from_corners, from_everywhere, further_mode
from lgmdsl.learning.starts.against_priors import against_priors
from lgmdsl.learning.starts.conflict import conflicts
from lgmdsl.learning.starts.factor_axes import reported, vanished
from lgmdsl.learning.starts.first import first_start
from lgmdsl.learning.starts.from_data import Corner, corners, highest_start
from lgmdsl.learning.starts.real_units import real_units
from lgmdsl.learning.unidentified import Dense, frame_of, unidentified
from lgmdsl.remedies import pin

# A coordinate (log, logit) this far beyond its start is on its way to an end of its type.
FAR = 3.0
# More hyperparameters than this get no standard errors by differences of gradients.
STANDARD_ERRORS = 50


@dataclass(frozen=True, eq=False)
class Learned:
    """`start`: (d,) the coordinates that searches are centred on; `maximum` of the posterior
    density: of the hyperparameters (map) or of their coordinates (integrate); `frame`: None without
    a curvature; `others`: further modes that matter; `calls`: fits made, of `iterations` steps;
    `idle`: loadings that vanished; `cut_short`: whether the integration was interrupted: all is
    conditional on the mode; `conflict`: hypers and latents far out in their priors, and `alone`:
    nats below the maximum where other searches ended, if none ended as high; `checkpoint`: what an
    integration can go on from; `chosen`: of the coordinates that standard errors were asked for;
    `vanished`: those at an end where latents are 0 and nothing else happens."""

    start: Array
    maximum: Maximum
    coordinates: Coordinates
    frame: Standardised | None
    integrated: Integrated | None
    calls: int
    iterations: int
    idle: tuple[str, ...] = ()
    others: tuple[Evaluation, ...] = ()
    cut_short: bool = False
    conflict: tuple[str, ...] = ()
    alone: tuple[float, ...] = ()
    checkpoint: Checkpoint | None = None
    chosen: Standardised | None = None
    vanished: tuple[int, ...] = ()

    @property
    def modes(self) -> tuple[Evaluation, ...]:
        """All that were found, the highest first."""
        return (self.mode, *self.others)

    @property
    def mode(self) -> Evaluation:
        return self.maximum.at

    @property
    def theta(self) -> Theta:
        return self.mode.theta

    @property
    def run(self) -> Run:
        """The fit at the mode."""
        return self.mode.run

    @property
    def of_fit_alone(self) -> bool:
        """Whether the status is that of the fit, not of the search or of the integration."""
        found_mode = self.maximum.status is Status.converged
        return found_mode and self.status is self.run.status

    @property
    def status(self) -> Status:
        """The search's, unless the fit at the mode itself did not converge, or the integration was
        interrupted, or has no integral to show that holds."""
        if self.cut_short:
            return Status.interrupted
        if self.maximum.status is not Status.converged:
            return self.maximum.status
        if self.integrated is not None and not self.integrated.holds:
            return Status.stalled
        return self.mode.run.status

    def evidence(self, log_evidence: float, guarantee: Guarantee) -> tuple[float, Guarantee]:
        """Of the fit as a whole, from those at the mode; NaN where the density has not fallen off,
        so that there is no telling what its integral is."""
        integrated = self.integrated
        if integrated is None:
            return log_evidence, guarantee
        # An integral by a rule over bounds or exact evidences is an approximation.
        return integrated.log_evidence if integrated.bounded else math.nan, Guarantee.APPROXIMATE

    @property
    def points(self) -> tuple[tuple[Fitted, float], ...]:
        """The fits that the posterior is a mixture of, and their weights; none at a mode."""
        return () if self.integrated is None else self.integrated.points

    def marginals(self) -> HyperMarginals:
        """The posterior of the hyperparameters."""
        if self.integrated is not None:
            return self.integrated.posterior
        if self.frame is None and self.chosen is not None:
            return Chosen(self.coordinates, self.theta, self.chosen)
        if self.frame is None:
            return ModeOnly(self.coordinates, self.theta)
        return Asymptotic(self.coordinates, self.theta, self.frame)

    def record(self) -> Learning:
        """How it was found."""
        integrated = self.integrated
        return Learning(
            self.maximum.steps,
            self.calls,
            self.iterations,
            integrated.design if integrated else "",
            len(integrated.points) if integrated else 1,
            integrated.modes if integrated else 1,
        )


def learn(
    planned: Plan,
    settings: FitSettings,
    options: LearningOptions,
    warm: GaussianPosterior | None = None,
    on_step: Callable[[LearningStep], None] | None = None,
    begin: Theta | None = None,
    on_point: Callable[[int, int], None] | None = None,
    resume: Checkpoint | None = None,
    elsewhere: Elsewhere | None = None,
) -> Learned:
    """Maximise, with the curvature there for up to STANDARD_ERRORS of them; integrate where the
    options name a design. `begin`: where the search starts, by name, of hypers that do not start
    in the middle of their priors. `on_point`: as in `Objective`. `resume`: an integration that goes
    on, whose posterior at the mode is `warm`. `elsewhere`: as in `Objective`.

    Raises NumericalError E601 where there is no fit at the start nor near it, or where there is
    nothing to integrate because a hyperparameter runs away, and MethodError E104 where standard
    errors are asked for of what is no free hyper.
    """
    space, fixed = planned.canonical.hypers, settings.fixed
    integration, acceleration = options.design, options.acceleration
    batch, limit = options.batch, options.steps
    coordinates = Coordinates(
        space, fixed, closed=integration is None, apart=integration is not None
    )
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
    if resume is not None and integration is not None:
        again = replace(objective)
        resumed = resume.resumed(again, warm)
        if resumed is not None:
            search, left, made = Maximiser(again, True), resume.search, resume.known(coordinates)
            mode, others = resumed
            return _at_the_mode(
                search, mode, integration, others, left.conflict, left.alone, False, made
            )
    batches = None if batch is None else Batches.of(objective, *batch)
    size = coordinates.size
    search = Maximiser(objective, jacobian=integration is not None)
    search = search if limit is None else replace(search, limit=limit)
    cornered = bool(sparse_slices(objective))
    told = warm is not None or bool(begin) or batches is not None or limit is not None
    pilot = None if told or cornered or acceleration is not None else piloted(search)
    from_sample = None if pilot is None else pilot.climbed(search, on_step)
    starts: list[Corner] | None = []
    if pilot is not None and from_sample is not None:
        first = pilot.first
    else:
        first = first_start(objective, warm) if batches is None else _from_batches(batches)
        starts = [] if batches is not None or cornered else _starts(search, first)
        if starts and not begin:
            first = highest_start(search, first, starts)
        objective.scales = real_units(objective, first)
    if from_sample is not None:
        maximum = from_sample
    elif starts is None:
        maximum = Maximum.interrupted(first, LearningStep(0, search.value(first), np.inf, 0))
    elif batches is not None and acceleration == ACCELERATIONS[0] and not cornered:
        maximum = search.run(first, on_step)  # the batches' steps were EM's
    elif acceleration is not None or cornered:
        maximum = _by_em(search, first, acceleration or ACCELERATIONS[0], on_step, limit)
    else:
        maximum = search.run(first, on_step)
    by_em = acceleration is not None
    further = starts is not None and batches is None and limit is None and not cornered
    if further and not maximum.exact:
        maximum = _otherwise(search, first, maximum, by_em, on_step)
    further &= not maximum.exact
    modes, conflict = Modes(maximum), tuple[str, ...]()
    try:
        if (
            starts
            and not maximum.exact
            and maximum.status is not Status.interrupted
            and size <= STANDARD_ERRORS
        ):
            modes = from_corners(search, maximum, starts)
        if further and not modes.highest.exact:
            conflict = conflicts(objective, modes.highest.at)
        if conflict and modes.highest.status is not Status.interrupted:
            modes = from_everywhere(search, modes, _climbs(search, first, by_em))
        maximum, others = modes.highest, modes.others
        if integration is None and not maximum.exact:
            maximum = released(search, maximum, on_step)
    except KeyboardInterrupt:
        maximum, others = _interrupted(modes.highest), modes.others
    going = maximum.status is not Status.interrupted and not maximum.exact
    smooth = size <= STANDARD_ERRORS and not cornered and not (maximum.away and not integration)
    try:
        if going and integration is None:
            maximum = replace(maximum, at=reported(objective, maximum.at))
        if going and (integration or (smooth and acceleration is None)):
            maximum = search.climbed(search.with_curvature(maximum))
            maximum = search.polished(to_the_top(search, maximum, on_step))
        elif going and smooth and maximum.status is Status.converged:
            maximum = _falling(search, to_the_top(search, search.with_curvature(maximum), on_step))
        if going and smooth and integration is None and maximum.status is Status.converged:
            maximum = _without_end(search, maximum, on_step)
    except KeyboardInterrupt:
        maximum = _interrupted(maximum)
    stopped = maximum.status is Status.interrupted
    cut_short = stopped and going and integration is not None
    if cut_short:  # at the curvature, with the mode found
        maximum = replace(maximum, status=Status.converged, reason="")
    conflict, alone = conflict if modes.alone else (), modes.alone
    try:
        learned = _at_the_mode(search, maximum, integration, others, conflict, alone, stopped)
        if learned.frame is None and len(chosen) and maximum.status is Status.converged:
            errors = chosen_errors(objective, maximum, chosen)
            learned = replace(learned, chosen=errors, calls=objective.calls)
        return learned
    except KeyboardInterrupt:  # before there was anything to integrate, or after all
        bare = replace(_interrupted(maximum), hessian=None)
        return _at_the_mode(search, bare, integration, others, conflict, alone, True)


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
    return replace(maximum, edges=tuple(sorted({*maximum.edges, *away})))


def _curvature(maximum: Maximum) -> Array:
    """(d, d) the Hessian, NaN where it could not be had."""
    size = len(maximum.at.x)
    return np.full((size, size), np.nan) if maximum.hessian is None else maximum.hessian


def _interrupted(maximum: Maximum) -> Maximum:
    return replace(maximum, status=Status.interrupted, reason="interrupted")


def _at_the_mode(
    search: Maximiser,
    maximum: Maximum,
    integration: str | None,
    others: tuple[Evaluation, ...],
    conflict: tuple[str, ...],
    alone: tuple[float, ...],
    stopped: bool,
    made: Known | None = None,
) -> Learned:
    """What follows a mode: standardised coordinates, and the integral, where one is wanted and the
    search was not `stopped`. `made`: what is known of an integration that goes on."""
    objective = search.objective
    frame, integrated, cut_short = None, None, stopped and maximum.status is Status.converged
    made = Known() if made is None else made
    if integration is not None and maximum.exact:
        raise NumericalError(_fitted_exactly(maximum))
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
            cut_short = True
    known = integration is not None and not stopped
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
        checkpoint(objective, maximum, others, made, conflict, alone) if known else None,
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


def _starts(search: Maximiser, first: Evaluation) -> list[Corner] | None:
    """Further starts, the highest first; None where that was interrupted."""
    try:
        return corners(search, first)
    except KeyboardInterrupt:
        return None


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
    unknown = unidentified(objective, found.at, Dense(found.hessian), found.edges)
    return frame_of(found.at.x, found.hessian, unknown, objective.coordinates.scaled)


def _runaway(at: Evaluation, objective: Objective) -> Diagnostic:
    away = np.abs(at.x - np.clip(at.x, *objective.spanned)) * objective.coordinates.logs
    j = int(away.argmax())
    name = objective.coordinates.names[j]
    value = np.ravel(at.theta[name])[0] if name in at.theta else np.exp(at.x[j])
    return Diagnostic(
        "E601",
        f"nothing to integrate: the posterior density of `{name}` still rises at {value:.3g}",
        help=f"give it a prior that keeps it on the scale of the data, or pin it: {pin(name)}",
    )


def _fitted_exactly(maximum: Maximum) -> Diagnostic:
    name = maximum.away
    return Diagnostic(
        "E601",
        f"nothing to integrate: the model fits the data exactly, and the posterior density of "
        f"`{name}` rises without limit as it goes to 0",
        details=("data without noise, such as a constant response, do not determine it",),
        help=f"pin it ({pin(name)}), or give it a prior that has no mass near 0, such as "
        f"lognormal(mean = -5, sd = 0.5)",
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


def _otherwise(
    search: Maximiser,
    first: Evaluation,
    maximum: Maximum,
    by_em: bool,
    on_step: Callable[[LearningStep], None] | None,
) -> Maximum:
    """The higher of a maximum and what the other of L-BFGS and EM finds from the same start, where
    the first search stopped early."""
    if maximum.status not in (Status.iteration_limit, Status.stalled):
        return maximum
    if EM.of(search.objective, first.theta, ACCELERATIONS[0]) is None:
        return maximum
    done = maximum.steps[-1].step
    later = reporting(on_step, done)
    again = (
        search.run(first, later) if by_em else _by_em(search, first, ACCELERATIONS[0], later, None)
    )
    if again.status is Status.interrupted:
        return replace(maximum, status=again.status, reason=again.reason)
    higher = search.value(again.at) > search.value(maximum.at)
    best = again if higher else maximum
    return replace(best, steps=(*maximum.steps, *numbered(again.steps[1:], done)))


def _from_batches(batches: Batches) -> Evaluation:
    """Where mini-batches lead from the start that the first of them gives."""
    first = first_start(next(batches.parts()), None)
    evaluation = batches.objective.at(batches.run(first.x)) or batches.objective.at(first.x)
    return first_start(batches.objective, None) if evaluation is None else evaluation
