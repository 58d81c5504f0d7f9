"""Whether priors and data contradict each other at a maximum.

A hyper, or the latents of a model, may be so far out in their prior that the data are explained
by whatever costs least: offsets of 1e4 prior sds by loadings of hundreds, or by the noise. The
density then has maxima thousands of nats apart, and the nearest one need not be the highest.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.canonical.lowering.hypers import HyperBlock
from lgmdsl.contract.rows import inner, times
from lgmdsl.learning.coordinates.vector import transform
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective

# Nats of a hyper's log density below the middle of its prior: a normal is 6 sds out there. One more
# is expected of each entry; both on the natural scale and on that of the coordinates, so that
# neither vague priors (on precisions) nor sds of 0 are far out.
LIKELY = 18.0
OUT = 5.0  # root mean square of latents in sds of their prior


def conflicts(objective: Objective, at: Evaluation) -> tuple[str, ...]:
    """The free hypers that are far out in their priors; and the latents if they are, all that are
    in the model."""
    blocks = objective.coordinates.blocks
    names = tuple(b.name for b in blocks if _fallen(b, at) > LIKELY + np.prod(b.sizes))
    canonical = objective.planned.canonical
    latents = tuple(latent.name for latent in canonical.latents)
    return (*names, *latents) if latents and _squared(at) > OUT**2 * canonical.size else names


def _fallen(block: HyperBlock, at: Evaluation) -> float:
    """Nats by which the log density is lower than in the middle of the prior, by the scale on which
    that is less."""
    assert block.prior is not None
    prior = block.prior.at(at.theta)
    form = transform(block, at.theta)
    heights = []
    with np.errstate(all="ignore"):
        for value in (prior.typical(block.sizes), np.asarray(at.theta[block.name])):
            jacobian = form.log_jacobian(form.coordinates(value))[0]
            density = prior.log_density(value)
            heights.append((density, density + jacobian))
    fallen = np.subtract(heights[0], heights[1])
    return float(fallen.min()) if np.isfinite(fallen).all() else 0.0


def _squared(at: Evaluation) -> float:
    """(E_q z - mu)'K^-1 (E_q z - mu) = alpha'(m - s0), alpha = b - Wm what the sites pull with: the
    means m of the predictors against those of the prior, s0. Improper latents add 0."""
    q = at.posterior
    total = 0.0
    parts = zip(q.weight, q.shift, q.conditioned.mean, at.problem.engine.prior_mean, strict=True)
    for weight, shift, mean, prior in parts:
        total += float(np.sum(inner(shift - times(weight, mean), mean - prior)))
    return total
