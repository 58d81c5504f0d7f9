"""What follows a posterior: its estimated errors, and what they call for. An interrupt on the way
leaves the posterior, as interrupted: nobody knows how far off it is. Where latents fall into small
groups, exact evidences of the hyperparameters take the place of estimated ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lgmdsl.accuracy.errors import Accuracy
from lgmdsl.accuracy.weighted import WeightedPosterior
from lgmdsl.api.fit.correction import ALLOWANCE, OPERATIONS, CorrectionOptions, correction
from lgmdsl.api.fit.errors.estimated import Estimated, estimated, joined
from lgmdsl.api.fit.errors.hyper_errors import NEAR, HyperErrors, gaps_wanted, hyper_errors
from lgmdsl.api.fit.optima.higher_optimum import modes_of
from lgmdsl.api.fit.optima.other_runs import OtherOptima
from lgmdsl.api.solve.recondition import Recondition
from lgmdsl.api.solve.solved import Solved
from lgmdsl.assess.ladder import Gap
from lgmdsl.errors import LgmError, MethodError, listed
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan
from lgmdsl.learning.integration.asymptotic import Asymptotic
from lgmdsl.posterior.unfolded import expanded
from lgmdsl.remedies import either

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

# What evidences at all points may take of the allowance for draws: they are asked for where
# estimates come near, not where something is off. With 2,000 binary intercepts estimates leave an
# sd 0.17 of its sds off.
EVIDENCES = 0.6
MORE_EFFORT = either("--option effort=high", 'options={"effort": "high"}')


def unassessed() -> Estimated:
    """The estimate for a fit that was interrupted before its errors were known."""
    return Estimated(Accuracy.none("the fit was interrupted"), math.nan)


def assessed(
    planned: Plan,
    solved: Solved,
    seed: int,
    whole: WeightedPosterior | None,
    correcting: CorrectionOptions | None,
) -> Estimated:
    """The estimated errors."""
    canonical = planned.canonical
    if not canonical.rows.kept:
        from lgmdsl.api.fit.errors.in_sample import estimated_of_many

        known = estimated_of_many(planned, solved, seed)
        if known is not None:
            return known
    errors = estimated(planned, solved, seed, whole)
    if correcting is not None and whole is None and canonical.rows.kept:
        errors = by_groups(planned, solved, errors, correcting.effort, seed)
    return errors


def corrected(
    fit: FitRecord,
    planned: Plan,
    whole: Plan,
    errors: Estimated,
    correcting: CorrectionOptions,
    optima: OtherOptima | None,
) -> tuple[FitRecord, Estimated, str | None]:
    """The fit with what its estimated errors call for, what is left of them, and the option that
    would allow for more. `whole`: the plan of the user's rows, which draws need."""
    learned, remedy = fit.learning is not None, None
    if learned and errors.hyper is not None and material(errors.hyper):
        nearer = corrected_fit(fit, planned, errors.hyper)
        if nearer is not None:
            fit, errors = nearer, errors.after(fit.canonical)
            fit = replace(fit, accuracy=errors.accuracy)
    if not planned.canonical.rows.kept and whole.canonical.rows.kept:
        fit, planned = expanded(fit, planned), whole
    if correcting.marginals == "corrected" and planned.canonical.rows.kept:
        drawn = correction(fit, planned, errors, correcting, modes_of(optima))
        if drawn.note:
            origin = {**fit.provenance, "marginals": drawn.note}
            errors = drawn.errors
            fit = replace(fit, drawn=drawn.sample, accuracy=errors.accuracy, provenance=origin)
            if not learned:
                fit = replace(fit, log_evidence_corrected=errors.log_evidence)
        remedy = MORE_EFFORT if drawn.unaffordable else None
    return fit, errors, remedy


def check_correctable(planned: Plan) -> None:
    """Raises MethodError E501 for a method that confines q, whose reports are to be those of the
    confined one."""
    if planned.backend.spec.confined:
        message = f"method `{planned.method}` confines q, and what it reports is not corrected"
        help = "leave `correction` out, or fit by natural-gradient"
        raise MethodError.of("E501", message, help=help)


