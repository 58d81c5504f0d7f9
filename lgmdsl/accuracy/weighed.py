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
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from lgmdsl.accuracy.density_ratio import DensityRatio
from lgmdsl.accuracy.limits import BENT, LEVELS, MEAN, NORMAL, QUANTILE, SD
from lgmdsl.accuracy.terms import root_of
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.joint import SumsOfRows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.rows import diagonal
from lgmdsl.contract.site import Site
from lgmdsl.contract.stacked import StackedPredictors, cut
from lgmdsl.numerics.weighted import SCALES, log_scale_mixture, ordered_quantiles

if TYPE_CHECKING:
    from numpy.random import Generator

FEW, MOST, ROWS = 8, 24, 600  # directions that are free; latents; predictor rows
BATCHES = 4
# Points of a batch, and more where their Monte Carlo errors are above so much of what is tolerated.
POINTS = ((480, 0.3), (1440, 0.3), (3840, 0.7))
HOPE = 1.5  # errors that are expected of more points, in what they may be: beyond, none are made
NEAR, CLOSER = (0.5, 1.6), 0.4  # errors about what is tolerated, of which more is to be known
CHUNK = 400_000  # rows x points at a time
LEAST = 200.0  # effective points
CLOSELY = 8  # functionals whose quantiles are taken from the points


