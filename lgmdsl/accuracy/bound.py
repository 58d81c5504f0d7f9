"""Upper bounds of the second-order terms of all functionals at once, without draws.

V = (Q + B'WB)^-1 with W >= 0, so that C = BVB' <= W^-1, and by Schur's product theorem C o C <=
diag(v / w), C o C o C <= diag(v^2 / w). With c = Cov_q(s, a'z), b_i = k_i^2 v_i / w_i^2 and f_i the
fourth derivatives:

    Var(a'z) - a'Va        <= sum_i (1/2 k_i^2 v_i + 1/6 f_i^2 v_i^2) / w_i c_i^2
    |third cumulant of a'z| <= sqrt(a'Va) sum_i |k_i| sqrt(v_i) c_i^2

Both are sum_i w_i c_i^2 u_i with u_i of row i alone, and sum_i w_i c_i^2 = c'Wc <= a'Va: the
largest u_i bounds the errors of every functional, for the cost of reading k, v and w. For single
functionals sum_i w_i u_i c_i^2 is -d/dt of their variance at the weights W + t diag(w u): one
conditioning more serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lgmdsl.accuracy.derivatives import Derivatives
from lgmdsl.accuracy.limits import BENT, NORMAL
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.linear import Predictor

STEP = 1e-3  # of the weights, relative, of the second conditioning

Conditions = Callable[[Rows, Rows], "Conditioned | Failed"]


@dataclass(frozen=True, eq=False)
class RowBounds:
    """`sd` and `quantile`: what no functional's errors exceed, relative and in sds; `times`: (N,)
    of each site block, the same of its rows alone, in quantiles; `gap`: of the evidence, in nats.
    """

    sd: float
    quantile: float
    gap: float
    times: Rows

    def errors(self, functional: Predictor | None) -> tuple[float, float]:
        """Of sds and quantiles, of any functional."""
        return self.sd, self.quantile

    def closer(self, q: Conditioned, condition: Conditions) -> CloseBounds | None:
        """Bounds of each functional by another conditioning; None where it fails."""
        top = max((float(t.max(initial=0.0)) for t in self.times), default=0.0)
        step = STEP / max(top, 1e-300)
        weight = tuple(w * (1.0 + step * t) for w, t in zip(q.weight, self.times, strict=True))
        other = condition(weight, q.shift)
        return None if isinstance(other, Failed) else CloseBounds(self, q, other, step)


@dataclass(frozen=True, eq=False)
class CloseBounds:
    """The bounds of every functional of q, whose variances are smaller in `other`."""

    rows: RowBounds
    q: Conditioned
    other: Conditioned
    step: float

    @cached_property
    def quantile(self) -> float:
        """The largest of a latent or a predictor of a site."""
        pairs = [(self.q.latent_variance, self.other.latent_variance)]
        pairs += list(zip(self.q.variance, self.other.variance, strict=True))
        return max(float(self._of(v, less).max(initial=0.0)) for v, less in pairs)

    def _of(self, variance: Array, less: Array) -> Array:
        lost = (variance - less) / np.maximum(variance, 1e-300) / self.step
        # Convex in t: the difference is this much below the slope, at most.
        return np.asarray(np.clip(lost * (1.0 + STEP), 0.0, self.rows.quantile))

    def errors(self, functional: Predictor | None) -> tuple[Array, Array]:
        """Of sds and quantiles, (m,) each, of every latent or of the rows of a functional."""
        if functional is None:
            quantile = self._of(self.q.latent_variance, self.other.latent_variance)
        else:
            parts = (self.q.project(functional)[1], self.other.project(functional)[1])
            quantile = self._of(*parts)
        return np.minimum(quantile / NORMAL, self.rows.sd), quantile


def row_bounds(q: Conditioned, derivatives: Derivatives) -> RowBounds | None:
    """None where a site is a vector one, or of negative weight, or of none and not Gaussian."""
    times, gap, sd = [], 0.0, 0.0
    parts = zip(derivatives.third, derivatives.fourth, q.weight, q.variance, strict=True)
    for k, f, w, v in parts:
        if k.ndim > 1 or (w < 0.0).any():
            return None
        curved = (k != 0.0) | (f != 0.0)
        if (w[curved] <= 0.0).any():
            return None
        own = np.where(curved, w, 1.0)
        excess = (0.5 * k**2 * v + f**2 * v**2 / 6.0) / own**2
        gap += float(np.sum((k**2 * v**2 / 12.0 + f**2 * v**3 / 48.0) / own))
        times.append(0.5 * NORMAL * excess + BENT * np.abs(k) * np.sqrt(v) / own)
        sd = max(sd, 0.5 * float(excess.max(initial=0.0)))
    top = max((float(t.max(initial=0.0)) for t in times), default=0.0)
    return RowBounds(sd, top, gap, tuple(times)) if np.isfinite(top + gap) else None
