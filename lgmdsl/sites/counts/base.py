"""What families of counts of mean exposure e^s share."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Site
from lgmdsl.numerics.counts import POINTS, points_of
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.base import CountSite

if TYPE_CHECKING:
    from lgmdsl.contract.questions import Pointwise

LARGEST = 9e18  # numpy draws counts as 64-bit integers


class LogMeanCounts(CountSite):
    """l depends on s and the exposure by log mean = s + log exposure alone."""

    exposure: Array
    guessed: ClassVar[bool] = True  # l falls like e^s

    def landmark(self) -> tuple[Array, Array]:
        centre = np.log(np.maximum(self.y, 0.5)) - self.log_exposure
        return centre, np.ones(np.shape(centre))

    @cached_property
    def log_exposure(self) -> Array:
        """(N,)."""
        return np.asarray(np.log(self.exposure))

    def log_mean(self, s: Array) -> Array:
        """s + log exposure."""
        return np.asarray(s + self.log_exposure)

    def conditional_mean(self, s: Array) -> Array:
        """exposure e^s."""
        return capped_exp(self.log_mean(s))

    def exposure_slope(self, s: Array) -> Array:
        """dl/dexposure = l' / exposure."""
        return np.asarray(cast("Pointwise", self).pointwise(s).slope / self.exposure)

    def exposure_curve(self, l: PointwiseAnswer) -> ParameterCurve:
        """dl/dexposure with its derivatives in s, from l and its derivatives."""
        parts = (l.slope, l.curvature, l.third)
        return ParameterCurve(*(np.asarray(part / self.exposure) for part in parts))


# ---- cumulated ---------------------------------------------------------------------------------
# Distribution functions of counts by sums of their masses, at few points where they are smooth.


_REACH = 12.0  # sds below the mean where no mass is left
_PART = 1.5  # sds over which masses are smooth enough for one rule


def cumulated(
    site: Site, s: Array, trials: Array | None = None, heavy: BoolArray | None = None
) -> Array:
    """P(Y <= y | s), (N,), by Gauss rules over blocks of counts, whose length grows with their
    distance to 0 (and to n, where there are `trials`).

    log_density is a smooth function of y between the counts, and its peak is no narrower than its
    sd: right where all masses rise and then fall, or the other way round. There is no mass 12 sds
    below the mean, except where the lower tail is `heavy`.
    """
    y = np.asarray(getattr(site, "y"), dtype=np.float64)  # noqa: B009
    sd = np.sqrt(site.conditional_variance(s))
    mean = site.conditional_mean(s)
    start = np.maximum(np.floor(mean - _REACH * sd - _REACH), 0.0)
    if heavy is not None:
        start = np.where(heavy, 0.0, start)
    end = y if trials is None else np.minimum(y, trials)
    total = np.zeros(len(y))
    pending = np.flatnonzero(start <= end)
    while len(pending):
        low, left = start[pending], end[pending] - start[pending] + 1.0
        longest = np.minimum(np.maximum(_PART * sd[pending], 1.0), low)
        if trials is not None:
            longest = np.minimum(longest, trials[pending] - low)
        size = np.minimum(np.maximum(longest, float(POINTS)), left)
        length = np.exp2(np.floor(np.log2(size)))
        for one in np.unique(length):
            rows = pending[length == one]
            points, weights = points_of(int(one))
            counts = start[rows, None] + points
            many = site.take(np.repeat(rows, len(points)))
            changed: dict[str, Any] = {"y": counts.ravel()}
            many = dataclasses.replace(many, **changed)
            mass = np.exp(many.log_density(np.repeat(s[rows], len(points))))
            total[rows] += mass.reshape(counts.shape) @ weights
        start[pending] += length
        pending = pending[start[pending] <= end[pending]]
    return np.clip(total, 0.0, 1.0)
