"""A structure: a moving average of order 1, z_t = e_t + theta e_(t-1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lgmdsl.extend import Array, Parameter, Shape, Signature, Spacing, Structure


@dataclass(frozen=True, eq=False)
class MovingAverage(Structure):
    """K[t, t] = sd^2, K[t, t + 1] = sd^2 theta / (1 + theta^2); `order` members."""

    order: int
    sd: Array
    theta: Array
    signature: ClassVar[Signature] = Signature(
        "ma1",
        "structure",
        (
            Parameter("sd", "positive", over="none", meaning="marginal sd, in the latent's unit"),
            Parameter("theta", "correlation", over="none", meaning="weight of the last shock"),
        ),
        ordered_axis=True,
        spacing=Spacing(numbers="steps"),
        carries_scale=("sd",),
        summary="moving average of order 1: neighbours are correlated, others are not",
        formulas=(("", "z[t] = e[t] + theta e[t-1], scaled to marginal sd `sd`"),),
        support="all numbers",
        scale="sd is the stationary marginal standard deviation",
        example="latent f[t] ~ ma1(sd = 1, theta = 0.5)",
        see_also=("ar1",),
        source="Box and Jenkins 1970, chapter 3",
    )

    @property
    def size(self) -> int:
        return self.order

    @property
    def shape(self) -> Shape:
        return Shape.COVARIANCE

    @property
    def _neighbours(self) -> Array:
        return np.eye(self.order, k=1) + np.eye(self.order, k=-1)

    def covariance(self) -> Array:
        theta = float(self.theta)
        correlation = np.eye(self.order) + theta / (1.0 + theta**2) * self._neighbours
        return np.asarray(float(self.sd) ** 2 * correlation)

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        theta = float(self.theta)
        slope = (1.0 - theta**2) / (1.0 + theta**2) ** 2
        return {
            "sd": np.asarray(2.0 / self.sd * np.sum(adjoint * self.covariance())),
            "theta": np.asarray(self.sd**2 * slope * np.sum(adjoint * self._neighbours)),
        }
