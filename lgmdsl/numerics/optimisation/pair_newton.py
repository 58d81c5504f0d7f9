"""Maximise many functions of two variables at once: f(h, sigma^2) minus a quadratic or quartic.

    phi(h, sigma) = f(h, sigma^2) - a h + b sigma
                    - p (sigma - sigma_0)^2 / 2 - r (h - h_0)^2 / 2 - d (sigma - sigma_0)^4 / 2

One pair (h, sigma > 0) for each entry, by Newton with a trust radius in h, Armijo's rule, and a
curvature that is bent where phi is not concave. Entries that are done are not evaluated again, and
the last step of each is taken without an evaluation: phi gains half its slope along it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from lgmdsl.arrays import Array, IntArray

# rows, h, v -> f, f_m, f_v, f_mm, f_mv, f_vv
PairMoments = Callable[[IntArray, Array, Array], tuple[Array, ...]]

ROUNDS = 40
SUFFICIENT = 1e-4
# The last step, in units of sigma / (1 + sigma^2): f bends on no shorter scale, so that the step
# leaves the square of this, and the value its cube.
LAST = 1e-5
EPSILON = float(np.finfo(np.float64).eps)
# -phi'' is kept this far from singular.
LEAST, ALIGNED = 1e-100, 0.999


@dataclass(frozen=True)
class PairTerms:
    """The terms of phi other than f, (n,) each, named as in the formula above."""

    a: Array
    b: Array
    p: Array
    r: Array
    d: Array
    h0: Array
    sigma0: Array

    def take(self, rows: IntArray | slice) -> PairTerms:
        """The terms of some entries."""
        return PairTerms(
            *(x[rows] for x in (self.a, self.b, self.p, self.r, self.d, self.h0, self.sigma0))
        )

    def value(self, h: Array, sigma: Array) -> Array:
        """phi - f."""
        x, y = sigma - self.sigma0, h - self.h0
        square = x * x
        quadratic = 0.5 * self.p * square + 0.5 * self.r * y * y + 0.5 * self.d * square * square
        return np.asarray(self.b * sigma - self.a * h - quadratic)

    def bends(
        self, f_v: Array, f_mm: Array, f_mv: Array, f_vv: Array, sigma: Array
    ) -> tuple[Array, Array, Array]:
        """-phi_hh, -phi_hs, -phi_ss, bent until they are positive definite."""
        x = sigma - self.sigma0
        hh = np.maximum(np.abs(self.r - f_mm), LEAST)
        ss = self.p + 6.0 * self.d * x * x - 2.0 * f_v - 4.0 * sigma * sigma * f_vv
        ss = np.maximum(np.where(ss > 0.0, ss, np.maximum(self.p, np.abs(ss))), LEAST)
        most = ALIGNED * np.sqrt(hh) * np.sqrt(ss)
        return hh, np.clip(-2.0 * sigma * f_mv, -most, most), ss


@dataclass(frozen=True)
class PairMaxima:
    """The maximisers, phi there, its negated curvatures, and which entries were settled."""

    h: Array
    sigma: Array
    value: Array
    hh: Array
    hs: Array
    ss: Array
    settled: Array

    @classmethod
    def joined(cls, parts: Sequence[PairMaxima]) -> PairMaxima:
        """Several, one after the other."""
        names = [f.name for f in fields(cls)]
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def inverse(self) -> tuple[Array, Array, Array]:
        """The inverse of the negated curvatures: its entries hh, hs, ss."""
        determinant = self.hh * self.ss - self.hs * self.hs
        return self.ss / determinant, -self.hs / determinant, self.hh / determinant


def maximise_pairs(moments: PairMoments, terms: PairTerms, h: Array, sigma: Array) -> PairMaxima:
    """Newton from (h, sigma) until the step left is negligible (or the rounding of h)."""
    h, sigma = h.copy(), sigma.copy()
    n = len(h)
    value = np.zeros(n)
    hh, hs, ss = np.ones((3, n))
    radius = 4.0 * np.maximum(sigma, 1.0)
    settled = np.zeros(n, dtype=bool)
    pending = np.arange(n)
    answers = moments(pending, h, sigma * sigma)
    for _ in range(ROUNDS):
        some, x, s = terms.take(pending), h[pending], sigma[pending]
        phi, gh, gs, dh, ds, bent = _newton(answers, some, x, s)
        value[pending] = phi
        hh[pending], hs[pending], ss[pending] = bent
        cut = _cut(dh, ds, s, radius[pending])
        dh, ds = cut * dh, cut * ds
        rising = gh * dh + gs * ds
        last = LAST * s / (1.0 + s * s)
        small = (np.abs(dh) <= last + 4.0 * EPSILON * np.abs(x)) & (np.abs(ds) <= last)
        noise = 8.0 * EPSILON * (np.abs(answers[1]) + np.abs(some.a))
        finite = np.isfinite(phi)
        done = small | ((np.abs(gh) <= noise) & (np.abs(ds) <= last)) | ~finite
        final = small & (cut == 1.0) & finite
        where = pending[final]
        h[where] += dh[final]
        sigma[where] += ds[final]
        value[where] += 0.5 * rising[final]
        settled[pending[done & finite]] = True
        keep = ~done
        if not keep.any():
            break
        pending, some, x, s = pending[keep], some.take(np.flatnonzero(keep)), x[keep], s[keep]
        dh, ds, phi, rising = dh[keep], ds[keep], phi[keep], rising[keep]
        old = tuple(part[keep] for part in answers)
        tried_h, tried_s = x + dh, s + ds
        answers = moments(pending, tried_h, tried_s * tried_s)
        reached = answers[0] + some.value(tried_h, tried_s)
        slack = 4.0 * EPSILON * (np.abs(phi) + np.abs(some.a * x) + np.abs(some.b * s))
        good = reached >= phi + SUFFICIENT * rising - slack
        h[pending] = np.where(good, tried_h, x)
        sigma[pending] = np.where(good, tried_s, s)
        length = np.maximum(np.abs(dh), np.abs(ds))
        radius[pending] = np.where(good, np.maximum(radius[pending], 2.0 * length), 0.25 * length)
        for new, was in zip(answers, old, strict=True):  # answers where the step was refused
            new[~good] = was[~good]
    return PairMaxima(h, sigma, value, hh, hs, ss, settled)


def _newton(
    answers: tuple[Array, ...], terms: PairTerms, h: Array, sigma: Array
) -> tuple[Array, Array, Array, Array, Array, tuple[Array, Array, Array]]:
    """phi, its gradient, Newton's step, and the negated curvatures used."""
    f, f_m, f_v, f_mm, f_mv, f_vv = answers
    x, y = sigma - terms.sigma0, h - terms.h0
    gh = f_m - terms.a - terms.r * y
    gs = 2.0 * sigma * f_v + terms.b - terms.p * x - 2.0 * terms.d * x**3
    hh, hs, ss = terms.bends(f_v, f_mm, f_mv, f_vv, sigma)
    ds = (gs - hs * (gh / hh)) / (ss - hs * (hs / hh))
    dh = (gh - hs * ds) / hh
    return f + terms.value(h, sigma), gh, gs, dh, ds, (hh, hs, ss)


def _cut(dh: Array, ds: Array, sigma: Array, radius: Array) -> Array:
    """The share of a step that keeps both within the radius, and a tenth of sigma."""
    with np.errstate(divide="ignore", invalid="ignore"):
        cut = np.minimum(1.0, radius / np.maximum(np.abs(dh), np.abs(ds)))
        cut = np.where(ds < 0.0, np.minimum(cut, -0.9 * sigma / ds), cut)
    return np.where(np.isfinite(cut), cut, 1.0)
