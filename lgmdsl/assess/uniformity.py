"""Whether values are uniform on (0, 1): the ECDF with a simultaneous band, and a diagnosis.

At z_i = i / K the ECDF of N uniforms has N F(z_i) ~ Binomial(N, z_i). With g the smallest of the
two-sided tail probabilities over i, the band {g > g_alpha} holds the whole ECDF with probability
1 - alpha, g_alpha being g's quantile, here by simulation (Saeilynoja, Buerkner and Vehtari 2022,
section 2.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special, stats

from lgmdsl.arrays import Array

POINTS = 100  # at most so many places at which the ECDF is compared
DRAWS = 20_000  # simulated samples behind a quantile and a p-value
CHUNK = 2_000
TAIL = 0.05  # of each tail that is looked at


@dataclass(frozen=True)
class Uniformity:
    """One quantity's values: `p` of the ECDF's largest deviation; the mean (`bias`) and sd
    (`spread`) of their normal scores, 0 and 1 where they are uniform; the shares of values in the
    middle 50 and 90 % (`inside_50`, `inside_90`). Monte Carlo standard errors: `bias_error` and so
    on."""

    p: float
    bias: float
    spread: float
    count: int
    spread_error: float
    inside_50: float
    inside_90: float

    @property
    def bias_error(self) -> float:
        """Standard error of a mean of `count` scores."""
        return self.spread / math.sqrt(self.count)

    @property
    def sd_off(self) -> float:
        """The posterior's sd less the one that the scores ask for, relative: -0.1 where it is 10 %
        too small."""
        return 1.0 / self.spread - 1.0 if self.spread > 0.0 else math.inf

    @property
    def sd_error(self) -> float:
        """The standard error of `sd_off`."""
        return self.spread_error / self.spread**2 if self.spread > 0.0 else math.inf

    @property
    def inside_errors(self) -> tuple[float, float]:
        """Standard errors of `inside_50` and `inside_90`, where they are right."""
        return 0.5 / math.sqrt(self.count), 0.3 / math.sqrt(self.count)

    def fault(self) -> str:
        """What non-uniform values say of a posterior, in words. The scores' mean and sd are known
        to 1 / sqrt(N) and 1 / sqrt(2 N)."""
        shifted = abs(self.bias) * self.count**0.5
        stretched = (self.spread - 1.0) * (2.0 * self.count) ** 0.5
        if shifted >= max(3.0, abs(stretched)):
            side = "low" if self.bias > 0.0 else "high"
            return f"its posterior values are too {side}, by {abs(self.bias):.2f} sd"
        if abs(stretched) >= 3.0:
            kind = "narrow" if stretched > 0.0 else "wide"
            return f"its posterior is too {kind}: the truth is {self.spread:.2f} sd away, not 1"
        return "its posterior has another shape than the truth's"


def uniformity(values: Array) -> Uniformity:
    """Test values in [0, 1], (N,), against the uniform distribution."""
    count = len(values)
    inside = np.clip(values, 1e-16, 1.0 - 1e-16)
    scores = special.ndtri(inside)
    squares = (scores - scores.mean()) ** 2 if count else np.full(1, math.nan)
    spread = float(np.sqrt(squares.mean()))
    error = float(squares.std() / (2.0 * spread * math.sqrt(count))) if spread > 0.0 else math.nan
    smallest = _smallest_tail(np.sort(values)[None, :])[0]
    p = float((1 + np.count_nonzero(_null(count) <= smallest)) / (DRAWS + 1))
    distance = np.abs(values - 0.5)
    within = (float(np.mean(distance <= 0.5 * share)) for share in (0.5, 1.0 - 2.0 * TAIL))
    return Uniformity(p, float(np.mean(scores)), spread, count, error, *within)


def band(count: int, alpha: float) -> tuple[Array, Array, Array]:
    """Places z, (K,), and the band that holds the ECDF of `count` uniforms with 1 - alpha."""
    z = _places(count)
    level = float(np.quantile(_null(count), alpha))
    low = stats.binom.ppf(0.5 * level, count, z) / count
    high = stats.binom.ppf(1.0 - 0.5 * level, count, z) / count
    return z, np.asarray(low), np.asarray(high)


def ecdf(values: Array, z: Array) -> Array:
    """The share of values <= z, (K,)."""
    return np.searchsorted(np.sort(values), z, side="right") / len(values)


def _places(count: int) -> Array:
    k = min(count, POINTS)
    return np.arange(1, k) / k if k > 1 else np.array([0.5])


def _smallest_tail(ordered: Array) -> Array:
    """g of each row of sorted samples, (M, N)."""
    count = ordered.shape[1]
    z = _places(count)
    below = np.stack([np.searchsorted(row, z, side="right") for row in ordered])
    tails = _tails(count)
    return np.asarray(tails[np.arange(len(z)), below].min(axis=1))


@lru_cache(maxsize=8)
def _tails(count: int) -> Array:
    """2 min(P(R <= r), P(R >= r)) at each place, (K, N + 1)."""
    r = np.arange(count + 1)
    z = _places(count)[:, None]
    lower = stats.binom.cdf(r, count, z)
    upper = stats.binom.sf(r - 1, count, z)
    return np.asarray(np.minimum(1.0, 2.0 * np.minimum(lower, upper)))


@lru_cache(maxsize=8)
def _null(count: int) -> Array:
    """g of DRAWS samples that are uniform; always the same ones."""
    rng = np.random.default_rng(20_220_101)
    tails = [
        _smallest_tail(np.sort(rng.random((CHUNK, count)), axis=1)) for _ in range(DRAWS // CHUNK)
    ]
    return np.concatenate(tails)
