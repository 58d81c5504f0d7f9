"""Quantiles of the predictive distribution of y: where its distribution function, averaged over
predictors and hyperparameters (`averaged`), reaches a level.

Gaussian sites with an identity link have a mixture of normals. Of others every row is solved by
itself, on the scale on which its response is tame: logarithms of positive numbers, log odds of
those in (0, 1), and real numbers by asinh((y - c) / u) about their own place and scale. What is
returned is checked by the distribution function of the next finer rule, and solved again by that
one where the two differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.site import Property, Site
from lgmdsl.posterior.drawn_response import Draws
from lgmdsl.posterior.normal_mixtures import mixed_quantile
from lgmdsl.posterior.predictive.averaged import (
    Averaged,
    GivenPredictors,
    Predictors,
    together,
)
from lgmdsl.posterior.predictive.values import (
    moments_by,
    over_draws,
    over_predictors,
    probabilities,
)

PREDICTORS_PER_PASS = 1 << 19  # predictor entries that are held at once
DRAWS = 20_000_000  # entries of predictors under draws that are held
FARTHEST = 700.0  # ends of scales: e^700 is nearly the largest number
VALUES = 40  # of counts that have few
SPREAD = 3.0  # relative variances of counts from which their guess is that of a lognormal


def response_quantiles(
    block: SiteBlock, predictors: Predictors, weights: Array, levels: Array
) -> Array:
    """(Q, N) quantiles of y for s ~ N(mean, variance) at hyperparameters theta, a mixture with
    `weights` of these `predictors` (theta, mean, variance): whole numbers of discrete families.
    The families have a distribution function.
    """
    spec = block.family.spec
    if spec.vector or Property.GAUSSIAN not in spec.properties or spec.link != "identity":
        return quantiles(over_predictors(block, predictors, weights), levels)
    with np.errstate(all="ignore"):
        noise = [block.bind_family(t).conditional_variance(m) for t, m, _ in predictors]
        means = np.array([m for _, m, _ in predictors])
        sds = np.sqrt(np.array([v for _, _, v in predictors]) + np.array(noise))
        return mixed_quantile(weights, means, sds, levels)


def quantiles_of_draws(
    canonical: CanonicalModel, block: SiteBlock, draws: Draws, levels: Array
) -> Array:
    """(Q, N) quantiles of y, an average over the draws of its predictor, or over fewer of them,
    evenly spaced, where there are very many rows."""
    return quantiles(over_draws(canonical, block, draws, DRAWS), levels)


def quantiles(law: Averaged, levels: Array) -> Array:
    """(Q, N) quantiles of y, those of a row whatever the other rows are."""
    rung = np.array(law.first)
    out = _of_few_values(law, levels)
    pending = np.flatnonzero(np.isnan(out).any(axis=0))
    with np.errstate(all="ignore"):
        while len(pending):
            unsettled = []
            for k in np.unique(rung[pending]).tolist():
                for rows in together(
                    law, k, pending[rung[pending] == k], len(levels), PREDICTORS_PER_PASS
                ):
                    solved = _Solved(law.given(k, rows), levels, out[:, rows])
                    out[:, rows] = solved.values
                    if k < law.last:
                        unsettled.append(rows[~_agreed(law, k + 1, rows, solved)])
            pending = np.concatenate(unsettled) if unsettled else np.zeros(0, dtype=np.int64)
            rung[pending] += 1
    return out


def _of_few_values(law: Averaged, levels: Array) -> Array:
    """(Q, N) quantiles of counts that have few values, from the probabilities of these: they take
    less than a distribution function does. NaN of other rows."""
    rows, top = np.arange(len(law.first)), float(levels.max())
    out = np.full((len(levels), len(rows)), np.nan)
    if not law.counts:
        return out
    mean, sd = np.full((2, len(rows)), np.nan)
    with np.errstate(all="ignore"):
        for k in np.unique(law.first).tolist():
            for some in together(law, k, rows[law.first == k], 1, PREDICTORS_PER_PASS):
                mean[some], sd[some] = moments_by(law.given(k, some))
        few = np.flatnonzero(mean + 4.0 * sd <= VALUES)
        table = probabilities(law, VALUES, mean, sd, few, top)
    below = np.cumsum(table[few], axis=1)
    for level, values in zip(levels, out, strict=True):
        found = (below >= level).argmax(axis=1).astype(np.float64)
        values[few] = np.where(below[:, -1] >= level, found, np.nan)
    return out


def _agreed(law: Averaged, rung: int, rows: IntArray, solved: _Solved) -> BoolArray:
    """Where a finer rule has the same quantiles."""
    out = np.zeros(len(rows), dtype=np.bool_)
    kinds = law.kinds(rung, rows)
    for kind in np.unique(kinds).tolist():
        at = np.flatnonzero(kinds == kind)
        out[at] = solved.agrees(law.given(rung, rows[at]), at, law.tolerance)
    return out


@dataclass(frozen=True, eq=False)
class _Scale:
    """The scale on which responses are tame, and a guess with its error, entry by entry."""

    kind: str
    centre: Array
    unit: Array
    ends: tuple[Array, Array]
    start: Array
    step: Array

    def y(self, x: Array, entries: IntArray) -> Array:
        """Responses at places of the scale."""
        if self.kind == "log":
            out = np.where(x <= self.ends[0][entries], 0.0, np.exp(x))
            return np.where(x >= self.ends[1][entries], np.inf, out)
        if self.kind == "odds":
            return np.asarray(special.expit(x))
        if self.kind == "asinh":
            out = self.centre[entries] + self.unit[entries] * np.sinh(x)
            out = np.where(x <= self.ends[0][entries], -np.inf, out)
            return np.where(x >= self.ends[1][entries], np.inf, out)
        return x

    def x(self, y: Array) -> Array:
        """Places of responses on the scale."""
        if self.kind == "log":
            return np.asarray(np.log(y))
        if self.kind == "odds":
            return np.asarray(special.logit(y))
        if self.kind == "asinh":
            return np.asarray(np.arcsinh((y - self.centre) / self.unit))
        return y


class _Solved:
    """The quantiles (Q, n) of rows by one rule, from what is `known` of them (or NaN)."""

    def __init__(self, parts: tuple[GivenPredictors, ...], levels: Array, known: Array) -> None:
        self.parts = parts
        site = parts[0].site
        self.discrete = site.spec.discrete
        count = len(site)
        self.rows = np.tile(np.arange(count), len(levels))
        self.level = np.repeat(levels, count)
        every = np.arange(count)
        lasting = np.sum([p.endless() for p in parts], axis=0)[self.rows]
        out = np.where(lasting <= 1.0 - self.level, np.nan, np.inf)
        if "nonnegative" in site.spec.observed:  # a mass of its own at 0
            none = _below(parts, np.zeros(count), every)[self.rows]
            out = np.where(none >= self.level, 0.0, out)
        open_ = np.flatnonzero(np.isnan(out))
        scale = _scale(parts, site, self.level[open_], self.rows[open_])
        guess = scale.x(known.reshape(-1)[open_])
        again = np.isfinite(guess)
        x = reached(
            lambda x, at: _below(parts, scale.y(x, at), self.rows[open_][at]),
            self.level[open_],
            np.where(again, guess, scale.start),
            np.where(again, 0.01 * scale.step, scale.step),
            scale.ends,
            self.discrete,
        )
        out[open_] = scale.y(x, np.arange(len(open_)))
        self.values = out.reshape(len(levels), count)

    def agrees(
        self, finer: tuple[GivenPredictors, ...], at: IntArray, tolerance: float
    ) -> BoolArray:
        """At which of the rows `at` another rule has the same quantiles."""
        mine = np.zeros(self.values.shape[1], dtype=np.int64)
        mine[at] = np.arange(len(at))
        some = np.isin(self.rows, at)
        y, level, rows = self.values.reshape(-1)[some], self.level[some], self.rows[some]
        upto = _below(finer, y, mine[rows])
        if self.discrete:
            before = _below(finer, y - 1.0, mine[rows])
            same = (upto >= level) & (before < level)
        else:
            same = np.abs(upto - _below(self.parts, y, rows)) <= tolerance
        # What no rule knows, and lifetimes without an end, are not asked for again.
        same |= ~np.isfinite(y)
        return np.asarray(same.reshape(-1, len(at)).all(axis=0))


def _below(parts: tuple[GivenPredictors, ...], y: Array, rows: IntArray) -> Array:
    return np.asarray(np.sum([p.below(y, rows) for p in parts], axis=0))


def _scale(parts: tuple[GivenPredictors, ...], site: Site, level: Array, rows: IntArray) -> _Scale:
    """The scale of a family's responses, with guesses by the moments of y at the nodes."""
    observed, z = set(site.spec.observed), special.ndtri(level)
    total = sum(p.weight.sum(axis=0) for p in parts)
    far = np.full(len(level), FARTHEST)
    none, one = np.zeros(len(level)), np.ones(len(level))
    nodes, (mean, sd) = [p.inner() for p in parts], moments_by(parts)
    if observed & {"positive", "nonnegative"} or site.spec.discrete:
        # The moments of log y, y lognormal given s.
        logs = [(np.log(m) - 0.5 * np.log1p(v / m**2), np.log1p(v / m**2)) for m, v in nodes]
        place, spread = _mixed(parts, logs, total)
        start, step = place[rows] + z * spread[rows], 0.2 * spread[rows]
        if not site.spec.discrete:
            return _Scale("log", none, one, (-far - 40.0, far), start, step)
        # The quantile of a gamma with the moments of y, by Wilson and Hilferty.
        relative = ((sd / mean) ** 2)[rows]
        root = 1.0 - relative / 9.0 + z * np.sqrt(relative) / 3.0
        gamma = mean[rows] * np.maximum(root, 0.0) ** 3
        wide = ~(relative <= SPREAD)
        guess = np.where(wide, np.exp(np.minimum(start, 35.0)), gamma)
        known = np.where(np.isfinite(guess), np.floor(guess), 0.0)
        step = np.maximum(1.0, 0.02 * np.minimum(sd[rows], known))
        return _Scale("", none, one, (-one, np.full(len(level), 2.0**62)), known, step)
    if "unit" in observed:
        place = special.logit(mean)[rows]
        steep = 1.0 / (mean * (1.0 - mean))[rows]
        start = place + z * np.minimum(sd[rows] * steep, 5.0)
        return _Scale("odds", none, one, (-far, np.full(len(level), 36.0)), start, 0.2 * one)
    sizes = [(m, 0.5 * np.log(v)) for m, v in nodes]
    log_unit = sum((p.weight * size).sum(axis=0) for p, (_, size) in zip(parts, sizes, strict=True))
    unit = np.exp(log_unit / total)
    unit = np.where(np.isfinite(unit) & (unit > 0.0), unit, 1.0)[rows]
    centre = np.where(np.isfinite(mean), mean, 0.0)[rows]
    whole = np.where(np.isfinite(sd[rows]), sd[rows], unit)
    ends = np.minimum(far, far - np.log(unit))
    return _Scale("asinh", centre, unit, (-ends, ends), np.arcsinh(z * whole / unit), 0.2 * one)


