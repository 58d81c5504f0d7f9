"""What the response of a block is averaged over: its Gaussian predictors, or draws of them."""

from __future__ import annotations

import math

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.posterior.drawn_response import Draws, predictors_of_draws
from lgmdsl.posterior.predictive.averaged import (
    Averaged,
    OverDraws,
    OverMixture,
    OverSeveral,
    Predictors,
)
from lgmdsl.posterior.site_draws import parameter_rows

FEWEST = 400  # draws that averages are taken over, at least


def over_predictors(block: SiteBlock, predictors: Predictors, weights: Array) -> Averaged:
    """For s ~ N(mean, variance) at hyperparameters theta, a mixture with `weights` of these
    `predictors` (theta, mean, variance)."""
    sites = [block.bind_family(t) for t, _, _ in predictors]
    if block.family.spec.vector:
        return OverSeveral(sites, weights, predictors)
    means = np.array([m for _, m, _ in predictors])
    sds = np.sqrt(np.array([v for _, _, v in predictors]))
    free = parameter_rows(block, predictors[0][0], all_rows=True).shape[1] > 0
    return OverMixture(sites if free else sites[:1], weights, means, sds)


def over_draws(canonical: CanonicalModel, block: SiteBlock, draws: Draws, most: int) -> Averaged:
    """Over the draws of predictors, or fewer of them, evenly spaced, where they have more than
    `most` entries of all rows together; never fewer than FEWEST."""
    rows = math.prod(block.data_shape)
    total = sum(len(piece.z) for piece in draws())
    every = max(1, -(-total // max(FEWEST, most // max(rows, 1))))
    kept, begin = [], 0
    for theta, s in predictors_of_draws(canonical, block, draws):
        some = s[-begin % every :: every]
        begin += len(s)
        if len(some):
            kept.append((block.bind_family(theta), some))
    return OverDraws(kept, rows)
