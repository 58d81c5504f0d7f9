"""Fitting a compiled model: the stages of a fit, in their order."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lgmdsl.api.files.provenance import provenance, resumable
from lgmdsl.api.fit.completed import assessed, check_correctable, corrected, unassessed
from lgmdsl.api.fit.correction import CorrectionOptions, correction_options
from lgmdsl.api.fit.errors.estimated import Estimated
from lgmdsl.api.fit.hyper_ways import (
    check_learning,
    chosen_way,
    expected_fits,
    learning_options,
)
from lgmdsl.api.fit.merging import contracted, folded_plan, merge_option
from lgmdsl.api.fit.optima.higher_optimum import drawn_from_modes, highest
from lgmdsl.api.fit.optima.other_runs import OtherOptima
from lgmdsl.api.fit.options import other_options
from lgmdsl.api.fit.warnings import (
    cut_short,
    entitled,
    inaccurate,
    local_optima,
    silent,
    uncertain_sds,
    undefined_reports,
    unfinished,
)
from lgmdsl.api.solve.hyper_starts import starting_values
from lgmdsl.api.solve.recondition import Recondition
from lgmdsl.api.solve.solved import Solved, solve, with_hypers
from lgmdsl.api.streaming import rows_option
from lgmdsl.api.third_parties import record, used_parts
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.status import Status
from lgmdsl.dataset import Keys
from lgmdsl.engines.choose import AUTO as ANY_ENGINE
from lgmdsl.errors import MethodError
from lgmdsl.graph.warnings import warnings_of
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.inference.quasi_random_error import standard_error
from lgmdsl.inference.routes import combined, error_notes
from lgmdsl.inference.settings import FitSettings
from lgmdsl.inference.stages import Ran, Stage, through, without
from lgmdsl.language.builder import Model
from lgmdsl.learning.objective.elsewhere import WorkersOfFits
from lgmdsl.learning.search.learning_record import LearningOptions
from lgmdsl.memory import during
from lgmdsl.numerics.blas_threads import one_thread
from lgmdsl.posterior.fit_record import FitRecord
from lgmdsl.posterior.unfolded import expanded
from lgmdsl.remedies import argument, option
from lgmdsl.workers.workers import Workers

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit


@dataclass(frozen=True, eq=False)
class Shared:
    """Workers, and the data as the caller gave them."""

    workers: Workers
    data: object
    mapping: Keys | None = None

    def elsewhere(self, planned: Plan) -> WorkersOfFits:
        """Where fits by a plan are made. Raises MethodError E501 for rows read by batches."""
        from lgmdsl.workers.sources import source_of

        if planned.canonical.rows.folding is None and not planned.canonical.rows.kept:
            message = f"{argument('jobs')} cannot share rows that are read by batches"
            help = "leave it out, or read all rows at once: " + option("rows", "kept")
            raise MethodError.of("E501", message, help=help)
        return WorkersOfFits(self.workers, source_of(planned.canonical, self.data, self.mapping))


def planned_by(settings: FitSettings, canonical: CanonicalModel) -> Plan:
    """The plan, with the options that are not the back end's taken out."""
    _, rest = learning_options(settings.options)
    _, rest = correction_options(rest)
    _, rest = merge_option(rest)
    _, rest = rows_option(rest)
    others = other_options(settings.hyper)
    return plan(canonical, settings.method, settings.bound, rest, others)


def planned_for_shards(settings: FitSettings, canonical: CanonicalModel) -> Plan:
    """The plan, by the settings that shards have."""
    from lgmdsl.api.sharding import for_shards

    return planned_by(for_shards(settings, canonical), canonical)


