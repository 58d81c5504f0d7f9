"""The unit of an offset or a coefficient: its sd given all else, 1 / sqrt(curvature).

A hyper of type real has the unit of the user's data. Where a step of 1 is a millionth of its sd, no
slope along it looks worth a step.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.queries.loadings import linear_hypers
from lgmdsl.learning.em.complete_data import CompleteData
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective

# Smaller units stay 1: a search learns them from its first steps, and what it expects of a step is
# too much rather than too little.
LARGE = 10.0


def real_units(objective: Objective, at: Evaluation) -> Array:
    """(d,) by the curvature of the expected complete-data objective at a fit; 1 for all hypers
    that are neither offsets nor coefficients."""
    canonical, coordinates = objective.planned.canonical, objective.coordinates
    out = np.ones(coordinates.size)
    linear = linear_hypers(canonical, at.theta, objective.pinned)
    names = tuple(n for n in linear.names if n not in linear.loadings)
    if names:
        complete = CompleteData.of(canonical, coordinates, names, at.theta)
        seen = complete.with_prior(complete.curvature(at.posterior), at.theta).diagonal()
        with np.errstate(all="ignore"):
            units = 1.0 / np.sqrt(seen)
        out[complete.x] = np.where(np.isfinite(units) & (units > LARGE), units, 1.0)
    return out
