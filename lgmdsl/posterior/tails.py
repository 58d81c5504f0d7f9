"""Whether a standard deviation is known: not where few draws carry it, nor where most of it comes
from further out in an approximate posterior than was compared with the exact one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.errors import NOWHERE, Diagnostic, Span
from lgmdsl.posterior.normal_mixtures import mixed_quantile
from lgmdsl.remedies import option

# The relative standard error of an sd above which it is said: two of them are 10 %. Of
# 4,000 draws of a normal it is 0.011, of e^z 0.06 to 0.1, of e^{1.5 z} 0.1 to 0.3.
MOST = 0.05
# The estimated accuracy of a fit is that of 5 and 95 % points: what is below the first or above the
# second of these levels of a predictor is beyond what is checked. The share of a variance that may
# come from there: of 50 small models of groups 31 of 32 sds with more were off by 5 %, and of those
# with 0.4 to 0.5 5 of 34.
CHECKED, MOST_BEYOND = np.array([0.01, 0.99]), 0.5
LOOKED = 32  # entries of an answer whose correlations are found
# What is bounded, as a probability of 1 - 1e-9, matters from this share of its squared range on.
LEAST, SATURATED = 0.02, (-200.0, -100.0, 100.0, 200.0)


def sd_error(draws: Array, worth: float) -> Array:
    """The relative Monte Carlo standard error of the sds of draws (k, ...), which are worth so many
    independent ones: (...); 0 where all are the same or some are not finite."""
    with np.errstate(all="ignore"):
        return root_error((draws - draws.mean(axis=0)) ** 2, worth)


def root_error(terms: Array, worth: float) -> Array:
    """Relative standard errors of roots of means of terms of at least 0, (k, ...) to (...)."""
    with np.errstate(all="ignore"):
        unit = terms / terms.max(axis=0)
        error = 0.5 * unit.std(axis=0) / unit.mean(axis=0) / np.sqrt(worth)
    return np.asarray(np.nan_to_num(error, nan=0.0))


def of_few_draws(
    message: str, errors: Array, help: str = "", span: Span = NOWHERE
) -> tuple[Diagnostic, ...]:
    """W611 where the relative `errors` of sds are too large; `span`: the statement of what they are
    the sds of."""
    doubtful = int((errors > MOST).sum())
    if not doubtful:
        return ()
    some = f"the Monte Carlo error of the sd is {100.0 * errors.max():.0f} % or more"
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


def share_beyond(
    weights: Array,
    means: Array,
    sds: Array,
    powers: Array,
    tied: Array | float = 1.0,
    at_most: bool = False,
) -> Array:
    """The share of an average E[T(s)], T of at least 0, that comes from beyond what is checked of
    s, a mixture of normals m + sd z, (M, ...): (...); 0 where it is not finite. `at_most`: what it
    is no more than, at a tenth of the cost.

    `powers`: E[T z^j], j = 0, 1, 2, at each point of the mixture, (3, M, ...). Weighted by T, s is
    taken to be normal again, as it is by T = e^{k s}: with mean m + k sd^2 and the same sd.
    `tied`: the correlation of s with what was approximated, which moves by so much less.
    """
    with np.errstate(all="ignore"):
        part = tied * np.ones_like(sds)
        shift = powers[1] / powers[0]
        variance = powers[2] / powers[0] - shift**2
        width = np.sqrt(np.maximum(1.0 + part**2 * (variance - 1.0), 0.0))
        centre, spread = means + shift * part * part * sds, width * part * sds
        if at_most:  # quantiles of a mixture lie between those of its parts
            low = (means + special.ndtri(CHECKED[0]) * part * sds).max(axis=0)
            high = (means + special.ndtri(CHECKED[1]) * part * sds).min(axis=0)
        else:
            low, high = mixed_quantile(weights, means, part * sds, CHECKED)
        outside = special.ndtr((centre - high) / spread) + special.ndtr((low - centre) / spread)
        carried = np.tensordot(weights, powers[0] * np.nan_to_num(outside), axes=1)
        share = carried / np.tensordot(weights, powers[0], axes=1)
    return np.asarray(np.where(np.isfinite(share), share, 0.0))


def least_variance(curve: Callable[[float], Array]) -> Array:
    """What of a variance of g(s) matters: a share of its squared range where g is bounded, else
    all."""
    with np.errstate(all="ignore"):
        first, low, high, last = (np.asarray(curve(x)) for x in SATURATED)
        size = np.abs(last - first)
        ends = np.maximum(np.abs(low - first), np.abs(last - high))
        return np.asarray(np.where(ends <= 1e-6 * size, LEAST * size**2, 0.0))


def shares_beyond(
    weights: Array,
    means: Array,
    sds: Array,
    powers: Array,
    least: Array,
    tied: Callable[[IntArray], Array],
) -> Array:
    """`share_beyond` of entries, (M, ...), where it is more than the `least` that matters; `tied`
    gives the correlations, (M, n), of some of them, which are asked for only where they matter, and
    of LOOKED entries at most: others have 0."""
    points = len(weights)
    means, sds = means.reshape(points, -1), sds.reshape(points, -1)
    powers = powers.reshape(3, points, -1)
    shares = share_beyond(weights, means, sds, powers, at_most=True)
    far = np.flatnonzero(shares > MOST_BEYOND)
    if far.size:
        shares[far] = share_beyond(weights, means[:, far], sds[:, far], powers[..., far])
    with np.errstate(all="ignore"):
        matters = shares * np.tensordot(weights, powers[0], axes=1) >= least.reshape(-1)
    shares = np.where(matters, shares, 0.0)
    far = np.flatnonzero(shares > MOST_BEYOND)
    if far.size:
        looked = far[np.argsort(-shares[far], kind="stable")[:LOOKED]]
        shares[far] = 0.0
        some = means[:, looked], sds[:, looked], powers[..., looked]
        shares[looked] = share_beyond(weights, *some, tied(looked))
    return shares


def of_a_tail(
    message: str, shares: Array, help: str = "", span: Span = NOWHERE
) -> tuple[Diagnostic, ...]:
    """W611 where too large `shares` of variances come from beyond what is checked."""
    doubtful = int((shares > MOST_BEYOND).sum())
    if not doubtful:
        return ()
    some = (
        f"{100.0 * shares.max():.0f} % of the variance come from beyond the 1 and 99 % points of "
        "the predictor, where the posterior is taken to be Gaussian"
    )
    if shares.size > 1:
        some += f"; more than half of {doubtful:,} of {shares.size:,}"
    exact = f"; a fit by exact draws has the tail itself: {option('correction', 'on')}"
    return (_doubted(message, some, span, help + exact),)
