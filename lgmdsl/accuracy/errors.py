"""Errors of means, sds and quantiles: of what is reported against what is better."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from lgmdsl.accuracy.limits import BENT, LEVELS, MEAN, NORMAL, QUANTILE, SD
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import Predictor

SMALLEST = 0.01  # of a variance, what a correction leaves of it
WIDEST = 0.9  # |skewness| beyond which a skew normal does not go
EXACT, NONE = "exact", "none"
BY_ENGINE = "standard errors of the engine's estimates"
QUANTITIES = ("mean", "sd", "quantile")

MeanVariance = tuple[Array, Array]  # means and variances


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of scalars, (m,) each: what is reported less what is better, in better sds (`mean`,
    `quantile`: the larger of the 5 and 95 % points'), and relative (`sd`)."""

    mean: Array
    sd: Array
    quantile: Array


def moments_of(q: Conditioned, functional: Predictor | None) -> MeanVariance:
    """Means and variances under q of every latent, or of the rows of a functional."""
    if functional is None:
        return q.latent_mean, q.latent_variance
    return q.project(functional)


def beyond(errors: Errors) -> Array:
    """(m,) the errors of scalars as multiples of what is tolerated."""
    parts = (np.abs(errors.mean) / MEAN, np.abs(errors.sd) / SD, errors.quantile / QUANTILE)
    return np.asarray(np.nan_to_num(np.max(parts, axis=0), nan=0.0, posinf=0.0))


def largest(errors: Iterator[Errors]) -> tuple[float, float, float]:
    """The largest mean, sd and quantile error of several."""
    top = np.zeros(3)
    for e in errors:
        if len(e.mean):
            now = [np.abs(e.mean).max(), np.abs(e.sd).max(), e.quantile.max()]
            top = np.fmax(top, np.array(now))
    return float(top[0]), float(top[1]), float(top[2])


def mixed(shares: Array, reported: Sequence[MeanVariance], errors: Sequence[Errors]) -> Errors:
    """Errors of a mixture, given what its parts of these shares report, (m,) each, and their
    errors. Means that are off at some parts more than at others change its sds too."""
    w = shares / shares.sum()
    mean, variance = (np.array(each) for each in zip(*reported, strict=True))
    sd = np.sqrt(np.maximum(variance, 0.0))
    off, ratio, quantile = (np.array([getattr(e, n) for e in errors]) for n in QUANTITIES)
    nearer = sd / (1.0 + ratio)
    centre, spread = _whole(w, mean, sd)
    middle, width = _whole(w, mean - off * nearer, nearer)
    free = width > 0.0
    unit = np.where(free, width, 1.0)
    relative = np.where(free, spread / unit - 1.0, 0.0)
    beyond_parts = NORMAL * np.abs(relative - w @ ratio)
    return Errors(np.where(free, (centre - middle) / unit, 0.0), relative,
                  w @ quantile + np.where(free, beyond_parts, 0.0))  # fmt: skip


def _whole(w: Array, mean: Array, sd: Array) -> MeanVariance:
    """The mean and the sd of a mixture."""
    centre = w @ mean
    return centre, np.sqrt(w @ (sd**2 + (mean - centre) ** 2))


def widened(errors: Errors, by: Array) -> Errors:
    """With means, and so quantiles, that are off by so many sds more."""
    mean = errors.mean + np.where(errors.mean < 0.0, -by, by)
    return Errors(mean, errors.sd, errors.quantile + by)


def errors_against(
    reported: MeanVariance, mean: Array, sd: Array, low: Array, high: Array
) -> Errors:
    """Errors of a Gaussian against a mean, an sd, a 5 and a 95 % point; none where it has no
    variance, as what a constraint holds fixed."""
    centre, spread = reported[0], np.sqrt(np.maximum(reported[1], 0.0))
    sd = np.where(spread > 0.0, sd, 0.0)
    unit = np.where(sd > 0.0, sd, np.inf)
    ends = np.abs(
        [(centre - NORMAL * spread - low) / unit, (centre + NORMAL * spread - high) / unit]
    )
    ratio = np.where(sd > 0.0, spread / np.where(sd > 0.0, sd, 1.0), 1.0)
    return Errors((centre - mean) / unit, ratio - 1.0, ends.max(axis=0))


def errors_within(
    reported: MeanVariance, base: MeanVariance, sd: Array | float, quantile: Array | float
) -> Errors:
    """Where the base's sds and quantiles are off by no more than `sd` and `quantile`."""
    (mean, variance), (centre, spread) = reported, base
    free = spread > 0.0
    unit = np.sqrt(np.where(free, spread, 1.0))
    shift = np.where(free, (mean - centre) / unit, 0.0)
    ratio = np.where(free, np.sqrt(np.maximum(variance, 0.0)) / unit, 1.0) - 1.0
    most = np.where(free, np.where(ratio > 0.0, ratio + sd, ratio - sd), 0.0)
    ends = np.abs(shift) + NORMAL * np.abs(ratio) + quantile
    return Errors(shift, most, np.where(free, ends, 0.0))


