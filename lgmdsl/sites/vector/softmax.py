"""Softmax sites: l(s) = log C + sum_k c_k s_k - n log sum_k exp s_k, s of shape (N, K).

`categorical.softmax` has one count of 1, at class y; `multinomial.softmax` has counts y that add up
to n. Predictors may be given for all K classes, or for the first K - 1: the last one's is then 0
(the reference). Classes that are not available have no part in the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.classes import Classes, ClassMoments, OneClass, among
from lgmdsl.contract.questions import Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.numerics.expectations.log_sum_exp import LogSumExp, expected_log_sum_exp
from lgmdsl.numerics.stable import Shares, covariances, shares
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator


def with_reference(s: Array, classes: int) -> Array:
    """s (N, K), a column of zeros added where it has K - 1."""
    if s.shape[1] == classes:
        return s
    return np.concatenate([s, np.zeros((len(s), 1))], axis=1)


def complete(mean: Array, variance: Array, classes: int) -> tuple[Array, Array]:
    """Means (N, K) and covariances (N, K, K) of all classes, zeros for a reference added."""
    full = with_reference(mean, classes)
    if mean.shape[1] == classes:
        return full, variance
    spread = np.zeros((len(mean), classes, classes))
    spread[:, :-1, :-1] = variance
    return full, spread


class SoftmaxSite(Site, Pointwise, Classes):
    """What both families share. `counts` (N, K), `trials` (N,), `offered` (N, K)."""

    @property
    def counts(self) -> Array:
        """How often each class was observed, (N, K)."""
        raise NotImplementedError

    @property
    def trials(self) -> Array:
        """n, (N,)."""
        raise NotImplementedError

    @property
    def offered(self) -> BoolArray:
        """Which classes can be chosen, (N, K)."""
        raise NotImplementedError

    @property
    def constant(self) -> Array:
        """log n! / prod_k c_k!, (N,); -inf for what cannot occur."""
        raise NotImplementedError

    @property
    def classes(self) -> int:
        """K, the reference among them."""
        return int(self.offered.shape[1])

    def contrasts(self, predictors: int) -> Array | None:
        if predictors < self.classes and self.offered.all():
            return None
        return among(self.offered)[:, :predictors]

    def shares(self, s: Array) -> Shares:
        """The classes' probabilities at s, (N, K) or (N, K - 1)."""
        return shares(with_reference(s, self.classes), self.offered)

    def log_density(self, s: Array) -> Array:
        return self._value(self.shares(s))

    def _value(self, softmax: Shares) -> Array:
        chosen = np.where(self.counts > 0.0, softmax.log_p, 0.0)
        return np.asarray(self.constant + (self.counts * chosen).sum(axis=1))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """The third derivative is -n times the third cumulant of the chosen class; of a variance
        that is a number, times the identity."""
        softmax, free, n = self.shares(s), s.shape[1], self.trials
        bend = covariances(softmax)[:, :free, :free]
        v = variance * np.eye(free)[None] if np.ndim(variance) == 0 else np.asarray(variance)
        # (e_c - p)'V(e_c - p) of each class c, less p'Vp: 0 for the reference. Its distances from
        # its mean are averages of differences, so that nothing cancels where a p is near 1.
        spread = np.einsum("nii->ni", v) - 2.0 * (v @ softmax.p[:, :free, None])[:, :, 0]
        spread = with_reference(spread, self.classes)
        off = np.einsum("nck,nk->nc", spread[:, :, None] - spread[:, None, :], softmax.p)
        return PointwiseAnswer(
            value=self._value(softmax),
            slope=self._residual(softmax)[:, :free],
            curvature=-n[:, None, None] * bend,
            third=-n[:, None] * (softmax.p * off)[:, :free],
        )

    def _residual(self, softmax: Shares) -> Array:
        """c - n p: c (1 - p) - (n - c) p, so that nothing cancels where p is near 1."""
        failures = self.trials[:, None] - self.counts
        return np.asarray(self.counts * softmax.rest - failures * softmax.p)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def expected_shares(self, mean: Array, variance: Array) -> LogSumExp:
        """E[log sum exp s]; its slope is E[p], the diagonal of its curvature E[p (1 - p)]."""
        m, v = complete(mean, variance, self.classes)
        return expected_log_sum_exp(m, v, self.offered)

    def class_moments(self, mean: Array, variance: Array) -> ClassMoments:
        answer = self.expected_shares(mean, variance)
        inside = np.einsum("nkk->nk", answer.bend)
        return ClassMoments.of_counts(self.trials, answer.d_mean, inside)

    def conditional_mean(self, s: Array) -> Array:
        """n p, (N, K): of one trial the classes' probabilities."""
        return np.asarray(self.trials[:, None] * self.shares(s).p)

    def conditional_variance(self, s: Array) -> Array:
        """n p (1 - p), (N, K)."""
        softmax = self.shares(s)
        return np.asarray(self.trials[:, None] * softmax.p * softmax.rest)


