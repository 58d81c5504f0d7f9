"""Maximise many functions of two variables at once: f(h, sigma^2) minus a quadratic or quartic.

    phi(h, sigma) = f(h, sigma^2) - a h + b sigma
                    - p (sigma - sigma_0)^2 / 2 - r (h - h_0)^2 / 2 - d (sigma - sigma_0)^4 / 2

One pair (h, sigma > 0) for each entry, by Newton with a trust radius in h, Armijo's rule, and a
curvature that is bent where phi is not concave. Entries that are done are not evaluated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from lgmdsl.arrays import Array, IntArray

# rows, h, v -> f, f_m, f_v, f_mv, f_vv
Moments = Callable[[IntArray, Array, Array], tuple[Array, Array, Array, Array, Array]]

ROUNDS = 60
SUFFICIENT = 1e-4
EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Terms:
    """What stands beside f, (n,) each: named as in the formula above."""

    a: Array
    b: Array
    p: Array
    r: Array
    d: Array
    h0: Array
    sigma0: Array

    def take(self, rows: IntArray) -> Terms:
        """The terms of some entries."""
        return Terms(
            *(x[rows] for x in (self.a, self.b, self.p, self.r, self.d, self.h0, self.sigma0))
        )

    def value(self, h: Array, sigma: Array) -> Array:
        """phi - f."""
        x, y = sigma - self.sigma0, h - self.h0
        square = x * x
        quadratic = 0.5 * self.p * square + 0.5 * self.r * y * y + 0.5 * self.d * square * square
        return np.asarray(self.b * sigma - self.a * h - quadratic)


@dataclass(frozen=True)
class Pairs:
    """The maximisers, phi there, its two negated curvatures, and which entries were settled."""

    h: Array
    sigma: Array
    value: Array
    bend_h: Array
    bend_sigma: Array
    settled: Array

    @classmethod
    def joined(cls, parts: Sequence[Pairs]) -> Pairs:
        """Several, one after the other."""
        names = [f.name for f in fields(cls)]
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def maximise_pairs(
    moments: Moments, terms: Terms, h: Array, sigma: Array, accuracy: float = 1e-9
) -> Pairs:
    """Newton from (h, sigma) until steps are below `accuracy` sigma (or the rounding of h)."""
    h, sigma = h.copy(), sigma.copy()
    n = len(h)
    value, bend_h, bend_sigma = np.zeros(n), np.ones(n), np.ones(n)
    radius = 4.0 * np.maximum(sigma, 1.0)
    settled = np.zeros(n, dtype=bool)
    pending = np.arange(n)
    at = moments(pending, h, sigma * sigma)
    for _ in range(ROUNDS):
        own, x, s = terms.take(pending), h[pending], sigma[pending]
        phi, gh, gs, dh, ds, hh, ss = _newton(at, own, x, s, radius[pending])
        value[pending], bend_h[pending], bend_sigma[pending] = phi, hh, ss
        rising = gh * dh + gs * ds
        small = (np.abs(dh) <= accuracy * s + 4.0 * EPSILON * np.abs(x)) & (
            np.abs(ds) <= accuracy * s
        )
        noise = 8.0 * EPSILON * (np.abs(at[1]) + np.abs(own.a))
        done = small | ((np.abs(gh) <= noise) & (np.abs(ds) <= accuracy * s)) | ~np.isfinite(phi)
        settled[pending[done & np.isfinite(phi)]] = True
        keep = ~done
        if not keep.any():
            break
        pending, own, x, s = pending[keep], own.take(np.flatnonzero(keep)), x[keep], s[keep]
        dh, ds, phi, rising = dh[keep], ds[keep], phi[keep], rising[keep]
        tried_h, tried_s = x + dh, s + ds
        at = moments(pending, tried_h, tried_s * tried_s)
        reached = at[0] + own.value(tried_h, tried_s)
        slack = 4.0 * EPSILON * (np.abs(phi) + np.abs(own.a * x) + np.abs(own.b * s))
        good = reached >= phi + SUFFICIENT * rising - slack
        h[pending] = np.where(good, tried_h, x)
        sigma[pending] = np.where(good, tried_s, s)
        length = np.maximum(np.abs(dh), np.abs(ds))
        radius[pending] = np.where(good, np.maximum(radius[pending], 2.0 * length), 0.25 * length)
        if not good.all():  # answers where the step was refused
            back = np.flatnonzero(~good)
            old = moments(pending[back], x[back], s[back] ** 2)
            for new, was in zip(at, old, strict=True):
                new[back] = was
    return Pairs(h, sigma, value, bend_h, bend_sigma, settled)


def _newton(
    at: tuple[Array, ...], own: Terms, h: Array, sigma: Array, radius: Array
) -> tuple[Array, ...]:
    """phi, its gradient, the step, and the negated curvatures used."""
    f, f_m, f_v, f_mv, f_vv = at
    x, y = sigma - own.sigma0, h - own.h0
    gh = f_m - own.a - own.r * y
    gs = 2.0 * sigma * f_v + own.b - own.p * x - 2.0 * own.d * x**3
    hh = own.r - 2.0 * f_v
    hs = -2.0 * sigma * f_mv
    ss = own.p + 6.0 * own.d * x * x - 2.0 * f_v - 4.0 * sigma * sigma * f_vv
    floor = 1e-300
    hh = np.maximum(np.abs(hh), floor)
    ss = np.maximum(np.where(ss > 0.0, ss, np.maximum(own.p, np.abs(ss))), floor)
    most = 0.99 * np.sqrt(hh) * np.sqrt(ss)
    hs = np.clip(hs, -most, most)
    reduced = ss - hs * (hs / hh)
    ds = (gs - hs * (gh / hh)) / reduced
    dh = (gh - hs * ds) / hh
    # Along the step both stay within the radius, and sigma keeps a tenth of itself.
    with np.errstate(divide="ignore", invalid="ignore"):
        cut = np.minimum(1.0, radius / np.maximum(np.abs(dh), np.abs(ds)))
        cut = np.where(ds < 0.0, np.minimum(cut, -0.9 * sigma / ds), cut)
    cut = np.where(np.isfinite(cut), cut, 1.0)
    return f + own.value(h, sigma), gh, gs, cut * dh, cut * ds, hh, ss
