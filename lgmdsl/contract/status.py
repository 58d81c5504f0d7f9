"""How a fit ended. The value of each member is the advice to the user."""

from __future__ import annotations

from enum import Enum

from lgmdsl.vocabulary.notes import Notes


class Status(Enum):
    """The outcome of a run; `str(status)` is its name, `status.value` the advice."""

    converged = "converged: both tolerances were met"
    iteration_limit = "stopped at the step limit; usable but not converged: raise max_steps"
    stalled = "no further progress; the best state is reported: try another method or start"
    diverged = (
        "the objective diverged; no usable result: check the model's priors, or another method"
    )
    numerical_error = "a factorisation or a value failed; the last good state is reported"
    interrupted = "interrupted; the last complete step is reported"

    def __str__(self) -> str:
        return self.name

    @property
    def usable(self) -> bool:
        """Whether a complete step of the method is reported, so that its guarantee holds."""
        return self in (Status.converged, Status.iteration_limit, Status.interrupted)

    @property
    def notes(self) -> Notes:
        """What its page in the manual says beyond the advice."""
        return _OUTCOMES[self]


class Guarantee(Enum):
    """What a reported log evidence, or a bound's answer, promises."""

    EXACT = "exact"
    LOWER = "lower bound"
    NUMERICAL = "exact up to a stated numerical error"
    APPROXIMATE = "approximation without a guarantee"

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def notes(self) -> Notes:
        """What its page in the manual says."""
        return _PROMISES[self]


_OUTCOMES = {
    Status.converged: Notes(
        formula="the change of the log evidence is below tol (1e-7, relative) and the distance of "
        "the means from the fixed point below 1e-4 posterior sds",
        support="lgm fit exits with 0",
        advice="says that the iteration ended, not that the approximation is accurate: see "
        "fit.accuracy, warnings W609 and `lgm summary --audit`",
        example="lgm fit model.lgm data.npz",
        see_also=("iteration_limit", "stalled", "lower", "choosing-a-method"),
    ),
    Status.iteration_limit: Notes(
        formula="max_steps steps were made before both tolerances were met",
        support="lgm fit exits with 3 and writes the fit, with warning W601",
        advice="go on from it: --start-from fit.nc, or raise --max-steps",
        example="lgm fit model.lgm data.npz --max-steps 200",
        see_also=("converged", "stalled", "W601"),
    ),
    Status.stalled: Notes(
        formula="no step raises the objective, and the tolerances are not met",
        support="lgm fit exits with 3 and writes the best state, with warning W601",
        advice="often a scale of 0 or infinity, or data in very different units: rescale "
        "covariates, give proper priors, try another method or start",
        example="lgm fit model.lgm data.npz --method laplace",
        see_also=("converged", "diverged", "W601"),
    ),
    Status.diverged: Notes(
        formula="the objective left all bounds, or the means went to infinity",
        support="lgm fit exits with 3; there is no usable result",
        advice="a flat block that the data do not determine, complete separation of classes, or ep "
        "on sites that are not log-concave: proper priors, --option damping=0.3, or another method",
        example="lgm fit model.lgm data.npz --method natural-gradient",
        see_also=("stalled", "flat", "ep", "E402"),
    ),
    Status.numerical_error: Notes(
        formula="a matrix was not positive definite, or a value not finite, and no shorter step "
        "helped",
        support="lgm fit exits with 3 and reports the last good state, where there is one",
        advice="rescale what is very large or very small; another engine or method may do",
        example="lgm fit model.lgm data.npz --option engine=precision",
        see_also=("diverged", "stalled", "E601"),
    ),
    Status.interrupted: Notes(
        formula="Ctrl-C, or SIGTERM, during the iteration",
        support="lgm fit exits with 130",
        advice="the last complete step is reported where there is one; go on with --start-from",
        example="lgm fit model.lgm data.npz --start-from fit.nc",
        see_also=("converged", "iteration_limit"),
    ),
}
_PROMISES = {
    Guarantee.EXACT: Notes(
        formula="reported = log p(y | hypers), to rounding",
        support="models whose sites are all Gaussian",
        advice="may be compared between models and methods",
        example="lgm fit gaussian.lgm gaussian.npz",
        see_also=("lower", "numerical", "approximate", "converged"),
    ),
    Guarantee.LOWER: Notes(
        formula="reported <= log p(y | hypers)",
        support="variational methods (natural-gradient, double-loop, px-vb, ...) whose sites "
        "answer exactly or by lower bounds",
        advice="of two methods the one with the higher bound is nearer; models of very different "
        "gaps are not ranked by it: see log_evidence_corrected",
        example="lgm fit model.lgm data.npz --method double-loop",
        see_also=("exact", "numerical", "approximate", "natural-gradient"),
    ),
    Guarantee.NUMERICAL: Notes(
        formula="|reported - exact| <= a stated relative error",
        support="quadrature; a lower bound by quadrature is one up to that error",
        advice="the error stands in the page of the bound, and in the provenance of a fit",
        example="lgm fit model.lgm data.npz --method natural-gradient",
        see_also=("exact", "lower", "approximate", "quadrature"),
    ),
    Guarantee.APPROXIMATE: Notes(
        formula="reported is near log p(y | hypers), on either side",
        support="laplace and ep",
        advice="often nearer than a bound (ep above all), but nothing says so: compare with a "
        "bound, or audit",
        example="lgm fit model.lgm data.npz --method laplace",
        see_also=("exact", "lower", "numerical", "laplace", "ep"),
    ),
}
