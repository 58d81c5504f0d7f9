"""What may be claimed of a run: a log evidence that rounding has left without digits, or of capped
densities, is withheld, and estimates come with standard errors."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.inference.driver import Run

# Nats that may be lost before the evidence is withheld: so many, or this share of it.
MOST, SHARE = 1e-3, 1e-6
# Exponentials end at e^340 (`numerics.stable`). A log density of this size that a step of ASIDE
# uphill leaves as it is, while its slope says that it grows by a share of GROWS, is capped.
HUGE, ASIDE, GROWS = 1e130, 1e-3, 1e-8


def without_lost_evidence(result: Run) -> Run:
    """The run; where the terms of its log evidence cancel to less than a digit, which they do for
    weights of 1e12 and more far from zero, without it and with the status numerical_error."""
    posterior = result.posterior
    if posterior is None or math.isnan(posterior.log_evidence):
        return result
    unsure = posterior.conditioned.lost
    if unsure <= max(MOST, SHARE * abs(posterior.log_evidence)):
        return result
    note = f"no log evidence: rounding leaves it {unsure:.1g} nats uncertain"
    status = Status.numerical_error if result.status is Status.converged else result.status
    posterior = replace(posterior, log_evidence=math.nan, notes=(*posterior.notes, note))
    return replace(result, posterior=posterior, status=status, reason=result.reason or note)


def without_capped_evidence(problem: Problem, result: Run) -> Run:
    """The run; where a site's log density at the posterior's mean is beyond what exponentials
    reach, without a log evidence and with the status numerical_error."""
    posterior = result.posterior
    if posterior is None or not abs(posterior.log_evidence) > HUGE:  # NaN too
        return result
    capped = [
        site.spec.family
        for site, mean in zip(problem.sites, posterior.conditioned.mean, strict=True)
        if _capped(site, np.asarray(mean))
    ]
    if not capped:
        return result
    note = f"no log evidence: log densities of {capped[0]} are beyond what numbers hold there"
    posterior = replace(posterior, log_evidence=math.nan, notes=(*posterior.notes, note))
    return replace(result, posterior=posterior, status=Status.numerical_error, reason=note)


@np.errstate(all="ignore")
def _capped(site: Site, s: Array) -> bool:
    if not isinstance(site, Pointwise):
        return False
    value, slope = site.log_density(s), site.pointwise(s).slope
    axes = tuple(range(1, s.ndim))
    grows = ASIDE * np.abs(slope).sum(axis=axes) > GROWS * np.abs(value)
    same = site.log_density(s + ASIDE * np.sign(slope)) == value
    return bool(((np.abs(value) > HUGE) & grows & same).any())


def with_standard_errors(posterior: GaussianPosterior) -> GaussianPosterior:
    """The posterior; where its engine estimates, as an approximation whatever the method promises,
    with the standard errors in its notes."""
    q, errors = posterior.conditioned, posterior.conditioned.errors
    if errors is None:
        return posterior
    parts = [f"log evidence +- {errors.log_normaliser:.2g} nats"]
    if any(v.size for v in q.variance):
        rows = [np.asarray(part).reshape(-1) for part in (*errors.variance, *q.variance)]
        count = len(q.variance)
        share = _typical(np.concatenate(rows[:count]), np.concatenate(rows[count:]))
        if share:  # of Lanczos vectors that hold all of it, none is to chance
            parts.append(f"variances of predictors +- {share:.2g} %")
    latent = q.latent_variance_error
    if latent is not None and latent.any():
        parts.append(f"variances of latents +- {_typical(latent, q.latent_variance):.2g} %")
    note = f"the iterative engine estimates: {', '.join(parts)} (Monte Carlo standard errors)"
    notes = (*posterior.notes, note, *([q.remark] if q.remark else []))
    return replace(posterior, guarantee=Guarantee.APPROXIMATE, notes=notes)


def _typical(error: Array, value: Array) -> float:
    """The root mean square of standard errors relative to the values, in per cent."""
    share = error / np.maximum(np.abs(value), 1e-300)
    return 100.0 * float(np.sqrt(np.mean(share**2)))
