"""Densities of weighted values: Gaussian kernels that leave mean and variance as they are.

    p(w) = sum_m weight_m N(w; a + r (w_m - a), (share sd)^2),   r^2 = 1 - share^2

a and sd are the weighted values' own, so that the estimate has them too (Jones 1991, shrinking).
Values of a bounded range are moved to the whole line first: logarithms of what lies above a bound,
logits of what lies between two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.numerics.stable import capped_exp

# The kernel's sd over the lattice's spacing: e^(-2 pi^2) of the lattice is seen through it, and
# still little where a function of the nodes is twice as steep as on average.
SMOOTH = 1.0
# Silverman's factor for the nodes of a smooth density about a mode: shrinking leaves little bias.
NODES = 1.4
TAIL = 1e-5  # left out at each end of the points at which a density is told
WIDEST = 0.5  # share of the sd: a kernel is never wider
ENTRIES_PER_PASS = 2_000_000
# More values than MANY are joined to their neighbours over so much of a kernel's sd.
MANY, JOINED = 10_000, 0.125


@dataclass(frozen=True)
class Range:
    """The open interval that values come from; its ends may be infinite."""

    lower: float = -np.inf
    upper: float = np.inf

    def line(self, values: Array) -> Array:
        """The values moved to the whole line; those on an edge are moved into the range."""
        if np.isinf(self.lower):
            return values
        inner = np.nextafter(self.lower, np.inf)
        if np.isinf(self.upper):
            return np.asarray(np.log(np.maximum(values, inner) - self.lower))
        share = (np.clip(values, inner, np.nextafter(self.upper, -np.inf)) - self.lower) / (
            self.upper - self.lower
        )
        return np.asarray(special.logit(np.clip(share, 1e-300, np.nextafter(1.0, 0.0))))

    def value(self, w: Array) -> Array:
        """Back from the whole line."""
        if np.isinf(self.lower):
            return w
        if np.isinf(self.upper):
            return np.asarray(self.lower + capped_exp(w))
        return np.asarray(self.lower + (self.upper - self.lower) * special.expit(w))

    def slope(self, w: Array) -> Array:
        """d value / dw."""
        if np.isinf(self.lower):
            return np.ones_like(w)
        if np.isinf(self.upper):
            return np.asarray(capped_exp(w))
        return np.asarray((self.upper - self.lower) * special.expit(w) * special.expit(-w))


def kernel_density(
    values: Array, weights: Array, share: float, size: int, within: Range
) -> tuple[Array, Array]:
    """(size,) points and the density there of values (m,) with weights (m,) that sum to 1; `share`
    is the kernels' sd over that of the values, on the whole line. NaN densities for one value, or
    where values overflow."""
    w = within.line(values)
    with np.errstate(over="ignore", invalid="ignore"):
        centre = float(weights @ w)
        sd = float(np.sqrt(weights @ (w - centre) ** 2))
    if not np.isfinite(sd):
        return np.full(size, centre), np.full(size, np.nan)
    if not sd > 1e-12 * max(1.0, abs(centre)):
        return np.full(size, within.value(np.array(centre))), np.full(size, np.nan)
    share = min(share, WIDEST)
    middles = centre + np.sqrt(1.0 - share**2) * (w - centre)
    order = np.argsort(middles, kind="stable")
    middles, mass = middles[order], weights[order]
    cumulative = np.cumsum(mass)
    low, high = (
        middles[min(int(np.searchsorted(cumulative, p)), len(w) - 1)] for p in (TAIL, 1.0 - TAIL)
    )
    if len(middles) > MANY:
        middles, mass = _joined(middles, mass, JOINED * share * sd)
    x = np.linspace(low - 4.0 * share * sd, high + 4.0 * share * sd, size)
    out = np.zeros(size)
    for k in range(0, len(middles), max(1, ENTRIES_PER_PASS // size)):
        part = slice(k, k + max(1, ENTRIES_PER_PASS // size))
        gap = (x[:, None] - middles[part]) / (share * sd)
        out += np.exp(-0.5 * gap**2) @ mass[part]
    out /= share * sd * np.sqrt(2.0 * np.pi)
    return within.value(x), out / within.slope(x)


def _joined(values: Array, mass: Array, width: float) -> tuple[Array, Array]:
    """Means and masses of ascending values in intervals of a width."""
    first = np.flatnonzero(np.diff(np.floor((values - values[0]) / width), prepend=-1.0))
    total = np.add.reduceat(mass, first)
    mean = np.add.reduceat(mass * (values - values[0]), first) / np.maximum(total, 1e-300)
    return values[0] + mean, total


def lattice_share(z: Array, weights: Array) -> float:
    """The kernels' share for the nodes (m, d) of a product lattice: no row of it is seen."""
    mean = weights @ z
    sds = np.sqrt(weights @ (z - mean) ** 2)
    steps = [float(np.min(np.diff(np.unique(c)), initial=np.inf)) for c in z.T]
    found = [s / d for s, d in zip(steps, sds, strict=True) if np.isfinite(s) and d > 0.0]
    return SMOOTH * max(found, default=0.05)


def sample_share(weights: Array, factor: float = 1.06) -> float:
    """The kernels' share for weighted draws: Silverman's rule at their effective number."""
    return float(factor * (1.0 / float(weights @ weights)) ** -0.2)
