"""categorical.stick: P(y = k | s) = sigma(s_k) prod_{j < k} sigma(-s_j), one s_j for each cut.

The last class is the product alone. A vector site as the model writes it; the compiler makes one
bernoulli.logit site of each cut that y has reached, so back ends never see this family.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import Tilted, TiltedAnswer
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.numerics.stable import softplus

if TYPE_CHECKING:
    from numpy.random import Generator

# Scrambled Sobol' points for averages over s; their errors are about 1e-4, and the same points for
# every class keep the sum over classes at 1.
POINTS = 4096
_CHUNK = 1 << 22


@dataclass(frozen=True, eq=False)
class CategoricalStick(Site, Tilted):
    """The classes in order, each taken with a logistic probability once the earlier ones are not.
    s is (N, L) for L + 1 classes."""

    y: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "categorical.stick", properties=Property.LOG_CONCAVE | Property.BOUNDED,
        observed=("index",), vector=True, link="logit",
        summary="classes, P(y = k | y >= k) = 1 / (1 + exp(-s[k]))",
    )  # fmt: skip

    def cuts(self, size: int) -> tuple[BoolArray, BoolArray]:
        """Which of L cuts a class has reached, and whether it was taken there: (N, L) both."""
        code, cut = self.y[:, None], np.arange(size)
        return cut <= code, cut == code

    def log_density(self, s: Array) -> Array:
        """l, (..., N) for s (..., N, L): minus infinity for a class after the L + 1 there are."""
        reached, taken = self.cuts(s.shape[-1])
        cost = softplus(np.where(taken, -s, s))
        value = -np.where(reached, cost, 0.0).sum(axis=-1)
        return np.where(self.y > s.shape[-1], -np.inf, value)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def sample(self, s: Array, rng: Generator) -> Array:
        taken = rng.random(s.shape) < special.expit(s)
        last = np.ones((*s.shape[:-1], 1), dtype=np.bool_)
        both = np.concatenate([taken, last], axis=-1)
        return np.asarray(np.argmax(both, axis=-1), dtype=np.float64)

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        """Mass, mean (N, L) and covariance (N, L, L) of N(mean, variance) t^power, by `POINTS`
        quasi-random points: relative errors of about 1e-4."""
        n, size = mean.shape
        mass, centre, spread = np.empty(n), np.empty((n, size)), np.empty((n, size, size))
        values, vectors = np.linalg.eigh(variance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        points = _normal_points(size)
        step = max(1, _CHUNK // (POINTS * size))
        for start in range(0, n, step):
            at = np.arange(start, min(start + step, n))
            away = np.einsum("nij,pj->pni", root[at], points)
            log = power * self.take(at).log_density(mean[at] + away)
            top = log.max(axis=0)
            share = np.exp(log - top)
            total = share.sum(axis=0)
            mass[at] = top + np.log(total / POINTS)
            share /= total
            moved = np.einsum("pn,pni->ni", share, away)
            centre[at] = mean[at] + moved
            spread[at] = np.einsum("pn,pni,pnj->nij", share, away - moved, away - moved)
        return TiltedAnswer(mass, centre, spread)


@cache
def _normal_points(size: int) -> Array:
    """(POINTS, size) quasi-random standard normal points, the same at every call."""
    from scipy.stats import qmc  # slow to import

    net = qmc.Sobol(size, scramble=True, rng=0).random(POINTS)
    points = special.ndtri(np.clip(net, 1e-12, 1.0 - 1e-12))
    return np.asarray(points - points.mean(axis=0))
