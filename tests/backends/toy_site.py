"""A third party's family: y ~ geometric(logit = s), failures before a success of P = sigma(s)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.vocabulary.signature import Parameter, Signature

if TYPE_CHECKING:
    from numpy.random import Generator

SIGNATURE = Signature(
    "geometric",
    "family",
    (Parameter("logit", "latent"),),
    observed=("count",),
    summary="failures before the first success",
)


@dataclass(frozen=True, eq=False)
class GeometricLogit(Site, Pointwise):
    """l(s) = s - (1 + y) log(1 + e^s)."""

    y: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "geometric.logit",
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        observed=("count",),
        link="logit",
        signature=SIGNATURE,
    )

    def log_density(self, s: Array) -> Array:
        return np.asarray(s - (1.0 + self.y) * np.logaddexp(0.0, s))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        p, q, n = special.expit(s), special.expit(-s), 1.0 + self.y
        third = -n * p * q * (q - p)
        return PointwiseAnswer(self.log_density(s), 1.0 - n * p, -n * p * q, third * variance)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def conditional_mean(self, s: Array) -> Array:
        return np.exp(-s)

    def conditional_variance(self, s: Array) -> Array:
        return np.exp(-s) + np.exp(-2.0 * s)

    def sample(self, s: Array, rng: Generator) -> Array:
        return np.asarray(rng.geometric(special.expit(s)) - 1.0)
