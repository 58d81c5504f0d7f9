"""The predictive distribution of y where the posterior is made of draws: averages over them; and of
classes, or counts over them, under Gaussian predictors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.assess.predictive import repeated
from lgmdsl.bounds.catalogue import bounds
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.classes import Classes, ClassMoments
from lgmdsl.contract.questions import Tilted
from lgmdsl.contract.site import Site
from lgmdsl.errors import MethodError
from lgmdsl.posterior.mixture import PointDraws
from lgmdsl.posterior.tails import root_error

PREDICTORS_PER_PASS = 1 << 19  # predictor entries of draws that are taken at once
# Means and variances of y under draws that are kept to see how well its variance is known, of all
# rows together; never of fewer draws than FEWEST.
KEPT, FEWEST = 4_000_000, 400


class PredictorDraws(NamedTuple):
    """Predictors (k, N), or (k, N, K) of vector sites, at k draws of one theta."""

    theta: Theta
    s: Array


Draws = Callable[[], Iterator[PointDraws]]


class DrawnMoments(NamedTuple):
    """Mean and sd of y, (N,) each; `error`: the relative Monte Carlo error of the sd, (N,), by the
    variances of y given the draws and the distances of their means."""

    mean: Array
    sd: Array
    error: Array


def moments_of_draws(
    canonical: CanonicalModel, block: SiteBlock, draws: Draws, worth: Callable[[int], float]
) -> DrawnMoments:
    """Moments of sites without classes, by the total variance over draws; `worth`: how many
    independent draws so many are worth."""
    means, spreads, rows = [], [], math.prod(block.data_shape)
    total = sum(len(piece.z) for piece in draws())
    every = max(1, -(-total // max(FEWEST, KEPT // max(rows, 1))))
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
            means.append(inner[-count % every :: every])
            spreads.append(spread[-count % every :: every])
            count += len(s)
        assert centre is not None, "a posterior has draws"
        first, second = first / count, second / count
        variance = np.maximum(second - first**2, 0.0)
        away = (np.concatenate(means) - centre - first) ** 2
        error = root_error(np.concatenate(spreads) + away, worth(total))
        return DrawnMoments(centre + first, np.sqrt(variance), error)


def classes_of_draws(
    canonical: CanonicalModel, block: SiteBlock, draws: Draws, classes: int
) -> tuple[Array, Array, Array]:
    """Moments of classes or counts over them: P(class) of a trial, mean and sd of counts, (N,
    K)."""
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
        step = max(1, PREDICTORS_PER_PASS // width)
        for start in range(0, len(z), step):
            s = predictor.values(z[start : start + step].T, part.frame.slices).T
            shape = (len(s), -1, predictor.event) if predictor.event else (len(s), -1)
            yield PredictorDraws(part.theta, s.reshape(shape))


# ---- class response ----------------------------------------------------------------------------
# The predictive distribution of classes, or of counts over them: Gaussian predictors.


def class_moments(
    block: SiteBlock,
    theta: Mapping[str, Array],
    mean: Array,
    variance: Array,
    classes: int,
    draws: int = 1,
) -> ClassMoments:
    """For s ~ N(mean, variance): (N,) each, or (N, L) and (N, L, L) of vector sites; of several
    draws these and the answers have `draws` N rows, draws first. A class is a count of one trial.

    Raises MethodError E501 for a third party's vector site, whose expectations are unknown.
    """
    site = repeated(block.bind_family(theta), draws)
    if isinstance(site, Classes):
        answer = site.class_moments(mean, variance)
        if not block.own_trials:
            return answer
        # the number of trials is the sum of the counts: unknown where they are missing
        known = np.isin(np.arange(len(mean)) % (len(mean) // draws), block.data.rows)[:, None]
        counts = (np.where(known, one, np.nan) for one in (answer.mean, answer.sd))
        return ClassMoments(answer.probability, *counts)
    if block.each or (site.spec.vector and not isinstance(site, Tilted)):
        message = f"the predictive distribution of {site.spec.name} is not known: a vector site"
        raise MethodError.of("E501", message)
    p = np.empty((len(mean), classes))
    for k in range(classes):
        site = repeated(block.bind_family(theta, np.full(len(mean) // draws, float(k))), draws)
        p[:, k] = np.exp(_tilting(site).tilted(mean, variance).log_mass)
    return ClassMoments.of_one_trial(p)


def _tilting(site: Site) -> Tilted:
    """The site as Tilted: itself, or through the first bound that gives it."""
    if isinstance(site, Tilted):
        return site
    lifts = (b for b in bounds() if b.spec.gives is Tilted and not b.applies_to(type(site)))
    return cast(Tilted, next(lifts).lift(site))
