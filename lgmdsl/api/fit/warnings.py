"""Warnings that a fit carries besides those of the search for its hyperparameters: W103, W601 to
W603, W609 and W611."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.solve.learning_warnings import GO_ON, SHOWN, START_FROM
from lgmdsl.api.summary.table import cells
from lgmdsl.arrays import Array
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import Diagnostic, listed
from lgmdsl.inference.accuracy import more_accurate
from lgmdsl.inference.driver import Run
from lgmdsl.inference.registry import backends
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import text_of, with_dims
from lgmdsl.posterior.tails import of_few_draws, of_tails
from lgmdsl.remedies import either, number, setting, start

if TYPE_CHECKING:
    from lgmdsl.api.fit.errors.estimated import Estimated
    from lgmdsl.api.fit.optima.other_runs import OtherOptima
    from lgmdsl.posterior.fit_record import FitRecord

NATS = 0.05  # of a gap of the evidence that is said
LARGE = 0.05  # of the mass: what another mode must have to change hyperparameters

CORRECTED = either("--option correction=on", 'options={"correction": "on"}')


def undefined_reports(fit: FitRecord) -> tuple[Diagnostic, ...]:
    """W603 for reports that are not finite in some draws."""
    reports = {s.name: s.statement.span for s in fit.model.checked.of_kind("report")}
    shares = {name: fit.marginals.undefined(name) for name in reports}
    return tuple(
        Diagnostic(
            "W603",
            f"report `{name}` is not finite in {max(100 * share, 0.1):.1f} % of draws",
            reports[name],
            "do not use its mean and sd",
            help="look for the log or the root of a negative number, or a division by zero",
            severity="warning",
        )
        for name, share in shares.items()
        if share > 0.0
    )


def uncertain_sds(fit: FitRecord) -> tuple[Diagnostic, ...]:
    """W611 for reports whose sd few draws tell, or is of a predictor that is not Gaussian."""
    return tuple(
        warning
        for s in fit.model.checked.of_kind("report")
        for warning in (
            *of_few_draws(
                f"the sd of report `{s.name}` rests on few draws",
                np.array([fit.marginals.sd_error(s.name)]),
                _logarithm(fit, s),
                s.statement.span,
            ),
            *of_tails(
                f"the sd of report `{s.name}`",
                fit.marginals.off(s.name),
                _logarithm(fit, s),
                s.statement.span,
            ),
        )
    )


def _logarithm(fit: FitRecord, report: Symbol) -> str:
    """The logarithm of a report that is above 0, as another report whose sd is known."""
    statement = report.statement
    assert isinstance(statement, ast.Report)
    value = statement.value
    if isinstance(value, ast.Call) and value.function.id == "exp":
        text = text_of(value.positional[0])
    elif (fit.marginals.quantile(report.name, np.array([0.01]))[1] > 0.0).all():
        text = f"log({text_of(value)})"
    else:
        return ""
    taken = fit.model.checked.symbols
    name = next(n for k in count(1) if (n := "log_" * k + report.name) not in taken)
    return f"; its logarithm has both: report {with_dims(name, report.dims)} = {text}"


def local_optima(fit: FitRecord, optima: OtherOptima | None, drawn: bool) -> tuple[Diagnostic, ...]:
    """W602 where another optimum is higher, or as large as to matter, or none was looked for.
    `drawn`: whether all that is reported is made of draws from all modes."""
    if optima is None:
        return ()
    blocks = fit.canonical.blocks
    curved = next(b for b in blocks if Property.LOG_CONCAVE not in b.site.spec.properties)
    family = f"`{curved.family.spec.name}` is not log-concave"
    starts = ("these starts were tried:", *map(str, fit.starts)) if fit.starts else ()
    mean = fit.posterior.conditioned.latent_mean
    if not optima.checked:
        message = f"{family}, and other starts were not tried: the optimum may be a local one"
        details, help = starts, f"compare fits from other starts: {START_FROM}, or other methods"
    elif optima.better is not None:
        gain = optima.better.log_evidence - fit.posterior.log_evidence
        above = f"{gain:.3g} nats higher" if math.isfinite(gain) else "higher"
        message = f"{family}, and another start ends {above}"
        details = (_apart(fit, mean, optima.better.conditioned.latent_mean), *starts)
        help = f"fit from there: {setting('method', 'auto')}, which takes the highest, or "
        help += f"{START_FROM}"
    elif optima.elsewhere is not None:
        gap = optima.elsewhere.gap
        than = f"{abs(gap):.2g} nats {'higher' if gap > 0.0 else 'lower'}"
        message = f"{family}: at other hyperparameters another start ends {than} than this fit"
        values = ", ".join(
            f"{n} = {np.array2string(np.asarray(v), precision=3, threshold=6)}"
            for n, v in optima.elsewhere.theta.items()
        )
        other_mean = optima.elsewhere.posterior.conditioned.latent_mean
        details = (_apart(fit, mean, other_mean), f"there {values}", *starts)
        help = f"fit from there: {setting('method', 'auto')}, which takes the highest, or "
        help += f"{start('NAME')}"
    elif optima.other is not None and not (drawn and fit.hyper == "fixed"):
        other = optima.other
        if drawn and other.share < LARGE:
            return ()
        label, words = _where(fit, mean, other.mean)
        message = f"the posterior of `{label}` has another mode, with {_percent(other.share)}"
        message += " of the mass" if math.isnan(other.gap) else ""
        details = (words, f"{family}", *starts)
        if math.isfinite(other.gap):
            message = f"another start ends elsewhere, with another `{label}`"
            details = (words, f"its objective is {abs(other.gap):.2g} nats lower", *details[1:])
        if drawn:
            details = (*details, "latents are drawn from both; hyperparameters are of this one")
        help = "give a prior that selects one"
        if not drawn and fit.method and optima.whole is not None:
            help += f", or take draws of both: {CORRECTED}"
    else:
        return ()
    return (
        Diagnostic("W602", message, curved.span, details=details, help=help, severity="warning"),
    )


def _apart(fit: FitRecord, mean: Array, other: Array) -> str:
    label, words = _where(fit, mean, other)
    return f"`{label}`: {words}"


def _where(fit: FitRecord, mean: Array, other: Array) -> tuple[str, str]:
    """The latent entry that differs most, in sds, and its two values."""
    sd = np.sqrt(np.maximum(fit.posterior.conditioned.latent_variance, 0.0))
    k = int((np.abs(other - mean) / np.where(sd > 0.0, sd, np.inf)).argmax())
    layout = fit.canonical.layout
    for block in fit.canonical.reported:
        if layout.starts[block.name] <= k < layout.starts[block.name] + block.size:
            place = k - layout.starts[block.name]
            label = layout.entry(block.name, layout.dims[block.name], place)
            here, _, there = cells(float(mean[k]), float(sd[k]), [float(other[k])])
            return label, f"it is at {there} there, and at {here} in this fit"
    raise AssertionError(k)


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def silent(canonical: CanonicalModel) -> tuple[Diagnostic, ...]:
    """W103 for observations whose weights are all 0."""
    return tuple(
        Diagnostic(
            "W103",
            f"all weights of `{block.name}` are 0: none of its rows says anything",
            block.span,
            details=("the fit is that of the model without them",),
            help="give positive weights, or leave the statement out",
            severity="warning",
        )
        for block in canonical.blocks
        if block.weight is not None and not np.any(block.weight.evaluate({}).dense())
    )


def unfinished(result: Run) -> tuple[Diagnostic, ...]:
    """W601 for a fit that stopped early."""
    if result.status is Status.converged:
        return ()
    last = result.trace[-1]
    before = result.trace[-2].objective if len(result.trace) > 1 else last.objective
    advice = {
        Status.iteration_limit: f"{number('max-steps', 2 * max(result.steps, 1))}, or {START_FROM}",
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


def cut_short() -> tuple[Diagnostic, ...]:
    """W601 for a fit that was interrupted after its posterior was found."""
    return (
        Diagnostic(
            "W601",
            "interrupted before the errors of the posterior were estimated",
            details=(
                "the posterior is that of the method, without corrections and with unknown errors",
            ),
            help=f"{GO_ON}, or fit without corrections: "
            + either("--option correction=off", 'options={"correction": "off"}'),
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


def inaccurate(
    canonical: CanonicalModel,
    method: str,
    known: Estimated,
    remedy: str | None = None,
    corrected: bool = False,
    modes: bool = False,
) -> tuple[Diagnostic, ...]:
    """W609 where an error of what is reported passes what is tolerated; `remedy`: the option that
    would correct it; `corrected`: exact draws were allowed; `modes`: W602 reports another optimum,
    which no Gaussian around one of them knows."""
    if not known.off:
        return ()
    (worst, words), *others = known.off
    also = listed([f"`{label}`" for label, _ in others[:SHOWN]])
    more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    help = "compare with `fit.audit()`, and do not report 5 and 95 % points"
    several = any(Property.LOG_CONCAVE not in b.site.spec.properties for b in canonical.blocks)
    if remedy is not None:
        help = f"allow for exact draws: {remedy}"
    elif modes and corrected:
        help = "give a prior that selects one of the modes, as W602 says"
    elif (modes or several) and not corrected:
        help = f"take exact draws{' of all modes' if modes else ''}: {CORRECTED}"
    elif nearer := more_accurate(canonical.blocks, method):
        help = f"take a more accurate method: {setting('method', nearer[0])}"
    gap = known.accuracy.evidence
    below = f"about {abs(gap):.2g} nats {'below' if gap > 0.0 else 'above'} log p(y)"
    details = [f"log evidence is {below}"] if abs(gap) >= NATS else []
    if also:
        details.insert(0, f"so are {also}{more}" if len(others) > 1 else f"so is {also}")
    message = f"`{worst}` may be off: {words}"
    return (Diagnostic("W609", message, details=tuple(details), help=help, severity="warning"),)


# ---- what a fit may claim ------------------------------------------------------------------------
# What a fit may claim: numbers that are not finite are never reported as converged, and only a
# usable result has a guarantee.


# Ways whose hyperparameters all have a posterior; after map those that are not determined have no
# standard error.
WITH_SDS = ("integrate", "vb")


def entitled(fit: FitRecord) -> FitRecord:
    """The fit with the status and the guarantee that its numbers allow: numerical_error, and W601
    that says what, where it is `converged` but its log evidence, a mean or an sd is not finite; no
    guarantee where the status is not `usable`."""
    fit = _only_finite(fit)
    return fit if fit.status.usable else replace(fit, guarantee=Guarantee.APPROXIMATE)


def _only_finite(fit: FitRecord) -> FitRecord:
    if not fit.converged:
        return fit
    wrong = not_finite(fit)
    if not wrong:
        return fit
    warning = Diagnostic(
        "W601",
        f"{listed(list(wrong))} {'is' if len(wrong) == 1 else 'are'} not finite",
        details=("the search itself met its tolerances",),
        help="give hyperparameters tighter priors, or compare another "
        f"{either('--method', 'method')} and {setting('hyper', 'map')}",
        severity="warning",
    )
    return replace(fit, status=Status.numerical_error, warnings=(*fit.warnings, warning))


def not_finite(fit: FitRecord) -> tuple[str, ...]:
    """What is not finite of the log evidence, the latents' moments at `theta` and the
    hyperparameters."""
    q = fit.posterior.conditioned
    method = backends().get(fit.method)
    promised = method is None or method.spec.evidence  # the mode alone has none
    out = ["the log evidence"] if promised and not np.isfinite(fit.log_evidence) else []
    if not np.isfinite(q.latent_mean).all():
        out.append("a latent's mean")
    if not np.isfinite(q.latent_variance).all():
        out.append("a latent's sd")
    for block in fit.canonical.hypers.blocks:
        quantity = fit.quantity(block.name) if fit.hyper in WITH_SDS else None
        if not np.isfinite(fit.theta[block.name]).all():
            out.append(f"`{block.name}`")
        elif quantity is not None and not np.isfinite([quantity.mean, quantity.sd]).all():
            out.append(f"the mean or sd of `{block.name}`")
    return tuple(out)