@dataclass(frozen=True, eq=False)
class Fitting:
    """A fit on its way. `learning`, `correcting` and `merging`: what the settings say; `whole`: the
    plan of `canonical`, `planned`: that of its rows as fewer sites; `way`: how
    hyperparameters are treated; `origin`: the provenance; `earlier`: the fit to start from;
    `solved`: the posterior; `optima`: others; `errors`: estimated ones; `remedy`: the option that
    would lessen them; `fit`: the record; `fits`: how many were
    made; `cut`: whether an interrupt ended it; `within`: the stages that finding the posterior
    had."""

    model: Model
    canonical: CanonicalModel
    settings: FitSettings
    learning: LearningOptions
    correcting: CorrectionOptions
    merging: bool
    whole: Plan
    planned: Plan
    way: str
    origin: Mapping[str, str] = field(default_factory=dict)
    earlier: FitRecord | None = None
    on_step: Callable[[TraceEntry], None] | None = None
    shared: Shared | None = None
    elsewhere: WorkersOfFits | None = None
    solved: Solved | None = None
    optima: OtherOptima | None = None
    errors: Estimated = field(default_factory=unassessed)
    remedy: str | None = None
    fit: FitRecord | None = None
    fits: int = 0
    cut: bool = False
    within: tuple[Ran, ...] = ()

    @classmethod
    def of(cls, model: Model, canonical: CanonicalModel, settings: FitSettings) -> Fitting:
        """Planned: by which back end, engine and bounds, and what is learned."""
        learning, rest = learning_options(settings.options)
        correcting, rest = correction_options(rest)
        merging, _ = merge_option(rest)
        planned = planned_by(settings, canonical)
        if correcting.wanted(settings.method):
            check_correctable(planned)
        way = chosen_way(canonical, settings, planned.backend.spec, learning.design or "")
        check_learning(settings, way)
        terms = replace(planned.terms, fits=expected_fits(canonical, settings.fixed, way))
        planned = replace(planned, terms=terms)
        return cls(model, canonical, settings, learning, correcting, merging, planned, planned, way)

    @property
    def wanted(self) -> bool:
        """Whether what is reported is corrected where its errors are large."""
        return self.correcting.wanted(self.settings.method)

    @property
    def found(self) -> Solved:
        assert self.solved is not None
        return self.solved

    @property
    def made(self) -> FitRecord:
        assert self.fit is not None
        return self.fit

    @property
    def stopped(self) -> bool:
        return self.cut

    def interrupted(self) -> Fitting:
        """With the posterior as it is: nobody knows how far off it is."""
        if self.solved is None:
            raise KeyboardInterrupt
        return replace(self, cut=True, errors=unassessed())


def fit_compiled(
    model: Model,
    canonical: CanonicalModel,
    settings: FitSettings,
    start_from: FitRecord | str | os.PathLike[str] | None = None,
    on_step: Callable[[TraceEntry], None] | None = None,
    shared: Shared | None = None,
) -> Fit:
    """Fit a compiled model, for repeated fits of one model. See `fit`."""
    from lgmdsl.api.fit.fit import Fit

    state = Fitting.of(model, canonical, settings)
    earlier = None if start_from is None else _earlier(start_from)
    state = replace(state, earlier=earlier, on_step=on_step, shared=shared)
    state, solved = through(TO_THE_POSTERIOR, state)
    with one_thread() as known_flops:  # same digits, as in `solve`
        known_flops(state.found.flops)
        state, finished = through(FROM_THE_POSTERIOR, state)
    stages = (*without(solved, state.within), *state.within, *finished)
    seconds = sum(stage.seconds for stage in stages)
    return Fit.of(replace(state.made, stages=stages, seconds=seconds))


def _why_merge(state: Fitting) -> str:
    whole = state.learning.batch is None and state.canonical.rows.kept
    return "rows that are alike, or of a place, are fitted as one" if whole else ""


def _merge(state: Fitting) -> Fitting:
    rows, _ = rows_option(state.settings.options)
    planned = folded_plan(
        state.planned, state.way, state.settings.bound, state.merging, rows == "auto"
    )
    return state if planned is None else replace(state, planned=planned)


def _why_solve(state: Fitting) -> str:
    named = f"by {state.planned.method}"
    return named if state.way == "fixed" else f"{named}, hyperparameters by {state.way}"


