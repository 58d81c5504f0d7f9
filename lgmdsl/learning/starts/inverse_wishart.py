"""Where covariances under an inverse Wishart prior start: not in its own peak, if data outweigh it.

At scale / df, which is where the prior is high, S may be so small that data say nothing of it: the
prior has a peak there, of height |scale|^(-(k + 1)/2), which is a maximum of evidence + log prior
however far below another one. A search that starts higher than that peak never ends in it.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.learning.em.covariances import covariances
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective

RUNGS, FACTOR = 12, 10.0  # multiples of the start that are tried, each so many times the last
FALLEN = 10.0  # nats of evidence below the best so far: data want no larger ones


def from_the_widest(objective: Objective, first: Evaluation) -> Evaluation:
    """The highest of the start and of multiples of its covariances, as far as evidence carries."""
    canonical, coordinates = objective.planned.canonical, objective.coordinates
    names = [
        c.name
        for c in covariances(canonical, coordinates)
        if c.block.prior is not None and c.block.prior.at(first.theta).scatter is not None
    ]
    best, top = first, first.posterior.log_evidence
    if not names:
        return best
    for rung in range(1, RUNGS + 1):
        theta = dict(first.theta)
        for name in names:
            theta[name] = FACTOR**rung * np.asarray(first.theta[name])
        found = objective.at(coordinates.pack(theta), first.posterior)
        if found is None or found.posterior.log_evidence < top - FALLEN:
            break
        top = max(top, found.posterior.log_evidence)
        best = found if found.value > best.value else best
    return best
