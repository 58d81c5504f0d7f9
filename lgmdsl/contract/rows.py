"""Algebra on the statistics of site blocks that is the same for scalar and vector sites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lgmdsl.arrays import AnyArray, Array, BoolArray

#: An array for each site block.
Rows: TypeAlias = tuple[Array, ...]


def times(weight: Array, s: Array) -> Array:
    """W s for one site block: elementwise for (N,), block by block for (N, K, K)."""
    if weight.ndim == 1:
        return weight * s
    product: Array = np.einsum("nij,nj->ni", weight, s)
    return product


def quadratic(weight: Array, s: Array) -> Array:
    """s'Ws of each site of a block, (N,)."""
    if weight.ndim == 1:
        return weight * s * s
    return inner(s, times(weight, s))


def trace(weight: Array, variance: Array) -> Array:
    """tr(W V) of each site of a block, (N,)."""
    if weight.ndim == 1:
        return weight * variance
    traces: Array = np.einsum("nij,nij->n", weight, variance)
    return traces


def inner(a: Array, s: Array) -> Array:
    """a's of each site of a block, (N,)."""
    return a * s if a.ndim == 1 else np.asarray(np.einsum("ni,ni->n", a, s))


def spread(variance: Array) -> Array:
    """The variances of each site's predictors, summed, (N,): the trace of (N, K, K)."""
    if variance.ndim == 1:
        return variance
    return np.asarray(np.einsum("nii->n", variance))


def isotropic(value: Array, s: Array) -> Array:
    """A value of each site, (N,), as a weight of predictors s: itself for (N,), times the identity
    for (N, K)."""
    if s.ndim == 1:
        return value
    return np.asarray(value[:, None, None] * np.eye(s.shape[1]))


def smallest(weight: Array) -> Array:
    """The smallest eigenvalue of each site's weight, (N,)."""
    return weight if weight.ndim == 1 else np.asarray(np.linalg.eigvalsh(weight)[:, 0])


def per_site(value: AnyArray, like: Array) -> AnyArray:
    """A value of each site, (N,), that broadcasts against `like`, (N, ...)."""
    return value.reshape(-1, *(1,) * (like.ndim - 1))


def total(parts: Rows) -> float:
    """The sum over all sites of all blocks."""
    return float(sum(float(np.sum(p)) for p in parts))


CHUNK = 1 << 14  # sites whose terms stay in the nearer caches


def added(parts: Iterable[Mapping[str, Array]]) -> dict[str, Array]:
    """Sums of slopes by name, from the first to the last."""
    out: dict[str, Array] = {}
    for part in parts:
        for name, slope in part.items():
            out[name] = out[name] + slope if name in out else np.asarray(slope)
    return out


def summed(terms: Callable[..., Array], *blocks: Array) -> float:
    """The sum over the sites of one block of `terms`, computed chunk by chunk."""
    size = len(blocks[0]) if blocks else 0
    if size <= CHUNK:
        return float(np.sum(terms(*blocks)))
    parts = [
        np.sum(terms(*(b[first : first + CHUNK] for b in blocks)))
        for first in range(0, size, CHUNK)
    ]
    return float(np.sum(parts))


def interpolate(start: Rows, end: Rows, t: float) -> Rows:
    """(1 - t) start + t end, block by block."""
    if t == 1.0:
        return end
    return tuple(a + t * (b - a) for a, b in zip(start, end, strict=True))


def shift_of(slope: Rows, weight: Rows, mean: Rows) -> Rows:
    """b = slope + W m: the shifts of Gaussian sites with these slopes at m."""
    return tuple(g + times(w, m) for g, w, m in zip(slope, weight, mean, strict=True))


def slope_of(shift: Rows, weight: Rows, mean: Rows) -> Rows:
    """b - W m, the slopes of Gaussian sites at m (alpha where m is the conditioned mean)."""
    return tuple(b - times(w, m) for b, w, m in zip(shift, weight, mean, strict=True))


