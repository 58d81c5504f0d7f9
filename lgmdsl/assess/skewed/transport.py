"""A map of a Gaussian's draws to draws with the posterior's skewness and width, to second order.

Of p(z | y) = q(z) exp(sum r_i) / c around the optimum q of the variational bound, where r_i has no
expected slope and curvature and the expected third derivative k_i = E_q[l_i''']: at
x = z - E_q z ~ N(0, V) and s = Bx, with C = BVB',

    T(x) = x + VB' [ k o (s o s - diag C) / 6 + (I + GC/2)^-1 G s ],    G = 2/9 (kk' o C o C)

has for every a at once, to the order that `accuracy.second_order` takes, the posterior's mean
(unchanged), variance and third cumulant of a'z. The quadratic part, the gradient field whose
divergence under q is the third-order Hermite term of sum r, gives the third cumulant
sum_i k_i c_ai^3, and a ninth of the change of the variance, 1/2 sum_ij k_i k_j c_ai c_aj C_ij^2;
the linear part gives the rest: 1 + u/(1 + u/2) is near the root of 1 + 2u, without which the square
of the linear part would come on top of it (of 0 of 47 under a prior of sd 10 the sd was 25 % too
large, and is 7 %). Where C would take too long to form, the rest comes from independent draws y, w
of Bx in place of the linear part, 2/3 VB' (k o y o w), whose covariance is the same.

Vector sites have tensors in place of k, and no C. Draws come in pairs of x and -x (and y and -y),
so that their means have hardly any Monte Carlo error.

How far draws are from the posterior, by identities that its own draws satisfy.

Of the density q(z) exp R(z) with V = Cov_q, x = z - E_q z and any smooth f, integration by parts
(Stein; Schwinger and Dyson) gives E[f(x) a'x] = a'V E[grad f] + E[f(x) a'g], g = V grad R:

    E[a'x] = E[a'g],  Var(a'x) = a'Va + Cov(a'x, a'g),  E[d^3] = Cov(d^2, a'g),  d = a'(x - E x).

Where the right-hand sides under some draws are not the moments of these draws, the draws are off,
by about the difference: the right-hand sides are nearer by one order of R where R is small, and far
away where it is not, so that the difference warns of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from lgmdsl.accuracy.errors import Errors, beyond
from lgmdsl.accuracy.limits import BENT, NORMAL
from lgmdsl.arrays import Array
from lgmdsl.assess.sampling.products import reference
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.stacked import StackedPredictors, cut

# Rows of C, beyond which independent draws take its place.
FEW_ROWS = 2000
# Entries of latents and rows under the draws that are mapped at once.
TOGETHER = 1 << 21
LINEAR, QUADRATIC, INDEPENDENT = 2.0 / 9.0, 1.0 / 6.0, 2.0 / 3.0


@dataclass(frozen=True, eq=False)
class Mapped:
    """`x`: draws of N(0, Cov_q), (2 k, n), the second half the negatives of the first; `moved`:
    T(x), in the same order."""

    x: Array
    moved: Array

    def first(self, pairs: int) -> Mapped:
        """The first pairs, where there are more."""
        half = len(self.x) // 2
        where = np.arange(min(pairs, half))
        both = np.concatenate([where, where + half])
        return Mapped(self.x[both], self.moved[both])


class Transport:
    """A map of draws of one Gaussian `q`; `third`: E_q[l'''] of each site block, (N,) or (N, K, K,
    K); `formed`: whether C is formed."""

    def __init__(
        self, linear: LinearGaussian, q: Conditioned, third: Rows, formed: bool = True
    ) -> None:
        self.linear, self.q, self.third = linear, reference(q), third
        self.stacked, self.own = StackedPredictors(linear), _own(third, q.variance)
        self.weights: Array | None = None
        if formed and formable(linear):
            crossed = self.q.solve(self.stacked.transposed(np.eye(linear.rows)))
            c = self.stacked.times(crossed)
            k = np.concatenate([np.zeros(0), *third])
            c = 0.5 * (c + c.T)
            g = LINEAR * np.outer(k, k) * c**2
            self.weights = np.asarray(np.linalg.solve(np.eye(len(k)) + 0.5 * g @ c, g))

    def draws(self, rng: Generator, pairs: int) -> Iterator[Mapped]:
        """So many pairs, in pieces."""
        step = max(1, TOGETHER // max(self.linear.size + self.linear.rows, 1))
        for start in range(0, pairs, step):
            yield self._mapped(rng, min(step, pairs - start))

    def _mapped(self, rng: Generator, pairs: int) -> Mapped:
        x = self._sample(rng, pairs)
        s = self.stacked.lifted(x.T)
        even = QUADRATIC * (contracted(self.linear, self.third, s, s) - self.own[:, None])
        if self.weights is not None:
            odd = self.weights @ s
        else:
            y, w = (self.stacked.lifted(self._sample(rng, pairs).T) for _ in range(2))
            odd = INDEPENDENT * contracted(self.linear, self.third, y, w)
        both = self.q.solve(self.stacked.transposed(np.hstack([even, odd])))
        bent, wider = both[:, :pairs].T, both[:, pairs:].T
        moved = np.concatenate([x + bent + wider, -x + bent - wider])
        return Mapped(np.concatenate([x, -x]), moved)

    def _sample(self, rng: Generator, size: int) -> Array:
        return np.asarray(self.q.sample(rng, size) - self.q.latent_mean)


def formable(linear: LinearGaussian) -> bool:
    """Whether C of these predictors may be formed."""
    return linear.rows <= FEW_ROWS and not any(p.event for p in linear.predictors)


def contracted(linear: LinearGaussian, third: Rows, a: Array, b: Array) -> Array:
    """(P, m) the third derivatives contracted with a and b, (P, m) each."""
    parts = [np.zeros((0, a.shape[1]))]
    for t, x, y in zip(third, cut(a, linear.predictors), cut(b, linear.predictors), strict=True):
        if t.ndim == 1:
            parts.append(t[:, None] * x * y)
        else:
            shape = (*t.shape[:2], -1)
            both = np.einsum("nijk,njm,nkm->nim", t, x.reshape(shape), y.reshape(shape))
            parts.append(both.reshape(-1, a.shape[1]))
    return np.concatenate(parts)


def _own(third: Rows, variance: Rows) -> Array:
    """(P,) E[k o s o s] under the Gaussian."""
    parts = [np.zeros(0)]
    for t, v in zip(third, variance, strict=True):
        own = t * v if t.ndim == 1 else np.einsum("nijk,njk->ni", t, v)
        parts.append(own.reshape(-1))
    return np.concatenate(parts)


CANDIDATES = 8  # scalars that are looked at again by the other half of the draws
SMALLEST = 0.01  # of a variance, what an identity leaves of it
# What a change of the variance leaves at least, in times of it: of means (in sds) and sds, and of 5
# and 95 % points. Of 24 models of 10 to 800 latents against long chains, whose variances it changes
# by up to 1.3, the largest errors were 0.14 (of sds) and 0.38 (of points) times it.
LEFT, LEFT_OF_QUANTILES = 0.1, 0.3


@dataclass(frozen=True, eq=False)
class Judged:
    """Pairs of draws at a hyperparameter `point`, where q has the `mean`: `x` of N(0, V), `moved`
    those that are judged, and `pull`, V grad R at these, (2 k, n) each, the second half from the
    negatives of the first half's x."""

    point: int
    mean: Array
    x: Array
    moved: Array
    pull: Array


class _Sums(NamedTuple):
    """Over `draws` at one point, of a functional's distances from E_q, `centre`: (m,) each."""

    draws: int
    centre: Array
    xx: Array
    t: Array
    g: Array
    tt: Array
    tg: Array
    ttt: Array
    ttg: Array


@np.errstate(all="ignore")
def errors_left(
    judged: Sequence[Judged],
    slices: Mapping[str, slice],
    functional_at: Mapping[int, Predictor] | None = None,
) -> Errors:
    """Errors of every latent, or of a functional, as it stands at each point: what the draws have
    less what the identities give, by all draws; those of the CANDIDATES largest by one half of them
    are bounds of the rest by the other, since the largest of many estimates is too large."""
    halves = [_halves(j, slices, functional_at) for j in judged]
    first, second = (_errors([h[k] for h in halves]) for k in (0, 1))
    whole = _errors([part for h in halves for part in h])
    chosen = np.argsort(-beyond(first), kind="stable")[:CANDIDATES]

    def bounded(every: Array, other: Array) -> Array:
        most = np.abs(other[chosen]).max(initial=0.0)
        return np.asarray(np.clip(every, -most, most))

    return Errors(
        bounded(whole.mean, second.mean),
        bounded(whole.sd, second.sd),
        bounded(whole.quantile, second.quantile),
    )


def _halves(
    judged: Judged, slices: Mapping[str, slice], functional_at: Mapping[int, Predictor] | None
) -> tuple[_Sums, _Sums]:
    """Over every other pair."""
    mean, draws = judged.mean, [judged.x, judged.moved, judged.pull]
    if functional_at is not None:
        functional = functional_at[judged.point]
        mean = functional.offset + functional.times(mean, slices)
        draws = [functional.times(v.T, slices).T for v in draws]
    half = len(draws[0]) // 2
    first, second = (_sums(mean, *(v.reshape(2, half, -1)[:, k::2] for v in draws)) for k in (0, 1))
    return first, second


def _sums(centre: Array, x: Array, t: Array, g: Array) -> _Sums:
    def product(a: Array, b: Array) -> Array:
        return np.asarray(np.einsum("cij,cij->j", a, b))

    square = t * t
    moments = (product(t, t), product(t, g), product(square, t), product(square, g))
    sums = (product(x, x), t.sum(axis=(0, 1)), g.sum(axis=(0, 1)), *moments)
    return _Sums(t.shape[0] * t.shape[1], centre, *sums)


def _errors(parts: Sequence[_Sums]) -> Errors:
    """Errors by draws of all points together. E x^2 is known, and enters as what t adds to it."""
    counts = np.array([p.draws for p in parts], dtype=np.float64)
    weights = counts / max(counts.sum(), 1.0)
    xx, mean, better, square, tg, cube, ttg = (
        np.sum([getattr(p, name) for p in parts], axis=0) / max(counts.sum(), 1.0)
        for name in _Sums._fields[2:]
    )
    centres = np.array([p.centre for p in parts])
    middle = weights @ centres
    away = weights @ (centres - middle) ** 2
    more = square - xx
    own = square - mean**2 + away
    true = np.maximum(xx + tg - mean * better + away, SMALLEST * own)
    third = cube - 3.0 * mean * square + 2.0 * mean**3
    third -= ttg - 2.0 * mean * tg + mean**2 * better - better * (square - mean**2)
    free = own > 1e-24 * np.maximum(middle**2 + own, 1e-300)
    sd = np.sqrt(np.where(free, true, 1.0))
    shift = np.where(free, (mean - better) / sd, 0.0)
    ratio = np.where(free, np.sqrt(np.where(free, own, 1.0)) / sd, 1.0)
    bent = np.where(free, third / sd**3, 0.0) * BENT
    ends = np.abs([shift + side * NORMAL * (ratio - 1.0) + bent for side in (-1.0, 1.0)])
    grown = np.where(free, np.abs(more) / np.where(free, np.maximum(own - more, 1e-300), 1.0), 0.0)
    return Errors(
        _at_least(shift, LEFT * grown),
        _at_least(ratio - 1.0, LEFT * grown),
        np.maximum(ends.max(axis=0), LEFT_OF_QUANTILES * grown),
    )


def _at_least(errors: Array, least: Array) -> Array:
    return np.where(np.abs(errors) < least, np.copysign(least, errors), errors)
