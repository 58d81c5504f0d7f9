"""Joint predictive densities: log int N(s; c, C) prod_i t_i(s_i) ds over a few sites.

Exact where all sites are Gaussian. Else randomised quasi-Monte Carlo by importance, in the range of
C: proposals with the moments of N(s; c, C) prod_i g_i(s_i), where g are q's Gaussian sites, and
heavier tails (`importance.weights`, with q as control variate, so that t = g leaves no
error); the standard error is that between independent scramblings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, cast

import numpy as np
import scipy.linalg as sl
from scipy import special, stats

from lgmdsl.accuracy.weighted import relative_error
from lgmdsl.arrays import Array
from lgmdsl.assess.importance.moments import Evidence
from lgmdsl.assess.importance.weights import DF, best_proposal
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property, Site
from lgmdsl.numerics.normal_tail import LOG_TWO_PI

Shapes: TypeAlias = Sequence[tuple[int, ...]]

SCRAMBLINGS = 8
# Directions of C with less of its largest variance than this are rounding.
RANGE = 1e-13
# Points of the smallest nets; larger ones are made where those leave an error above CLOSE.
FEWEST, CLOSE = 64, 2.5e-3
# Coordinates of a net that is kept, and predictors that sites are asked about at once.
KEPT, AT_ONCE = 2**18, 2**16


@dataclass(frozen=True)
class JointDensity:
    """`log` p(y_G | ...) and the standard error of that log, 0 where it is exact."""

    log: float
    error: float


def joint_density(
    sites: Sequence[Site],
    shapes: Shapes,
    mean: Array,
    covariance: Array,
    weight: Array,
    shift: Array,
    n: int,
    seed: int,
) -> JointDensity:
    """The density of all responses of `sites` for s ~ N(mean, covariance), (P,) and (P, P).

    `shapes`: (N,) or (N, K) of each block of sites, whose predictors follow one another in `mean`;
    `weight` (P, P) and `shift` (P,) are the Gaussian sites behind the proposal; `n` points in all,
    or fewer where those give the log to CLOSE.
    """
    values, vectors = np.linalg.eigh(covariance)
    in_range = values > RANGE * max(float(values.max(initial=0.0)), 1e-300)
    root = vectors[:, in_range] * np.sqrt(values[in_range])
    if all(Property.GAUSSIAN in s.spec.properties for s in sites):
        return JointDensity(_gaussian(sites, mean, covariance), 0.0)
    if not in_range.any():
        return JointDensity(float(_level(sites, shapes, mean[None])[0]), 0.0)
    target = _proposal(root, mean, weight, shift)
    most = max(1 << int(np.ceil(np.log2(max(n, 1) / SCRAMBLINGS))), FEWEST)
    density = JointDensity(-np.inf, np.inf)
    for count in sorted({FEWEST, most}):
        density = _averaged(_scrambled(sites, shapes, mean, root, *target, count, seed))
        if density.error <= CLOSE:
            break
    return density


def _averaged(logs: Array) -> JointDensity:
    """From the log integrals of independent nets."""
    top = float(logs.max())
    if not np.isfinite(top):
        return JointDensity(-np.inf, np.inf)
    level = np.exp(logs - top)
    return JointDensity(top + float(np.log(level.mean())), relative_error(level))


def _gaussian(sites: Sequence[Site], mean: Array, covariance: Array) -> float:
    """log N of the responses: each Gaussian site is e^a N(s; r, 1/w) in s."""
    zero, start = np.zeros(len(mean)), 0
    r, noise, total = np.empty(len(mean)), np.empty(len(mean)), 0.0
    for site in sites:
        where = slice(start, start + len(site))
        local = cast(Pointwise, site).pointwise(zero[where])
        precision = -local.curvature
        r[where], noise[where] = local.slope / precision, 1.0 / precision
        peak = local.value + 0.5 * local.slope * r[where]
        total += float(np.sum(peak + 0.5 * (LOG_TWO_PI - np.log(precision))))
        start = where.stop
    factor = np.linalg.cholesky(covariance + np.diag(noise))
    half = sl.solve_triangular(factor, r - mean, lower=True)
    return float(
        total - 0.5 * half @ half - np.log(np.diag(factor)).sum() - 0.5 * len(r) * LOG_TWO_PI
    )


def _proposal(root: Array, mean: Array, weight: Array, shift: Array) -> tuple[Array, Array]:
    """Mean and root of the covariance of e ~ N(0, I) exp(-1/2 s'Ws + b's), s = mean + root e; the
    plain N(0, I) where that has none."""
    rank = root.shape[1]
    precision = np.eye(rank) + root.T @ weight @ root
    try:
        factor = np.linalg.cholesky(0.5 * (precision + precision.T))
    except np.linalg.LinAlgError:
        return np.zeros(rank), np.eye(rank)
    pull = root.T @ (shift - weight @ mean)
    centre = sl.cho_solve((factor, True), pull)
    return centre, np.asarray(sl.solve_triangular(factor, np.eye(rank), lower=True).T)


@dataclass(frozen=True, eq=False)
class _Nets:
    """Scrambled Sobol' nets of `count` points each, one after the other: `normal`, (k, rank), with
    squared lengths `radius`, and the factors `stretch` that make Student vectors of them."""

    normal: Array
    radius: Array
    stretch: Array


def _nets(rank: int, count: int, seed: int) -> _Nets:
    """Nets that all groups and hyperparameter points share: small ones are kept for the next."""
    made = _kept_nets if rank * count <= KEPT else _new_nets
    return made(rank, count, seed)


def _new_nets(rank: int, count: int, seed: int) -> _Nets:
    nets = []
    for r in range(SCRAMBLINGS):
        rng = np.random.default_rng([seed, r])
        nets.append(stats.qmc.Sobol(rank + 1, scramble=True, rng=rng).random(count))
    net = np.clip(np.concatenate(nets), 1e-12, 1.0 - 1e-12)
    normal = special.ndtri(net[:, :-1])
    stretch = np.sqrt((DF - 2.0) / (2.0 * special.gammaincinv(0.5 * DF, net[:, -1])))
    return _Nets(normal, np.einsum("ij,ij->i", normal, normal), stretch)


_kept_nets = lru_cache(maxsize=16)(_new_nets)


def _scrambled(
    sites: Sequence[Site],
    shapes: Shapes,
    mean: Array,
    root: Array,
    centre: Array,
    spread: Array,
    count: int,
    seed: int,
) -> Array:
    """The log integrals from each of the scrambled nets."""
    rank = len(centre)
    nets = _nets(rank, count, seed)
    log_root = float(np.log(np.abs(np.diag(spread))).sum())

    def ratio(x: Array) -> Array:
        """log of N(e; 0, I) prod t over the Gaussian proposal at e = centre + spread x."""
        e = centre + x @ spread.T
        prior = -0.5 * np.einsum("ij,ij->i", e, e) + 0.5 * np.einsum("ij,ij->i", x, x)
        return np.asarray(_level(sites, shapes, mean + e @ root.T) + prior + log_root)

    weights = ratio(nets.normal), ratio(nets.normal * nets.stretch[:, None])
    own, far = (x.reshape(SCRAMBLINGS, count) for x in weights)
    radius, stretch = (x.reshape(SCRAMBLINGS, count) for x in (nets.radius, nets.stretch))
    proposals = (
        best_proposal(own[r], far[r], radius[r], stretch[r], rank) for r in range(SCRAMBLINGS)
    )
    return np.array([Evidence(proposal).log for proposal in proposals])


@np.errstate(all="ignore")
def _level(sites: Sequence[Site], shapes: Shapes, s: Array) -> Array:
    """sum of l over the sites at s, (k, P): (k,)."""
    total, start = np.zeros(len(s)), 0
    for site, (n, *event) in zip(sites, shapes, strict=True):
        width = int(np.prod([n, *event]))
        step = min(max(AT_ONCE // max(width, 1), 1), len(s))
        repeated = np.tile(np.arange(n), step)
        many = site.take(repeated)
        for first in range(0, len(s), step):
            some = s[first : first + step, start : start + width]
            here = many if len(some) == step else site.take(repeated[: n * len(some)])
            level = here.log_density(some.reshape(len(some) * n, *event))
            level = level.reshape(len(some), n).sum(axis=1)
            total[first : first + step] += np.where(np.isnan(level), -np.inf, level)
        start += width
    return total