def absolute(weight: Array) -> Array:
    """|W|: elementwise, or through the eigenvalues of each K x K block."""
    if weight.ndim == 1:
        return np.abs(weight)
    values, vectors = np.linalg.eigh(weight)
    return np.asarray((vectors * np.abs(values)[:, None, :]) @ vectors.transpose(0, 2, 1))


def diagonal(variance: Array) -> Array:
    """The variances of single rows: (N,) as it is, the diagonals of (N, K, K) as (N, K)."""
    return variance if variance.ndim == 1 else np.asarray(np.einsum("nii->ni", variance))


def semidefinite(variance: Array) -> Array:
    """Variances of one site block without their rounding: (N,) at least 0, and the blocks of
    (N, K, K) without rows and columns of predictors whose variance is 0.

    What constraints or the data leave of a variance is a difference, -7e-18 as easily as 0, and
    has no square root."""
    if variance.ndim == 1:
        return np.maximum(variance, 0.0)
    certain = diagonal(variance) <= 0.0
    if not certain.any():
        return variance
    return np.where(certain[:, :, None] | certain[:, None, :], 0.0, variance)


# Share of the largest variance of any predictor below which a predictor is certain.
CERTAIN = 1e-28


def uncertain(variance: Rows) -> tuple[BoolArray, ...]:
    """Which predictors any Gaussian with these variances can move, (N,) or (N, K): not those of
    variance 0, nor of one so far below the largest that it is the rounding of another sum."""
    parts = [diagonal(v) for v in variance]
    most = max((float(p.max(initial=0.0)) for p in parts), default=0.0)
    return tuple(p > CERTAIN * most for p in parts)


def relative_size(change: Array, weight: Array, variance: Array, least: float) -> Array:
    """How large a change of each site's weight is relative to it, and to `least` in units of
    1 / variance: (N,), of (N, K, K) the Frobenius norm of S^-1/2 dW S^-1/2, S = W + least V^-1,
    which bounds what it changes of any precision. V may be singular."""
    if weight.ndim == 1:
        return np.asarray(np.abs(change) / np.maximum(weight, least / np.maximum(variance, 1e-300)))
    sds = np.sqrt(np.maximum(diagonal(variance), 0.0))
    unit = np.where(sds > 0.0, sds, 1.0)
    square = unit[:, :, None] * unit[:, None, :]
    even = variance / square
    # S^-1 dW = V (WV + least I)^-1 dW, up to a similarity.
    system = (weight * square) @ even + least * np.eye(weight.shape[1])
    moved = np.linalg.solve(system, (change * square) @ even)
    return np.asarray(np.sqrt(np.abs(np.einsum("nij,nji->n", moved, moved))))


def gram(half: Array, mean: Array) -> Array:
    """Diagonal blocks of HH' for the rows H of one site block, (P, r), whose means are `mean`:
    (N,) for scalar sites, (N, K, K) for vector ones."""
    if mean.ndim == 1:
        return np.asarray(np.einsum("ij,ij->i", half, half))
    sites = half.reshape(*mean.shape, half.shape[1])
    return np.asarray(np.einsum("nir,njr->nij", sites, sites))


def times_rows(weight: Array, half: Array) -> Array:
    """W H for the rows H of one site block, (P, r)."""
    if weight.ndim == 1:
        return np.asarray(weight[:, None] * half)
    sites = half.reshape(*weight.shape[:2], half.shape[1])
    return np.asarray(np.einsum("nij,njr->nir", weight, sites).reshape(half.shape))


# ---- cavity ------------------------------------------------------------------------------------
# Cavities: the Gaussian of a predictor without its own Gaussian site.
#
# With q's marginal N(m, V) and the site exp(-1/2 s'Ws + b's), alpha = b - Wm (Minka 2001):
#
#     C = (I - V W)^-1 V,    c = m - C alpha
#
# which holds for singular V too. I - VW, in one dimension 1 - h with the leverage h = wv, says how
# much of the information in V is left without the site.


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
    (alpha,) = slope_of((shift,), (weight,), (mean,))
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
