"""A log evidence that rounding has left no digits is not shown."""

from __future__ import annotations

import math
from dataclasses import replace

from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Run

# Nats that may be lost before the evidence is withheld: so many, or this share of it.
MOST, SHARE = 1e-3, 1e-6


def legible(result: Run) -> Run:
    """The run; where the terms of its log evidence cancel to less than a digit, which they do for
    weights of 1e12 and more far from zero, without it and with the status numerical_error."""
    found = result.posterior
    if found is None or math.isnan(found.log_evidence):
        return result
    unsure = found.conditioned.lost
    if unsure <= max(MOST, SHARE * abs(found.log_evidence)):
        return result
    told = f"no log evidence: rounding leaves it {unsure:.1g} nats uncertain"
    status = Status.numerical_error if result.status is Status.converged else result.status
    found = replace(found, log_evidence=math.nan, notes=(*found.notes, told))
    return replace(result, posterior=found, status=status, reason=result.reason or told)
