"""Adjacent categories: log P(Y = j + 1) / P(Y = j) = s - phi_j (Agresti 2010, section 4.1).

log P(Y = k) = k s - sum_{j < k} phi_j - log sum_m exp(m s - sum_{j < m} phi_j): an exponential
family in s whose statistic is the position of the class.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.sites.ordinal import OrdinalSite


@dataclass(frozen=True, eq=False)
class AdjacentLogit(OrdinalSite):
    """A logit for each pair of neighbouring classes, all with the same s."""

    y: Array
    cuts: Array
    guessed: ClassVar[bool] = True  # as many bends as there are cuts
    spec: ClassVar[SiteSpec] = SiteSpec(
        "ordinal.logit.adjacent", {"cuts": None},
        properties=Property.LOG_CONCAVE | Property.BOUNDED, observed=("index",), link="logit",
        summary="ordered classes, log P(y = j + 1) / P(y = j) = s - cuts[j]", indexed=("cuts",),
    )  # fmt: skip

    @cached_property
    def sums(self) -> Array:
        """sum_{j < m} phi_j for each class m."""
        return np.concatenate(
            [np.zeros((*self.cuts.shape[:-1], 1)), np.cumsum(self.cuts, axis=-1)], axis=-1
        )

    def logits(self, s: Array) -> Array:
        """log P(Y = m) / P(Y = y) for each class m."""
        lead = self.sums - np.take_along_axis(self.sums, self.code, axis=-1)
        return np.asarray((np.arange(self.levels + 1) - self.code) * s[..., None] - lead)

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

    def _away(self, masses: Array) -> Array:
        """m - E Y for each class m."""
        position = np.arange(self.levels + 1.0)
        return np.asarray(position - (masses * position).sum(axis=-1, keepdims=True))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        masses = self.masses(s)
        away = self._away(masses)
        return PointwiseAnswer(
            value=self.log_density(s),
            slope=np.asarray((masses * (self.code - np.arange(self.levels + 1))).sum(axis=-1)),
            curvature=-(masses * away**2).sum(axis=-1),
            third=-(masses * away**3).sum(axis=-1) * variance,
        )

    def cut_curves(self, s: Array) -> tuple[Array, Array, Array]:
        masses = self.masses(s)
        away = self._away(masses)
        spread = (masses * away**2).sum(axis=-1, keepdims=True)

        def beyond(values: Array) -> Array:
            """Sums over the classes above each cut."""
            return np.asarray(np.cumsum(values[..., ::-1], axis=-1)[..., ::-1][..., 1:])

        return (
            np.where(self.above, -self.upto(s), beyond(masses)),
            beyond(masses * away),
            beyond(masses * (away**2 - spread)),
        )

    def upto(self, s: Array) -> Array:
        return np.asarray(np.minimum(np.cumsum(self.masses(s), axis=-1)[..., :-1], 1.0))

    def landmark(self) -> tuple[Array, Array]:
        """A guess: the middle of the cuts."""
        centre = np.asarray(self.cuts.mean(axis=-1))
        return centre, np.full_like(centre, np.pi)
