"""Newton's method: in a box, for many functions of two variables, and for one variance.

In a box, by projection (Bertsekas 1982), of a convex function:

    x <- x + t d,   d = -H_FF^-1 g_F on the free coordinates F, zero on those that a bound holds

A coordinate is held where it stands at a bound and the gradient pushes it outwards. Steps end at
the bounds, and short of those that are walls, where the slope of f is infinite; t is shortened
until Armijo's rule holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Protocol, TypeVar

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray

SUFFICIENT = 1e-4
SHRINK, TRIALS = 0.3, 8
REACH = 0.99  # of the way to a wall
FLAT = 3  # steps whose gain is rounding: x is still the better for a few of them


class ConvexValue(Protocol):
    """f at x. `noise`: differences of f below this are rounding."""

    @property
    def x(self) -> Array: ...

    @property
    def value(self) -> float: ...

    @property
    def noise(self) -> float: ...

    @property
    def gradient(self) -> Array: ...

    def step(self, free: BoolArray) -> Array | None:
        """d above; None where H_FF has no factor."""


P = TypeVar("P", bound=ConvexValue)


@dataclass(frozen=True)
class Box:
    """low <= x <= high; a coordinate within `slack` of a bound stands at it. `wall`: both of its
    bounds are walls."""

    low: Array
    high: Array
    slack: Array
    wall: BoolArray

    def held(self, x: Array, gradient: Array) -> BoolArray:
        """Which coordinates a bound keeps from going down the gradient."""
        below = (x <= self.low + self.slack) & (gradient > 0.0)
        above = (x >= self.high - self.slack) & (gradient < 0.0)
        return np.asarray(below | above)

    def clip(self, x: Array) -> Array:
        """The nearest point of the box."""
        return np.clip(x, self.low, self.high)

    def shortened(self, x: Array, d: Array) -> Array:
        """x + d in the box, at most REACH of the way to a wall."""
        reach = np.where(self.wall, REACH, 1.0)
        low, high = x + reach * (self.low - x), x + reach * (self.high - x)
        return self.clip(np.clip(x + d, low, high))


def newton_in_box(
    evaluate: Callable[[Array, P], P | None],
    start: P,
    box: Box,
    settled: Callable[[P, BoolArray], bool],
    limit: int = 30,
) -> P:
    """Steps from `start` until `settled(point, held)`, or until no step lowers f.

    `evaluate(x, before)` is f at x, before being the point that the step leaves; None outside f's
    domain.
    """
    now, flat = start, 0
    for _ in range(limit):
        gradient = now.gradient
        bound = box.held(now.x, gradient)
        if settled(now, bound):
            break
        d = now.step(~bound)
        if d is None:
            break
        flat += bool(-(gradient @ d) < now.noise)
        following = _search(evaluate, now, box, d) if flat <= FLAT else None
        if following is None:
            break
        now = following
    return now


def _search(evaluate: Callable[[Array, P], P | None], now: P, box: Box, d: Array) -> P | None:
    t, gradient = 1.0, now.gradient
    for _ in range(TRIALS):
        x = box.shortened(now.x, t * d)
        expected = float(gradient @ (x - now.x))
        if expected < 0.0:
            tried = evaluate(x, now)
            if tried is not None and tried.value <= now.value + SUFFICIENT * expected + now.noise:
                return tried
        t *= SHRINK
    return None


# ---- pair newton -------------------------------------------------------------------------------
# Maximise many functions of two variables at once: f(h, sigma^2) minus a quadratic or quartic.
#
#     phi(h, sigma) = f(h, sigma^2) - a h + b sigma
#                     - p (sigma - sigma_0)^2 / 2 - r (h - h_0)^2 / 2 - d (sigma - sigma_0)^4 / 2
#
# One pair (h, sigma > 0) for each entry, by Newton with a trust radius in h, Armijo's rule, and a
# curvature that is bent where phi is not concave. Entries that are done are not evaluated again,
# and the last step of each is taken without an evaluation: phi gains half its slope along it.


# rows, h, v -> f, f_m, f_v, f_mm, f_mv, f_vv
PairMoments = Callable[[IntArray, Array, Array], tuple[Array, ...]]

PAIR_ROUNDS = 40
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
    for _ in range(PAIR_ROUNDS):
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


# ---- variance root -----------------------------------------------------------------------------
# The variance of one Gaussian coordinate whose precision depends on that variance.
#
#     1/v = c + T(v)     <=>     x + log(c + T(e^x)) = 0,   x = log v,
#
# by Newton in x inside a bracket of signs. Plain iteration v <- 1/(c + T(v)) may cycle for ever;
# the bracket cannot. Of several roots it returns one at which log(v)/2 - c v/2 + f has a maximum.


LONGEST = 3.0  # of a step in log v while a side is open: a factor of 20
ROOT_ROUNDS = 200
SMALLEST, LARGEST = -690.0, 690.0  # log v of doubles


def solve_variance(
    weight: Callable[[float], tuple[float, float]],
    cavity: float,
    start: float,
    accuracy: float = 1e-10,
) -> float:
    """v with 1/v = cavity + T(v), to `accuracy` relative. `weight(v)` gives T = -2 f_v and dT/dv.

    `start` > 0 is where Newton begins; where doubles hold no root the last trial is returned.
    """
    low, high = -math.inf, math.inf
    x = math.log(start)
    for _ in range(ROOT_ROUNDS):
        v = math.exp(x)
        value, slope = weight(v)
        precision = cavity + value
        if precision > 0.0 and math.isfinite(precision):
            miss = x + math.log(precision)  # > 0: v is too large
            rate = 1.0 + slope * v / precision
        else:  # no such Gaussian: v must grow where T is negative, shrink where it is not finite
            miss = -math.inf if precision <= 0.0 else math.inf
            rate = 0.0
        if abs(miss) <= accuracy:
            return v
        if miss > 0.0:
            high = x
        else:
            low = x
        step = -miss / rate if rate > 0.0 else -math.copysign(LONGEST, miss)
        # A Newton step that does not settle it may be the last one that rounding allows.
        step = max(-LONGEST, min(LONGEST, step))
        following = x + step
        if not low < following < high:
            following = 0.5 * (low + high)
        if not SMALLEST < following < LARGEST or following == x:
            break
        x = following
    return math.exp(x)
