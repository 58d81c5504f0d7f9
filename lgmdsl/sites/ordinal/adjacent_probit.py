"""Adjacent categories with a normal law: P(Y = j + 1 | Y is j or j + 1) = Phi(x_j), x_j = s - phi_j
(Peyhardi, Trottier and Guedon 2015, ratio "adjacent", any law).

With lambda(x) = log Phi(x) - log Phi(-x) and A_m = sum_{j < m} lambda(x_j),

    log P(Y = k) = A_k - log sum_m exp A_m,

and of a stereotype model x_j = (score_{j + 1} - score_j) (s - phi_j), as for logits, where lambda
is the identity. With cuts in order l is concave in s: no counterexample among 12,000 random sites,
nor by a global search over cuts, scores and s for up to five classes; cuts out of order give one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics.normal_tail import normal_tail
from lgmdsl.sites.ordinal.adjacent import Neighbours, Stereotype, beyond
from lgmdsl.vocabulary.lookup import declared


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
