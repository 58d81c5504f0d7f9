"""The exact posterior of few latents by importance sampling, in place of a series.

    p(z | y) proportional to q(z) e^R,   R = sum_i l_i(s_i) + 1/2 d'Wd - (b - Wm)'d,   d = s - m

for q with sites' weights W and shifts b. Whitened latents come from equal parts of N(0, c^2 I), c
in SCALES, so that no weight exceeds len(SCALES) times what q's own draws would have, and tails that
are longer than q's are seen. Points are quasi-random; batches of them with shifts of their own give
the Monte Carlo error, above which nothing is said. Of a quantile they give the difference from q's,
which is known: both have much of their error in common.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from lgmdsl.accuracy.density_ratio import DensityRatio
from lgmdsl.accuracy.errors import beyond, errors_against
from lgmdsl.accuracy.limits import ENTRIES, FEW_LATENTS, FEW_ROWS, FREE, MEAN, QUANTILE, SD
from lgmdsl.accuracy.terms import root_of
from lgmdsl.accuracy.weighted import (
    SCALES,
    Weighted,
    WeightedPosterior,
    log_scale_mixture,
)
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.joint import SumsOfRows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.rows import diagonal
from lgmdsl.contract.site import Site
from lgmdsl.contract.stacked import StackedPredictors, cut

BATCHES = 4
# Points of a batch, and more where their Monte Carlo errors are above so much of what is tolerated.
POINTS = ((480, 0.3), (1440, 0.3), (3840, 0.7))
HOPE = 1.5  # errors that are expected of more points, in what they may be: beyond, none are made
NEAR, CLOSER = (0.5, 1.6), 0.4  # errors about what is tolerated, of which more is to be known
LEAST = 200.0  # effective points
CLOSELY = 8  # functionals whose quantiles are taken from the points


def weighed(
    sites: Sequence[Site],
    linear: LinearGaussian,
    q: Conditioned,
    seed: int,
    root: Array | None = None,
    evidence_alone: bool = False,
) -> WeightedPosterior | None:
    """`root`: R with RR' = Cov_q(z), where it is known; `evidence_alone`: where no more is asked,
    so that the points need be no better than for it. None where latents or rows are many, sites
    stand for rows that were read by batches, or weights are too uneven."""
    if linear.size > FEW_LATENTS or linear.rows > FEW_ROWS:
        return None
    if any(isinstance(site, SumsOfRows) for site in sites):
        return None
    root = root_of(q, linear.size) if root is None else root
    root = root[:, np.sum(root**2, axis=0) > 0.0]
    if not 0 < root.shape[1] <= FREE:
        return None
    ratio = DensityRatio(sites, q)
    before, count = 0.0, POINTS[0][0]
    for points, tolerance in POINTS:
        if before * math.sqrt(count / points) > HOPE * tolerance:
            continue
        of = _weighted(ratio, linear, root, seed, points)
        answer = WeightedPosterior(of, linear, q.latent_mean, root, CLOSELY)
        error = math.inf
        if of.possible and (of.masses > 0.0).all():
            # Of few points the errors are not known.
            few = math.sqrt(LEAST / of.effective) if of.effective < LEAST else 0.0
            error = max(of.error / SD, few)
            if not evidence_alone:
                of_latents = _error(answer)
                near = NEAR[0] < _beyond(answer, q) < NEAR[1]
                error = max(error, of_latents / CLOSER if near else of_latents)
        if error <= tolerance:
            return answer
        before, count = error, points
    return None


def _weighted(
    ratio: DensityRatio, linear: LinearGaussian, root: Array, seed: int, points: int
) -> Weighted:
    """BATCHES of as many points each, x (S, r), with shifts of their own."""
    scales, dimension = np.array(SCALES), root.shape[1]
    spread = np.repeat(scales, points // len(scales))
    rngs = (np.random.default_rng([seed, 7, k]) for k in range(BATCHES))
    x = np.concatenate([_points(dimension, points, rng) * spread for rng in rngs], axis=1)
    squares = np.sum(x**2, axis=0)
    own = -0.5 * squares - log_scale_mixture(
        squares, dimension, SCALES, [1.0 / len(scales)] * len(scales)
    )
    level = _level(ratio, linear, StackedPredictors(linear).lifted(root @ x))
    return Weighted(x.T, own + level, own, BATCHES)


def _points(dimension: int, count: int, rng: np.random.Generator) -> Array:
    """(dimension, count) quasi-random points of a standard normal: multiples of the powers of the
    root of g^(d + 1) = g + 1 (Roberts 2018), with a random shift."""
    g = 2.0
    for _ in range(60):
        g = (1.0 + g) ** (1.0 / (dimension + 1.0))
    slopes = g ** -np.arange(1.0, dimension + 1.0)
    u = (rng.random((dimension, 1)) + slopes[:, None] * np.arange(count)) % 1.0
    return np.asarray(special.ndtri(np.clip(u, 1e-15, 1.0 - 1e-15)))


def _level(ratio: DensityRatio, linear: LinearGaussian, away: Array) -> Array:
    """log p(y, z) / q(z), (S,), at s = m + away, (P, S)."""
    step = max(1, ENTRIES // max(linear.rows, 1))
    parts = [away[:, low : low + step] for low in range(0, away.shape[1], step)]
    return np.concatenate([ratio([a.T for a in cut(part, linear.predictors)]) for part in parts])


def _error(known: WeightedPosterior) -> float:
    """The largest Monte Carlo error of a moment of the latents, in what is tolerated."""
    parts = (replace(known, of=known.of.part(k)) for k in range(BATCHES))
    each = zip(*(part.moments(None) for part in parts), strict=True)
    unit = np.maximum(known.moments(None)[1], 1e-300) * math.sqrt(BATCHES)
    tolerated = (MEAN, SD, QUANTILE, QUANTILE)
    scatter = (np.std(a, axis=0, ddof=1) / t for a, t in zip(each, tolerated, strict=True))
    return max(float((s / unit).max()) for s in scatter)


def _beyond(known: WeightedPosterior, q: Conditioned) -> float:
    """The largest error of a latent or a predictor of a site under q, in what is tolerated."""
    reported = (q.latent_mean, q.latent_variance), *zip(q.mean, q.variance, strict=True)
    return max(
        float(beyond(errors_against(flat, *known.moments(f))).max(initial=0.0))
        for flat, f in zip(
            ((m.reshape(-1), diagonal(v).reshape(-1)) for m, v in reported),
            (None, *known.linear.predictors),
            strict=True,
        )
    )
