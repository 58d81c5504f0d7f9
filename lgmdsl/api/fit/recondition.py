"""The posterior of given sites: of a stored fit, and of the points of a mixture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.third_parties import engine_missing
from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.engines.choose import Terms, choose, names
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.posterior.hyper_points import HyperPoint

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit


def point_of(
    fit: Fit, theta: Theta, share: float, log_evidence: float, weight: Rows, shift: Rows
) -> HyperPoint:
    """A point of the mixture that a fit is: conditioned when asked for, by the fit's engine."""
    return HyperPoint(
        theta,
        share,
        log_evidence,
        weight,
        shift,
        lambda: recondition(fit.canonical, theta, weight, shift, fit.seed, fit.provenance),
    )


@np.errstate(all="ignore")  # what overflows fails to factorise
def recondition(
    canonical: CanonicalModel,
    theta: Mapping[str, Array],
    weight: Rows,
    shift: Rows,
    seed: int,
    provenance: Mapping[str, str],
) -> Conditioned:
    """The posterior of given sites, by the engine of the fit (files before it was recorded: by the
    one chosen now). Raises NumericalError E602 where it does not factorise, DataError E306 where a
    third party's engine is not installed."""
    engine = provenance.get("engine", "")
    if engine and engine not in names():
        raise engine_missing(engine, provenance)
    linear = canonical.linear(theta)
    built, why = None, ""
    if engine:  # whatever the budget is now: the fit had it
        built, why = choose(linear, Terms(math.inf, engine), seed)
    if built is None:
        built, why = choose(linear, seed=seed)
    outcome = Failed(why) if built is None else built.condition(weight, shift)
    if isinstance(outcome, Failed):
        raise NumericalError(
            Diagnostic("E602", f"the stored posterior cannot be rebuilt: {outcome.reason}")
        )
    return outcome
