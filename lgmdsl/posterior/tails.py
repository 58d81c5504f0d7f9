"""Whether a standard deviation is known: not where few draws carry it, nor where it comes from
where the posterior of its predictor is not the Gaussian that it is taken to be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lgmdsl.accuracy.limits import MEAN, SD
from lgmdsl.accuracy.tails import pareto
from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.linear import Predictor
from lgmdsl.errors import NOWHERE, Diagnostic, Span
from lgmdsl.posterior.normal_mixtures import mixed_moments
from lgmdsl.remedies import option

if TYPE_CHECKING:
    from lgmdsl.posterior.frame import Frame

# The relative standard error of an sd above which it is said: two of them are 10 %. Of
# 4,000 draws of a normal it is 0.011, of e^z 0.06 to 0.1, of e^{1.5 z} 0.1 to 0.3.
MOST = 0.05
# How many entries of an answer are looked at, those whose second moments come from farthest out in
# their predictors: from more than EXPOSED of its variance about its mean, which is 1 of noise, and
# 1 + 4 v of the exponential of a predictor of variance v.
LOOKED, EXPOSED = 8, 1.5
# Nodes in sds of a predictor: their step, which is FINE of the predictor's unit where it is wide,
# and FINEST at least; how far they reach about the middle of q and of what second moments come
# from, and at most.
STEP, FINE, FINEST, REACH, FARTHEST = 0.25, 0.5, 0.03, 6.0, 40.0
# Where the sites are not known: how far out, in sds, second moments may come from: beyond the 1 and
# 99 % points. Of 50 small models of groups 31 of 32 sds of these were off by 5 %.
UNCHECKED = 2.33
# What is bounded, as a probability of 1 - 1e-9, matters from this share of its squared range on.
LEAST, SATURATED = 0.02, (-200.0, -100.0, 100.0, 200.0)


# Of so many columns of draws, the widest, the largest terms are looked at, where their sd is above
# so many times their mean (1.4 of squares of a normal); a tail of fewer is none; how much rarer
# than one in all draws what is left of the tail is.
WIDE, TAME, FEWEST, UNSEEN = 200, 2.0, 5, 10.0


class Look(NamedTuple):
    """Entries of an answer at a point of a mixture: the frame, their predictors embedded in it, and
    E[y | s] and Var(y | s) at predictors s, (T, n)."""

    frame: Frame
    predictor: Predictor
    moments: Callable[[Array], tuple[Array, Array]]


class Off(NamedTuple):
    """Errors of some entries, (n,) each: relative of sds, NaN where they are not known, and of
    means in sds of these; `unchecked`: how far out in sds of their predictors second moments come
    from where nothing more is known."""

    sd: Array
    mean: Array
    unchecked: Array


NOTHING = Off(np.zeros(0), np.zeros(0), np.zeros(0))


def together(several: Iterable[Off]) -> Off:
    """All of them, one after the other."""
    return Off(*(np.concatenate(parts) for parts in zip(NOTHING, *several, strict=True)))


def sd_error(draws: Array, worth: float) -> Array:
    """The relative Monte Carlo standard error of the sds of draws (k, ...), which are worth so many
    independent ones: (...); 0 where all are the same or some are not finite."""
    with np.errstate(all="ignore"):
        return root_error((draws - draws.mean(axis=0)) ** 2, worth)


def root_error(terms: Array, worth: float) -> Array:
    """Relative standard errors of roots of means of terms of at least 0, (k, ...) to (...); of the
    WIDE ones whose sd is farthest above their mean with what no draw reaches, inf where that has no
    mean."""
    with np.errstate(all="ignore"):
        unit = terms / terms.max(axis=0)
        spread = np.nan_to_num(unit.std(axis=0) / unit.mean(axis=0), nan=0.0)
    error = np.asarray(0.5 * spread / np.sqrt(worth))
    flat, columns = error.reshape(-1), unit.reshape(len(unit), -1)
    for j in np.argsort(-spread.reshape(-1), kind="stable")[:WIDE]:
        if spread.reshape(-1)[j] <= TAME:
            break
        flat[j] = max(flat[j], _tail_error(columns[:, j], worth))
    return flat.reshape(np.shape(error))


def _tail_error(terms: Array, worth: float) -> float:
    """The relative standard error of the root of a mean of terms at least 0, (k,), by the
    generalised Pareto distribution of the largest (Vehtari et al. 2024): what terms up to those of
    one in UNSEEN k draws vary, and the mean of what is larger."""
    n, ordered = len(terms), np.sort(terms)
    tail = math.ceil(min(n / 5, 3.0 * math.sqrt(n)))
    start, above = float(ordered[-tail - 1]), ordered[-tail:] - ordered[-tail - 1]
    if tail < FEWEST or not above[0] > 0.0:
        return 0.0
    shape, scale = pareto(above)
    if shape >= 1.0:
        return math.inf
    edge = 1.0 / (UNSEEN * tail)
    level = np.exp(np.linspace(math.log(edge), 0.0, 401))
    step = np.log(level[1] / level[0]) * level
    step[[0, -1]] *= 0.5
    shape = shape if abs(shape) > 1e-9 else 1e-9
    x = start + scale * (level**-shape - 1.0) / shape
    rest, share = ordered[:-tail], tail / n
    unseen = edge * (start + scale * (edge**-shape / (1.0 - shape) - 1.0) / shape)
    mean = rest.sum() / n + share * float(step @ x + unseen)
    square = (rest @ rest) / n + share * float(step @ x**2)
    sd = math.sqrt(max(square - mean**2, 0.0))
    return float(0.5 * (sd / math.sqrt(worth) + share * unseen) / mean)


def of_few_draws(
    message: str, errors: Array, help: str = "", span: Span = NOWHERE
) -> tuple[Diagnostic, ...]:
    """W611 where the relative `errors` of sds are too large; `span`: the statement of what they are
    the sds of."""
    doubtful = int((errors > MOST).sum())
    if not doubtful:
        return ()
    some = f"the Monte Carlo error of the sd is {100.0 * errors.max():.0f} % or more"
    if not errors.max() <= 1.0:
        some = "the Monte Carlo error of the sd cannot be told: it may be off by a factor"
    if errors.size > 1:
        some += f", and more than {100.0 * MOST:.0f} % of {doubtful:,} of {errors.size:,}"
    own = "; such a tail is the posterior's own: a narrower prior or more data make it lighter"
    return (_doubted(message, some, span, help + own),)


def _doubted(message: str, some: str, span: Span, help: str) -> Diagnostic:
    known = f"quote the median and quantiles, which are right; the mean and the sd may not be{help}"
    return Diagnostic("W611", message, span, details=(some,), help=known, severity="warning")


def exponential_powers(mean: Array, sd: Array, about: Array) -> Array:
    """E[(e^s - about)^2 z^j], j = 0, 1, 2, in units of about^2, s = mean + sd z: (3, ...)."""
    level = np.exp(mean + 0.5 * sd**2) / about
    parts = ((level**2 * np.exp(sd**2), 2.0 * sd), (-2.0 * level, sd), (1.0, 0.0 * sd))
    return np.asarray(sum(a * np.stack([1.0 + 0.0 * b, b, 1.0 + b**2]) for a, b in parts))


def least_variance(curve: Callable[[float], Array]) -> Array:
    """What of a variance of g(s) matters: a share of its squared range where g is bounded, else
    all."""
    with np.errstate(all="ignore"):
        first, low, high, last = (np.asarray(curve(x)) for x in SATURATED)
        size = np.abs(last - first)
        ends = np.maximum(np.abs(low - first), np.abs(last - high))
        return np.asarray(np.where(ends <= 1e-6 * size, LEAST * size**2, 0.0))


def grid(shift: Array | float, width: Array | float, sd: Array | float) -> Array:
    """Nodes z, (T,), that cover a standard normal and all normals of these means and sds, of
    predictors with these `sd`s."""
    low = max(min(-REACH, float(np.min(shift - REACH * width))), -FARTHEST)
    high = min(max(REACH, float(np.max(shift + REACH * width))), FARTHEST)
    step = float(np.clip(FINE / max(float(np.max(sd)), 1.0), FINEST, STEP))
    return step * np.arange(np.floor(low / step), np.ceil(high / step) + 1.0)


def reweighted(nodes: Array, log_ratio: Array, first: Array, spread: Array | float) -> Array:
    """E[y], Var y and Var E[y | s], (3, n), of E[y | s] and Var(y | s), (T, n), at nodes of a
    standard normal times exp(log_ratio), (T, n)."""
    with np.errstate(all="ignore"):
        log = log_ratio - 0.5 * nodes[:, None] ** 2
        density = np.exp(log - log.max(axis=0))
        density /= density.sum(axis=0)

        def mean(values: Array) -> Array:
            return np.asarray(np.where(density > 0.0, density * values, 0.0).sum(axis=0))

        centre = mean(first)
        square = (first - centre) ** 2
        return np.stack([centre, mean(spread + square), mean(square)])


def off(
    weights: Array,
    means: Array,
    sds: Array,
    powers: Array,
    least: Array,
    reported: tuple[Array, Array],
    looks: Callable[[IntArray], Iterator[Look]],
) -> Off:
    """Errors of the `reported` means and sds, (N,), of y under predictors s = m + z sd, (M, N) each
    at the points of a mixture, of those entries of which the answers rest on tails.

    `powers`: E[T z^j], T = (y - mean)^2, j = 0, 1, 2, at each point, (3, M, N); `least`: the
    variances that matter; `looks`: the chosen entries, point by point.
    """
    points = len(weights)
    means, sds = means.reshape(points, -1), sds.reshape(points, -1)
    powers, mean, sd = powers.reshape(3, points, -1), reported[0].ravel(), reported[1].ravel()
    with np.errstate(all="ignore"):
        centre, unit = mixed_moments(weights, means, sds)
        away, total = means - centre, np.tensordot(weights, powers[0], axes=1)
        first = np.tensordot(weights, powers[1] * sds + powers[0] * away, axes=1)
        second = powers[2] * sds**2 + 2.0 * powers[1] * sds * away + powers[0] * away**2
        far = np.tensordot(weights, second, axes=1) / (total * unit**2)
        out = np.abs(first / (total * unit))
        matters = (unit > 0.0) & (total >= least.reshape(-1)) & np.isfinite(far)
    far = np.where(matters, far, np.where((unit > 0.0) & ~np.isfinite(sd), np.inf, 0.0))
    rows = np.argsort(-far, kind="stable")[:LOOKED]
    rows = rows[far[rows] > EXPOSED]
    if not rows.size:
        return NOTHING
    with np.errstate(all="ignore"):
        shift = powers[1][:, rows] / powers[0][:, rows]
        width = np.sqrt(np.maximum(powers[2][:, rows] / powers[0][:, rows] - shift**2, 0.0))
    nodes = grid(np.nan_to_num(shift), np.nan_to_num(width), sds[:, rows])
    known = []
    for k, look in enumerate(looks(rows)):
        if not look.frame.approximate:
            return NOTHING
        ratio = look.frame.log_ratios(look.predictor, nodes)
        if ratio is None:
            ties = look.frame.tied(look.predictor)
            none = np.zeros(rows.size)
            return Off(none, none, np.where(ties * out[rows] > UNCHECKED, out[rows], 0.0))
        inner, spread = look.moments(means[k, rows] + nodes[:, None] * sds[k, rows])
        known.append(reweighted(nodes, ratio, inner, spread))
    return differences(mean[rows], sd[rows], weights, np.array(known))


def differences(mean: Array, sd: Array, weights: Array, known: Array) -> Off:
    """Errors of means and sds, (n,), by E[y], Var y and Var E[y | s] at the points of a mixture,
    (M, 3, n)."""
    with np.errstate(all="ignore"):
        true_mean, true = mixed_moments(weights, known[:, 0], np.sqrt(known[:, 1]))
        _, width = mixed_moments(weights, known[:, 0], np.sqrt(known[:, 2]))
        away = np.where(width > 0.0, (mean - true_mean) / width, 0.0)
        ratio = np.where(np.isfinite(sd), sd / true, np.where(np.isfinite(true), np.inf, np.nan))
        return Off(ratio - 1.0, away, np.zeros(len(sd)))


def of_tails(
    what: str, errors: Off, help: str = "", span: Span = NOWHERE
) -> tuple[Diagnostic, ...]:
    """W611 for `what` rests on predictors that are not as Gaussian as they are taken to be."""
    message = f"{what} may be off"
    help += f"; a fit by exact draws has the tail itself: {option('correction', 'on')}"
    if (errors.unchecked > 0.0).any():
        some = (
            f"the variance comes from {errors.unchecked.max():.1f} sds out in the predictor, where "
            "its posterior is taken to be Gaussian and was not checked"
        )
        return (_doubted(message, some, span, help),)
    size = np.abs(np.nan_to_num(errors.sd, nan=0.0, posinf=np.inf, neginf=np.inf))
    doubtful, k = int((size > SD).sum()), int(size.argmax()) if size.size else 0
    if not doubtful:
        return ()
    some, mean = _size(float(errors.sd[k])), float(errors.mean[k])
    if abs(mean) > MEAN:
        some += f" and its mean about {abs(mean):.2g} sd too {'high' if mean > 0.0 else 'low'}"
    if doubtful > 1:
        some += f", and {doubtful - 1} more are off"
    some += "; the predictor's posterior is not Gaussian where the variance comes from"
    return (_doubted(message, some, span, help),)


def _size(error: float) -> str:
    """The relative error of an sd in words."""
    if not np.isfinite(error):
        return "the sd is not known"
    if error > 1.0:
        return f"the sd is about {1.0 + error:.2g} times too large"
    return f"the sd is about {abs(error):.0%} too {'large' if error > 0.0 else 'small'}"
