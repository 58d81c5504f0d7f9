"""load and fit: from a model and data to a posterior."""

# Long because the manual of `fit` is its docstring, with an example of each argument.

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from lgmdsl.api.files.provenance import provenance
from lgmdsl.api.fit.completed import assessed, check_correctable, corrected, unassessed
from lgmdsl.api.fit.correction import correction_options
from lgmdsl.api.fit.entitled import entitled
from lgmdsl.api.fit.hyper_starts import starting_values
from lgmdsl.api.fit.hyper_ways import (
    check_hyper,
    check_learning,
    chosen_way,
    expected_fits,
    learning_options,
)
from lgmdsl.api.fit.learned_fit import with_hypers
from lgmdsl.api.fit.merging import NOTED, contracted, expanded, merge_option, noted
from lgmdsl.api.fit.optima.higher_optimum import drawn_from_modes, highest
from lgmdsl.api.fit.options import other_options
from lgmdsl.api.fit.recondition import Recondition
from lgmdsl.api.fit.resume import resumable
from lgmdsl.api.fit.solved import Solved, solve
from lgmdsl.api.fit.warnings import (
    cut_short,
    inaccurate,
    local_optima,
    silent,
    uncertain_sds,
    undefined_reports,
    unfinished,
)
from lgmdsl.api.jobs import workers_for
from lgmdsl.api.notebook.progress import NotebookProgress, notebook_display
from lgmdsl.api.settings import (
    check_fixed,
    check_named,
    check_numbers,
    check_options,
    check_word,
)
from lgmdsl.api.sharding import finishing, for_shards, provenance_of_shards, sharded
from lgmdsl.api.streaming import provenance_of, rows_option, streamed
from lgmdsl.api.third_parties import record, used_parts
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import compile_model
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.status import Status
from lgmdsl.dataset import Dataset, Keys, read
from lgmdsl.engines.choose import AUTO as ANY_ENGINE
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.graph.warnings import warnings_of
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.merging import merged_model, merged_plan
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.inference.quasi_random_error import standard_error
from lgmdsl.inference.registry import load_entry_points
from lgmdsl.inference.routes import combined, error_notes
from lgmdsl.inference.settings import FitSettings, HyperName, MethodName
from lgmdsl.language.builder import Model
from lgmdsl.language.load import AnyModel, as_model
from lgmdsl.learning.objective.elsewhere import Elsewhere
from lgmdsl.memory import during
from lgmdsl.numerics.blas_threads import one_thread
from lgmdsl.remedies import argument, option
from lgmdsl.shards.given import is_sharded
from lgmdsl.shards.model import ShardedModel
from lgmdsl.sites import catalogue as sites
from lgmdsl.streams.model import StreamedModel
from lgmdsl.workers.executor import Jobs
from lgmdsl.workers.sources import source_of
from lgmdsl.workers.workers import Workers

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit

NONE: Mapping[str, object] = MappingProxyType({})


