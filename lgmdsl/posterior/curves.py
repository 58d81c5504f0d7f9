"""Functions that are linear in a few latents, along a line: moments, intervals and simultaneous
bands.

    f(x_i) = sum_j map_ij z_where_j

The band is mean +- c sd, with c the quantile of max_i |f(x_i) - mean_i| / sd_i over joint draws of
f (Ruppert, Wand and Carroll 2003, section 6.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.linear import Predictor
from lgmdsl.memory import check
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Sparse
from lgmdsl.posterior.marginals import Marginals
from lgmdsl.posterior.mixture import Mixture
from lgmdsl.posterior.normal_mixtures import mixed_moments, mixed_quantile

FIXED = 1e-8  # of the largest sd of a function: a smaller one is rounding


@dataclass(frozen=True, eq=False)
class Functions:
    """Several functions, each (G, k) times the latents at (k,) places in z."""

    places: tuple[IntArray, ...]
    maps: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class Curve:
    """A function at G positions: mean, sd, the ends of the interval at each of them, (2, G), and
    those of the band that holds it at all of them."""

    mean: Array
    sd: Array
    interval: Array
    band: Array


def curves(
    marginals: Mixture, functions: Functions, level: float, n: int, seed: int
) -> list[Curve]:
    """Each function under the posterior; `n` draws for its band, the same random numbers for each
    function. Where the posterior is made of draws, everything is of them. Raises MethodError E505
    where the draws of a function do not fit into memory."""
    drawn, longest = marginals.usual_draws if marginals.of_draws else n, len(functions.maps[0])
    check(
        "the draws of a curve",
        f"{longest:,} positions and {drawn:,} draws",
        24.0 * longest * drawn,
        help="ask for fewer positions at once",
    )
    ends = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    if marginals.of_draws:
        return _of_draws(marginals, functions, level, ends)
    moments = [_coefficients(marginals.part(k), functions) for k in range(len(marginals.weights))]
    each = zip(functions.maps, zip(*moments, strict=True), strict=True)
    return [_of_normals(marginals.weights, m, list(p), level, ends, n, seed) for m, p in each]


def _coefficients(part: Marginals, functions: Functions) -> list[tuple[Array, Array]]:
    """The mean (k,) of the latents of each function, and the symmetric root (k, k) of their
    covariance, which does not depend on the signs of eigenvectors."""
    out = []
    for places in functions.places:
        mean, covariance = part.frame.conditioned.project(_chosen(part, places), full=True)
        values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        out.append((np.asarray(mean), root))
    return out


def _chosen(part: Marginals, places: IntArray) -> Predictor:
    """Some latents, by their places among all, as a predictor."""
    columns: dict[str, Operator] = {}
    layout = part.canonical.layout
    for block in part.canonical.latents:
        local = places - layout.starts[block.name]
        mine = np.flatnonzero((local >= 0) & (local < block.size))
        if mine.size:
            shape = (len(places), block.size)
            entries = sp.csr_array((np.ones(mine.size), (mine, local[mine])), shape=shape)
            columns[block.name] = Sparse(entries)
    return part.frame.embed(Predictor(columns, np.zeros(len(places))))


def _of_normals(
    weights: Array,
    each: Array,
    parts: Sequence[tuple[Array, Array]],
    level: float,
    ends: Array,
    n: int,
    seed: int,
) -> Curve:
    roots = [each @ root for _, root in parts]  # (G, k): what unit normals are multiplied by
    means = np.array([each @ mean for mean, _ in parts])
    sds = np.array([np.sqrt((root**2).sum(axis=1)) for root in roots])
    mean, sd = mixed_moments(weights, means, sds)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(weights), size=n, p=weights)
    unit = rng.normal(size=(n, each.shape[1]))
    away = np.empty((n, len(each)))
    for k, root in enumerate(roots):
        mine = chosen == k
        away[mine] = unit[mine] @ root.T + (means[k] - mean)
    return Curve(mean, sd, mixed_quantile(weights, means, sds, ends), _band(mean, sd, away, level))


def _of_draws(marginals: Mixture, functions: Functions, level: float, ends: Array) -> list[Curve]:
    pieces = [[z[:, places] for places in functions.places] for _, _, _, z in marginals.all_draws()]
    out = []
    for k, each in enumerate(functions.maps):
        values = np.concatenate([piece[k] for piece in pieces]) @ each.T
        mean, sd = values.mean(axis=0), values.std(axis=0, ddof=1)
        interval = np.quantile(values, ends, axis=0)
        out.append(Curve(mean, sd, interval, _band(mean, sd, values - mean, level)))
    return out


def _band(mean: Array, sd: Array, away: Array, level: float) -> Array:
    """(2, G), of draws less their mean, `away` (n, G); the mean itself where nothing moves."""
    moves = sd > FIXED * sd.max(initial=0.0)
    if not moves.any() or not len(away):
        return np.array([mean, mean])
    furthest = (np.abs(away[:, moves]) / sd[moves]).max(axis=1)
    width = np.quantile(furthest, level) * sd
    return np.array([mean - width, mean + width])
