"""load and fit: from a model and data to a posterior."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from lgmdsl.api.fit.compiled import Shared, fit_compiled, planned_by, planned_for_shards
from lgmdsl.api.fit.hyper_ways import check_hyper
from lgmdsl.api.jobs import workers_for
from lgmdsl.api.notebook.progress import NotebookProgress, notebook_display
from lgmdsl.api.settings import (
    check_fixed,
    check_named,
    check_numbers,
    check_options,
    check_word,
)
from lgmdsl.api.streaming import streamed
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import compile_model
from lgmdsl.dataset import Dataset, Keys, read
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.registry import load_entry_points
from lgmdsl.inference.settings import FitSettings, HyperName, MethodName
from lgmdsl.language.builder import Model
from lgmdsl.language.load import AnyModel, as_model
from lgmdsl.memory import during
from lgmdsl.shards.given import is_sharded
from lgmdsl.sites import catalogue as sites
from lgmdsl.workers.task import Jobs
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
        as one row with their number as its weight, and Gaussian rows as their sums, which changes
        no answer; `rows`: auto, kept or
        streamed (`rows=kept` neither reads them by batches nor sums them up); `integration`: grid,
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
        "contrasts(region)", "age:contrasts(region)", "poly(dose, 2)"]}.
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
        from lgmdsl.api.sharding import for_shards, sharded

        planning = partial(planned_for_shards, settings)
        with during("reading the shards"):
            of_shards = sharded(model, data, mapping, settings, planning, workers, on_step)
        settings = for_shards(settings, of_shards)
        try:
            return fit_compiled(model, of_shards, settings, start_from, on_step)
        finally:
            of_shards.rows.done()
    with during("reading the data and compiling the model"):
        dataset = data if isinstance(data, Dataset) else read(data, mapping)
        canonical: CanonicalModel | None
        canonical = streamed(model, dataset, settings, partial(planned_by, settings), on_step)
        if canonical is None:
            canonical = compile_model(model.checked, dataset, sites.find_site)
    shared = None if workers is None else Shared(workers, data, mapping)
    return fit_compiled(model, canonical, settings, start_from, on_step, shared)