def _mixed(
    parts: tuple[GivenPredictors, ...], moments: list[tuple[Array, Array]], total: Array
) -> tuple[Array, Array]:
    """Mean and sd over all nodes of means and variances at them."""
    mean = sum((p.weight * m).sum(axis=0) for p, (m, _) in zip(parts, moments, strict=True)) / total
    spread = sum(
        (p.weight * (v + (m - mean) ** 2)).sum(axis=0)
        for p, (m, v) in zip(parts, moments, strict=True)
    )
    return np.asarray(mean), np.sqrt(spread / total)


# ---- roots -------------------------------------------------------------------------------------
# Where increasing functions reach their levels, each entry by itself: brackets, scales and the end
# of an iteration are an entry's own, so that it has the same answer among any others.


ROUNDS = 400
# Normal scores within which functions are told apart, and to what scores and places are found.
FARTHEST_SCORE, SCORE, PLACE = 38.0, 1e-11, 1e-11

# places (n,), entries (n,) -> values in [0, 1], (n,)
Increasing = Callable[[Array, IntArray], Array]


def reached(
    below: Increasing,
    level: Array,
    start: Array,
    step: Array,
    ends: tuple[Array, Array],
    whole: bool = False,
) -> Array:
    """The first x between the `ends` with below(x) >= level: an end where there is none inside, or
    where `below` is NaN there; NaN where it is NaN inside. `whole`: among whole numbers.

    From `start` in steps that double to a bracket, then the Illinois rule on normal scores, where
    distribution functions are nearly straight, with a bisection at every third turn.
    """
    low, high = (np.array(np.broadcast_to(e, level.shape), dtype=np.float64) for e in ends)
    ends_low, ends_high = low.copy(), high.copy()
    at_low, at_high = np.full(level.shape, np.nan), np.full(level.shape, np.nan)
    target = special.ndtri(level)
    x = np.clip(np.where(np.isfinite(start), start, 0.0), low, high)
    x = np.round(x) if whole else x
    width = np.where(np.isfinite(step) & (step > 0.0), step, 1.0)
    width = np.maximum(np.round(width), 1.0) if whole else width
    out, before = np.full(level.shape, np.nan), np.zeros(level.shape)
    active = np.arange(len(level))
    for turn in range(ROUNDS):
        if not len(active):
            break
        here, value = x[active], below(x[active], active)
        # Sums of weights are 1 up to rounding, on either side.
        gap = (
            np.clip(special.ndtri(np.clip(value, 0.0, 1.0)), -FARTHEST_SCORE, FARTHEST_SCORE)
            - target[active]
        )
        above = value >= level[active]
        up, down = active[above], active[~above]
        # An end that stays for a second time loses half of its gap.
        at_low[up] *= np.where(before[up] > 0.0, 0.5, 1.0)
        at_high[down] *= np.where(before[down] < 0.0, 0.5, 1.0)
        before[active] = np.where(above, 1.0, -1.0)
        high[up], at_high[up] = here[above], gap[above]
        low[down], at_low[down] = here[~above], gap[~above]
        lost = np.isnan(value)
        fled = lost & ((here == ends_low[active]) | (here == ends_high[active]))
        out[active[fled]] = here[fled]
        if whole:
            done = high[active] - low[active] <= 1.0
        else:
            near = np.abs(gap) <= SCORE
            out[active[near]] = here[near]
            scale = np.maximum(np.abs(here), 1.0)
            done = near | (high[active] - low[active] <= PLACE * scale)
        closed = done & ~lost & np.isnan(out[active])
        out[active[closed]] = high[active[closed]]
        active = active[~(done | lost)]
        x[active] = _next(low, high, at_low, at_high, width, active, turn, whole)
        # A place that comes next although it is known is the answer: nothing lies between.
        ended = (x[active] == low[active]) & ~np.isnan(at_low[active])
        ended |= (x[active] == high[active]) & ~np.isnan(at_high[active])
        out[active[ended]] = x[active[ended]]
        active = active[~ended]
    return out


def _next(
    low: Array,
    high: Array,
    at_low: Array,
    at_high: Array,
    width: Array,
    active: IntArray,
    turn: int,
    whole: bool,
) -> Array:
    """Where to look next: beyond what is known, or within the bracket."""
    a, b, f, g = low[active], high[active], at_low[active], at_high[active]
    w = width[active]
    with np.errstate(all="ignore"):
        middle = a + 0.5 * (b - a)
        secant = a - f * (b - a) / (g - f)
    inside = (secant > a) & (secant < b) & (turn % 3 != 2)
    x = np.where(inside, secant, middle)
    x = np.where(np.isnan(f), np.maximum(b - w, a), x)
    x = np.where(np.isnan(g), np.minimum(a + w, b), x)
    width[active] = np.where(np.isnan(f) | np.isnan(g), 2.0 * w, w)
    if whole:
        x = np.where(np.isnan(f) | np.isnan(g), x, np.clip(np.round(x), a + 1.0, b - 1.0))
    return np.asarray(x)
