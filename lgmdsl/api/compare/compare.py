"""compare: one model and data, several methods, side by side.

Differences are measured from a reference, the most accurate method that ran: one whose log evidence
is exact, then by the ranks of `inference.accuracy`. Within a rank the highest log evidence among
honest lower bounds is taken, and of equal ones (to 1e-6) the first. One that converged goes before
all that did not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lgmdsl.accuracy.tails import check_arviz
from lgmdsl.api.compare.comparison import Compared, Comparison, difference, moments
from lgmdsl.api.fit.compiled import fit_compiled
from lgmdsl.api.fit.correction import correction_options
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.fit.hyper_ways import check_hyper, learning_options
from lgmdsl.api.fit.options import other_options
from lgmdsl.api.jobs import workers_for
from lgmdsl.api.settings import check_fixed, check_named, check_numbers, check_options
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import compile_model
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.dataset import Dataset, Keys, read
from lgmdsl.errors import DataError, Diagnostic, LgmError, MethodError, ModelError, NumericalError
from lgmdsl.inference.accuracy import rank
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.plan import plan, verdict
from lgmdsl.inference.registry import backends
from lgmdsl.inference.settings import FitSettings, HyperName
from lgmdsl.language.builder import Model
from lgmdsl.language.load import AnyModel, as_model
from lgmdsl.sites import catalogue as sites
from lgmdsl.workers.sources import Source, source_of
from lgmdsl.workers.task import Jobs, Task
from lgmdsl.workers.workers import Workers

# Log evidences that differ by less, relative to max(1, |evidence|), are equal.
EQUAL = 1e-6

REASONS = (
    "its log evidence is exact",
    "it matches the moments of the tilted sites",
    "a variational Gaussian",
    "a bound of the sites' functions",
    "it knows the mode only",
)


def compare(
    model: AnyModel,
    data: object,
    methods: str | Sequence[str] | None = None,
    hyper: HyperName | str = "auto",
    fixed: Mapping[str, object] | None = None,
    bound: str | None = None,
    options: Mapping[str, Mapping[str, object]] | None = None,
    seed: int = 0,
    tol: float | None = None,
    max_steps: int | None = None,
    *,
    mapping: Keys | None = None,
    audit: int | bool = False,
    audit_sampler: bool = False,
    on_step: Callable[[str, TraceEntry], None] | None = None,
    jobs: Jobs = None,
) -> Comparison:
    """Fit a model with several methods (default: every one that can run it) and compare them.

    `options` are those of each method by its name; all else is as for `fit`. `seconds` are those
    of the iterations, without compiling; modules that one method has loaded are not loaded again by
    the next. A method that fails has a row that says why. Ctrl-C ends the method that runs and
    those after.
    `audit`: audit every fit (`fit.audited`), with so many draws (True: 4000);
    `audit_sampler`: exact ones (`fit.audit`). `jobs` shares the methods: a number of processes, the
    address of a Dask scheduler, a Dask Client, or any executor, as in `fit`; `on_step` then gets
    the entries of a method's trace together, when it has ended.

    Raises what `fit` raises where every method fails: MethodError where none can run the
    model (and for a method or an option that does not exist), ModelError, DataError,
    NumericalError. WorkerError (E7xx) where workers die, are lost or lack something.
    """
    model = as_model(model, "compare")
    check_hyper(hyper)
    check_numbers(seed, tol, max_steps)
    draws = 4000 if audit is True else int(audit)
    if audit:
        check_arviz()
    backends()  # entry points may bring families
    dataset = data if isinstance(data, Dataset) else read(data, mapping)
    canonical = compile_model(model.checked, dataset, sites.find_site)
    settings = FitSettings(
        hyper=hyper, fixed=check_fixed(fixed), bound=bound, seed=seed, tol=tol, max_steps=max_steps
    )
    example = '{"ep": {"damping": 0.5}}'
    by_method = {m: check_options(o) for m, o in check_named(options, "options", example).items()}
    names, unable = _asked(canonical, methods, settings, by_method)
    wanted = [replace(settings, method=m, options=by_method.get(m, {})) for m in names]
    auditing = Auditing(draws, seed, audit_sampler) if audit else None
    with workers_for(jobs, model.tree) as workers:
        if workers is None:
            rows, errors = one_by_one(model, canonical, wanted, auditing, on_step)
        else:
            source = source_of(canonical, data, mapping)
            rows, errors = shared(workers, model, source, wanted, auditing, on_step)
    if not any(r.fit for r in rows):
        raise _nothing(errors)
    best, reason = _best(rows)
    return Comparison(model, _measured(rows, best), best.method, reason, unable)


def _asked(
    canonical: CanonicalModel,
    methods: str | Sequence[str] | None,
    settings: FitSettings,
    options: Mapping[str, Mapping[str, object]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The methods to run, and where none was named those that cannot."""
    known, bound = backends(), settings.bound
    if methods is None:
        able = [m for m in known if verdict(canonical.blocks, known[m], bound).runs]
        names = tuple(able) or (plan(canonical, "auto", bound).method,)  # raises: none can
        unable = tuple(m for m in known if m not in names)
    else:
        requested = (methods,) if isinstance(methods, str) else tuple(methods)
        if not requested or not all(isinstance(m, str) for m in requested):
            raise TypeError("methods are names, at least one: methods=['laplace']")
        names = tuple(
            dict.fromkeys(plan(canonical, m, bound).method if m == "auto" else m for m in requested)
        )
        unable = ()
    for name in options:
        if name not in names:
            message = f"options are given for `{name}`, which is not compared"
            raise MethodError.of("E104", message, help=f"compared are: {', '.join(names)}")
    for name in names:
        try:
            rest = learning_options(options.get(name, {}))[1]
            others = other_options(settings.hyper)
            plan(canonical, name, bound, correction_options(rest)[1], others)
        except MethodError as error:
            if {"E103", "E104"} & set(error.codes):
                raise  # a wrong name, reported before the work
    return names, unable