def fit(
    model: AnyModel,
    data: object,
    method: MethodName | str | None = "auto",
    hyper: HyperName | str | None = "auto",
    fixed: Mapping[str, object] | None = None,
    bound: str | None = None,
    options: Mapping[str, object] | None = NONE,
    start_from: Fit | str | os.PathLike[str] | None = None,
    seed: int | None = 0,
    tol: float | None = None,
    max_steps: int | None = None,
    *,
    mapping: Keys | None = None,
    start: Mapping[str, object] | None = None,
    on_step: Callable[[TraceEntry], None] | None = None,
    jobs: Jobs = None,
) -> Fit:
    """Fit a model to data.

    Parameters
    ----------
    model : Model, str or path
        A model, the text of one, or the path of its file.
    data : path, dict, frame, Dataset or list of these
        A path (.npz, .csv, .parquet, .nc, or a folder of shards that `lgm shard` made, whose rows
        are fitted where they lie: auto is then `laplace`, or `natural-gradient` where that cannot
        run the model), a dict of arrays, a frame, an xarray Dataset, or a list of these, whose keys
        are joined: ["rows.csv", {"edges": pairs}]. Frames and paths in a dict are tables of their
        own, each over the index that its key column names.
    method : str, default "auto"
        The back end; `lgm.methods(model)` lists those that run the model.
    hyper : str, default "auto"
        How to treat hyperparameters that have a prior and are not pinned. `map` maximises evidence
        + log prior on their natural scale, `em` does so by EM steps for what enters the predictors
        linearly (loadings, offsets) and for noise sds, then L-BFGS (`map` where there is no such
        step; rotations of loadings have no standard errors), `integrate` makes the posterior a
        mixture over their posterior, `fixed` wants all of them pinned, `vb` keeps a factor over
        each that is a scale of Gaussians and reports the bound of log p(y) (px-vb and other methods
        that have one), `auto` takes em where loadings multiply a latent or words are drawn from
        topics, else integrates up to 6 scalars and maximises over more.
    fixed : dict, optional
        Values that hyperparameters are pinned at, by name (a scalar fills an indexed one).
    bound : str, optional
        A bound to use for the sites that it applies to (`lgm methods`).
    options : dict, optional
        Fields of the back end, and `engine`: covariance, precision, batched, wide, nested, sparse
        or iterative (default: the cheapest that fits the memory budget, `LGM_MEMORY` or half of the
        machine's memory; never what is free); `merge`: on, or off: rows that are alike are fitted
        as one row with their number as its weight, which changes no answer; `integration`: grid,
        ccd or gauss-hermite (default: grid for one or two hyperparameters, then ccd),
        `acceleration` of em: l-bfgs, squarem or none, and `batch` of em: rows of a mini-batch, with
        `epochs` (default 3), for models of very many rows that factorise over an index;
        `learning_steps`: the most that the search for hyperparameters takes (200);
        `standard_errors`: names of those that get them where there are more than 50.
        `correction` is auto, on (of a named method too) or off: under `auto`, where the estimated
        error of the Gaussian posterior (`fit.accuracy`) passes 0.1 posterior sds of a mean, 10 % of
        an sd or 0.15 sds of a 5 or 95 % point, everything that is reported of latents, lets,
        reports and predictions comes from exact draws, where these are too expensive from draws
        with the posterior's skewness and sds to second order (W609 stays where that is not near
        enough), and hyperparameters from the corrected evidence; `marginals=gaussian` keeps latents
        Gaussian, and `fit.posterior` is that of the Gaussian. `effort` is normal (what about three
        seconds of one core compute, or the fit itself took), high (10 times that, and half the
        errors are tolerated) or low (no draws).
    start_from : Fit or path, optional
        An earlier fit (or its file) of a model with the same sites; hypers that are learned start
        at its values too, and an integration of the same model, data and settings that was
        interrupted goes on with the fits that it had.
    seed : int, default 0
        That of draws, and of the estimates of an engine that gives any; None is 0. The same seed,
        data and budget give the same bits in every process, pool and thread. Another processor, or
        for models of 1e9 flops a conditioning and more another number of BLAS threads, changes the
        last digits (below 1e-10, relative; draws below 1e-7).
    tol : float, optional
        The relative tolerance of the log evidence (default 1e-7, means to 1e-4 sd); a looser one
        holds for the search over hyperparameters too.
    max_steps : int, optional
        The most steps of each run of the method.
    mapping : dict, optional
        Renames keys ({"name in the model": "key"}) and makes matrices of columns: {"X": ["age",
        "contrasts(region)"]}.
    start : dict, optional
        Values of hyperparameters to start from, by name (a scalar fills an indexed one); otherwise
        they start in the middle of their priors.
    on_step : callable, optional
        Called with every entry of the trace; without it, notebooks show a line with how far a fit
        is that takes more than half a second.
    jobs : int, str, Client or executor, optional
        Shares fits at several values of the hyperparameters (the points of `integrate`, the
        differences that make a curvature), or the shards: a number of processes, the address of a
        Dask scheduler ("tcp://host:8786"), a Dask Client, or any executor with submit and shutdown;
        None and 1: this process. Bits are the same, whoever computes them.

    Returns
    -------
    Fit
        The posterior and its record. A fit that merely stopped early is returned with its status.

    Raises
    ------
    ModelError
        For a wrong model; E402 for an improper posterior.
    DataError
        For wrong data (E3xx), or a file that cannot be read (E306).
    MethodError
        Where no method, or not the one that was asked for, runs the model (E5xx); E505 names what
        is larger than the memory budget, E108 a setting of a wrong type.
    NumericalError
        Where there is no usable state at all.
    WorkerError
        Where workers die, are lost or lack something (E7xx).
    TypeError
        For a model, mapping or path of another type.

    Examples
    --------
    One of each argument::

        fit = lgm.fit(lgm.load("model.lgm"), "data.npz")    # or a csv, a dict, a frame
        lgm.fit("model.lgm", data=table, mapping={"y": "visits", "x": "age"})
        lgm.fit(model, table, method="ep")                  # lgm.methods(model) lists them
        lgm.fit(model, table, hyper="map")
        lgm.fit(model, table, fixed={"s": 0.5})
        lgm.fit(model, table, method="natural-gradient", bound="jaakkola")
        lgm.fit(model, table, options={"effort": "high", "engine": "precision"})
        lgm.fit(model, table, start_from=fit)               # or "earlier.fit.nc"
        lgm.fit(model, table, seed=1)
        lgm.fit(model, table, tol=1e-9, max_steps=50)
        lgm.fit(model, table, start={"s": 2.0})
        lgm.fit(model, table, on_step=print)
        lgm.fit(model, table, hyper="integrate", jobs=2)
    """
    load_entry_points()
    model = as_model(model, "fit")
    method = "auto" if method is None else method
    hyper = "auto" if hyper is None else hyper
    seed = 0 if seed is None else seed
    check_word(method, "method", "laplace")
    check_hyper(hyper)
    check_word(bound or "", "bound", "quadrature")
    check_numbers(seed, tol, max_steps)
    settings = FitSettings(
        method,
        hyper,
        check_fixed(fixed),
        bound,
        check_options(options),
        seed,
        tol,
        max_steps,
        check_named(start, "start", '{"s": 0.5}'),
    )
    show = notebook_display() if on_step is None else None
    with workers_for(jobs, model.tree) as workers:
        if show is None:
            return fit_data(model, data, settings, mapping, start_from, on_step, workers)
        with NotebookProgress(show) as progress:
            follow = progress.on_step
            return fit_data(model, data, settings, mapping, start_from, follow, workers)


