"""How heavy the tail of importance weights is, and weights whose tail is smoothed.

Vehtari, Simpson, Gelman, Yao, Gabry (2024), Pareto smoothed importance sampling: a generalised
Pareto distribution is fitted to the min(n/5, 3 sqrt n) largest weights, as in Zhang and Stephens
(2009), A new and efficient estimation method for the generalized Pareto distribution, equations 7
and 8. Above a shape k-hat of 0.7 averages with the weights cannot be trusted at any practical n;
the largest weights are replaced by the fitted quantiles. Yao, Vehtari, Simpson, Gelman (2018), Yes,
but did it work?, ask for k-hat of the weights of an approximate posterior's own draws.
"""

from __future__ import annotations

import math
import warnings
from importlib.util import find_spec

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.errors import MethodError

# A k-hat above this is too heavy (fewer draws allow less: Vehtari et al. 2024, section 3.2.4).
HEAVY = 0.7
# Log weights, or weights relative to the largest, that spread by no more than this are constant.
CONSTANT = 1e-6
# With a larger share of the draws as effective size, the tail of the weights carries little.
LITTLE = 0.25
FEWEST_DRAWS = 100  # below which there is no tail to speak of
FEWEST = 5  # of the largest weights
PRIOR_B, PRIOR_K, PRIOR_AT = 3.0, 10.0, 0.5  # of the estimate's prior


def check_arviz() -> None:
    """Raise MethodError E501 where arviz-stats is not installed."""
    if find_spec("arviz_stats") is None:
        message = "an audit needs arviz-stats"
        raise MethodError.of("E501", message, help="pip install 'lgmdsl[arviz]'")


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


def _tail(draws: int) -> int:
    """How many of the largest weights make up the tail."""
    return math.ceil(min(draws / 5, 3.0 * math.sqrt(draws)))


def k_hat(log_weights: Array, effective: float) -> float:
    """Shape of the tail of weights (n,), -inf where they are constant.

    The Pareto fit sees only by how much the largest weights exceed the next one, so that weights
    from 1.00 to 1.05 can have any shape: of near-exact fits with one latent it is 3 and more.
    Hill's estimator, the mean log of the same weights over the next one, is the same shape held to
    the weights' own scale (a Pareto tail has both). Where the effective size is more than a
    quarter of the draws, so that the tail carries little, the smaller of the two is taken.
    `effective` is that of the weights, or of what they are made from (weight times a functional).
    """
    n, tail = len(log_weights), _tail(len(log_weights))
    positive = np.isfinite(log_weights)
    if not np.isfinite(log_weights.max(initial=-np.inf)) or positive.sum() <= tail:
        return math.inf  # hardly a draw has a density
    if positive.all() and np.ptp(log_weights) <= CONSTANT:
        return -math.inf
    ordered = np.sort(log_weights)[-tail - 1 :]
    if ordered[-1] - ordered[1] <= CONSTANT:
        return -math.inf  # the largest are one value: bounded
    shape = _fitted(log_weights - log_weights.max())
    return min(shape, hill(log_weights)) if effective > LITTLE * n else shape


def hill(log_weights: Array) -> float:
    """Hill's estimate of that shape: the mean log of the largest weights over the next one."""
    ordered = np.sort(log_weights)[-_tail(len(log_weights)) - 1 :]
    return float(np.mean(ordered[1:] - ordered[0]))


def _fitted(log_weights: Array) -> float:
    """The shape by arviz-stats, which takes log likelihoods and negates them."""
    from arviz_stats.base.array import array_stats

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        _, shape = array_stats.psislw(-log_weights)  # type: ignore[no-untyped-call]
    k = float(shape)
    return math.inf if math.isnan(k) else k


@np.errstate(all="ignore")
def smoothed(log_ratios: Array) -> tuple[Array, Array]:
    """Log weights (n, m), each column adding up to 1, and k-hat (m,), -inf where the largest are
    one value; from log ratios (n, m) of many functionals of the same draws."""
    log_weights = log_ratios - log_ratios.max(axis=0)
    n, tail = len(log_weights), _tail(len(log_weights))
    shapes = np.full(log_weights.shape[1], -np.inf)
    if tail >= FEWEST:
        for j, column in enumerate(log_weights.T):
            order = np.argpartition(column, n - tail - 1)[n - tail - 1 :]
            order = order[np.argsort(column[order], kind="stable")]
            cutoff, largest = float(np.exp(column[order[0]])), order[1:]
            above = np.exp(column[largest]) - cutoff
            if not np.isfinite(column).all() or not above[-1] - above[0] > CONSTANT:
                shapes[j] = -np.inf if np.isfinite(column).all() else np.inf
                continue
            shapes[j], scale = pareto(above)
            levels = (np.arange(tail) + 0.5) / tail
            column[largest] = np.minimum(np.log(_quantile(levels, shapes[j], scale) + cutoff), 0.0)
    return log_weights - special.logsumexp(log_weights, axis=0), shapes


def pareto(x: Array) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution at 0 for sorted values (n,) above 0;
    the shape is drawn to 0.5 with the weight of ten values."""
    n = len(x)
    count = 30 + int(math.sqrt(n))
    b = 1.0 - np.sqrt(count / (np.arange(count) + 0.5))
    quartile = max(float(x[int(n / 4 + 0.5) - 1]), 1e-300)
    b = b / (PRIOR_B * quartile) + 1.0 / x[-1]
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    level = n * (np.log(-b / k) - k - 1.0)
    level = np.where(np.isfinite(level), level, -np.inf)
    weight = np.exp(level - special.logsumexp(level))
    mean = float(weight @ b)
    shape = float(np.log1p(-mean * x).mean())
    scale = -shape / mean
    return (n * shape + PRIOR_K * PRIOR_AT) / (n + PRIOR_K), scale


def _quantile(levels: Array, shape: float, scale: float) -> Array:
    if abs(shape) < 1e-12:
        return -scale * np.log1p(-levels)
    return np.asarray(scale * np.expm1(-shape * np.log1p(-levels)) / shape)