def _nothing(errors: Sequence[Exception]) -> Exception:
    """All diagnostics, once each; a defect where there are none."""
    known = [e for e in errors if isinstance(e, LgmError)]
    if not known:
        return errors[0]
    kinds = (NumericalError, ModelError, DataError, MethodError)
    kind = next(k for k in kinds if any(isinstance(e, k) for e in known))
    return kind(dict.fromkeys(d for e in known for d in e.diagnostics))


def _best(rows: Sequence[Compared]) -> tuple[Compared, str]:
    """The reference and the reason; see the module."""
    ran = [(r, r.fit) for r in rows if r.fit is not None]
    # One without an evidence (the mode) is no posterior to measure others by.
    ran = [(r, f) for r, f in ran if _estimates(f)] or ran
    pool = [(r, f) for r, f in ran if f.converged] or ran
    top = min(_rank(f) for _, f in pool)
    group = [(r, f) for r, f in pool if _rank(f) == top]
    lower = [(r, f) for r, f in group if f.guarantee is Guarantee.LOWER]
    if lower:
        high = max(f.log_evidence for _, f in lower)
        least = high - EQUAL * max(1.0, abs(high))
        group = [(r, f) for r, f in lower if f.log_evidence >= least]
    return group[0][0], REASONS[top]


def _estimates(fit: Fit) -> bool:
    """Whether the fit's method approximates the posterior, and not its mode alone."""
    method = backends().get(fit.method)
    return fit.guarantee is Guarantee.EXACT or method is None or method.spec.evidence


def _rank(fit: Fit) -> int:
    """Position in REASONS, from what the fit and its method declare."""
    if fit.guarantee is Guarantee.EXACT:
        return 0
    return rank(backends().get(fit.method))


def _measured(rows: Sequence[Compared], best: Compared) -> tuple[Compared, ...]:
    assert best.fit is not None
    base = moments(best.fit)
    return tuple(
        row
        if row.fit is None
        else Compared(row.method, row.fit, row.failure, difference(moments(row.fit), base))
        for row in rows
    )


# ---- rows --------------------------------------------------------------------------------------
# The rows of a comparison: the fit of each method, made one by one or on workers.


