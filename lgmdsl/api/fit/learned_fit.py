"""A fit with what was learned of its hyperparameters: marginals, mixture points, warnings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lgmdsl.api.fit.restore import recondition
from lgmdsl.api.fit.warnings import at_bound, learning_warnings, mean_field_warnings
from lgmdsl.contract.status import Guarantee
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.identify import piled_up
from lgmdsl.learning.integration.asymptotic import Asymptotic, ModeOnly
from lgmdsl.learning.integration.visited import Fitted
from lgmdsl.learning.learn import Learned
from lgmdsl.learning.mean_field.marginals import FactorMarginals
from lgmdsl.learning.mean_field.mean_field import MeanField
from lgmdsl.posterior.hyper_points import Point
from lgmdsl.posterior.learning_record import Learning
from lgmdsl.posterior.mixture import HyperMarginals

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit


def with_hypers(fit: Fit, learned: Learned, way: str) -> Fit:
    """The fit at the mode as one of all hyperparameters; `way`: map, em or integrate."""
    found = learned.integrated
    record = Learning(
        learned.maximum.steps, learned.calls, learned.iterations,
        found.design if found else "", len(found.points) if found else 1,
        found.modes if found else 1,
    )  # fmt: skip
    warnings = (*fit.warnings, *learning_warnings(learned))
    if found is None:
        hypers: HyperMarginals = ModeOnly(learned.coordinates, fit.theta)
        if learned.frame is not None:
            hypers = Asymptotic(learned.coordinates, fit.theta, learned.frame)
        return replace(fit, hyper=way, hypers=hypers, learning=record, warnings=warnings)
    return replace(
        fit,
        hyper="integrate",
        # Where the density has not fallen off, there is no telling what its integral is.
        log_evidence=found.log_evidence if found.bounded else math.nan,
        # An integral by a rule over bounds or exact evidences is an approximation.
        guarantee=Guarantee.APPROXIMATE,
        hypers=found.posterior,
        mixed=tuple(_point(fit, at, share) for at, share in found.points),
        learning=record,
        warnings=warnings,
    )


def with_factors(fit: Fit, found: MeanField, fixed: Mapping[str, object] | None) -> Fit:
    """The fit at the expected precisions as one of all factors: its evidence is their bound."""
    weak = fit.guarantee is Guarantee.APPROXIMATE
    hypers = FactorMarginals(fit.canonical.hypers, dict(fixed or {}), found.factors)
    piled = piled_up(Coordinates(fit.canonical.hypers, fixed), hypers.quantile)
    return replace(
        fit,
        hyper="vb",
        log_evidence=found.bound,
        guarantee=fit.guarantee if weak else Guarantee.LOWER,
        hypers=hypers,
        learning=Learning(found.steps, found.calls, found.iterations, "", 1),
        warnings=(*fit.warnings, *mean_field_warnings(found), *map(at_bound, piled)),
    )


def _point(fit: Fit, at: Fitted, share: float) -> Point:
    return Point(
        at.theta, share, at.log_evidence, at.weight, at.shift,
        lambda: recondition(fit.canonical, at.theta, at.weight, at.shift, fit.seed, fit.provenance),
    )  # fmt: skip
