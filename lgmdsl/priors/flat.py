"""flat: density 1 on the natural scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.priors.prior import VALUE, Bounds, Prior, natural_bounds
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True, eq=False)
class Flat(Prior):
    """Log density 0 throughout the type; it can be drawn from where the type is bounded."""

    type: str = "real"
    signature = declared("prior", "flat")
    constant: ClassVar[bool] = True
    normalised: ClassVar[bool] = False

    @property
    def proper(self) -> bool:
        return self.type in ("unit", "correlation", "simplex")

    @property
    def bounds(self) -> Bounds:
        return natural_bounds(self.type)

    def log_density(self, value: Array) -> float:
        return 0.0

    def gradient(self, value: Array) -> dict[str, Array]:
        return {VALUE: np.zeros(np.shape(value))}

    def sample(self, rng: Generator, shape: tuple[int, ...] = ()) -> Array:
        if not self.proper:
            raise TypeError(f"flat on {self.type} is improper")
        if self.type == "simplex":
            rows = rng.standard_exponential(shape)
            return np.asarray(rows / rows.sum(axis=-1, keepdims=True))
        low, high = self.bounds
        return np.asarray(rng.uniform(np.nextafter(low, high), high, shape))

    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        """1 for real and positive, the middle for unit, the identity for a covariance ..."""
        if self.type == "covariance":
            return np.array(np.broadcast_to(np.eye(shape[-1]), shape))
        if self.type == "simplex":
            return np.full(shape, 1.0 / shape[-1])
        if self.type == "ordered":
            return np.array(np.broadcast_to(np.arange(shape[-1]) - 0.5 * (shape[-1] - 1), shape))
        return np.full(shape, {"unit": 0.5, "correlation": 0.5, "real": 0.0}.get(self.type, 1.0))