def _solve(state: Fitting) -> Fitting:
    settings, earlier, way = state.settings, state.earlier, state.way
    origin, space, shared = _asked(state), state.canonical.hypers, state.shared
    elsewhere = None if shared is None else shared.elsewhere(state.planned)
    known = None if earlier is None else earlier.theta
    begin = starting_values(space, settings, known, way)
    warm = None
    if earlier is not None:
        fixed = settings.fixed
        theta = space.theta(fixed) if way == "fixed" else space.start(fixed, begin)
        warm = contracted(earlier.posterior, state.planned, theta, settings.seed)
    resume = None if earlier is None else resumable(earlier, origin)
    with during(_doing(state.planned, way)):
        solved = solve(
            state.planned,
            way,
            settings,
            state.learning,
            warm,
            state.on_step,
            begin,
            resume,
            elsewhere,
        )
    found = replace(state, solved=solved, origin=origin, elsewhere=elsewhere)
    return replace(found, fits=_fits(solved), within=solved.stages)


def _fits(solved: Solved) -> int:
    return 1 if solved.learned is None else solved.learned.record().fits


def _asked(state: Fitting) -> dict[str, str]:
    """The provenance of what was asked for."""
    settings, planned = state.settings, state.planned
    chosen = {
        "bound": settings.bound,
        "hyper": None if settings.hyper == "auto" else settings.hyper,
        "fixed": dict(settings.fixed) or None,
        "tol": settings.tol,
        "max_steps": settings.max_steps,
        "engine": None if planned.terms.engine == ANY_ENGINE else planned.terms.engine,
        "variances": None if planned.terms.variances == ANY_ENGINE else planned.terms.variances,
        **planned.terms.counted,
        "merge": None if state.merging else "off",
    }
    canonical = state.canonical
    origin = provenance(state.model, canonical, planned.backend, settings.seed, chosen)
    return origin | canonical.rows.said


def _always(reason: str) -> Callable[[Fitting], str]:
    return lambda state: reason


def _look_elsewhere(state: Fitting) -> Fitting:
    with during(_doing(state.planned, state.way)):
        solved, optima = highest(
            state.planned,
            state.way,
            state.settings,
            state.learning,
            state.found,
            state.on_step,
            state.elsewhere,
        )
    more = 0 if solved is state.found else _fits(solved)
    return replace(state, solved=solved, optima=optima, fits=state.fits + more)


def _assess(state: Fitting) -> Fitting:
    whole = None if state.optima is None else state.optima.whole
    allowed = state.correcting if state.wanted else None
    errors = assessed(state.planned, state.found, state.settings.seed, whole, allowed)
    return replace(state, errors=errors)


def _record(state: Fitting) -> Fitting:
    """The posterior with its provenance, its errors and the warnings of its search."""
    canonical, planned, solved = state.canonical, state.planned, state.found
    q, learned, seed = solved.posterior, solved.learned, state.settings.seed
    origin = _origin(state)
    fit = FitRecord(
        model=state.model,
        method=planned.method,
        status=solved.run.status,
        log_evidence=q.log_evidence,
        guarantee=combined(q.guarantee, planned.routes),
        weight=q.weight,
        shift=q.shift,
        trace=solved.run.trace,
        steps=solved.run.steps,
        seconds=solved.run.seconds,
        seed=seed,
        starts=solved.starts,
        canonical=planned.canonical,
        theta=solved.theta,
        condition=Recondition(
            planned.canonical, solved.theta, q.weight, q.shift, seed, origin, q.conditioned
        ),
        warnings=(
            *warnings_of(canonical.grounded.graph),
            *canonical.grounded.warnings,
            *silent(canonical),
            *(unfinished(solved.run) if learned is None or learned.of_fit_alone else ()),
            *solved.warnings,
        ),
        provenance=origin,
        accuracy=state.errors.accuracy,
        log_evidence_corrected=state.errors.log_evidence,
    )
    if learned is not None:
        fit = with_hypers(fit, learned, state.way)
        if state.way == "integrate":
            gap = state.errors.accuracy.evidence
            fit = replace(fit, log_evidence_corrected=fit.log_evidence + gap)
    return replace(state, fit=fit, origin=origin)