def fit_data(
    model: Model,
    data: object,
    settings: FitSettings,
    mapping: Keys | None = None,
    start_from: Fit | str | os.PathLike[str] | None = None,
    on_step: Callable[[TraceEntry], None] | None = None,
    workers: Workers | None = None,
) -> Fit:
    """Fit a model to data by settings that have been checked. See `fit`."""
    if is_sharded(data):
        planning = partial(_planned_for_shards, settings)
        with during("reading the shards"):
            of_shards = sharded(model, data, mapping, settings, planning, workers, on_step)
        settings = for_shards(settings, of_shards)
        with finishing(of_shards):
            return fit_compiled(model, of_shards, settings, start_from, on_step)
    with during("reading the data and compiling the model"):
        dataset = data if isinstance(data, Dataset) else read(data, mapping)
        canonical: CanonicalModel | None
        canonical = streamed(model, dataset, settings, partial(_planned, settings), on_step)
        if canonical is None:
            canonical = compile_model(model.checked, dataset, sites.find_site)
    shared = None if workers is None else Shared(workers, data, mapping)
    return fit_compiled(model, canonical, settings, start_from, on_step, shared)


@dataclass(frozen=True, eq=False)
class Shared:
    """Workers, and the data as the caller gave them."""

    workers: Workers
    data: object
    mapping: Keys | None = None

    def elsewhere(self, planned: Plan) -> Elsewhere:
        """Where fits by a plan are made. Raises MethodError E501 for rows read by batches."""
        if isinstance(planned.canonical, StreamedModel):
            message = f"{argument('jobs')} shares fits of all rows, and these are read by batches"
            help = "leave it out, or read all rows at once: " + option("rows", "kept")
            raise MethodError(Diagnostic("E501", message, help=help))
        return Elsewhere(self.workers, source_of(planned.canonical, self.data, self.mapping))