def by_groups(
    planned: Plan, solved: Solved, errors: Estimated, effort: str, seed: int
) -> Estimated:
    """The errors of the hyperparameters by exact evidences, where a model has groups, the estimates
    come near to what is tolerated and operations allow; else as they are."""
    q = solved.posterior
    given = errors.of_latents
    gap = given.log_evidence - q.log_evidence
    if solved.learned is None or not given.accuracy.known or gap == 0.0:
        return errors
    if q.conditioned.errors is not None or not _near(errors.hyper):
        return errors
    from lgmdsl.assess.grouped.draws import ByGroups

    problem, gap_of = planned.at(solved.theta, seed=seed), Gap((ByGroups(seed),))
    allowance = ALLOWANCE[effort] * max(OPERATIONS, solved.flops * solved.run.steps)
    price = gap_of.cost(problem, q.conditioned)
    wanted = 1 + gaps_wanted(solved, problem.engine.linear.rows)
    if not price * wanted <= EVIDENCES * allowance:
        return errors
    gap = gap_of(problem, solved.theta, q.conditioned, q.log_evidence)
    if not math.isfinite(gap):
        return errors
    hyper = hyper_errors(planned, solved, gap, seed, gap_of, exact=True)
    if hyper is None:
        return errors
    accuracy = replace(given.accuracy, evidence=gap)
    known = replace(given, accuracy=accuracy, log_evidence=q.log_evidence + gap)
    return joined(planned.canonical, known, hyper)


def _near(hyper: HyperErrors | None) -> bool:
    """Whether estimates are not known, or near to what is tolerated."""
    return hyper is None or bool(hyper.beyond(NEAR))


# ---- corrected hyperparameters -------------------------------------------------------------------
# A fit whose hyperparameters are those of the corrected evidence.


def material(hyper: HyperErrors | None) -> tuple[str, ...]:
    """The hyperparameters that the correction of the evidence changes by more than is tolerated;
    of integrated ones by half of that, for other errors add up with it and points are at hand."""
    if hyper is None:
        return ()
    return hyper.beyond(1.0 if hyper.corrected is None else NEAR)


def corrected_fit(fit: FitRecord, planned: Plan, hyper: HyperErrors) -> FitRecord | None:
    """The fit at them; None where nothing is gained."""
    names = listed([f"`{n}`" for n in material(hyper)])
    if hyper.corrected is not None and hyper.shares is not None:
        points = sorted(
            (
                replace(p, share=float(w))
                for p, w in zip(fit.mixed, hyper.shares, strict=True)
                if w > 0.0
            ),
            key=lambda p: -p.share,
        )
        total = sum(p.share for p in points)
        mixed = tuple(replace(p, share=p.share / total) for p in points)
        note = f"the posterior of {names} is that of the corrected evidence"
        return replace(
            fit,
            hyper_marginals=hyper.corrected,
            mixed=mixed,
            provenance=_noted(fit.provenance, note),
        )
    if hyper.x is None or not isinstance(fit.hyper_marginals, Asymptotic):
        return None
    hypers = fit.hyper_marginals
    theta = hypers.coordinates.unpack(hyper.x)
    space, pinned = planned.canonical.hypers, hypers.coordinates.pinned.keys()
    try:
        problem = planned.at(theta, seed=fit.seed)
        found = run(planned.backend, problem, Tolerances(), None, fit.posterior).posterior
        if found is None:
            return None
        q = found.conditioned
    except LgmError:
        return None
    log_evidence = found.log_evidence + hyper.gap_of(problem, theta, q, found.log_evidence)
    prior = [space.log_prior(t, pinned)[0] for t in (fit.theta, theta)]
    if not log_evidence + prior[1] > fit.log_evidence_corrected + prior[0]:
        return None
    note = f"{names} maximise the corrected evidence, and not the method's"
    return replace(
        fit,
        theta=theta,
        weight=found.weight,
        shift=found.shift,
        condition=Recondition(
            planned.canonical, theta, found.weight, found.shift, fit.seed, fit.provenance, q
        ),
        log_evidence=found.log_evidence,
        log_evidence_corrected=log_evidence,
        hyper_marginals=replace(hypers, theta=theta, frame=replace(hypers.frame, mode=hyper.x)),
        provenance=_noted(fit.provenance, note),
    )


def _noted(provenance: Mapping[str, str], note: str) -> dict[str, str]:
    """With one more note for the page."""
    before = provenance.get("notes")
    return {**provenance, "notes": f"{before}; {note}" if before else note}
