"""The bound `log`: Jensen's inequality on the outer logarithm."""

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
class LogBound(LogSumExpBound):
    """U = log sum_k exp(m_k + V_kk / 2) (Blei and Lafferty 2006; Khan 2012, section 5.3).

    It ignores the covariances of classes, and its weight -2 f_V is diagonal.
    """

    spec: ClassVar[BoundSpec] = BoundSpec(
        "log",
        asks=Site,
        gives=Expected,
        guarantee=Guarantee.LOWER,
        error=math.inf,
        paper="Blei and Lafferty 2006",
        summary="log of the expected sum of exponentials",
        notes=Notes(
            formula="E[log sum exp s] <= log sum_k exp(m_k + V_kk / 2)",
            support="softmax sites: categorical, multinomial, admixture",
            advice="the bound of the first correlated topic models; tilted is tighter",
            example="lgm fit classes.lgm classes.npz --method natural-gradient --bound log --tol "
            "1e-5",
            see_also=("tilted", "bohning", "quadrature"),
        ),
    )

    def upper(self, mean: Array, variance: Array, offered: BoolArray) -> ExpectedAnswer:
        raised = mean + 0.5 * np.einsum("nii->ni", variance)
        softmax = shares(raised, offered)
        return ExpectedAnswer(
            value=log_sum_exp(raised, offered),
            d_mean=softmax.p,
            d_variance=0.5 * softmax.p[:, :, None] * np.eye(mean.shape[1]),
            d_mean2=covariances(softmax),
        )
