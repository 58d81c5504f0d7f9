"""The predictive distribution of y where the posterior is made of draws: averages over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.assess.predictive import repeated
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.posterior.class_response import class_moments
from lgmdsl.posterior.mixture import PointDraws
from lgmdsl.posterior.response import last_value

CHUNK = 1 << 19  # predictor entries of draws that are taken at once
# Densities of values under draws, at most: a table of many values is averaged over fewer draws,
# but never below FEWEST.
DENSITIES, FEWEST = 40_000_000, 400


class ResponseMoments(NamedTuple):
    """Mean and sd of y, and P(y = k), (N, values): None of continuous families."""

    mean: Array
    sd: Array
    probability: Array | None


class PredictorDraws(NamedTuple):
    """Predictors (k, N), or (k, N, K) of vector sites, at k draws of one theta."""

    theta: Theta
    s: Array


Draws = Callable[[], Iterator[PointDraws]]


def response_of_draws(
    canonical: CanonicalModel, block: SiteBlock, draws: Draws, most: float = math.inf
) -> ResponseMoments:
    """Of sites without classes: mean and sd by the total variance over draws, P(y = k) their
    average, where there are up to `most` values of all rows together."""
    count, centre, first, second = 0, None, np.zeros(()), np.zeros(())
    with np.errstate(all="ignore"):
        for theta, s in predictors_of_draws(canonical, block, draws):
            site = repeated(block.bind_family(theta), len(s))
            flat = s.reshape(-1, *s.shape[2:])
            inner = site.conditional_mean(flat).reshape(s.shape[:2])
            spread = site.conditional_variance(flat).reshape(s.shape[:2])
            centre = inner.mean(axis=0) if centre is None else centre
            first = first + (inner - centre).sum(axis=0)
            second = second + (spread + (inner - centre) ** 2).sum(axis=0)
            count += len(s)
        assert centre is not None, "a posterior has draws"
        first, second = first / count, second / count
        mean, sd = centre + first, np.sqrt(np.maximum(second - first**2, 0.0))
        last = last_value(block, mean, sd)
        last = last if mean.size * (last + 1) <= most else -1
        return ResponseMoments(mean, sd, _table(canonical, block, draws, count, last))


def _table(
    canonical: CanonicalModel, block: SiteBlock, draws: Draws, count: int, last: int
) -> Array | None:
    if last < 0:
        return None
    rows = int(np.prod(block.data_shape, dtype=np.int64))
    most = max(FEWEST, DENSITIES // max(rows * (last + 1), 1))
    every = max(1, -(-count // most))
    table, used, begin = np.zeros((rows, last + 1)), 0, 0
    for theta, s in predictors_of_draws(canonical, block, draws):
        some = s[-begin % every :: every]
        begin += len(s)
        for k in range(last + 1 if len(some) else 0):
            site = repeated(block.bind_family(theta, np.full(rows, float(k))), len(some))
            flat = some.reshape(-1, *some.shape[2:])
            density = np.exp(site.log_density(flat)).reshape(some.shape[:2])
            table[:, k] += np.nan_to_num(density).sum(axis=0)  # 0: not k successes of fewer trials
        used += len(some)
    return table / used


def classes_of_draws(
    canonical: CanonicalModel, block: SiteBlock, draws: Draws, classes: int
) -> tuple[Array, Array, Array]:
    """Of classes, or counts over them: P(class) of one trial, mean and sd of counts, (N, K)."""
    count, sums = 0, [np.zeros(()) for _ in range(3)]
    for theta, s in predictors_of_draws(canonical, block, draws):
        flat = s.reshape(-1, *s.shape[2:])
        none = np.zeros((*flat.shape, *flat.shape[1:]))
        known = class_moments(block, theta, flat, none, classes, len(s))
        second = known.sd**2 + known.mean**2
        for j, values in enumerate((known.probability, known.mean, second)):
            sums[j] = sums[j] + values.reshape(len(s), -1, classes).sum(axis=0)
        count += len(s)
    probability, mean, second = (total / count for total in sums)
    return probability, mean, np.sqrt(np.maximum(second - mean**2, 0.0))


def predictors_of_draws(
    canonical: CanonicalModel, block: SiteBlock, draws: Draws
) -> Iterator[PredictorDraws]:
    """The predictors of all rows at all draws, in pieces."""
    for _, part, _, z in draws():
        predictor = part.frame.embed(canonical.as_written(block, part.theta))
        width = max(len(predictor.offset), 1)
        step = max(1, CHUNK // width)
        for start in range(0, len(z), step):
            s = predictor.values(z[start : start + step].T, part.frame.slices).T
            shape = (len(s), -1, predictor.event) if predictor.event else (len(s), -1)
            yield PredictorDraws(part.theta, s.reshape(shape))
