"""The objective that a fit has maximised, to be asked again at other hyperparameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.errors import MethodError
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan_again
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.objective.log_posterior import Objective
from lgmdsl.remedies import either, setting

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

MAXIMISED = ("map", "em")
# Small differences of evidences are taken: relative, a hundredth of the default at most.
TOLERANCE = 1e-9


def maximised_objective(
    fit: FitRecord,
    canonical: CanonicalModel,
    caller: str,
    leading: Mapping[str, int] | None = None,
) -> Objective:
    """Evidence + log prior in the hyperparameters that were learned, with covariances by their sds
    and correlations, the members of `leading` first; `canonical`: the model with its responses.
    Raises MethodError E501 where hyperparameters were not maximised."""
    if fit.hyper not in MAXIMISED:
        message = f"{caller} is about a maximum, and this fit has hyper={fit.hyper}"
        help = f"fit with {setting('hyper', 'map')}"
        if fit.hyper == "fixed":
            help += f", and pin fewer hyperparameters by {either('--set', 'fixed')}"
        raise MethodError.of("E501", message, help=help)
    settings = json.loads(fit.provenance.get("settings", "{}"))
    fixed = {name: fit.theta[name] for name in settings.get("fixed") or {}}
    tol = settings.get("tol")
    objective = Objective(
        plan_again(canonical, fit.method, fit.provenance),
        Coordinates(canonical.hypers, fixed, closed=True, apart=True, leading=leading),
        fixed,
        Tolerances.scaled(TOLERANCE if tol is None else min(float(tol), TOLERANCE)),
        settings.get("max_steps"),
        fit.seed,
    )
    objective.span(objective.coordinates.pack(fit.theta))
    return objective