@dataclass(frozen=True)
class Auditing:
    """How each fit is audited."""

    draws: int
    seed: int
    sampler: bool

    def of(self, name: str, fit: Fit) -> Compared:
        """The fit with its audit, or without it and why."""
        if fit.status is Status.interrupted:
            return Compared(name, fit)
        try:
            made = fit.audit(self.draws, self.seed, sampler=self.sampler)
            return Compared(name, replace(fit, audited=made))
        except LgmError as error:
            return Compared(name, fit, _failure(error))


def one_by_one(
    model: Model,
    canonical: CanonicalModel,
    wanted: Sequence[FitSettings],
    auditing: Auditing | None,
    on_step: Callable[[str, TraceEntry], None] | None,
) -> tuple[list[Compared], list[Exception]]:
    """Every method here, one after another; and the errors of those that failed."""
    rows: list[Compared] = []
    errors: list[Exception] = []
    for one in wanted:
        name = one.method
        if rows and _stopped(rows[-1]):
            rows.append(Compared(name, None, _interrupted()))
            continue
        try:
            rows.append(_row(model, canonical, one, auditing, _reporter(on_step, name)))
        except KeyboardInterrupt:
            if not any(r.fit for r in rows):
                raise
            rows.append(Compared(name, None, _interrupted()))
        except Exception as error:  # noqa: BLE001  a defect in one method is its own affair
            errors.append(error)
            rows.append(Compared(name, None, _failure(error)))
    return rows, errors


def shared(
    workers: Workers,
    model: Model,
    source: Source,
    wanted: Sequence[FitSettings],
    auditing: Auditing | None,
    on_step: Callable[[str, TraceEntry], None] | None,
) -> tuple[list[Compared], list[Exception]]:
    """Every method on a worker."""
    bundle = workers.bundle(source)
    tasks = [
        Task(f"method `{s.method}`", compared, (model, s, auditing), (bundle,)) for s in wanted
    ]
    rows: list[Compared | None] = [None] * len(wanted)
    errors: list[Exception] = []
    try:
        for k, outcome in workers.outcomes(tasks):
            if outcome.error is not None:
                errors.append(outcome.error)
                rows[k] = Compared(wanted[k].method, None, _failure(outcome.error))
                continue
            rows[k] = row = outcome.result
            if on_step is not None and row.fit is not None:
                for entry in row.fit.trace:
                    on_step(row.method, entry)
    except KeyboardInterrupt:
        if not any(r is not None and r.fit for r in rows):
            raise
    names = [s.method for s in wanted]
    whole = [r or Compared(n, None, _interrupted()) for n, r in zip(names, rows, strict=True)]
    return whole, errors


def compared(
    source: Source, model: Model, settings: FitSettings, auditing: Auditing | None
) -> Compared:
    """In a worker: the row of one method."""
    return _row(model, source.canonical, settings, auditing)


def _row(
    model: Model,
    canonical: CanonicalModel,
    settings: FitSettings,
    auditing: Auditing | None,
    on_step: Callable[[TraceEntry], None] | None = None,
) -> Compared:
    fit = fit_compiled(model, canonical, settings, on_step=on_step)
    return Compared(settings.method, fit) if auditing is None else auditing.of(settings.method, fit)


def _reporter(
    on_step: Callable[[str, TraceEntry], None] | None, method: str
) -> Callable[[TraceEntry], None] | None:
    return None if on_step is None else lambda entry: on_step(method, entry)


def _stopped(row: Compared) -> bool:
    if row.fit is not None:
        return row.fit.status is Status.interrupted
    return row.failure is not None and row.failure.code == "interrupted"


def _interrupted() -> Diagnostic:
    return Diagnostic("interrupted", "interrupted before there was a result")


def _failure(error: Exception) -> Diagnostic:
    if isinstance(error, LgmError):
        return error.diagnostics[0]
    if isinstance(error, MemoryError):
        return Diagnostic("E505", "there is not enough memory for this model and data")
    lines = str(error).strip().split("\n")
    return Diagnostic("defect", f"a defect: {type(error).__name__}: {lines[0]}".rstrip(": "))
