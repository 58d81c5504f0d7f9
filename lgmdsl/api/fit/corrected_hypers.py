"""A fit whose hyperparameters are those of the corrected evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lgmdsl.api.fit.errors.hyper_errors import NEAR, HyperErrors
from lgmdsl.api.solve.recondition import Recondition
from lgmdsl.errors import LgmError, listed
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan
from lgmdsl.learning.integration.asymptotic import Asymptotic

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord


def material(hyper: HyperErrors | None) -> tuple[str, ...]:
    """The hyperparameters that the correction of the evidence changes by more than is tolerated;
    of integrated ones by half of that, for other errors add up with it and points are at hand."""
    if hyper is None:
        return ()
    return hyper.beyond(1.0 if hyper.corrected is None else NEAR)


def corrected(fit: FitRecord, planned: Plan, hyper: HyperErrors) -> FitRecord | None:
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
