"""What an error of the log density does to what is reported of the hyperparameters.

With nodes x_i of share w_i, an error d_i of the log density at each changes

    log p(y)           by  sum_i w_i d_i
    E g                by  sum_i w_i (g_i - E g) d_i
    the p-quantile q   by  -sum_i w_i (1[h_i <= q] - p) d_i / f(q),   f the density there

to first order. A Gaussian process of covariance K says how uncertain each is: s = sqrt(v'K v)
(Bayesian quadrature: O'Hagan 1991). All are in units of what is tolerated: EVIDENCE nats, MOMENT of
a mean or an sd, QUANTILE of an sd. The sd of a variance, the fourth moment of an sd, rests on what
lies farther out than any of these: VARIANCE of it is tolerated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lgmdsl.arrays import Array, BoolArray

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