@dataclass(frozen=True, eq=False)
class CategoricalSoftmax(SoftmaxSite, OneClass):
    """P(y = k | s) = exp(s_k) / sum of exp(s_j) over the available classes j.

    `y`, (N,), counts the classes from 0; `available`, (N, K), is 0 for what cannot be chosen.
    """

    y: Array
    available: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "categorical.softmax",
        signature=declared("family", "categorical"),
        takes=("available",),
        wide=("available",),
        vector=True,
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="softmax",
    )

    def log_mass(self, mean: Array, variance: Array) -> Array:
        p = self.expected_shares(mean, variance).d_mean
        return np.asarray(np.log((self.counts * p).sum(axis=1)))

    @cached_property
    def offered(self) -> BoolArray:
        """Which classes can be chosen, (N, K)."""
        return np.asarray(self.available != 0.0)

    @cached_property
    def counts(self) -> Array:
        return np.asarray(self.y[:, None] == np.arange(self.classes), dtype=np.float64)

    @property
    def trials(self) -> Array:
        return np.ones(len(self.y))

    @cached_property
    def constant(self) -> Array:
        return np.where((self.counts * self.offered).any(axis=1), 0.0, -np.inf)

    def sample(self, s: Array, rng: Generator) -> Array:
        """One class for each row, (N,), counted from 0; -1, as of a missing label, where no class
        is on offer."""
        up = np.cumsum(self.shares(s).p, axis=1)
        drawn = rng.random((len(s), 1)) * up[:, -1:]
        chosen = np.asarray((drawn >= up).sum(axis=1), dtype=np.float64)
        return np.where(self.offered.any(axis=1), chosen, -1.0)


@dataclass(frozen=True, eq=False)
class MultinomialSoftmax(SoftmaxSite):
    """Counts y, (N, K), of n trials, each of class k with probability softmax(s)_k."""

    y: Array
    n: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "multinomial.softmax",
        signature=declared("family", "multinomial"),
        takes=("n",),
        wide=("y",),
        vector=True,
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="softmax",
    )

    @cached_property
    def offered(self) -> BoolArray:
        """All classes, (N, K)."""
        return np.ones(self.y.shape, dtype=np.bool_)

    @property
    def counts(self) -> Array:
        return self.y

    @property
    def trials(self) -> Array:
        return self.n

    @cached_property
    def constant(self) -> Array:
        coefficient = special.gammaln(self.n + 1.0) - special.gammaln(self.y + 1.0).sum(axis=1)
        possible = (self.y.sum(axis=1) == self.n) & (self.y >= 0.0).all(axis=1)
        return np.where(possible, coefficient, -np.inf)

    def sample(self, s: Array, rng: Generator) -> Array:
        """Counts that add up to n, (N, K)."""
        p = self.shares(s).p
        drawn = rng.multinomial(self.n.astype(np.int64), p / p.sum(axis=1, keepdims=True))
        return drawn.astype(np.float64)
