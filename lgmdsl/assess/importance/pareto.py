"""k-hat: how heavy the tail of importance weights is.

Vehtari, Simpson, Gelman, Yao, Gabry (2024), Pareto smoothed importance sampling: a generalised
Pareto distribution is fitted to the min(n/5, 3 sqrt n) largest weights; above k = 0.7 averages with
them cannot be trusted at any practical n. Yao, Vehtari, Simpson, Gelman (2018), Yes, but did it
work?, ask it of the weights of an approximate posterior's own draws.
"""

from __future__ import annotations

import math
import warnings
from importlib.util import find_spec

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.errors import Diagnostic, MethodError

# A k-hat above this is too heavy (fewer draws allow less: Vehtari et al. 2024, section 3.2.4).
HEAVY = 0.7
# Log weights that spread by no more than this are constant.
CONSTANT = 1e-6
# With a larger share of the draws as effective size, the tail of the weights carries little.
LITTLE = 0.25
# Draws below which there is no tail to speak of.
FEWEST = 100


def check_arviz() -> None:
    """Raise MethodError E501 where arviz-stats is not installed."""
    if find_spec("arviz_stats") is None:
        message = "an audit needs arviz-stats"
        raise MethodError(Diagnostic("E501", message, help="pip install 'lgmdsl[arviz]'"))


def threshold(draws: int) -> float:
    """The k-hat above which weights of so many draws are too heavy: min(1 - 1/log10 n, 0.7)."""
    return min(1.0 - 1.0 / math.log10(draws), HEAVY)


def effective_size(log_weights: Array) -> float:
    """Kish's (sum w)^2 / sum w^2; 0 where no weight is positive."""
    top = log_weights.max(initial=-np.inf)
    if not np.isfinite(top):
        return 0.0
    w = np.exp(log_weights - top)
    return float(w.sum() ** 2 / (w @ w))


def k_hat(log_weights: Array, effective: float) -> float:
    """Shape of the tail of weights (n,), -inf where they are constant.

    The Pareto fit sees only by how much the largest weights exceed the next one, so that weights
    from 1.00 to 1.05 can have any shape: of near-exact fits with one latent it is 3 and more.
    Hill's estimator, the mean log of the same weights over the next one, is the same shape held to
    the weights' own scale (a Pareto tail has both). Where the effective size is more than a
    quarter of the draws, so that the tail carries little, the smaller of the two is taken.
    `effective` is that of the weights, or of what they are made from (weight times a functional).
    """
    n, top = len(log_weights), float(log_weights.max(initial=-np.inf))
    positive = np.isfinite(log_weights)
    tail = math.ceil(min(n / 5, 3.0 * math.sqrt(n)))
    if not np.isfinite(top) or positive.sum() <= tail:
        return math.inf  # hardly a draw has a density
    if positive.all() and np.ptp(log_weights) <= CONSTANT:
        return -math.inf
    ordered = np.sort(log_weights)[-tail - 1 :]
    if ordered[-1] - ordered[1] <= CONSTANT:
        return -math.inf  # the largest are one value: bounded
    shape = _fitted(log_weights - top)
    return min(shape, hill(log_weights)) if effective > LITTLE * n else shape


def hill(log_weights: Array) -> float:
    """Hill's estimate of that shape: the mean log of the largest weights over the next one."""
    n = len(log_weights)
    ordered = np.sort(log_weights)[-math.ceil(min(n / 5, 3.0 * math.sqrt(n))) - 1 :]
    return float(np.mean(ordered[1:] - ordered[0]))


def _fitted(log_weights: Array) -> float:
    """The shape by arviz-stats, which takes log likelihoods and negates them."""
    from arviz_stats.base.array import array_stats

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        _, shape = array_stats.psislw(-log_weights)  # type: ignore[no-untyped-call]
    k = float(shape)
    return math.inf if math.isnan(k) else k
