"""Errors of means, sds and quantiles: of what is reported against what is better."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.accuracy.limits import BENT, LEVELS, MEAN, NORMAL, QUANTILE, SD
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import Predictor

SMALLEST = 0.01  # of a variance, what a correction leaves of it
WIDEST = 0.9  # |skewness| beyond which a skew normal does not go

Moments = tuple[Array, Array]  # means and variances


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of scalars, (m,) each: what is reported less what is better, in better sds (`mean`,
    `quantile`: the larger of the 5 and 95 % points'), and relative (`sd`)."""

    mean: Array
    sd: Array
    quantile: Array


def moments_of(q: Conditioned, functional: Predictor | None) -> Moments:
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


def scaled(times: float, errors: Errors) -> Errors:
    """A multiple of all."""
    return Errors(times * errors.mean, times * errors.sd, times * errors.quantile)


def added(several: Sequence[Errors]) -> Errors:
    """The sums."""
    means, sds, quantiles = zip(*((e.mean, e.sd, e.quantile) for e in several), strict=True)
    return Errors(np.sum(means, axis=0), np.sum(sds, axis=0), np.sum(quantiles, axis=0))


def errors_against(reported: Moments, mean: Array, sd: Array, low: Array, high: Array) -> Errors:
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
    reported: Moments, base: Moments, sd: Array | float, quantile: Array | float
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


def errors_of(reported: Moments, base: Moments, change: Array, cumulants: Array | None) -> Errors:
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
