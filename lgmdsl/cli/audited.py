"""A fit and its audit, for the commands that show both."""

from __future__ import annotations

from dataclasses import replace

from lgmdsl.api.fit.fit import Fit
from lgmdsl.errors import LgmError
from lgmdsl.workers.task import Jobs


def audited(
    fit: Fit, draws: int, seed: int, sampler: bool = False, jobs: Jobs = None
) -> tuple[Fit, LgmError | None]:
    """The fit with its audit, or without it and why: a finished fit is not lost."""
    try:
        return replace(fit, audited=fit.audit(draws, seed, sampler=sampler, jobs=jobs)), None
    except LgmError as error:
        return fit, error
