"""The bounds `product-of-sigmoids` of softmax sites, a bound of logistic sites inside."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.bounds.logistic import Jaakkola, LogisticExpected, LogisticForm, SoftplusBound
from lgmdsl.bounds.softmax import LogSumExpBound
from lgmdsl.contract.bound import BoundSpec
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.numerics.stable import sigmoids, softplus
from lgmdsl.vocabulary.notes import Notes

_STEPS = 100
_CLOSE = 1e-14
NAME = "product-of-sigmoids"


@dataclass(frozen=True)
class ProductOfSigmoids(LogSumExpBound):
    """U = min over alpha of alpha + sum_k u(m_k - alpha, V_kk), u >= E[log(1 + e^x)].

    sum_k e^{s_k} <= e^alpha prod_k (1 + e^{s_k - alpha}) (Bouchard 2007; Khan 2012, section 5.3),
    and u is the bound `inside`, one of a logistic site. It ignores the covariances of classes.
    """

    inside: SoftplusBound = field(default_factory=Jaakkola)

    @property
    def spec(self) -> BoundSpec:
        inner = self.inside.spec.name
        return BoundSpec(
            NAME if isinstance(self.inside, Jaakkola) else f"{NAME}-{inner}",
            asks=Site,
            gives=Expected,
            guarantee=Guarantee.LOWER,
            error=math.inf,
            paper="Bouchard 2007",
            summary=f"a product of sigmoids, each through {inner}",
            notes=Notes(
                formula="E[log sum exp s] <= min over alpha of alpha + sum_k u(m_k - alpha, "
                "V_kk), u a bound of E[log(1 + e^x)]",
                support="softmax sites: categorical, multinomial, admixture",
                advice="of topic models the loosest of these bounds; tilted is tighter",
                example="lgm fit classes.lgm classes.npz --method natural-gradient --bound "
                "product-of-sigmoids",
                see_also=("tilted", "jaakkola", "piecewise-quadratic-R"),
            ),
        )

    def upper(self, mean: Array, variance: Array, offered: BoolArray) -> ExpectedAnswer:
        v = np.einsum("nii->ni", variance)
        alone = offered.sum(axis=1) == 1
        alpha = self._best(mean, v, offered, ~alone)
        u = self._terms(mean - alpha[:, None], v)
        one = offered.astype(np.float64)
        # Of a single class the sum is s itself.
        weight = np.where(alone[:, None], 0.0, one)
        slope = np.where(alone[:, None], one, weight * u.d_mean)
        bend = weight * u.curvature
        total = np.where(alone, 1.0, bend.sum(axis=1))
        diagonal = np.eye(mean.shape[1])
        across = bend[:, :, None] * bend[:, None, :] / np.maximum(total, 1e-300)[:, None, None]
        return ExpectedAnswer(
            value=np.where(alone, (one * mean).sum(axis=1), alpha + (weight * u.value).sum(axis=1)),
            d_mean=slope,
            d_variance=(weight * u.d_variance)[:, :, None] * diagonal,
            d_mean2=bend[:, :, None] * diagonal - across,
        )

    def _terms(self, mean: Array, v: Array) -> ExpectedAnswer:
        """u and its derivatives, (N, K). What has no variance, as a reference, needs no bound: the
        pieces would leave it their kinks."""
        flat = mean.ravel()
        none, one = np.zeros_like(flat), np.ones_like(flat)
        answer = LogisticExpected(LogisticForm(none, none, one, one), self.inside)
        f = answer.expected(flat, v.ravel())
        up, down, _ = sigmoids(mean)
        fixed, bend = v == 0.0, up * down
        known = (softplus(mean), up, 0.5 * bend, bend)
        parts = (f.value, f.d_mean, f.d_variance, f.curvature)
        value, slope, spread, curve = (
            np.where(fixed, k, -p.reshape(mean.shape)) for k, p in zip(known, parts, strict=True)
        )
        return ExpectedAnswer(value, slope, spread, d_mean2=curve)

    def _best(self, mean: Array, v: Array, offered: BoolArray, wanted: BoolArray) -> Array:
        """alpha where sum_k u_m = 1: Newton's method, halving a bracket where it leaves that."""
        one = offered.astype(np.float64)
        widest = np.sqrt(np.max(one * v, axis=1)) + one.sum(axis=1)
        low = np.where(offered, mean, np.inf).min(axis=1) - widest
        high = np.where(offered, mean, -np.inf).max(axis=1) + widest
        active = np.flatnonzero(wanted)
        alpha = np.where(wanted, 0.5 * (low + high), 0.0)
        for side, edge in ((1.0, low), (-1.0, high)):
            reach, pending = np.array(widest), active
            for _ in range(60):
                gap = self._excess(mean, v, one, pending, edge[pending])[0]
                pending = pending[side * gap < 0.0]
                if not len(pending):
                    break
                reach[pending] *= 2.0
                edge[pending] -= side * reach[pending]
        for _ in range(_STEPS):
            excess, slope = self._excess(mean, v, one, active, alpha[active])
            far = np.abs(excess) > _CLOSE
            active, excess, slope = active[far], excess[far], slope[far]
            if not len(active):
                break
            low[active] = np.where(excess > 0.0, alpha[active], low[active])
            high[active] = np.where(excess <= 0.0, alpha[active], high[active])
            newton = alpha[active] + excess / np.maximum(slope, 1e-300)
            inside = (newton >= low[active]) & (newton <= high[active])
            alpha[active] = np.where(inside, newton, 0.5 * (low[active] + high[active]))
        return alpha

    def _excess(
        self, mean: Array, v: Array, one: Array, rows: IntArray, alpha: Array
    ) -> tuple[Array, Array]:
        """sum_k u_m - 1, which falls with alpha, and how fast."""
        u = self._terms(mean[rows] - alpha[:, None], v[rows])
        return (one[rows] * u.d_mean).sum(axis=1) - 1.0, (one[rows] * u.curvature).sum(axis=1)
