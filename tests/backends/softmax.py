"""A vector-valued site for tests: y ~ categorical(softmax(s)), s of shape (N, K)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Property, Site, SiteSpec


@dataclass(frozen=True, eq=False)
class Softmax(Site, Pointwise):
    """l(s) = s_y - log sum_k exp s_k."""

    y: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "test.softmax", properties=Property.LOG_CONCAVE, observed=("count",), vector=True
    )

    def log_density(self, s: Array) -> Array:
        chosen = s[np.arange(len(s)), self.y.astype(int)]
        return np.asarray(chosen - special.logsumexp(s, axis=1))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        p = special.softmax(s, axis=1)
        one = np.eye(s.shape[1])[self.y.astype(int)]
        curvature = p[:, :, None] * p[:, None, :] - p[:, :, None] * np.eye(s.shape[1])
        return PointwiseAnswer(self.log_density(s), one - p, curvature, np.full_like(s, np.nan))

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}
