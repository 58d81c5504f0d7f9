"""What families of counts of mean exposure e^s share."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
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
