"""Penalised-complexity priors of standard deviations and ranges.

pc_sd: exponential with rate -log(alpha) / u (Simpson et al. 2017, section 3.3).
pc_range: 1/range is exponential with rate -log(alpha) u (Fuglstad et al. 2019, theorem 2.6 at
dimension 2, Matern smoothness 1: spde with alpha = 2 in the plane).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.priors.positive import OnHalfLine
from lgmdsl.priors.prior import Terms
from lgmdsl.vocabulary.lookup import declared


@dataclass(frozen=True, eq=False)
class PcSd(OnHalfLine):
    """P(sd > u) = alpha."""

    u: Array
    alpha: Array
    signature = declared("prior", "pc_sd")

    @property
    def rate(self) -> Array:
        return np.asarray(-np.log(self.alpha) / self.u)

    def terms(self, value: Array) -> Terms:
        rate = self.rate
        up = 1.0 / rate - value
        slopes = {"u": -up * rate / self.u, "alpha": -up / (self.alpha * self.u)}
        return Terms(np.log(rate) - rate * value, -rate, slopes)

    def quantile(self, p: Array) -> Array:
        return np.asarray(-np.log1p(-p) / self.rate)


@dataclass(frozen=True, eq=False)
class PcRange(OnHalfLine):
    """P(range < u) = alpha."""

    u: Array
    alpha: Array
    signature = declared("prior", "pc_range")

    @property
    def rate(self) -> Array:
        return np.asarray(-np.log(self.alpha) * self.u)

    def terms(self, value: Array) -> Terms:
        rate = self.rate
        up = 1.0 / rate - 1.0 / value
        log = np.log(rate) - 2.0 * np.log(value) - rate / value
        slopes = {"u": up * rate / self.u, "alpha": -up * self.u / self.alpha}
        slope = (rate / value - 2.0) / value
        return Terms(np.where(value > 0.0, log, -np.inf), slope, slopes)

    def quantile(self, p: Array) -> Array:
        return np.asarray(-self.rate / np.log(p))
