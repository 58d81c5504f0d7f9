"""The bound `tilted`: Jensen's inequality after the best exponential tilt. (It gives Expected;
what gives the question Tilted is in `quadrature.py`.)"""

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
from lgmdsl.numerics.stable import Shares, covariances, shares
from lgmdsl.vocabulary.notes import Notes

_STEPS, _CUTS = 60, 40
_CLOSE = 1e-13
COMPILED_FROM = 50  # rows from which compiled loops repay the loading of numba


@dataclass(frozen=True)
class TiltedBound(LogSumExpBound):
    """U = min over a of a'm + log sum_k exp{(e_k - a)'m + (e_k - a)'V(e_k - a) / 2}.

    Knowles and Minka 2011, section 6, with the whole V: their diagonal form (Khan 2012, section
    5.3) is no bound where predictors are correlated. The minimum is at
    a = softmax(m + diag V / 2 - V a), where dU/dm = a and dU/dV = (diag a - aa') / 2; Newton's
    method, as U is convex in a.
    """

    spec: ClassVar[BoundSpec] = BoundSpec(
        "tilted",
        asks=Site,
        gives=Expected,
        guarantee=Guarantee.LOWER,
        error=math.inf,
        paper="Knowles and Minka 2011",
        summary="log of the expected sum after the best tilt",
        notes=Notes(
            formula="E[log sum exp s] <= min over a of a'm + log sum_k exp((e_k - a)'m + (e_k - "
            "a)'V(e_k - a) / 2)",
            support="softmax sites: categorical, multinomial, admixture",
            advice="the tightest of the cheap bounds, with covariances between classes",
            example="lgm fit classes.lgm classes.npz --method natural-gradient --bound tilted",
            see_also=("log", "bohning", "product-of-sigmoids", "quadrature"),
        ),
    )

    def upper(self, mean: Array, variance: Array, offered: BoolArray) -> ExpectedAnswer:
        raised = mean + 0.5 * np.einsum("nii->ni", variance)
        if len(raised) >= COMPILED_FROM:
            return _compiled(raised, variance, offered)
        a = _best(raised, variance, offered)
        value, softmax = _tilted(raised, variance, offered, a)
        bend, size = covariances(softmax), mean.shape[1]
        curvature = np.linalg.solve(np.eye(size) + bend @ variance, bend)
        return ExpectedAnswer(
            value=value,
            d_mean=softmax.p,
            d_variance=0.5 * bend,
            d_mean2=0.5 * (curvature + curvature.transpose(0, 2, 1)),
        )


def _compiled(raised: Array, variance: Array, offered: BoolArray) -> ExpectedAnswer:
    """The bound and its derivatives by compiled code; `raised`: m + diag V / 2."""
    from lgmdsl.numerics.expectations.tilt_kernels import tilts

    value, share = np.empty(len(raised)), np.empty(raised.shape)
    bend, curvature = np.empty(variance.shape), np.empty(variance.shape)
    variance = np.ascontiguousarray(variance)
    out = (value, share, bend, curvature)
    tilts(raised, variance, offered, (_STEPS, _CUTS, _CLOSE), out)
    return ExpectedAnswer(
        value=value,
        d_mean=share,
        d_variance=0.5 * bend,
        d_mean2=0.5 * (curvature + curvature.transpose(0, 2, 1)),
    )


def _tilted(raised: Array, variance: Array, offered: BoolArray, a: Array) -> tuple[Array, Shares]:
    """The bound at a, (N,), and the shares of its terms: a'Va / 2 leaves the logarithm."""
    pulled = np.einsum("nij,nj->ni", variance, a)
    level = raised - pulled
    half = 0.5 * np.einsum("ni,ni->n", a, pulled)
    return log_sum_exp(level, offered) + half, shares(level, offered)


def _best(raised: Array, variance: Array, offered: BoolArray) -> Array:
    """The minimising a, (N, K), by Newton's method with halved steps."""
    a = shares(raised, offered).p
    value, softmax = _tilted(raised, variance, offered, a)
    active = np.arange(len(a))
    identity = np.eye(a.shape[1])
    for _ in range(_STEPS):
        gap = softmax.p - a[active]
        moving = np.abs(gap).max(axis=1, initial=0.0) > _CLOSE
        if not moving.any():
            break
        active, gap, value = active[moving], gap[moving], value[moving]
        bend = covariances(Shares(softmax.p[moving], softmax.rest[moving], softmax.log_p[moving]))
        v, top, on = variance[active], raised[active], offered[active]
        step = np.linalg.solve(identity + bend @ v, gap[:, :, None])[:, :, 0]
        fall = np.einsum("ni,nij,nj->n", gap, v, step)
        t = np.ones(len(active))
        for _ in range(_CUTS):
            tried, shared = _tilted(top, v, on, a[active] + t[:, None] * step)
            high = tried > value - 1e-4 * t * fall + 1e-14 * (1.0 + np.abs(value))
            if not high.any():
                break
            t = np.where(high, 0.5 * t, t)
        a[active] += t[:, None] * step
        value, softmax = tried, shared
    return a
