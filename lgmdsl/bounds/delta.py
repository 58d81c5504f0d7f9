"""The rule `delta` of softmax sites: a Taylor expansion at the mean, which bounds nothing."""

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
class Delta(LogSumExpBound):
    """log sum exp m + tr(H V) / 2, H = diag p - pp' at p = softmax(m): the multivariate delta
    method (Braun and McAuliffe 2010). It can be on either side of the expectation."""

    spec: ClassVar[BoundSpec] = BoundSpec(
        "delta",
        asks=Site,
        gives=Expected,
        guarantee=Guarantee.APPROXIMATE,
        error=math.inf,
        paper="Braun and McAuliffe 2010",
        summary="Taylor expansion at the mean; no bound",
        notes=Notes(
            formula="E[log sum exp s] about log sum exp m + tr(H V) / 2, H = diag p - pp', p = "
            "softmax(m)",
            support="softmax sites: categorical, multinomial, admixture",
            advice="for comparison with published fits: it is no bound, and can be on either side",
            example="lgm fit classes.lgm classes.npz --method natural-gradient --bound delta",
            see_also=("tilted", "log", "quadrature"),
        ),
    )

    def upper(self, mean: Array, variance: Array, offered: BoolArray) -> ExpectedAnswer:
        softmax = shares(mean, offered)
        p, h = softmax.p, covariances(softmax)
        # dp = H dm; third and fourth cumulants contracted with V, as in `sites.vector.softmax`.
        vp, vh = np.einsum("nij,nj->ni", variance, p), variance @ h
        r = np.einsum("nii->ni", variance) - 2.0 * vp
        off = r - (p * r).sum(axis=1, keepdims=True)
        slope = -2.0 * vh - (np.einsum("nij,nj->ni", h, r - 2.0 * vp))[:, None, :]
        fourth = h * off[:, :, None] + p[:, :, None] * slope
        return ExpectedAnswer(
            value=log_sum_exp(mean, offered) + 0.5 * np.einsum("nij,nij->n", h, variance),
            d_mean=p + 0.5 * p * off,
            d_variance=0.5 * h,
            d_mean2=h + 0.5 * fourth,
        )
