"""The bound `jaakkola`: a quadratic through +-xi with xi = sqrt(m^2 + v), the best there is."""

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
from lgmdsl.sites.scalar.logistic import even_slopes
from lgmdsl.vocabulary.notes import Notes


@dataclass(frozen=True)
class Jaakkola(SoftplusBound):
    """U = m/2 + log 2cosh(xi/2), xi^2 = m^2 + v (Jaakkola and Jordan 2000; Khan 2012,
    section 4.1.2).

    It is the super-Gaussian bound of the double loop. -2 f_v = tanh(xi/2) / (2 xi) is the
    curvature of the quadratic, and not d2f/dm2, as xi moves with m.
    """

    spec: ClassVar[BoundSpec] = BoundSpec(
        "jaakkola",
        asks=Site,
        gives=Expected,
        guarantee=Guarantee.LOWER,
        error=math.inf,
        paper="Jaakkola and Jordan 2000",
        summary="tangent quadratic of the logistic, best xi",
        notes=Notes(
            formula="E[log(1 + e^s)] <= m/2 + log(2 cosh(xi/2)), xi^2 = m^2 + v",
            support="logistic sites: bernoulli and binomial with a logit, ordinal logits, sech2 "
            "and logistic potentials",
            advice="tight for small variances; the bound of double-loop; quadrature has no gap "
            "and costs little more",
            example="lgm fit logit.lgm data.npz --method natural-gradient --bound jaakkola",
            see_also=("bohning", "piecewise-quadratic-R", "double-loop", "quadrature"),
        ),
    )

    def upper(self, mean: Array, variance: Array, second: bool) -> ExpectedAnswer:
        square = mean * mean + variance
        xi = np.sqrt(square)
        first, bend, rest = even_slopes(xi)
        # (xi + m)/2 without cancellation, m <= 0; log 2cosh(xi/2) = xi/2 + log(1 + e^-xi).
        half = 0.5 * variance / np.maximum(xi - mean, np.finfo(np.float64).tiny)
        return ExpectedAnswer(
            value=half + rest,
            d_mean=0.5 - 2.0 * mean * first,
            d_variance=-first,
            d_mean_variance=-2.0 * mean * bend if second else None,
            d_variance2=-bend if second else None,
            d_mean2=-2.0 * first - 4.0 * mean * mean * bend,
        )
