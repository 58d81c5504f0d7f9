"""More fits where those that were made leave the integral, or what is reported of it, uncertain.

How uncertain the log evidence, means, sds and tail quantiles are follows from the covariance of the
log density at all nodes (`sensitivities`); a log evidence known up to s nats leaves exp(s) - 1 of
the integral open. Fits are made where they lower these most, a few at a time, until all are within
ENOUGH of what is tolerated: first for few nodes, then for those that the posterior is made of.
Where one of them is more than is tolerated after ROUNDS (a cliff of a prior, a plateau, corners of
several sds that may be 0), so that a warning would follow, more rounds are spent. How far the
new values are from what was predicted, in units of the sd that they had, corrects the sds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.learning.integration.landscape import Landscape, shares
from lgmdsl.learning.integration.visited import Visited

NODES = 1024
HEAVIEST = 512  # nodes at which the covariance is evaluated: those that matter most
ENOUGH, DOUBT = 0.4, 1.0  # of what is tolerated, by sds
ROUNDS, LONGER = 12, 36  # the second while something is in DOUBT
APART, FAILED = 0.2, 0.8  # half-axes of a new fit from others, and from where there was none
INFLATION = (1.0, 3.0)  # of the sds, at most
MOST = 2.0  # nats that the log evidence may be uncertain by


@dataclass(frozen=True)
class Refined:
    """`open`: the share of the integral that its uncertainty leaves open; `doubt`: the largest
    uncertainty of the log evidence, a mean, an sd or a quantile, in units of what is tolerated,
    `doubtful` in words; `missing`: the share of the integral nearest to places where there was no
    fit."""

    landscape: Landscape
    open: float
    doubt: float
    doubtful: str
    missing: float


def refined(regions: Sequence[Visited], explore: bool = True) -> Refined:
    """Make fits until little is uncertain; none unless `explore`."""
    inflation, landscape, rounds, final = 1.0, Landscape.of(regions), 0, False
    whole = True  # whether the landscape's lengths are those that suit all fits
    coordinates, theta = regions[0].objective.coordinates, regions[0].mode.theta
    while True:
        nodes, log_weight = landscape.nodes() if final else landscape.drawn(NODES, 1)[:2]
        share = shares(log_weight)[0]
        sd = inflation * landscape.sd(nodes)
        natural = coordinates.natural(landscape.frame.x(nodes), theta)
        effects = bent(sensitivities(natural, share, coordinates.squared), sd)
        top = np.argsort(-np.abs(effects).max(axis=0) * sd, kind="stable")[:HEAVIEST]
        covariance = inflation**2 * landscape.covariance(nodes[top])
        doubts = uncertainties(effects[:, top], covariance)
        places = nodes[:0]
        allowance = LONGER if doubts.max() > DOUBT else ROUNDS
        if explore and doubts.max() > ENOUGH and rounds < allowance:
            allowed = _apart(landscape, nodes[top])
            picked = chosen(effects[:, top], covariance, nodes.shape[1] + 2, allowed)
            places = nodes[top][picked]
        if not len(places):
            if final or not explore:
                break
            final, landscape = True, landscape if whole else Landscape.of(regions)
            whole = True
            continue
        predicted, uncertain = landscape(places), landscape.sd(places)
        found = _fitted(landscape, places)
        kept = np.isfinite(found)
        if kept.any():
            error = np.abs(found - predicted)[kept] / np.maximum(uncertain[kept], 1e-6)
            inflation = float(np.clip(np.sqrt(np.mean(error**2)), *INFLATION))
        whole = rounds % 3 == 0
        landscape = Landscape.of(regions, None if whole else landscape)
        rounds += 1
    open_ = float(np.expm1(min(EVIDENCE * float(doubts[0]), MOST)))
    worst = int(doubts.argmax())
    doubt = float(doubts[worst])
    words = reported(coordinates.names, coordinates.squared, worst, doubt)
    missing = _missing(landscape, nodes, share)
    landscape = landscape if whole else Landscape.of(regions)
    return Refined(landscape, open_, doubt, words, missing)


def _apart(landscape: Landscape, nodes: Array) -> BoolArray:
    """(m,) whether nodes are APART from all fits, and farther from where there was none."""
    owner, out = landscape.owner(nodes), np.ones(len(nodes), dtype=bool)
    for k, (region, own) in enumerate(zip(landscape.regions, landscape.places(nodes), strict=True)):
        scale = region.stretch.mean(axis=1)
        for u, fit in region.known.items():
            gap = np.linalg.norm((own - np.array(u)) / scale, axis=1)
            out &= (owner != k) | (gap > (FAILED if fit is None else APART))
    return out


def _fitted(landscape: Landscape, places: Array) -> Array:
    """(k,) log densities of new fits, each warm from its own mode."""
    owner, own, out = landscape.owner(places), landscape.places(places), np.empty(len(places))
    for k, region in enumerate(landscape.regions):
        if (owner == k).any():
            out[owner == k] = region.at_u(own[k][owner == k])
    return out


def _missing(landscape: Landscape, nodes: Array, share: Array) -> float:
    """The share of nodes that are nearer to a place without a fit than to any fit."""
    owner, total = landscape.owner(nodes), 0.0
    for k, (region, own) in enumerate(zip(landscape.regions, landscape.places(nodes), strict=True)):
        failed = np.array([u for u, f in region.known.items() if f is None])
        if len(failed) and (owner == k).any():
            scale = region.stretch.mean(axis=1)
            gap = np.linalg.norm((own[owner == k][:, None, :] - failed) / scale, axis=2).min(axis=1)
            nearer = gap < landscape.distance(k, own[owner == k])
            total += float(share[owner == k][nearer].sum())
    return total


# ---- sensitivities -----------------------------------------------------------------------------
# What an error of the log density does to what is reported of the hyperparameters.
#
# With nodes x_i of share w_i, an error d_i of the log density at each changes
#
#     log p(y)           by  sum_i w_i d_i
#     E g                by  sum_i w_i (g_i - E g) d_i
#     the p-quantile q   by  -sum_i w_i (1[h_i <= q] - p) d_i / f(q),   f the density there
#
# to first order. A Gaussian process of covariance K says how uncertain each is: s = sqrt(v'K v)
# (Bayesian quadrature: O'Hagan 1991). All are in units of what is tolerated: EVIDENCE nats, MOMENT
# of a mean or an sd, QUANTILE of an sd. The sd of a variance, the fourth moment of an sd, rests on
# what lies farther out than any of these: VARIANCE of it is tolerated.


EVIDENCE, MOMENT, QUANTILE, VARIANCE = 0.02, 0.05, 0.1, 0.1
TAILS = (0.025, 0.975)
PARTS = 2 + len(TAILS)  # of a coordinate
WINDOW = 2.0  # of a tail's probability: the density at a quantile is taken over so much


def sensitivities(natural: Array, share: Array, squared: BoolArray) -> Array:
    """(f, m): log evidence, then for each column of `natural` (m, d), values at the nodes, the
    mean, the sd and the quantiles at TAILS; then the sd of the square of the columns `squared`
    (d,). `share`: (m,) of the nodes, which sum to 1."""
    out = [share / EVIDENCE]
    for values in natural.T:
        gap, variance = _spread(values, share)
        out.append(share * gap / (np.sqrt(variance) * MOMENT))
        out.append(share * (gap**2 / variance - 1.0) / (2.0 * MOMENT))
        order = np.argsort(values, kind="stable")
        below = np.empty(len(values))
        below[order] = np.cumsum(share[order]) - 0.5 * share[order]
        for level in TAILS:
            tail = min(level, 1.0 - level)
            ends = np.clip([level - tail / WINDOW, level + tail / WINDOW], 0.0, 1.0)
            low, high = np.interp(ends, below[order], values[order])
            width = max(high - low, 1e-9 * np.sqrt(variance)) / np.sqrt(variance)
            inverse = width / (ends[1] - ends[0])
            out.append(share * (level - (below <= level)) * inverse / QUANTILE)
    for values in natural[:, squared].T:
        gap, variance = _spread(values**2, share)
        out.append(share * (gap**2 / variance - 1.0) / (2.0 * VARIANCE))
    return np.array(out)


def _spread(values: Array, share: Array) -> tuple[Array, float]:
    """Values without their mean, and their variance."""
    gap = values - share @ values
    return gap, max(float(share @ gap**2), np.finfo(float).tiny)


def bent(effects: Array, sd: Array) -> Array:
    """(f, m) effects of errors of `sd` (m,) nats, which are no small ones everywhere: exp(d) - 1
    in place of d."""
    s = np.clip(sd, 1e-6, 2.0)
    return np.asarray(effects * (np.expm1(s) / s))


def chosen(effects: Array, covariance: Array, count: int, allowed: BoolArray) -> list[int]:
    """The nodes at which values would lower the uncertainties most, one after the other, each
    given those before it; `allowed` (m,): those to choose from."""
    left, out = covariance.copy(), list[int]()
    least = 1e-9 * max(float(np.diag(covariance).max()), 1e-300)
    for _ in range(count):
        variances = np.diag(left)
        gains = np.sum((effects @ left) ** 2, axis=0) / np.maximum(variances, least)
        gains = np.where(allowed & (variances > least), gains, 0.0)
        best = int(gains.argmax())
        if not gains[best] > 0.0:
            break
        out.append(best)
        column = left[best].copy()
        left -= np.outer(column, column) / column[best]
    return out


def uncertainties(effects: Array, covariance: Array) -> Array:
    """(f,) how uncertain each is, in units of what is tolerated."""
    square = np.einsum("fm,mn,fn->f", effects, covariance, effects, optimize=True)
    return np.asarray(np.sqrt(np.maximum(square, 0.0)))


def reported(names: Sequence[str], squared: BoolArray, k: int, size: float) -> str:
    """The k-th of what `sensitivities` has for coordinates `names`, and how uncertain it is, in
    words."""
    if k == 0:
        return f"the log evidence may be off by {EVIDENCE * size:.2g}"
    j, which = divmod(k - 1, PARTS)
    if j >= len(names):
        name = names[int(np.flatnonzero(squared)[k - 1 - PARTS * len(names)])]
        return f"the sd of `{name}` may be off by {VARIANCE * size:.2g} posterior sds"
    level = None if which < PARTS - len(TAILS) else TAILS[which - PARTS + len(TAILS)]
    tolerance = MOMENT if level is None else QUANTILE
    what = ("mean", "sd")[which] if level is None else f"{100 * level:g} % quantile"
    return f"the {what} of `{names[j]}` may be off by {tolerance * size:.2g} posterior sds"


# ---- tails -------------------------------------------------------------------------------------
# Fits in the tails: along each coordinate to both sides, the others kept near their best.
#
#     x(t) = mode + t C_j / sd_j,   then x_o += P_oo^-1 g_o   from the gradient g where the march is
#
# C = P^-1 is the covariance that the curvature at the mode has, so that the march begins along the
# conditional means of a normal density and follows a ridge that bends. It ends where the density
# has fallen by DROP, which 0.2 % of a normal marginal lie beyond, and an exponential tail of the
# slope there would hold no more than BEYOND.


FIRST = 2.4  # sds of the first fit of a march
DROP, SERIOUS = 5.0, 3.5  # nats below the mode: where marches may end, and what they end above
BEYOND, LOWEST = 1e-3, 9.0  # of the mass; nats below the mode where all marches end
SHORTEST, LONGEST = 1.3, 2.5  # factors of the distance between a fit and the next
STEPS = 9
SLOWEST = 0.1  # nats an sd: the slope of a tail
CORRECTION = 1.5  # sds that the others are moved by at most at a step
# The outermost fits along a log, in its units and of the way from the mode; what a slope may be
# off; a step for differences.
OUTER, HALF, CLOSE, NEAR = 0.5, 0.5, 0.1, 1e-4
HALVINGS = 2  # of a step to where there is no fit


@dataclass(frozen=True)
class March:
    """Along coordinate `j` to one `side`: the last place `x` (d,) that has a fit, `fall` nats below
    the mode, its distance `t` (sds of x_j), the `step` in x that is next, and how often it was
    halved. `ended`: whether the density has fallen off; `lost`: whether no fit was to be had."""

    j: int
    side: float
    x: Array
    step: Array
    t: float = 0.0
    fall: float = 0.0
    halved: int = 0
    ended: bool = False
    lost: bool = False

    @property
    def open(self) -> bool:
        return not (self.ended or self.lost)


@dataclass(frozen=True)
class OpenTails:
    """Coordinates along which the density has not fallen off where the march ended: `unbounded`
    for its steps were spent, `lost` for there was no fit farther out."""

    unbounded: tuple[int, ...]
    lost: tuple[int, ...]


def marched(visited: Visited) -> OpenTails:
    """Fit along every coordinate to both sides, all marches a step at a time."""
    frame = visited.frame
    covariance = frame.covariance
    sds = np.sqrt(np.diag(covariance))
    precision: Array = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
    marches = [
        March(j, side, frame.mode, side * FIRST * covariance[:, j] / sds[j])
        for j in range(frame.size)
        for side in (-1.0, 1.0)
    ]
    for _ in range(STEPS):
        going = [k for k, m in enumerate(marches) if m.open]
        if not going:
            break
        places = [frame.u(marches[k].x + marches[k].step) for k in going]
        visited.at_u(np.array(places))
        for k, u in zip(going, places, strict=True):
            marches[k] = _following(marches[k], visited, u, sds, precision)
    serious = [m for m in marches if not m.ended and m.fall < SERIOUS]
    return OpenTails(
        tuple(sorted({m.j for m in serious if not m.lost})),
        tuple(sorted({m.j for m in serious if m.lost})),
    )


def slow_tails(visited: Visited) -> tuple[int, ...]:
    """Coordinates that are logs, along which the square of what they are logs of, times the
    density, still rises at the outermost fits: the variance is infinite, or lies where no fit
    is."""
    frame, coordinates = visited.frame, visited.objective.coordinates
    fits = [f for _, f in visited.fits]
    x = np.array([frame.x(u) for u in visited.u])
    out = []
    for j in np.flatnonzero(coordinates.logs == 1.0):
        reach = x[:, j].max() - frame.mode[j]
        outer = np.flatnonzero(x[:, j] > x[:, j].max() - min(OUTER, HALF * max(reach, 0.0)))
        if not len(outer):
            continue
        k = max(outer, key=lambda i: fits[i].density)  # where the others are near their best
        both = np.array([x[k], x[k]])
        both[1, j] += NEAR
        low, high = coordinates.natural(both, fits[k].theta)[:, j]
        grows = np.log(high / low) / NEAR if low > 0.0 else 0.0  # 1 for a log, 0 at an end
        if grows > 0.5 and fits[k].density_gradient[j] + 2.0 * grows > -CLOSE:
            out.append(int(j))
    return tuple(out)


def _following(march: March, visited: Visited, u: Array, sds: Array, precision: Array) -> March:
    """The march after the fit at u, or none, was made."""
    found = visited.known_at(u)
    if found is None:
        if march.halved == HALVINGS:
            return replace(march, lost=True)
        return replace(march, step=0.5 * march.step, halved=march.halved + 1)
    x = march.x + march.step
    fall = visited.mode.density - found.density
    t = abs(x[march.j] - visited.frame.mode[march.j]) / sds[march.j]
    away = x - visited.frame.mode
    along = found.density_gradient @ away / abs(away[march.j])
    slope = max(-float(along) * float(sds[march.j]), SLOWEST)
    beyond = np.exp(-fall) / (slope * np.sqrt(2.0 * np.pi))
    if fall >= DROP and (beyond <= BEYOND or fall >= LOWEST):
        return replace(march, x=x, t=t, fall=fall, ended=True)
    if march.halved:  # farther out there is no fit
        return replace(march, x=x, t=t, fall=fall, lost=True)
    # The root of the fall is linear along a normal density.
    factor = np.clip(np.sqrt(1.2 * DROP / max(fall, 1e-3)), SHORTEST, LONGEST)
    step = (factor - 1.0) * t * sds[march.j] * away / abs(away[march.j])
    others = np.arange(len(x)) != march.j
    wanted = np.linalg.solve(precision[np.ix_(others, others)], found.density_gradient[others])
    step[others] += wanted / max(
        1.0, float(np.max(np.abs(wanted) / sds[others], initial=0.0)) / CORRECTION
    )
    return replace(march, x=x, t=t, fall=fall, step=step)