def _origin(state: Fitting) -> dict[str, str]:
    """The provenance of the posterior."""
    planned, solved, optima = state.planned, state.found, state.optima
    origin = {**state.origin, "engine": solved.engine, "memory_budget": str(planned.terms.budget)}
    origin["flops"] = repr(float(solved.flops))
    origin["routes"] = (
        "; ".join(error_notes(state.whole.routes)) or "all sites answer by themselves"
    )
    folding = planned.canonical.rows.folding
    if folding is not None:
        origin[folding.entry] = folding.note
    several = (optima.note,) if optima is not None and optima.note else ()
    notes = (*solved.posterior.notes, *_scatter(planned, solved), *several)
    if notes:
        origin["notes"] = "; ".join(notes)
    if solved.starts:
        origin["starts"] = "; ".join(map(str, solved.starts))
    bounds = [r.bound for r in planned.routes]
    engine = origin.get("engine", "")
    return origin | record(used_parts(state.model.tree, planned.method, bounds, engine))


def _why_correct(state: Fitting) -> str:
    return "what is reported is to be near the truth" if state.wanted else ""


def _correct(state: Fitting) -> Fitting:
    fit, errors, remedy = corrected(
        state.made, state.planned, state.whole, state.errors, state.correcting, state.optima
    )
    return replace(state, fit=fit, errors=errors, remedy=remedy)


def _warn(state: Fitting) -> Fitting:
    """The fit of the user's rows, with what is to be said of it."""
    fit, learned, optima = state.made, state.found.learned, state.optima
    if state.cut:
        fit = replace(fit, status=Status.interrupted, accuracy=state.errors.accuracy)
        fit = replace(fit, warnings=(*fit.warnings, *cut_short()), log_evidence_corrected=math.nan)
    if learned is not None and fit.status is Status.interrupted:
        fit = replace(fit, checkpoint=learned.checkpoint)
    local = local_optima(fit, optima, drawn_from_modes(fit, optima))
    method, wanted = state.planned.method, state.wanted
    off = inaccurate(state.canonical, method, state.errors, state.remedy, wanted, bool(local))
    fit = expanded(fit, state.planned)
    fit = replace(fit, warnings=(*fit.warnings, *local, *off))
    reports = (*undefined_reports(fit), *uncertain_sds(fit))
    fit = entitled(replace(fit, warnings=(*fit.warnings, *reports)))
    return replace(state, fit=fit)


TO_THE_POSTERIOR = (
    Stage("merge", _why_merge, _merge),
    Stage("solve", _why_solve, _solve),
)
FROM_THE_POSTERIOR = (
    Stage("look elsewhere", _always("other optima may be higher"), _look_elsewhere),
    Stage("assess", _always("errors are estimated"), _assess),
    Stage("record", _always("the posterior and how it was found"), _record, always=True),
    Stage("correct", _why_correct, _correct),
    Stage("warn", _always("what is to be known of the fit"), _warn, always=True),
)


def _scatter(planned: Plan, solved: Solved) -> tuple[str, ...]:
    """The quadrature error of a variational evidence from quasi-random points."""
    if planned.backend.spec.needs is not Expected:
        return ()
    q, sites = solved.posterior.conditioned, planned.canonical.sites(solved.theta)
    error = standard_error(planned.routes, sites, q.mean, q.variance)
    note = f"log evidence +- {error:.2g} (standard error of the points of its sites' averages)"
    return (note,) if error else ()


def _doing(planned: Plan, way: str) -> str:
    """What memory would run out of: `learning 3 hyperparameters by map of 2,000 latents`."""
    size = planned.canonical.size
    size_text = f"{size:,} latent{'' if size == 1 else 's'} by method `{planned.method}`"
    return (
        f"fitting {size_text}"
        if way == "fixed"
        else f"fitting {size_text} and its hyperparameters ({way})"
    )


def _earlier(source: FitRecord | str | os.PathLike[str]) -> FitRecord:
    from lgmdsl.api.fit.restore import load_fit

    return source if isinstance(source, FitRecord) else load_fit(source)