def _planned(settings: FitSettings, canonical: CanonicalModel) -> Plan:
    """The plan, with the options that are not the back end's taken out."""
    _, rest = learning_options(settings.options)
    _, rest = correction_options(rest)
    _, rest = merge_option(rest)
    _, rest = rows_option(rest)
    others = other_options(settings.hyper)
    return plan(canonical, settings.method, settings.bound, rest, others)


def _planned_for_shards(settings: FitSettings, canonical: CanonicalModel) -> Plan:
    return _planned(for_shards(settings, canonical), canonical)


def _scatter(planned: Plan, solved: Solved) -> tuple[str, ...]:
    """The quadrature error of a variational evidence from quasi-random points."""
    if planned.backend.spec.needs is not Expected:
        return ()
    q, sites = solved.posterior.conditioned, planned.canonical.sites(solved.theta)
    error = standard_error(planned.routes, sites, q.mean, q.variance)
    note = f"log evidence +- {error:.2g} (standard error of the points of its sites' averages)"
    return (note,) if error else ()


def fit_compiled(
    model: Model,
    canonical: CanonicalModel,
    settings: FitSettings,
    start_from: Fit | str | os.PathLike[str] | None = None,
    on_step: Callable[[TraceEntry], None] | None = None,
    shared: Shared | None = None,
) -> Fit:
    """Fit a compiled model, for repeated fits of one model. See `fit`."""
    from lgmdsl.api.fit.fit import Fit

    learning, rest = learning_options(settings.options)
    correcting, rest = correction_options(rest)
    merging, _ = merge_option(rest)
    in_batches = not canonical.by_rows
    wanted = correcting.wanted(settings.method)
    planned = _planned(settings, canonical)
    if wanted:
        check_correctable(planned)
    way = chosen_way(canonical, settings, planned.backend.spec, learning.design or "")
    check_learning(settings, way)
    terms = replace(planned.terms, fits=expected_fits(canonical, settings.fixed, way))
    planned = replace(planned, terms=terms)
    routes = planned.routes
    if merging and learning.batch is None and not in_batches:
        planned = merged_plan(planned, way, settings.bound) or planned
    merged = merged_model(planned)
    elsewhere = None if shared is None else shared.elsewhere(planned)
    earlier = None if start_from is None else _earlier(start_from)
    warm = None if earlier is None else earlier.posterior
    if warm is not None and merged is not None:
        warm = contracted(warm, merged)
    known = None if earlier is None else earlier.theta
    begin = starting_values(canonical.hypers, settings, known, way)
    chosen = {
        "bound": settings.bound,
        "hyper": None if settings.hyper == "auto" else settings.hyper,
        "fixed": dict(settings.fixed) or None,
        "tol": settings.tol,
        "max_steps": settings.max_steps,
        "engine": None if planned.terms.engine == ANY_ENGINE else planned.terms.engine,
        "variances": None if planned.terms.variances == ANY_ENGINE else planned.terms.variances,
        **planned.terms.counted,
        "merge": None if merging else "off",
    }
    origin = provenance(model, canonical, planned.backend, settings.seed, chosen)
    if isinstance(canonical, StreamedModel):
        origin |= provenance_of(canonical)
    if isinstance(canonical, ShardedModel):
        origin |= provenance_of_shards(canonical)
    resume = None if earlier is None else resumable(earlier, origin)
    with during(_doing(planned, way)):
        solved = solve(planned, way, settings, learning, warm, on_step, begin, resume, elsewhere)
        with one_thread() as known_flops:
            known_flops(solved.flops)
            optima, cut = None, False
            try:
                solved, optima = highest(
                    planned, way, settings, learning, solved, on_step, elsewhere
                )
            except KeyboardInterrupt:
                cut = True
    q, learned = solved.posterior, solved.learned
    origin |= {"engine": solved.engine, "memory_budget": str(planned.terms.budget)}
    origin["flops"] = repr(float(solved.flops))
    origin["routes"] = "; ".join(error_notes(routes)) or "all sites answer by themselves"
    if merged is not None:
        origin[NOTED] = noted(merged)
    several = (optima.note,) if optima is not None and optima.note else ()
    notes = (*q.notes, *_scatter(planned, solved), *several)
    if notes:
        origin["notes"] = "; ".join(notes)
    if solved.starts:
        origin["starts"] = "; ".join(map(str, solved.starts))
    bounds = [r.bound for r in planned.routes]
    engine = origin.get("engine", "")
    origin |= record(used_parts(model.tree, planned.method, bounds, engine))
    with one_thread() as known_flops:  # same digits, as in `solve`
        known_flops(solved.flops)
        whole = None if optima is None else optima.whole
        allowed = correcting if wanted else None
        errors = unassessed()
        if not cut:
            errors, cut = assessed(planned, solved, settings.seed, whole, allowed)
        fit = Fit(
            model=model,
            method=planned.method,
            status=Status.interrupted if cut else solved.run.status,
            log_evidence=q.log_evidence,
            guarantee=combined(q.guarantee, planned.routes),
            weight=q.weight,
            shift=q.shift,
            trace=solved.run.trace,
            steps=solved.run.steps,
            seconds=solved.run.seconds,
            seed=settings.seed,
            starts=solved.starts,
            canonical=planned.canonical,
            theta=solved.theta,
            condition=Recondition(
                planned.canonical,
                solved.theta,
                q.weight,
                q.shift,
                settings.seed,
                origin,
                q.conditioned,
            ),
            warnings=(
                *warnings_of(canonical.grounded.graph),
                *canonical.grounded.warnings,
                *silent(canonical),
                *(unfinished(solved.run) if learned is None or learned.of_fit_alone else ()),
                *solved.warnings,
            ),
            provenance=origin,
            accuracy=errors.accuracy,
            log_evidence_corrected=errors.log_evidence,
        )
        if learned is not None:
            fit = with_hypers(fit, learned, way)
            if way == "integrate":
                gap = errors.accuracy.evidence
                fit = replace(fit, log_evidence_corrected=fit.log_evidence + gap)
        remedy = None
        try:
            if wanted and not cut:
                fit, errors, remedy = corrected(fit, planned, errors, correcting, optima)
        except KeyboardInterrupt:
            cut, errors = True, unassessed()
            fit = replace(fit, status=Status.interrupted, accuracy=errors.accuracy)
            fit = replace(fit, log_evidence_corrected=math.nan)
        if cut:
            fit = replace(fit, warnings=(*fit.warnings, *cut_short()))
        if learned is not None and fit.status is Status.interrupted:
            fit = replace(fit, checkpoint=learned.checkpoint)
        local = local_optima(fit, optima, drawn_from_modes(fit, optima))
        off = inaccurate(canonical, planned.method, errors, remedy, wanted, bool(local))
        fit = fit if merged is None else expanded(fit, merged)
        fit = replace(fit, warnings=(*fit.warnings, *local, *off))
        reports = (*undefined_reports(fit), *uncertain_sds(fit))
        return entitled(replace(fit, warnings=(*fit.warnings, *reports)))


def _doing(planned: Plan, way: str) -> str:
    """What memory would run out of: `learning 3 hyperparameters by map of 2,000 latents`."""
    size = planned.canonical.size
    size_text = f"{size:,} latent{'' if size == 1 else 's'} by method `{planned.method}`"
    return (
        f"fitting {size_text}"
        if way == "fixed"
        else f"fitting {size_text} and its hyperparameters ({way})"
    )


def _earlier(source: Fit | str | os.PathLike[str]) -> Fit:
    from lgmdsl.api.fit.fit import Fit
    from lgmdsl.api.fit.restore import load_fit

    return source if isinstance(source, Fit) else load_fit(source)
