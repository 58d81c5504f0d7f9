"""The bound `bohning` of softmax sites: a quadratic of fixed curvature, expanded at the mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.bounds.softmax import LogSumExpBound, log_sum_exp
from lgmdsl.contract.bound import BoundSpec
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.numerics.softmax import covariances, shares
from lgmdsl.vocabulary.notes import Notes


@dataclass(frozen=True)
class BohningMultinomial(LogSumExpBound):
    """U = log sum exp m + tr(A V) / 2, A = (I - 11'/K) / 2 over the K classes on offer.

    A is at least diag(p) - pp' for every p (Boehning 1992; Khan 2012, section 5.4). With a
    reference class it is (I - 11'/K) / 2 over the K - 1 free ones. The weight -2 f_V = n A never
    changes.
    """

    spec: ClassVar[BoundSpec] = BoundSpec(
        "bohning",
        asks=Site,
        gives=Expected,
        guarantee=Guarantee.LOWER,
        error=math.inf,
        paper="Boehning 1992",
        summary="quadratic of fixed curvature (I - 11'/K) / 2",
        notes=Notes(
            formula="E[log sum exp s] <= log sum exp m + tr(A V) / 2, A = (I - 11'/K) / 2",
            support="softmax sites: categorical, multinomial, admixture",
            advice="its weight is the same at every step; looser than tilted where variances are "
            "large",
            example="lgm fit classes.lgm classes.npz --method natural-gradient --bound bohning",
            see_also=("tilted", "log", "product-of-sigmoids", "quadrature"),
        ),
    )

    def upper(self, mean: Array, variance: Array, offered: BoolArray) -> ExpectedAnswer:
        on = offered.astype(np.float64)
        size = on.sum(axis=1)[:, None, None]
        curve = 0.5 * (
            on[:, :, None] * np.eye(on.shape[1]) - on[:, :, None] * on[:, None, :] / size
        )
        softmax = shares(mean, offered)
        return ExpectedAnswer(
            value=log_sum_exp(mean, offered) + 0.5 * np.einsum("nij,nij->n", curve, variance),
            d_mean=softmax.p,
            d_variance=0.5 * curve,
            d_mean2=covariances(softmax),
        )
