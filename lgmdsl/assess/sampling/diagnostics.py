"""Of several chains: how many independent draws they are worth, and whether they agree.

Vehtari, Gelman, Simpson, Carpenter, Buerkner (2021), Rank-normalization, folding, and localization:
an improved R-hat for assessing convergence of MCMC.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from lgmdsl.arrays import Array


def effective_sizes(values: Array) -> Array:
    """(k,) effective sizes of means over (length, chains, k), by the chains' pooled
    autocorrelations, summed while pairs of them are positive and do not rise (Geyer 1992). What
    does not vary has the size of the draws."""
    length, chains = values.shape[:2]
    draws = float(length * chains)
    if length < 4:
        return np.full(values.shape[2], np.nan)
    centred = values - values.mean(axis=0)
    padded = 2 ** int(np.ceil(np.log2(2 * length)))
    spectrum = np.abs(np.fft.rfft(centred, padded, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum.mean(axis=1), padded, axis=0)[:length] / length
    within = covariance[0] * length / (length - 1.0)
    between = values.mean(axis=0).var(axis=0, ddof=1) if chains > 1 else 0.0
    total = within * (length - 1.0) / length + between
    varies = total > 1e-24 * np.maximum((values**2).max(axis=(0, 1)), 1e-300)
    rho = 1.0 - (within - covariance) / np.where(varies, total, 1.0)
    rho[0] = 1.0
    even = length - length % 2
    pairs = rho[0:even:2] + rho[1:even:2]
    positive = np.cumprod(pairs > 0.0, axis=0)
    falling = np.minimum.accumulate(np.where(positive > 0, pairs, 0.0), axis=0)
    time = -1.0 + 2.0 * (falling * positive).sum(axis=0)
    time = np.maximum(time, 1.0 / np.log10(max(draws, 10.0)))
    return np.where(varies, draws / time, draws)


def worst_r_hat(values: Array) -> float:
    """The largest R-hat of (length, chains, k): of halved chains, of ranks as normal scores, of the
    values and of their distances from the median. 1 where chains agree; nan for too few draws."""
    length, _, count = values.shape
    half = length // 2
    if half < 2 or not count:
        return np.nan if count else 1.0
    split = np.concatenate([values[:half], values[length - half :]], axis=1)
    folded = np.abs(split - np.median(split, axis=(0, 1)))
    return float(max(_r_hats(split).max(), _r_hats(folded).max()))


def _r_hats(values: Array) -> Array:
    length, chains, count = values.shape
    flat = values.reshape(length * chains, count)
    scores = special.ndtri((_ranks(flat) - 0.375) / (len(flat) + 0.25)).reshape(values.shape)
    within = scores.var(axis=0, ddof=1).mean(axis=0)
    between = scores.mean(axis=0).var(axis=0, ddof=1)
    varies = np.ptp(flat, axis=0) > 0.0
    stuck = np.where(between > 0.0, np.inf, 1.0)
    ratio = np.where(within > 0.0, between / np.where(within > 0.0, within, 1.0), stuck)
    return np.where(varies, np.sqrt((length - 1.0) / length + ratio), 1.0)


def _ranks(flat: Array) -> Array:
    """Ranks from 1 in each column, those of equal values averaged."""
    from scipy import stats

    return np.asarray(stats.rankdata(flat, axis=0))
