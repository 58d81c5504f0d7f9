"""Responses that a model fits exactly: their density has no maximum as the noise goes to 0.

A constant response, the points of a line, more coefficients than rows: all residuals may be 0, and
n rows with k free directions have a density like sd^-(n - k). Once the sd of the noise is below
the rounding of the responses, residuals are rounding too, and no search says any more; nor does one
from another start, as none could end higher.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.queries.sizes import sizes
from lgmdsl.contract.problem import Problem
from lgmdsl.inference.landmarks import has_unit, landmark_of
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective

# Of the largest response: noise below it is lost to the rounding of sums and products.
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)


def fitted_exactly(objective: Objective, at: Evaluation, gradient: Array) -> str:
    """The coordinate of a noise that is below the rounding of its responses and on its way to 0,
    by the `gradient` (d,) of what is searched; "" where there is none."""
    blocks = _below_rounding(at.problem)
    if not blocks:
        return ""
    coordinates = objective.coordinates
    for size in sizes(objective.planned.canonical, at.theta, set(objective.pinned)):
        if size.latent or size.block not in blocks:
            continue
        for name, power in size.powers.items():
            own = coordinates.slices[name]
            outwards = -np.sign(power) * gradient[own]
            if outwards.max(initial=0.0) > 0.0:
                return str(coordinates.names[own.start + int(outwards.argmax())])
    return ""


def _below_rounding(problem: Problem) -> set[int]:
    """The site blocks whose distances are below the rounding of their responses."""
    out = set()
    predictors, means = problem.engine.linear.predictors, problem.engine.prior_mean
    for k, (site, p, mean) in enumerate(zip(problem.sites, predictors, means, strict=True)):
        landmark = landmark_of(site, p.event) if has_unit(site) else None
        if landmark is None:
            continue
        centre, distance = landmark
        level = max(float(np.abs(x).max(initial=0.0)) for x in (centre, p.offset, mean))
        known = distance[np.isfinite(distance)]
        if float(known.max()) <= ROUNDING * level:
            out.add(k)
    return out
