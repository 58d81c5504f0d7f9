"""The coordinate of a share whose tail near 1 (as of pc_mix) ends far beyond the last double.

    mix = sigma(L),   L = 2 sinh(x)

log(1 - mix) is about -L there and the prior's density in L falls like exp(-c sqrt(L)) alone, so
that half a posterior may lie beyond mix = 1 - 1e-5, where a logit would have to be followed for
hundreds of units. In x it falls like exp(-c e^(x/2)). Values are rounded to the last double before
1; what the prior says of L is not (`InLogits.in_logits`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.learning.coordinates.transforms import Slopes, Transform
from lgmdsl.numerics.stable import sigmoids
from lgmdsl.priors.prior import InLogits

# sinh of more than this is nothing that a share can tell from 1.
FARTHEST = 20.0
BELOW_ONE = np.nextafter(1.0, 0.0)


@dataclass(frozen=True, eq=False)
class MapShare(Transform):
    """mix = sigma(2 sinh(x)) under `prior`."""

    bounded: ClassVar[bool] = True
    elementwise: ClassVar[bool] = True
    prior: InLogits

    def value(self, x: Array) -> Array:
        return np.clip(sigmoids(self._logit(x)[0])[0], np.finfo(float).tiny, BELOW_ONE)

    def coordinates(self, value: Array) -> Array:
        with np.errstate(divide="ignore"):
            logit = np.log(value) - np.log1p(-np.asarray(value, dtype=np.float64))
        return np.asarray(np.arcsinh(0.5 * logit)).reshape(-1)

    def pull(self, adjoint: Array, x: Array) -> Slopes:
        return Slopes(np.asarray(adjoint * self._steep(x)).reshape(-1))

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        """log of the prior's density in x less that of the rounded value: with the latter, which
        the hyperparameters' prior adds, the density in x is exact however near 1 the value is."""
        logit, stretch = self._logit(x)
        exact = self.prior.in_logits(logit)
        rounded = self.prior.terms(self.value(x))
        total = exact.log_density + np.log(stretch) - rounded.log_density
        slope = exact.slope * stretch + np.tanh(self._shaped(x)) - rounded.slope * self._steep(x)
        return float(total.sum()), Slopes(slope.reshape(-1))

    def _logit(self, x: Array) -> tuple[Array, Array]:
        """L and dL/dx."""
        x = np.clip(self._shaped(x), -FARTHEST, FARTHEST)
        return 2.0 * np.sinh(x), 2.0 * np.cosh(x)

    def _steep(self, x: Array) -> Array:
        """dmix/dx."""
        logit, stretch = self._logit(x)
        up, down, _ = sigmoids(logit)
        return np.asarray(up * down * stretch)
