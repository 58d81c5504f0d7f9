"""How a fit ended. The value of each member is the advice to the user."""

from __future__ import annotations

from enum import Enum


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


class Guarantee(Enum):
    """What a reported log evidence, or a bound's answer, promises."""

    EXACT = "exact"
    LOWER = "lower bound"
    NUMERICAL = "exact up to a stated numerical error"
    APPROXIMATE = "approximation without a guarantee"

    def __str__(self) -> str:
        return self.name.lower()