def errors_of(
    reported: MeanVariance, base: MeanVariance, change: Array, cumulants: Array | None
) -> Errors:
    """Errors of a `reported` mean and variance against the mean of `base`, its variance plus
    `change`, and third `cumulants`; none where the base has no variance."""
    (mean, variance), (centre, spread) = reported, base
    sd = np.sqrt(np.maximum(variance, 0.0))
    true = np.sqrt(np.maximum(spread + change, SMALLEST * spread))
    skew = np.zeros(len(mean)) if cumulants is None else cumulants / true**3
    skew = np.clip(np.nan_to_num(skew), -WIDEST, WIDEST)
    bent = BENT * skew
    free = spread > 0.0
    true, bent = np.where(free, true, 1.0), np.where(free, bent, 0.0)
    shift = np.where(free, (mean - centre) / true, 0.0)
    ratio = np.where(free, sd / true, 1.0)
    ends = [shift + side * NORMAL * (ratio - 1.0) - bent for side in (-1.0, 1.0)]
    return Errors(shift, ratio - 1.0, np.abs(ends).max(axis=0))


def errors_of_draws(draws: Array, worth: float) -> Errors:
    """Monte Carlo standard errors of draws, (k, m), that are worth so many independent ones; 0 of
    what does not vary. Those of 5 and 95 % points are half of what lies between the points one
    standard error of the level to either side."""
    away = draws - draws.mean(axis=0)
    sd = away.std(axis=0)
    unit = np.where(sd > 0.0, sd, np.inf)
    varies = (sd > 0.0) / math.sqrt(worth)
    spread = 0.5 * ((away / unit) ** 2).std(axis=0) / math.sqrt(worth)
    steps = [math.sqrt(level * (1.0 - level) / worth) for level in LEVELS]
    pairs = [(f - h, f + h) for f, h in zip(LEVELS, steps, strict=True)]
    low, high = np.quantile(away, np.clip(pairs, 0.0, 1.0).T, axis=0)
    quantile = np.max(0.5 * (high - low) / unit, axis=0)
    return Errors(varies, spread, quantile)


def largest_of(count: int) -> float:
    """How many standard errors the largest of so many independent errors is, 1 at least: the median
    of the largest of standard normal ones."""
    return max(1.0, float(special.ndtri(0.5 * (1.0 + 0.5 ** (1.0 / max(count, 1))))))


def largest_by_chance(errors: Sequence[Errors], count: int) -> tuple[float, float, float]:
    """The largest mean, sd and quantile error that is to be expected of several scalars, `count` of
    them apart, given their standard errors; none less than the largest of these."""
    tops = largest(iter(errors))
    parts = ([getattr(e, name) for e in errors] for name in QUANTITIES)
    every = (np.concatenate([np.zeros(0), *part]) for part in parts)
    usual = (float(np.sqrt(np.mean(e[e > 0.0] ** 2))) if (e > 0.0).any() else 0.0 for e in every)
    mean, sd, quantile = (
        max(top, largest_of(count) * one) for top, one in zip(tops, usual, strict=True)
    )
    return mean, sd, quantile


@dataclass(frozen=True)
class Accuracy:
    """The largest estimated error of what a fit reports.

    `mean`: of a mean, in posterior sds; `sd`: of an sd, relative (0.1: 10 % too large or too
    small); `quantile`: of a 5 or 95 % point, in posterior sds; `evidence`: log p(y) less the
    reported log evidence, in nats, signed. `worst`: whose error is farthest beyond what is
    tolerated, as `b[age]`; "" where nothing is off. `basis`: how this is known: `exact`,
    `second-order correction`, `bound of the second-order correction` (errors are at most these),
    `importance sampling`, `exact sampler`, `exact by quadrature of ...`, `standard errors of the
    engine's estimates`, or `none: ` and why; numbers are NaN where it is none.
    """

    mean: float
    sd: float
    quantile: float
    evidence: float
    worst: str
    basis: str

    @property
    def known(self) -> bool:
        """Whether there is an estimate."""
        return not self.basis.startswith(NONE)

    @property
    def within(self) -> bool:
        """Whether all that was estimated is within what is tolerated."""
        return self.within_times(1.0)

    def within_times(self, times: float) -> bool:
        """Whether it is within so many times what is tolerated."""
        limits = ((self.mean, MEAN), (self.sd, SD), (self.quantile, QUANTILE))
        return not any(error > times * limit for error, limit in limits)

    @classmethod
    def exact(cls) -> Accuracy:
        """Accuracy of a fit whose sites are all Gaussian: no errors."""
        return cls(0.0, 0.0, 0.0, 0.0, "", EXACT)

    @classmethod
    def none(cls, why: str) -> Accuracy:
        """Where nothing can be said."""
        return cls(math.nan, math.nan, math.nan, math.nan, "", f"{NONE}: {why}")


@dataclass(frozen=True)
class Off:
    """An entry of a named scalar or array that is off, and by how many times what is tolerated."""

    name: str
    place: int
    times: float
