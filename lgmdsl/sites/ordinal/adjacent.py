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
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec, entry_name
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
        """dl/dscore and its first two derivatives in s, the shape of s and a last axis (L + 1,)."""
        p = self.masses(s)
        away = self._away(p)
        first = p * away
        second = p * (away**2 - (p * away**2).sum(axis=-1, keepdims=True))
        chosen = self.code == np.arange(self.levels + 1)

        def averaged(mass: Array) -> Array:
            return np.asarray(mass * s[..., None] + np.einsum("...m,...mk->...k", mass, self.turn))

        return averaged(chosen - p), chosen - p - averaged(first), -2.0 * first - averaged(second)
