"""The bound `bohning`: a quadratic of the largest curvature, 1/4, expanded at the mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.bounds.logistic import SoftplusBound
from lgmdsl.contract.bound import BoundSpec
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.numerics.stable import sigmoids
from lgmdsl.vocabulary.notes import Notes


@dataclass(frozen=True)
class Bohning(SoftplusBound):
    """U = log(1 + e^m) + v/8 (Boehning and Lindsay 1988; Khan 2012, section 4.1.3).

    log(1 + e^x) <= log(1 + e^p) + sigma(p)(x - p) + (x - p)^2 / 8, and p = m is best. The weight
    -2 f_v = n/4 never changes.
    """

    spec: ClassVar[BoundSpec] = BoundSpec(
        "bohning",
        asks=Site,
        gives=Expected,
        guarantee=Guarantee.LOWER,
        error=math.inf,
        paper="Boehning and Lindsay 1988",
        summary="quadratic of fixed curvature 1/4",
        notes=Notes(
            formula="E[log(1 + e^s)] <= log(1 + e^m) + v/8",
            support="logistic sites: bernoulli and binomial with a logit, ordinal logits, sech2 "
            "and logistic potentials",
            advice="its weight is the same at every step; looser than jaakkola where |m| is large",
            example="lgm fit logit.lgm data.npz --method natural-gradient --bound bohning",
            see_also=("jaakkola", "piecewise-quadratic-R", "quadrature"),
        ),
    )

    def upper(self, mean: Array, variance: Array, second: bool) -> ExpectedAnswer:
        up, down, bent = sigmoids(mean)
        zero = np.zeros_like(up) if second else None
        return ExpectedAnswer(
            value=np.maximum(mean, 0.0) + bent + 0.125 * variance,
            d_mean=up,
            d_variance=np.full_like(up, 0.125),
            d_mean_variance=zero,
            d_variance2=zero,
            d_mean2=up * down,
        )
