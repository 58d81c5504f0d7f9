"""load and fit: from a model and data to a posterior."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from lgmdsl.api.provenance import provenance
from lgmdsl.api.settings import check_numbers
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import compile_model
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Status
from lgmdsl.dataset import Dataset, read
from lgmdsl.errors import Diagnostic, MethodError, NumericalError, nearest
from lgmdsl.inference.driver import Run, Tolerances, TraceEntry
from lgmdsl.inference.estimated import honest
from lgmdsl.inference.legible import legible
from lgmdsl.inference.plan import plan
from lgmdsl.inference.proper import check_bounded, check_determined, check_mode
from lgmdsl.inference.registry import load_entry_points
from lgmdsl.inference.routes import combined, error_notes
from lgmdsl.inference.starts import Started, run_from_starts
from lgmdsl.language.builder import Model
from lgmdsl.sites import catalogue as sites

if TYPE_CHECKING:
    from lgmdsl.api.fit import Fit

NONE: Mapping[str, object] = MappingProxyType({})

HYPER = ("auto", "fixed", "map", "integrate", "em", "vb")


def fit(
    model: Model,
    data: object,
    method: str = "auto",
    hyper: str = "auto",
    fixed: Mapping[str, object] | None = None,
    bound: str | None = None,
    options: Mapping[str, object] = NONE,
    start_from: Fit | str | os.PathLike[str] | None = None,
    seed: int = 0,
    tol: float | None = None,
    max_steps: int | None = None,
    *,
    mapping: Mapping[str, str] | None = None,
    on_step: Callable[[TraceEntry], None] | None = None,
) -> Fit:
    """Fit a model to data.

    `data` is a path, a dict, a frame or an xarray Dataset; `mapping` renames keys. `fixed` pins
    hyperparameters by name (a scalar fills an indexed one). `options` are fields of the back end.
    `bound` names a bound through which the sites answer that it applies to (`lgm methods`).
    `tol` is the relative tolerance of the log evidence (default 1e-7, means to 1e-4 sd).
    `start_from` is an earlier fit (or its file) of a model with the same sites.

    Raises ModelError (E402 for an improper posterior), DataError, MethodError (E5xx), or
    NumericalError where there is no usable state at all; a fit that merely stopped early is
    returned with its status. TypeError for a model, mapping or path that is none.
    """
    load_entry_points()
    if not isinstance(model, Model):
        raise TypeError(f"fit takes a Model (lgm.load or lgm.loads), not {type(model).__name__}")
    check_hyper(hyper)
    check_numbers(seed, tol, max_steps)
    dataset = data if isinstance(data, Dataset) else read(data, mapping)
    canonical = compile_model(model.checked, dataset, sites.find_site)
    return fit_compiled(
        model, canonical, method, fixed, bound, options, start_from, seed, tol, max_steps, on_step
    )


def fit_compiled(
    model: Model,
    canonical: CanonicalModel,
    method: str,
    fixed: Mapping[str, object] | None,
    bound: str | None,
    options: Mapping[str, object],
    start_from: Fit | str | os.PathLike[str] | None,
    seed: int,
    tol: float | None,
    max_steps: int | None,
    on_step: Callable[[TraceEntry], None] | None,
) -> Fit:
    """Fit a model that is compiled already, for those who fit it more than once. See `fit`."""
    from lgmdsl.api.fit import Fit

    planned = plan(canonical, method, bound, options)
    theta = canonical.hypers.theta(fixed)
    problem = planned.at(theta)
    check_determined(canonical, problem)
    check_mode(planned, problem, theta)
    warm = None
    if start_from is not None:
        earlier = _earlier(start_from)
        if not _fits(earlier, problem.engine.prior_mean):
            raise MethodError(_other_model())
        warm = earlier.posterior
    result, starts = run_from_starts(
        planned.backend, problem, Tolerances.scaled(tol), max_steps, warm, on_step
    )
    if result.posterior is None:
        raise NumericalError(_no_state(planned.method, result))
    result = legible(result)
    assert result.posterior is not None
    found = honest(result.posterior)
    check_bounded(canonical, problem, found.conditioned)
    settings = {"bound": bound, "fixed": fixed, "tol": tol, "max_steps": max_steps}
    origin = provenance(model, canonical, planned.backend, seed, settings)
    origin["routes"] = "; ".join(error_notes(planned.routes)) or "all sites answer by themselves"
    if found.notes:
        origin["notes"] = "; ".join(found.notes)
    if starts:
        origin["starts"] = "; ".join(map(str, starts))
    fit = Fit(
        model=model,
        method=planned.method,
        status=result.status,
        log_evidence=found.log_evidence,
        guarantee=combined(found.guarantee, planned.routes),
        weight=found.weight,
        shift=found.shift,
        trace=result.trace,
        steps=result.steps,
        seconds=result.seconds,
        seed=seed,
        starts=starts,
        canonical=canonical,
        theta=theta,
        condition=lambda: found.conditioned,
        warnings=(
            *canonical.grounded.model.warnings,
            *canonical.grounded.warnings,
            *_local(canonical, starts),
            *_warnings(result),
        ),
        provenance=origin,
    )
    return replace(fit, warnings=(*fit.warnings, *_undefined(fit)))


def _undefined(fit: Fit) -> tuple[Diagnostic, ...]:
    """W603 for reports that are not finite in some draws."""
    reports = {s.name: s.statement.span for s in fit.model.checked.of_kind("report")}
    shares = {name: fit.marginals.undefined(name) for name in reports}
    return tuple(
        Diagnostic(
            "W603",
            f"report `{name}` is not finite in {max(100 * share, 0.1):.1f} % of draws",
            reports[name],
            "its mean and sd mean nothing",
            help="look for the log or the root of a negative number, or a division by zero",
            severity="warning",
        )
        for name, share in shares.items()
        if share > 0.0
    )


def check_hyper(hyper: str) -> None:
    """Hyperparameters are fixed in this version; the other ways are named and refused."""
    if hyper not in HYPER:
        close = nearest(hyper, HYPER)
        raise MethodError(
            Diagnostic(
                "E103",
                f"unknown way with hyperparameters `{hyper}`",
                help=f"did you mean `{close}`?" if close else f"there are: {', '.join(HYPER)}",
            )
        )
    if hyper not in ("auto", "fixed"):
        raise MethodError(
            Diagnostic(
                "E501",
                f"`hyper = {hyper}` is not available in this version",
                details=("hyperparameters are fixed: by `=` in the model, --set, or fixed={...}",),
                help="leave it out, and pin each hyperparameter: --set s=0.5",
            )
        )


def _earlier(given: Fit | str | os.PathLike[str]) -> Fit:
    from lgmdsl.api.fit import Fit
    from lgmdsl.api.restore import load_fit

    return given if isinstance(given, Fit) else load_fit(given)


def _fits(earlier: Fit, layout: Rows) -> bool:
    """Whether an earlier posterior has the same site blocks."""
    return [b.shape for b in earlier.shift] == [m.shape for m in layout]


def _other_model() -> Diagnostic:
    return Diagnostic(
        "E501",
        "the fit to start from has other sites than this model and data",
        help="start from a fit of the same observations, or leave it out",
    )


def _no_state(method: str, result: Run) -> Diagnostic:
    return Diagnostic(
        "E601",
        f"method `{method}` found no usable state",
        details=(f"status {result.status}: {result.reason or result.status.value}",),
        help="check the scale of the data and the priors: `lgm explain` prints both",
    )


def _local(canonical: CanonicalModel, starts: tuple[Started, ...]) -> tuple[Diagnostic, ...]:
    """W602 where a site is not log-concave, so that another optimum may exist."""
    curved = [b for b in canonical.blocks if Property.LOG_CONCAVE not in b.site.spec.properties]
    told = ("the higher of two starts is kept:", *map(str, starts)) if starts else ()
    return tuple(
        Diagnostic(
            "W602",
            f"`{b.family.spec.name}` is not log-concave: the optimum found may be a local one",
            b.span,
            details=told,
            help="compare fits from other starts: --start-from, or other methods",
            severity="warning",
        )
        for b in curved[:1]
    )


def _warnings(result: Run) -> tuple[Diagnostic, ...]:
    """W601 for a fit that stopped early."""
    if result.status is Status.converged:
        return ()
    last = result.trace[-1]
    before = result.trace[-2].objective if len(result.trace) > 1 else last.objective
    advice = {
        Status.iteration_limit: f"--max-steps {2 * max(result.steps, 1)}, or --start-from the "
        "saved fit",
    }.get(result.status, result.status.value)
    return (
        Diagnostic(
            "W601",
            _HEADLINES[result.status],
            details=(
                f"status {result.status}, step {result.steps}"
                + (f": {result.reason}" if result.reason else ""),
                f"last change of the objective {abs(last.objective - before):.1e}, "
                f"distance from a fixed point {last.residual:.1e} sd",
            ),
            help=advice,
            severity="warning",
        ),
    )


_HEADLINES = {
    Status.iteration_limit: "stopped at the iteration limit; "
    "the result is usable but not converged",
    Status.stalled: "no further progress; the best state is reported, not a converged one",
    Status.diverged: "the fit ran away; do not use the result",
    Status.numerical_error: "numerical trouble; the last good state is reported",
    Status.interrupted: "interrupted; the last complete step is reported",
}
