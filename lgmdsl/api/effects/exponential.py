"""Effects on means that are exponentials of the predictor, E[y | s] = a e^{c s}: their moments in
closed form, where draws of them have heavy tails.

With t = c s + log a jointly Gaussian under a point of the mixture, mean m and covariance C, a sum
of u_i e^{t_i} has mean sum E_i and variance E' (e^C - 1) E, E_i = u_i e^{m_i + C_ii / 2}. A ratio
of two averages is lognormal where the covariate changes t of all rows by the same amount.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from lgmdsl.api.effects.drawn import block_of, predictor_at
from lgmdsl.api.effects.requested import Comparison
from lgmdsl.api.effects.rows import Rows
from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel, take_rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.stacked import stack
from lgmdsl.operators.explicit import Dense, Sparse
from lgmdsl.posterior.marginals import Marginals
from lgmdsl.posterior.normal_mixtures import mixed_moments, mixed_quantile
from lgmdsl.posterior.tails import NOTHING, Look, Off, grid, off, reweighted

# Rows of all levels that are averaged together, and pairs of them in all points and comparisons.
MOST_ROWS, MOST_PAIRS = 3_000, 4e8
PLACES = np.array([0.0, 1.0, -1.5, 2.5])  # where means are compared with an exponential
STRAIGHT, ALIKE = 1e-10, 1e-9

Levelled = Sequence[tuple[CanonicalModel, Array]]


class Exponent(NamedTuple):
    """log a and c of E[y | s] = a e^{c s}, (N,) each."""

    log_factor: Array
    slope: Array


AtPoint: TypeAlias = Callable[[CanonicalModel], tuple[Predictor, Exponent]]


class Closed(NamedTuple):
    """Mean and sd of a comparison, (2, G), or (2 + Q, G) with quantiles where these have a closed
    form too; `off`: what is known of their errors."""

    values: Array
    off: Off


class Moments(NamedTuple):
    """Mean and sd of a comparison at a point of the mixture; `direction`, one row: the average of
    the rows' exponents by their shares of the variance, with its mean `exponent` and sd `width`;
    `curve`: what is expected of the comparison at values of it, (T,) to (T,)."""

    mean: float
    sd: float
    exponent: float
    width: float
    direction: Predictor
    curve: Callable[[Array], Array]


#: Moments of one group, by its number, at a point.
OfGroup: TypeAlias = Callable[[Marginals, Theta, int], Moments | None]


class WeightedRows(NamedTuple):
    """Some rows of one model with their weights."""

    model: CanonicalModel
    rows: IntArray
    weight: Array


def closed(
    rows: Rows, levelled: Levelled, comparisons: Sequence[Comparison], levels: Array, ratio: bool
) -> list[Closed | None]:
    """The moments of each comparison; None where there is no closed form."""
    each = [_weighed(levelled, c, rows.weights.shape[0]) for c in comparisons]
    mixed = rows.prediction.marginals
    pairs = [sum(len(p.rows) for p in pieces) ** 2 for of in each for pieces in of]
    few = max(pairs) <= MOST_ROWS**2 and sum(pairs) * len(mixed.weights) <= MOST_PAIRS
    if exponent(rows.block, mixed.part(0).theta) is None or not few:
        return [None] * len(comparisons)
    if not ratio:
        return [_differences(rows, pieces) for pieces in each]
    return [
        _ratios(rows, levelled, c, levels) if c.low else _differences(rows, pieces)
        for c, pieces in zip(comparisons, each, strict=True)
    ]


def exponent(block: SiteBlock, theta: Theta) -> Exponent | None:
    """The exponent of the mean of each row; None where some means are no exponentials of their
    predictors."""
    if block.classes or block.family.spec.vector:
        return None
    site = block.bind_family(theta)
    with np.errstate(all="ignore"):
        means = np.array([site.conditional_mean(np.full(len(site), s)) for s in PLACES])
        log = np.log(means)
        slope = log[1] - log[0]
        away = np.abs(log - log[0] - slope * PLACES[:, None])
    straight = away <= STRAIGHT * (1.0 + np.abs(log))
    return Exponent(log[0], slope) if straight.all() else None


def _weighed(levelled: Levelled, comparison: Comparison, groups: int) -> list[list[WeightedRows]]:
    """The weighted sum of means that a comparison is, for each group."""
    shares = [(comparison.high, 1.0), *((k, -1.0 / len(comparison.low)) for k in comparison.low)]
    out = []
    for g in range(groups):
        whole: dict[CanonicalModel, Array] = {}
        for level, share in shares:
            model, weights = levelled[level]
            added = share / comparison.divisor * weights[g]
            whole[model] = whole[model] + added if model in whole else added
        out.append(
            [WeightedRows(m, i, u[i]) for m, u in whole.items() for i in (np.flatnonzero(u),)]
        )
    return out


def _differences(rows: Rows, groups: Sequence[Sequence[WeightedRows]]) -> Closed | None:
    def of_group(part: Marginals, theta: Theta, group: int) -> Moments:
        pieces = groups[group]
        predictor = _stacked(_at_point(rows, part, theta), pieces)
        mean, cov = part.frame.conditioned.project(predictor, full=True)
        level = np.concatenate([p.weight for p in pieces]) * np.exp(mean + 0.5 * np.diag(cov))
        above = np.expm1(cov)
        sd = np.sqrt(max(level @ above @ level, 0.0))
        share = np.abs(level) * (np.abs(above) @ np.abs(level))
        share = share / max(share.sum(), np.finfo(float).tiny)
        along = cov @ share
        centre, width = share @ mean, np.sqrt(max(share @ along, 0.0))
        columns = {n: Dense(op.rmatvec(share)[None]) for n, op in predictor.columns.items()}

        def curve(s: Array) -> Array:
            unit = along / max(width, 1e-300)
            z = (s - centre) / max(width, 1e-300)
            return np.asarray(np.exp(np.outer(z, unit) - 0.5 * unit**2) @ level)

        direction = Predictor(columns, np.array([share @ predictor.offset]))
        return Moments(level.sum(), sd, centre, width, direction, curve)

    weights, found = _over_points(rows, of_group, len(groups))
    mean, sd = mixed_moments(weights, found[0], found[1])
    if not np.isfinite([mean, sd]).all():
        return None
    return Closed(np.array([mean, sd]), _off(rows, of_group, weights, found, (mean, sd)))


def _off(
    rows: Rows, of_group: OfGroup, weights: Array, found: Array, reported: tuple[Array, Array]
) -> Off:
    """Errors of variances, which are as that of an exponential."""
    mean, sd, exponent, width = found
    with np.errstate(all="ignore"):
        square, shift = sd**2 + (mean - reported[0]) ** 2, 2.0 * width
        powers = square * np.stack([np.ones_like(shift), shift, 1.0 + shift**2])

    def looks(groups: IntArray) -> Iterator[Look]:
        for part, thetas, _ in rows.prediction.marginals.at_sites(rows.block, together=True):
            for theta in thetas:
                known = [m for g in groups if (m := of_group(part, theta, int(g))) is not None]
                yield Look(part.frame, stack([m.direction for m in known]), partial(_curved, known))

    none = np.zeros(len(reported[0]))
    return off(weights, exponent, width, powers, none, reported, looks)


def _curved(known: Sequence[Moments], s: Array) -> tuple[Array, Array]:
    """Means and variances of comparisons at values of their directions, (T, n)."""
    with np.errstate(all="ignore"):
        values = np.stack([m.curve(x) for m, x in zip(known, s.T, strict=True)], axis=1)
        # What varies besides grows as the square of what the direction moves.
        width = np.array([m.width for m in known])
        z = (s - np.array([m.exponent for m in known])) / np.where(width > 0.0, width, 1.0)
        nodes = grid(2.0 * width, 1.0, width)
        moved = [
            reweighted(nodes, np.zeros((len(nodes), 1)), _deviation(m, nodes), 0.0)[1, 0]
            for m in known
        ]
        left = np.maximum(np.array([m.sd**2 for m in known]) - np.array(moved), 0.0)
        return values, left * np.exp(2.0 * width * z - 2.0 * width**2)


def _deviation(known: Moments, nodes: Array) -> Array:
    return known.curve(known.exponent + nodes * known.width)[:, None] - known.mean


def _ratios(rows: Rows, levelled: Levelled, comparison: Comparison, levels: Array) -> Closed | None:
    """Where the logarithm of the ratio is the same affine function of the latents in all rows."""
    if len(comparison.low) > 1:
        return None
    pairs = []
    for g in range(rows.weights.shape[0]):
        ends = []
        for model, weights in (levelled[comparison.high], levelled[comparison.low[0]]):
            there = np.flatnonzero(weights[g])
            ends.append(WeightedRows(model, there, weights[g, there]))
        if len(ends[0].rows) != len(ends[1].rows) or (ends[0].weight != ends[1].weight).any():
            return None
        pairs.append(ends)

    def of_group(part: Marginals, theta: Theta, group: int) -> Moments | None:
        of = _at_point(rows, part, theta)
        change = _change(*(_stacked(of, [p]) for p in pairs[group]))
        if change is None:
            return None
        centre, variance = part.frame.conditioned.project(change)
        width = np.sqrt(max(variance[0], 0.0))
        level = np.exp(centre[0] + 0.5 * width**2)
        sd = level * np.sqrt(np.expm1(width**2))
        return Moments(level, sd, centre[0], width, change, np.exp)

    weights, found = _over_points(rows, of_group, len(pairs))
    if not weights.size:
        return None
    centre, width = found[2:]
    if comparison.divisor != 1.0:  # the relative slope, d log E[y] / dx
        means, sds = centre / comparison.divisor, width / comparison.divisor
        values = [*mixed_moments(weights, means, sds), *mixed_quantile(weights, means, sds, levels)]
        return Closed(np.array(values), NOTHING)
    mean, sd = mixed_moments(weights, found[0], found[1])
    between = np.exp(mixed_quantile(weights, centre, width, levels))
    whole = np.array([mean, sd, *between])
    return Closed(whole, _off(rows, of_group, weights, found, (mean, sd)))


def _change(high: Predictor, low: Predictor) -> Predictor | None:
    """The difference of two predictors as one row, where it is the same in all of them."""
    shift = high.offset - low.offset
    if np.ptp(shift) > ALIKE * (1.0 + np.abs(high.offset).max()):
        return None
    columns = {}
    for name in {*high.columns, *low.columns}:
        known = [p.columns[name].sparse() for p in (high, low) if name in p.columns]
        whole = known[0] - known[1] if len(known) == 2 else known[0]
        whole = -whole if name not in high.columns else whole
        top, bottom = (np.asarray(f(axis=0).todense()) for f in (whole.max, whole.min))
        size = max(float(abs(k).max()) for k in known) if whole.shape[1] else 0.0
        if (top - bottom > ALIKE * size).any():
            return None
        columns[name] = Sparse(sp.csr_array(whole[[0]]))
    return Predictor(columns, shift[:1])


def _over_points(rows: Rows, of_group: OfGroup, groups: int) -> tuple[Array, Array]:
    """Weights (M,), and means, sds, exponents and widths of groups, (4, M, G), at the points of the
    mixture; nothing where a group has no closed form."""
    weights: list[Array] = []
    found: list[list[tuple[float, ...]]] = []
    with np.errstate(all="ignore"):
        for part, thetas, shares in rows.prediction.marginals.at_sites(rows.block, together=True):
            for theta in thetas:
                known = [m for g in range(groups) if (m := of_group(part, theta, g)) is not None]
                if len(known) < groups:
                    return np.zeros(0), np.zeros((4, 0, 0))
                found.append([m[:4] for m in known])
            weights.append(shares)
    return np.concatenate(weights), np.moveaxis(np.array(found), -1, 0)


def _at_point(rows: Rows, part: Marginals, theta: Theta) -> AtPoint:
    """The predictor and the means' exponents of all rows of a model, found once for each."""

    @cache
    def of(model: CanonicalModel) -> tuple[Predictor, Exponent]:
        known = exponent(block_of(model, rows.block), theta)
        assert known is not None, "means that are exponentials at one point are so at all"
        return part.frame.embed(predictor_at(model, rows, part.theta)), known

    return of


def _stacked(of: AtPoint, pieces: Sequence[WeightedRows]) -> Predictor:
    """t of the rows of all pieces, one below the other."""
    parts = []
    for model, some, _ in pieces:
        predictor, known = of(model)
        slope = known.slope[some]
        scaled = sp.diags_array(slope)
        columns = {
            n: Sparse(sp.csr_array(scaled @ take_rows(op, some).sparse()))
            for n, op in predictor.columns.items()
        }
        parts.append(Predictor(columns, slope * predictor.offset[some] + known.log_factor[some]))
    return stack(parts)
