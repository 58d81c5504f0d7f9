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
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from lgmdsl.arrays import Array
from lgmdsl.assess.sampling.products import reference
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian
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
