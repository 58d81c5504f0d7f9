"""ar1(rho): the stationary autoregression of order 1, K_ij = sd^2 rho^|i - j|."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla

from lgmdsl.arrays import Array, Matrix
from lgmdsl.contract.structure import Extension, Structure
from lgmdsl.structures.ordered.chain import Chain
from lgmdsl.structures.ordered.extensions import whole_steps
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.vocabulary.lookup import declared


@dataclass(frozen=True, eq=False)
class Ar1(Chain):
    """sd is the stationary marginal; |rho| < 1."""

    order_: int
    rho: Array
    signature = declared("structure", "ar1")

    @property
    def size(self) -> int:
        return self.order_

    @property
    def correlations(self) -> Array:
        return np.full(self.order_ - 1, float(self.rho))

    @property
    def innovations(self) -> Array:
        r = float(self.rho)
        return np.full(self.order_ - 1, (1.0 - r) * (1.0 + r))

    def correlation(self, gap: float) -> tuple[float, float]:
        size, sign = abs(float(self.rho)), -1.0 if float(self.rho) < 0.0 and gap % 2.0 else 1.0
        if size == 0.0:
            return (1.0, 0.0) if gap == 0.0 else (0.0, 1.0)
        depth = gap * np.log(size)
        return sign * float(np.exp(depth)), -float(np.expm1(2.0 * depth))

    def extension(self, places: Array, new: Array) -> Extension:
        """A chain in whole steps."""
        whole_steps(self.name, places, new)
        return super().extension(places, new)

    def _powers(self) -> Array:
        return np.asarray(float(self.rho) ** np.arange(self.order_))

    def covariance(self) -> Array:
        return np.asarray(sla.toeplitz(float(self.sd) ** 2 * self._powers()))

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        """dK/drho = sd^2 k rho^(k - 1) at lag k."""
        lags = np.arange(1, self.order_)
        slope = lags * self._powers()[:-1] * float(self.sd) ** 2
        turn = sla.toeplitz(np.concatenate([np.zeros(1), slope]))
        by_sd = np.sum(adjoint * self.covariance()) * 2.0 / self.sd
        return {"sd": np.asarray(by_sd), "rho": np.asarray(np.sum(adjoint * turn))}

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        slope = self._link_slopes(adjoint).sum()
        return {"sd": self._sd_by_precision(adjoint), "rho": np.asarray(slope)}


def ar1(size: int, sd: object, rho: object) -> Structure:
    """Raises Refused (E303) unless |rho| < 1."""
    value = np.asarray(rho, dtype=np.float64)
    if not abs(float(value)) < 1.0:
        raise Refused(
            "E303",
            f"`rho` of `ar1` is {float(value):g}",
            "rho",
            label="wanted -1 < rho < 1",
            help="a walk that does not return to its mean is rw1(sd = {sd})",
        )
    return Ar1(np.asarray(sd, dtype=np.float64), size, value)
