"""P(y = value), averaged over predictors and hyperparameters (`averaged`): of the values of binary
data and counts, and of the zeros of nonnegative numbers.

Of counts a row's own values are evaluated, in windows around its mean that grow until nothing that
counts is left outside.
"""

from __future__ import annotations

import math

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.posterior.drawn_response import Draws, predictors_of_draws
from lgmdsl.posterior.predictive.averaged import (
    Averaged,
    GivenPredictors,
    OverDraws,
    OverMixture,
    OverSeveral,
    Predictors,
    together,
)
from lgmdsl.posterior.shifted_draws import parameter_rows

# A count's table of probabilities ends here, or where the rest is below 1e-4 for every row.
LONGEST_TABLE = 200
DENSITIES_PER_PASS = 1 << 20  # densities at nodes that are held at once
# Sds of y that the first window reaches, by what windows grow, and the probability of all values
# outside that are taken to be 0.
# SHORT: of those from 0 on, which are often FEW.
REACH, SHORT, GROWTH, OUTSIDE = 5.0, 1.5, 1.5, 1e-11
# Sds from the mean of the values at which a finer rule is to agree, of those that are known.
FEW = 12
ASKED = (-1.0, 0.0, 1.0, 3.0)


def last_value(block: SiteBlock, first: Array, spread: Array) -> int:
    """The last of the values 0, 1, ... whose probabilities are listed, for means and sds of y: 0
    of continuous families with zeros, -1 of others."""
    observed = block.family.spec.observed
    if "binary" in observed:
        return 1
    if "nonnegative" in observed:
        return 0
    if "count" not in observed:
        return -1
    reach = np.nanmax(first + 8.0 * spread, initial=1.0)
    return int(min(LONGEST_TABLE, np.ceil(reach) if np.isfinite(reach) else LONGEST_TABLE))


def probabilities(
    law: Averaged,
    last: int,
    mean: Array,
    sd: Array,
    some: IntArray | None = None,
    upto: float = 1.0,
) -> Array:
    """(N, last + 1) P(y = 0), P(y = 1), ... for means and sds of y, (N,) each; values that are less
    likely than 1e-11, all together, are 0. Of `some` rows alone, or of values from 0 on until their
    sum passes `upto`."""
    out = np.zeros((len(mean), last + 1))
    centre = np.where(np.isfinite(mean), mean, 0.0)
    unit = np.where(np.isfinite(sd), sd, last + 1.0)
    rung, pending = np.array(law.first), np.arange(len(mean)) if some is None else some
    count = last + 1 if upto == 1.0 else min(last + 1, FEW)  # of values of a row, at most about
    with np.errstate(all="ignore"):
        while len(pending):
            unsettled = []
            for k in np.unique(rung[pending]).tolist():
                for rows in together(
                    law, k, pending[rung[pending] == k], count, DENSITIES_PER_PASS
                ):
                    parts = law.given(k, rows)
                    out[rows] = _row_by_row(parts, last, centre[rows], unit[rows], upto)
                    if k < law.last:
                        same = _agreed(law, k + 1, rows, out, centre, unit)
                        unsettled.append(rows[~same])
            pending = np.concatenate(unsettled) if unsettled else np.zeros(0, dtype=np.int64)
            rung[pending] += 1
    return out


def moments_by(parts: tuple[GivenPredictors, ...]) -> tuple[Array, Array]:
    """Means and sds of y by a rule, (n,) each."""
    nodes, total = [p.inner() for p in parts], sum(p.weight.sum(axis=0) for p in parts)
    both = [*zip(parts, nodes, strict=True)]
    mean = sum((p.weight * m).sum(axis=0) for p, (m, _) in both) / total
    second = sum((p.weight * (v + m**2)).sum(axis=0) for p, (m, v) in both) / total
    return np.asarray(mean), np.sqrt(np.maximum(second - mean**2, 0.0))


def _row_by_row(
    parts: tuple[GivenPredictors, ...], last: int, centre: Array, unit: Array, upto: float
) -> Array:
    """The probabilities of rows by one rule."""
    out, enough = np.zeros((len(centre), last + 1)), min(upto, 1.0 - OUTSIDE)
    reach = REACH if upto == 1.0 else SHORT
    low = np.clip(np.round(centre), 0, last).astype(np.int64)
    high, open_ = low - 1, np.arange(len(centre))  # none is known yet
    rows, y = open_, np.zeros(len(centre), dtype=np.int64)
    while len(open_):
        away = np.ceil(reach * unit[open_]) + 1.0
        below = centre[open_] - away if upto == 1.0 else 0.0 * away
        lower = np.clip(below, 0, last).astype(np.int64)
        upper = np.clip(centre[open_] + away, 0, last).astype(np.int64)
        for first, end in ((lower, low[open_] - 1), (high[open_] + 1, upper)):
            places, values = _between(first, end)
            rows, y = np.append(rows, open_[places]), np.append(y, values)
        out[rows, y] = _likely(parts, y.astype(np.float64), rows)
        low[open_], high[open_] = lower, upper
        whole = (lower == 0) & (upper == last)
        open_ = open_[~whole & ~(out[open_].sum(axis=1) >= enough)]
        rows, y, reach = open_[:0], open_[:0], reach * GROWTH
    return out


def _agreed(
    law: Averaged, rung: int, rows: IntArray, out: Array, centre: Array, unit: Array
) -> BoolArray:
    """Where a finer rule has the same probabilities."""
    same = np.ones(len(rows), dtype=np.bool_)
    kinds = law.kinds(rung, rows)
    for kind in np.unique(kinds).tolist():
        at = np.flatnonzero(kinds == kind)
        some, parts = rows[at], law.given(rung, rows[at])
        for away in ASKED:
            y = np.clip(np.round(centre[some] + away * unit[some]), 0, out.shape[1] - 1)
            known = out[some, y.astype(np.int64)]
            asked = np.flatnonzero(known != 0.0)
            other = _likely(parts, y[asked], asked)
            same[at[asked]] &= ~(np.abs(other - known[asked]) > law.tolerance)  # NaN stays so
    return same


def _between(first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
    """Places, and the whole numbers of each from `first` to `last`."""
    count = np.maximum(last - first + 1, 0)
    places = np.repeat(np.arange(len(first)), count)
    before = np.cumsum(count) - count
    return places, np.arange(len(places)) - before[places] + first[places]


def _likely(parts: tuple[GivenPredictors, ...], y: Array, rows: IntArray) -> Array:
    return np.asarray(np.sum([p.likely(y, rows) for p in parts], axis=0))


# ---- laws --------------------------------------------------------------------------------------
# What the response of a block is averaged over: its Gaussian predictors, or draws of them.


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
