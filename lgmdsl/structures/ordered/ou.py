"""ou(rate, at): Ornstein and Uhlenbeck's process, K_ij = sd^2 exp(-rate |at_i - at_j|)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lgmdsl.arrays import Array, IntArray, Matrix
from lgmdsl.contract.structure import Structure
from lgmdsl.structures.ordered.chain import Chain
from lgmdsl.structures.ordered.walks import sorted_gaps
from lgmdsl.structures.shared.by_member import by_member
from lgmdsl.structures.shared.content import Content
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.vocabulary.lookup import declared


@dataclass(frozen=True, eq=False)
class OrnsteinUhlenbeck(Chain):
    """sd is the stationary marginal, rate > 0 one over the unit of `at`."""

    at: Array
    gaps: Array
    along: IntArray
    rate: Array
    signature = declared("structure", "ou")

    @property
    def size(self) -> int:
        return len(self.at)

    @property
    def order(self) -> IntArray | None:
        return self.along

    @property
    def correlations(self) -> Array:
        return np.exp(-float(self.rate) * self.gaps)

    @property
    def innovations(self) -> Array:
        return -np.expm1(-2.0 * float(self.rate) * self.gaps)

    @property
    def line(self) -> Array:
        return self.at

    def correlation(self, gap: Array) -> tuple[Array, Array]:
        depth = float(self.rate) * gap
        return np.exp(-depth), -np.expm1(-2.0 * depth)

    def correlation_slopes(self, gap: Array) -> dict[str, Array]:
        return {"rate": -gap * np.exp(-float(self.rate) * gap)}

    def _apart(self) -> Array:
        return np.abs(np.subtract.outer(self.at, self.at))

    def covariance(self) -> Array:
        return np.asarray(float(self.sd) ** 2 * np.exp(-float(self.rate) * self._apart()))

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        """dK/drate = -|t_i - t_j| K."""
        weighed = adjoint * self.covariance()
        return {
            "sd": np.asarray(2.0 * weighed.sum() / self.sd),
            "rate": np.asarray(-np.sum(weighed * self._apart())),
        }

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        slope = self._link_slopes(adjoint) @ (-self.gaps * self.correlations)
        return {"sd": self._sd_by_precision(adjoint), "rate": np.asarray(slope)}


def ou(size: int, sd: object, rate: object, at: Array | None = None) -> Structure:
    """`at` (n,), in any order; 0, 1, 2 ... by default; `sd` a number, or (n,). Raises Refused
    (E303) for repeated positions or a rate <= 0."""
    value = np.asarray(rate, dtype=np.float64)
    if not float(value) > 0.0:
        raise Refused(
            "E303",
            f"`rate` of `ou` is {float(value):g}",
            "rate",
            label="wanted rate > 0",
            help="a walk that does not return to its mean is rw1(sd = {sd})"
            if at is None
            else "a walk that does not return to its mean is rw1(sd = {sd}, at = {at})",
        )
    times = np.asarray(np.arange(size) if at is None else at, dtype=np.float64)
    along, gaps = _sorted(Content(times))
    return by_member(sd, lambda one: OrnsteinUhlenbeck(one, times, gaps, along, value))


@lru_cache(maxsize=8)
def _sorted(times: Content) -> tuple[IntArray, Array]:
    assert isinstance(times.value, np.ndarray)
    return sorted_gaps(times.value, "ou")
