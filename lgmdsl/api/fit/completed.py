"""What follows a posterior: its estimated errors, and what they call for. An interrupt on the way
leaves the posterior, as interrupted: nobody knows how far off it is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from lgmdsl.accuracy.accuracy import Accuracy
from lgmdsl.accuracy.weighted import WeightedPosterior
from lgmdsl.api.fit.corrected_hypers import corrected as corrected_fit
from lgmdsl.api.fit.corrected_hypers import material
from lgmdsl.api.fit.correction import CorrectionOptions, correction
from lgmdsl.api.fit.errors.estimated import Estimated, estimated
from lgmdsl.api.fit.grouped import by_groups
from lgmdsl.api.fit.optima.higher_optimum import modes_of
from lgmdsl.api.fit.optima.other_runs import OtherOptima
from lgmdsl.api.solve.solved import Solved
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.inference.plan import Plan
from lgmdsl.remedies import either

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

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
    if not canonical.by_rows:
        from lgmdsl.api.fit.errors.in_sample import estimated_of_many

        known = estimated_of_many(planned, solved, seed)
        if known is not None:
            return known
    errors = estimated(planned, solved, seed, whole)
    if correcting is not None and whole is None and canonical.by_rows:
        errors = by_groups(planned, solved, errors, correcting.effort, seed)
    return errors


def corrected(
    fit: FitRecord,
    planned: Plan,
    errors: Estimated,
    correcting: CorrectionOptions,
    optima: OtherOptima | None,
) -> tuple[FitRecord, Estimated, str | None]:
    """The fit with what its estimated errors call for, what is left of them, and the option that
    would allow for more."""
    learned, remedy = fit.learning is not None, None
    if learned and errors.hyper is not None and material(errors.hyper):
        nearer = corrected_fit(fit, planned, errors.hyper)
        if nearer is not None:
            fit, errors = nearer, errors.after(fit.canonical)
            fit = replace(fit, accuracy=errors.accuracy)
    if correcting.marginals == "corrected" and planned.canonical.by_rows:
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
        raise MethodError(Diagnostic("E501", message, help=help))
