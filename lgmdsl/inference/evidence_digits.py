"""Withholds a log evidence that rounding has left without digits."""

from __future__ import annotations

import math
from dataclasses import replace

from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Run

# Nats that may be lost before the evidence is withheld: so many, or this share of it.
MOST, SHARE = 1e-3, 1e-6


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
