"""The posterior of given sites: of a stored fit, and of the points of a mixture."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.third_parties import engine_missing
from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.engines.choose import AUTO, SAMPLES, Terms, choose, names
from lgmdsl.errors import NumericalError
from lgmdsl.inference.plan import kept_as
from lgmdsl.numerics.blas_threads import one_thread
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.remedies import either

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord


def point_of(
    fit: FitRecord, theta: Theta, share: float, log_evidence: float, weight: Rows, shift: Rows
) -> HyperPoint:
    """A point of the mixture that a fit is: conditioned when asked for, by the fit's engine."""
    return HyperPoint(
        theta,
        share,
        log_evidence,
        weight,
        shift,
        Recondition(fit.canonical, theta, weight, shift, fit.seed, fit.provenance),
    )


@dataclass(frozen=True, eq=False)
class Recondition:
    """`recondition` of these when it is called; `known` is the result where it is at hand, which
    pickles and copies do not hold."""

    canonical: CanonicalModel
    theta: Theta
    weight: Rows
    shift: Rows
    seed: int
    provenance: Mapping[str, str]
    known: Conditioned | None = None

    def __call__(self) -> Conditioned:
        if self.known is not None:
            return self.known
        parts = (self.canonical, self.theta, self.weight, self.shift, self.seed, self.provenance)
        return recondition(*parts)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "known": None}


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
    with one_thread() as known_flops:  # same digits as in the fit
        known_flops(float(provenance.get("flops", 0.0)))
        built, why = None, ""
        if engine:  # whatever the budget is now: the fit had it
            # What drove the run is not what it reports: that are samples.
            count = int(json.loads(provenance.get("settings", "{}")).get("samples", 0))
            kind = SAMPLES if count else AUTO
            terms = Terms(math.inf, engine, variances=kind, count=count)
            built, why = choose(linear, terms, seed)
        if built is None:
            built, why = choose(linear, seed=seed, sums=not canonical.rows.kept)
        if built is not None:
            built = kept_as(provenance, built, seed)
        outcome = Failed(why) if built is None else built.condition(weight, shift)
    if isinstance(outcome, Failed):
        raise NumericalError.of(
            "E602",
            f"the stored posterior cannot be rebuilt: {outcome.reason}",
            help=either(
                "fit again: lgm fit MODEL DATA -o FIT.nc", "fit again: lgm.fit(model, data)"
            ),
        )
    return outcome
