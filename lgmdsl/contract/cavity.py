"""Cavities: the Gaussian of a predictor without its own Gaussian site.

With q's marginal N(m, V) and the site exp(-1/2 s'Ws + b's), alpha = b - Wm (Minka 2001):

    C = (I - V W)^-1 V,    c = m - C alpha

which holds for singular V too. I - VW, in one dimension 1 - h with the leverage h = wv, says how
much of the information in V is left without the site.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract import rows

# Where less of the information than this is left, what is left is rounding.
LEAST_REMAINING = 1e-8


@dataclass(frozen=True, eq=False)
class Cavity:
    """Means (N,) or (N, K) and variances (N,) or (N, K, K) without the sites' own Gaussians.

    `remaining`, (N,): the smallest eigenvalue of I - VW. `sound`, (N,): whether the cavity exists;
    where it does not, mean and variance are NaN.
    """

    mean: Array
    variance: Array
    remaining: Array
    sound: BoolArray


@np.errstate(all="ignore")
def cavity(mean: Array, variance: Array, weight: Array, shift: Array) -> Cavity:
    """The cavities of one block's sites."""
    (alpha,) = rows.slope_of((shift,), (weight,), (mean,))
    if mean.ndim == 1:
        remaining = 1.0 - weight * variance
        sound = (
            np.isfinite(mean)
            & np.isfinite(alpha)
            & (remaining > LEAST_REMAINING)
            & (variance >= 0.0)
        )
        spread = np.where(sound, variance / remaining, np.nan)
        sound &= np.isfinite(spread)
        return Cavity(mean - spread * alpha, spread, remaining, sound)
    event = mean.shape[-1]
    finite = np.asarray(np.isfinite(alpha).all(axis=-1))
    finite &= np.isfinite(variance @ weight).all(axis=(-2, -1))
    system = np.eye(event) - np.where(finite[:, None, None], variance @ weight, 0.0)
    # Similar to I - V^1/2 W V^1/2, so that its eigenvalues are real.
    remaining = np.linalg.eigvals(system).real.min(axis=-1, initial=np.inf)
    sound = np.asarray(finite & (remaining > LEAST_REMAINING))
    some = np.linalg.solve(system[sound], variance[sound])
    spread = np.full_like(variance, np.nan)
    spread[sound] = 0.5 * (some + np.swapaxes(some, -1, -2))
    return Cavity(mean - np.einsum("nij,nj->ni", spread, alpha), spread, remaining, sound)