@dataclass(frozen=True, eq=False)
class Weighed:
    """Points z = `centre` + `root` x, x (n, S), with `weights` (S,) that sum to 1, and those of q's
    own, `plain`; log p(y)."""

    centre: Array
    root: Array
    x: Array
    weights: Array
    plain: Array
    log_evidence: float
    linear: LinearGaussian

    def moments(self, functional: Predictor | None) -> tuple[Array, Array, Array, Array]:
        """Mean, sd, 5 and 95 % point, (m,) each, of the latents or of the rows of a functional;
        quantiles by the points where they are farthest from a Gaussian's, else by skewness."""
        centre, columns = self.centre, self.root
        if functional is not None:
            where = self.linear.slices
            centre, columns = functional.values(centre, where), functional.times(columns, where)
        mean, sd, skew = np.empty(len(centre)), np.empty(len(centre)), np.empty(len(centre))
        step = max(1, CHUNK // len(self.weights))
        for start in range(0, len(centre), step):
            here = slice(start, start + step)
            f = columns[here] @ self.x
            mean[here] = f @ self.weights
            f -= mean[here, None]
            powers = f * f
            sd[here] = np.sqrt(powers @ self.weights)
            powers *= f  # numpy's f**3 takes twenty times as long as the product
            skew[here] = powers @ self.weights
        unit = np.where(sd > 0.0, sd, 1.0)
        skew /= unit**3
        bent = BENT * np.clip(skew, -1.0, 1.0)
        low, high = mean + (bent - NORMAL) * sd, mean + (bent + NORMAL) * sd
        spread = np.sqrt(np.sum(columns**2, axis=1))
        off = np.abs(skew) + np.abs(sd - spread) / unit + np.abs(mean) / unit
        for k in np.argsort(-off, kind="stable")[:CLOSELY]:
            f = columns[k] @ self.x
            order = np.argsort(f)
            there, own = (
                ordered_quantiles(f[order], w[order], LEVELS) for w in (self.weights, self.plain)
            )
            low[k], high[k] = there - own + np.array([-NORMAL, NORMAL]) * spread[k]
        return centre + mean, sd, centre + low, centre + high


def weighed(
    sites: Sequence[Site],
    linear: LinearGaussian,
    q: Conditioned,
    seed: int,
    root: Array | None = None,
    evidence_alone: bool = False,
) -> Weighed | None:
    """`root`: R with RR' = Cov_q(z), where it is known; `evidence_alone`: where no more is asked,
    so that the points need be no better than for it. None where latents or rows are many, sites
    stand for rows that were read by batches, or weights are too uneven."""
    if linear.size > MOST or linear.rows > ROWS:
        return None
    if any(isinstance(site, SumsOfRows) for site in sites):
        return None
    root = root_of(q, linear.size) if root is None else root
    root = root[:, np.sum(root**2, axis=0) > 0.0]
    if not 0 < root.shape[1] <= FEW:
        return None
    ratio = DensityRatio(sites, q)
    before, count = 0.0, POINTS[0][0]
    for points, tolerance in POINTS:
        if before * math.sqrt(count / points) > HOPE * tolerance:
            continue
        batches = [
            _batch(ratio, linear, root, np.random.default_rng([seed, 7, k]), points)
            for k in range(BATCHES)
        ]
        answer, error, of_latents = _together(linear, q, root, batches)
        if answer is not None and not evidence_alone:
            near = NEAR[0] < _beyond(answer, q) < NEAR[1]
            error = max(error, of_latents / CLOSER if near else of_latents)
        if error <= tolerance:
            return answer
        before, count = error, points
    return None


def _batch(
    ratio: DensityRatio, linear: LinearGaussian, root: Array, rng: Generator, points: int
) -> tuple[Array, Array, Array]:
    """x, (r, S), log weights, and those of q's own, (S,) each."""
    scales, dimension = np.array(SCALES), root.shape[1]
    x = _points(dimension, points, rng) * np.repeat(scales, points // len(scales))
    squares = np.sum(x**2, axis=0)
    equal = [1.0 / len(scales)] * len(scales)
    log_weights = -0.5 * squares - log_scale_mixture(squares, dimension, SCALES, equal)
    level = _level(ratio, linear, StackedPredictors(linear).lifted(root @ x))
    return x, log_weights + level, log_weights


def _points(dimension: int, count: int, rng: Generator) -> Array:
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
    step = max(1, CHUNK // max(linear.rows, 1))
    parts = [away[:, low : low + step] for low in range(0, away.shape[1], step)]
    return np.concatenate([ratio([a.T for a in cut(part, linear.predictors)]) for part in parts])


def _together(
    linear: LinearGaussian,
    q: Conditioned,
    root: Array,
    batches: list[tuple[Array, Array, Array]],
) -> tuple[Weighed | None, float, float]:
    """All batches together, and their Monte Carlo errors of the evidence and of the latents, in
    what is tolerated; large ones where few points carry all weight."""
    logs = np.stack([log for _, log, _ in batches])
    top = float(logs.max())
    if not np.isfinite(top):
        return None, math.inf, math.inf
    weights = np.exp(logs - top)
    masses = weights.sum(axis=1)
    total = float(masses.sum())
    effective = total**2 / float(np.sum(weights**2))
    if (masses <= 0.0).any():
        return None, math.inf, math.inf
    evidence = top + math.log(total / weights.size)
    each = []
    for (x, _, log), w, mass in zip(batches, weights, masses, strict=True):
        part = Weighed(np.zeros(len(root)), root, x, w / mass, np.exp(log), 0.0, linear)
        each.append(np.stack(part.moments(None)))
    x = np.concatenate([x for x, _, _ in batches], axis=1)
    plain = np.exp(np.concatenate([log for _, _, log in batches]))
    whole = Weighed(q.latent_mean, root, x, weights.reshape(-1) / total, plain, evidence, linear)
    mean, sd, low, high = (np.std(a, axis=0, ddof=1) for a in zip(*each, strict=True))
    unit = np.maximum(whole.moments(None)[1], 1e-300) * math.sqrt(len(batches))
    errors = (mean / MEAN, sd / SD, low / QUANTILE, high / QUANTILE)
    worst = max(float((e / unit).max()) for e in errors)
    nats = float(np.std(masses, ddof=1) / masses.mean()) / math.sqrt(len(batches))
    few = math.sqrt(LEAST / effective) if effective < LEAST else 0.0  # errors are not known
    return whole, max(nats / SD, few), worst


def _beyond(known: Weighed, q: Conditioned) -> float:
    """The largest error of a latent or a predictor of a site under q, in what is tolerated."""
    largest = 0.0
    spreads = (q.latent_mean, q.latent_variance), *zip(q.mean, q.variance, strict=True)
    for (m, v), f in zip(spreads, (None, *known.linear.predictors), strict=True):
        mean, sd, low, high = known.moments(f)
        unit, spread = np.where(sd > 0.0, sd, np.inf), np.sqrt(np.maximum(diagonal(v), 0.0))
        m, spread = m.reshape(-1), spread.reshape(-1)
        ends = (m - NORMAL * spread - low, m + NORMAL * spread - high)
        parts = (m - mean) / MEAN, (spread - sd) / SD, *(e / QUANTILE for e in ends)
        largest = max(largest, *(float(np.abs(p / unit).max(initial=0.0)) for p in parts))
    return largest
