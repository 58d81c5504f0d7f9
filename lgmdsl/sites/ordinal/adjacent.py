"""Adjacent categories: log P(Y = j + 1) / P(Y = j) = s - phi_j (Agresti 2010, section 4.1).

log P(Y = k) = k s - sum_{j < k} phi_j - log sum_m exp(m s - sum_{j < m} phi_j): an exponential
family in s whose statistic is the position of the class. In a stereotype model (Anderson 1984; Khan
2012, equation 1.62) a score of the class is the statistic, and

    log P(Y = j + 1) / P(Y = j) = (score_{j + 1} - score_j) (s - phi_j),

so that scores 0, 1, 2, ... are adjacent categories. Only differences of scores mean anything.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec, entry_name
from lgmdsl.numerics.normal_tail import normal_tail
from lgmdsl.sites.ordinal.classes import OrdinalSite
from lgmdsl.vocabulary.lookup import declared


class Neighbours(OrdinalSite):
    """Log odds for each pair of neighbouring classes, all with the same s."""

    guessed: ClassVar[bool] = True  # as many bends as there are cuts

    @cached_property
    def statistic(self) -> Array:
        """The score of each class, a last axis (L + 1,)."""
        return np.arange(self.levels + 1.0)

    @cached_property
    def steps(self) -> Array:
        """From each class to the next, a last axis (L,)."""
        return np.diff(self.statistic, axis=-1)

    @abstractmethod
    def logits(self, s: Array) -> Array:
        """log P(Y = m) / P(Y = y) for each class m."""

    def masses(self, s: Array) -> Array:
        """P(Y = m) for each class m."""
        logits = self.logits(s)
        shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=-1, keepdims=True))

    def log_density(self, s: Array) -> Array:
        logits = self.logits(s)
        top = logits.max(axis=-1)
        shares = np.exp(logits - top[..., None])
        others = np.where(self.code == np.arange(self.levels + 1), 0.0, shares).sum(axis=-1)
        # 1 + others - 1 where y is the likeliest class: its log density may be tiny.
        return np.asarray(-top - np.log1p(others + np.expm1(-top)))

    def upto(self, s: Array) -> Array:
        return np.asarray(np.minimum(np.cumsum(self.masses(s), axis=-1)[..., :-1], 1.0))

    def landmark(self) -> tuple[Array, Array]:
        """A guess: the middle of the cuts."""
        centre = np.asarray(self.cuts.mean(axis=-1))
        return centre, np.full_like(centre, np.pi)


def beyond(values: Array) -> Array:
    """Sums over the classes above each cut, a last axis (L,)."""
    return np.asarray(np.cumsum(values[..., ::-1], axis=-1)[..., ::-1][..., 1:])


class Stereotype(Neighbours):
    """Scores that are parameters of their own, (N, L + 1)."""

    scores: Array

    @cached_property
    def statistic(self) -> Array:
        """`scores`."""
        return self.scores

    @abstractmethod
    def score_curves(self, s: Array) -> tuple[Array, Array, Array]:
        """dl/dscore and its first two derivatives in s, the shape of s and a last axis (L + 1,)."""

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        slopes = self.score_curves(s)[0]
        scores = {entry_name("scores", k): slopes[..., k] for k in range(self.levels + 1)}
        return super().parameter_slopes(s) | scores

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        parts = self.score_curves(s)
        scores = {
            entry_name("scores", k): ParameterCurve(*(p[..., k] for p in parts))
            for k in range(self.levels + 1)
        }
        return super().parameter_curves(s) | scores


class ScoredLogit(Neighbours):
    """A logit for each pair of neighbouring classes."""

    @cached_property
    def sums(self) -> Array:
        """sum_{j < m} steps_j phi_j for each class m."""
        return np.concatenate(
            [np.zeros((*self.cuts.shape[:-1], 1)), np.cumsum(self.steps * self.cuts, axis=-1)],
            axis=-1,
        )

    @cached_property
    def observed_score(self) -> Array:
        """The score of y, with a last axis of length 1."""
        scores = np.broadcast_to(self.statistic, self.sums.shape)
        return np.take_along_axis(scores, self.code, axis=-1)

    def logits(self, s: Array) -> Array:
        lead = self.sums - np.take_along_axis(self.sums, self.code, axis=-1)
        return np.asarray((self.statistic - self.observed_score) * s[..., None] - lead)

    def _away(self, masses: Array) -> Array:
        """The score of each class less its mean."""
        scores = self.statistic
        return np.asarray(scores - (masses * scores).sum(axis=-1, keepdims=True))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        masses = self.masses(s)
        away = self._away(masses)
        return PointwiseAnswer(
            value=self.log_density(s),
            slope=np.asarray((masses * (self.observed_score - self.statistic)).sum(axis=-1)),
            curvature=-(masses * away**2).sum(axis=-1),
            third=-(masses * away * away**2).sum(axis=-1) * variance,
        )

    def cut_curves(self, s: Array) -> tuple[Array, Array, Array]:
        masses = self.masses(s)
        away = self._away(masses)
        spread = (masses * away**2).sum(axis=-1, keepdims=True)
        return (
            self.steps * np.where(self.above, -self.upto(s), beyond(masses)),
            self.steps * beyond(masses * away),
            self.steps * beyond(masses * (away**2 - spread)),
        )


@dataclass(frozen=True, eq=False)
class AdjacentLogit(ScoredLogit):
    """Scores 0, 1, 2, ..."""

    y: Array
    cuts: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "ordinal.logit.adjacent",
        signature=declared("family", "ordinal"),
        takes=("cuts",),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="logit",
        indexed=("cuts",),
    )


@dataclass(frozen=True, eq=False)
class StereotypeLogit(Stereotype, ScoredLogit):
    """Scores of its own, (N, L + 1), that increase."""

    y: Array
    cuts: Array
    scores: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "ordinal.logit.stereotype",
        signature=declared("family", "ordinal"),
        takes=("cuts", "scores"),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="logit",
        indexed=("cuts", "scores"),
    )

    @cached_property
    def turn(self) -> Array:
        """d(logit of class m)/d(score k) less s where m = k, last axes (L + 1, L + 1)."""
        m = np.arange(self.levels + 1)
        passed = (m[:, None] > np.arange(self.levels)) * self.cuts[..., None, :]
        edge = np.zeros((*passed.shape[:-1], 1))
        after, before = (np.concatenate(p, axis=-1) for p in ([passed, edge], [edge, passed]))
        return np.asarray(after - before)

    def score_curves(self, s: Array) -> tuple[Array, Array, Array]:
        p = self.masses(s)
        away = self._away(p)
        first = p * away
        second = p * (away**2 - (p * away**2).sum(axis=-1, keepdims=True))
        chosen = self.code == np.arange(self.levels + 1)

        def averaged(mass: Array) -> Array:
            return np.asarray(mass * s[..., None] + np.einsum("...m,...mk->...k", mass, self.turn))

        return averaged(chosen - p), chosen - p - averaged(first), -2.0 * first - averaged(second)


# ---- adjacent probit ---------------------------------------------------------------------------
# Adjacent categories with a normal law: P(Y = j + 1 | Y is j or j + 1) = Phi(x_j), x_j = s - phi_j
# (Peyhardi, Trottier and Guedon 2015, ratio "adjacent", any law).
#
# With lambda(x) = log Phi(x) - log Phi(-x) and A_m = sum_{j < m} lambda(x_j),
#
#     log P(Y = k) = A_k - log sum_m exp A_m,
#
# and of a stereotype model x_j = (score_{j + 1} - score_j) (s - phi_j), as for logits, where lambda
# is the identity. With cuts in order l is concave in s: no counterexample among 12,000 random
# sites, nor by a global search over cuts, scores and s for up to five classes; cuts out of order
# give one.


class _Terms(NamedTuple):
    """At s: P(Y = m); for each cut x_j and lambda's first three derivatives there; for each class
    the derivatives of A_m in s, of which `away` is the first less its mean."""

    masses: Array
    x: Array
    first: Array
    second: Array
    third: Array
    rise: tuple[Array, Array, Array]
    away: Array

    def mean(self, values: Array) -> Array:
        """Over the classes, with a last axis of length 1."""
        return np.asarray((self.masses * values).sum(axis=-1, keepdims=True))


class ScoredProbit(Neighbours):
    """A probit for each pair of neighbouring classes."""

    def arguments(self, s: Array) -> Array:
        """x_j, the shape of s and a last axis (L,)."""
        return np.asarray(self.steps * (s[..., None] - self.cuts))

    def logits(self, s: Array) -> Array:
        x = self.arguments(s)
        return self._relative(special.log_ndtr(x) - special.log_ndtr(-x))

    def _relative(self, values: Array) -> Array:
        """Sums over the cuts between y and each class m, negative where m is below."""
        passed = np.where(self.above, values, 0.0)[..., ::-1].cumsum(axis=-1)[..., ::-1]
        ahead = np.where(self.above, 0.0, values).cumsum(axis=-1)
        none = np.zeros((*values.shape[:-1], 1))
        return np.asarray(
            np.concatenate([none, ahead], axis=-1) - np.concatenate([passed, none], axis=-1)
        )

    def _terms(self, s: Array) -> _Terms:
        x, steps = self.arguments(s), self.steps
        up, down, p = normal_tail(x), normal_tail(-x), self.masses(s)
        first = up.hazard + down.hazard
        second = up.variance - down.variance
        third = up.third + down.third
        a1, a2, a3 = (self._relative(steps**k * v) for k, v in
                      ((1, first), (2, second), (3, third)))  # fmt: skip
        centre = (p * a1).sum(axis=-1, keepdims=True)
        return _Terms(p, x, first, second, third, (a1, a2, a3), a1 - centre)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """With A_y = 0: less the cumulants over the classes of the derivatives of A."""
        terms = self._terms(s)
        p, (a1, a2, a3), away = terms.masses, terms.rise, terms.away
        bend = a2 - terms.mean(a2)
        return PointwiseAnswer(
            value=self.log_density(s),
            slope=-(p * a1).sum(axis=-1),
            curvature=-(p * (a2 + away**2)).sum(axis=-1),
            third=-(p * (a3 + 3.0 * away * bend + away * away**2)).sum(axis=-1) * variance,
        )

    def _curves(
        self, terms: _Terms, parts: tuple[Array, Array, Array]
    ) -> tuple[Array, Array, Array]:
        """dl/dparameter and its two derivatives in s, from `parts`, those of
        dlambda(x_j)/dparameter."""
        p, a2, away = terms.masses, terms.rise[1], terms.away
        below = np.where(self.above, np.cumsum(p, axis=-1)[..., :-1], -beyond(p))
        turn = beyond(p * away)
        bend = beyond(p * (away**2 - terms.mean(away**2) + a2 - terms.mean(a2)))
        d0, d1, d2 = parts
        return d0 * below, d1 * below - d0 * turn, d2 * below - 2.0 * d1 * turn - d0 * bend

    def cut_curves(self, s: Array) -> tuple[Array, Array, Array]:
        terms, a = self._terms(s), self.steps
        return self._curves(
            terms, (-a * terms.first, -(a**2) * terms.second, -(a**3) * terms.third)
        )


@dataclass(frozen=True, eq=False)
class AdjacentProbit(ScoredProbit):
    """Scores 0, 1, 2, ..."""

    y: Array
    cuts: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "ordinal.probit.adjacent",
        signature=declared("family", "ordinal"),
        takes=("cuts",),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="probit",
        indexed=("cuts",),
    )


@dataclass(frozen=True, eq=False)
class StereotypeProbit(Stereotype, ScoredProbit):
    """Scores of its own, (N, L + 1), that increase."""

    y: Array
    cuts: Array
    scores: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "ordinal.probit.stereotype",
        signature=declared("family", "ordinal"),
        takes=("cuts", "scores"),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="probit",
        indexed=("cuts", "scores"),
    )

    def score_curves(self, s: Array) -> tuple[Array, Array, Array]:
        """dl/dscore and its first two derivatives in s, the shape of s and a last axis (L + 1,): a
        score ends the step below it and begins the one above."""
        terms, a, x = self._terms(s), self.steps, self.arguments(s)
        away = s[..., None] - self.cuts
        curves = self._curves(
            terms,
            (
                away * terms.first,
                terms.first + x * terms.second,
                a * (2.0 * terms.second + x * terms.third),
            ),
        )
        none = np.zeros((*x.shape[:-1], 1))
        first, second, third = (
            np.concatenate([none, p], axis=-1) - np.concatenate([p, none], axis=-1) for p in curves
        )
        return first, second, third
