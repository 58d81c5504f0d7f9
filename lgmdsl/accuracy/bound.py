"""Upper bounds of the second-order terms of all functionals at once, without draws.

V = (Q + B'WB)^-1 with W >= 0, so that C = BVB' <= W^-1, and by Schur's product theorem C o C <=
diag(v / w), C o C o C <= diag(v^2 / w). With c = Cov_q(s, a'z), b_i = k_i^2 v_i / w_i^2 and f_i the
fourth derivatives:

    Var(a'z) - a'Va        <= sum_i (1/2 k_i^2 v_i + 1/6 f_i^2 v_i^2) / w_i c_i^2
    |third cumulant of a'z| <= sqrt(a'Va) sum_i |k_i| sqrt(v_i) c_i^2

Both are sum_i w_i c_i^2 u_i with u_i of row i alone, and sum_i w_i c_i^2 = c'Wc <= a'Va: the
largest u_i bounds the errors of every functional, for the cost of reading k, v and w. For single
functionals sum_i w_i u_i c_i^2 is -d/dt of their variance at the weights W + t diag(w u): one
conditioning more serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lgmdsl.accuracy.derivatives import Derivatives
from lgmdsl.accuracy.limits import BENT, NORMAL, QUANTILE
from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.model import some_rows
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.operators.explicit import Dense

STEP = 1e-3  # of the weights, relative, of the second conditioning
# Functionals of high bounds that are looked at one by one; predictors that carry them, each with a
# share of one of their sums.
MANY, CARRY, SHARE = 100, 400, 1e-3

Conditions = Callable[[Rows, Rows], "Conditioned | Failed"]


@dataclass(frozen=True, eq=False)
class RowBounds:
    """`sd` and `quantile`: what no functional's errors exceed, relative and in sds; `times`: (N,)
    of each site block, the same of its rows alone, in quantiles; `gap`: of the evidence, in nats;
    `moved`: of means, in sds.
    """

    sd: float
    quantile: float
    gap: float
    moved: float
    times: Rows

    def errors(self, functional: Predictor | None, variance: Array) -> tuple[Array, Array] | None:
        """Bounds of the errors of sds and quantiles, (m,) each, the same of any functional."""
        return np.full(len(variance), self.sd), np.full(len(variance), self.quantile)

    def closer(
        self,
        linear: LinearGaussian,
        derivatives: Derivatives,
        q: Conditioned,
        condition: Conditions,
    ) -> CloseBounds | None:
        """Bounds of each functional by another conditioning; None where it fails."""
        top = max((float(t.max(initial=0.0)) for t in self.times), default=0.0)
        step = STEP / max(top, 1e-300)
        weight = tuple(w * (1.0 + step * t) for w, t in zip(q.weight, self.times, strict=True))
        other = condition(weight, q.shift)
        if isinstance(other, Failed):
            return None
        return CloseBounds(self, linear, derivatives, q, other, step)


@dataclass(frozen=True, eq=False)
class CloseBounds:
    """The bounds of every functional of q, whose variances are smaller in `other`."""

    rows: RowBounds
    linear: LinearGaussian
    derivatives: Derivatives
    q: Conditioned
    other: Conditioned
    step: float

    def above(self, limit: float) -> int:
        """How many latents, or predictors of sites, have bounds above a limit: the larger."""
        pairs = [(self.q.latent_variance, self.other.latent_variance)]
        pairs += list(zip(self.q.variance, self.other.variance, strict=True))
        return max(int((self._of(v, less) > limit).sum()) for v, less in pairs)

    def _of(self, variance: Array, less: Array) -> Array:
        lost = (variance - less) / np.maximum(variance, 1e-300) / self.step
        # Convex in t: the difference is this much below the slope, at most.
        return np.asarray(np.clip(lost * (1.0 + STEP), 0.0, self.rows.quantile))

    def errors(self, functional: Predictor | None, variance: Array) -> tuple[Array, Array] | None:
        """Bounds of the errors of sds and quantiles, (m,) each, of every latent or of the rows of a
        functional, whose `variance` q gives; the highest from the sums themselves. None where many
        are high."""
        less = self.other.latent_variance
        if functional is not None:
            less = self.other.project(functional)[1]
        quantile = self._of(variance, less)
        sd = np.minimum(quantile / NORMAL, self.rows.sd)
        high = np.flatnonzero(quantile > QUANTILE)
        if len(high):
            rows = rows_of(self.linear, functional, high) if len(high) <= MANY else None
            known = None if rows is None else self._closest(rows, variance[high])
            if known is None:
                return None
            sd[high], quantile[high] = known
        return sd, quantile

    def _closest(self, rows: Predictor, variance: Array) -> tuple[Array, Array] | None:
        """Closer bounds for few functionals: third cumulants, and the sums for variances over the
        predictors that carry them, with a bound of the rest, by the triangle inequality. None where
        many predictors do."""
        stacked, given = StackedPredictors(self.linear), self.derivatives
        k, f = np.concatenate(given.third), np.concatenate(given.fourth)
        w, v = np.concatenate(self.q.weight), np.concatenate(self.q.variance)
        c = stacked.lifted(self.q.solve(_transposed(self.linear, rows)))  # (P, m)
        own = np.where((k != 0.0) | (f != 0.0), w, 1.0)
        squares = c * c
        parts = ((0.5 * k**2 * v + f**2 * v**2 / 6.0) / own)[:, None] * squares
        total = parts.sum(axis=0)
        chosen = np.flatnonzero((parts > SHARE * total).any(axis=1))
        if len(chosen) > CARRY:
            return None
        few = rows_of(self.linear, stacked.predictor(), chosen)
        crossed = few.times(self.q.solve(_transposed(self.linear, few)), self.linear.slices)
        crossed = 0.5 * (crossed + crossed.T)
        third, fourth = k[chosen, None] * c[chosen], f[chosen, None] * c[chosen]
        sums = 0.5 * np.sum(third * (crossed**2 @ third), axis=0)
        sums += np.sum(fourth * (crossed * crossed * crossed @ fourth), axis=0) / 6.0
        rest = np.maximum(total - parts[chosen].sum(axis=0), 0.0)
        excess = np.minimum((np.sqrt(np.maximum(sums, 0.0)) + np.sqrt(rest)) ** 2, total)
        sd = 0.5 * excess / variance
        return sd, NORMAL * sd + BENT * np.abs(k @ (squares * c)) / variance**1.5


def _transposed(linear: LinearGaussian, rows: Predictor) -> Array:
    """(n, m) the coefficients of m functionals."""
    out = np.zeros((linear.size, rows.rows))
    rows.add_transposed(np.eye(rows.rows), linear.slices, out)
    return out


def row_bounds(q: Conditioned, derivatives: Derivatives) -> RowBounds | None:
    """None where a site is a vector one, or of negative weight, or of none and not Gaussian."""
    times, gap, sd, cube = [], 0.0, 0.0, 0.0
    parts = zip(derivatives.third, derivatives.fourth, q.weight, q.variance, strict=True)
    for k, f, w, v in parts:
        if k.ndim > 1 or (w < 0.0).any():
            return None
        curved = (k != 0.0) | (f != 0.0)
        if (w[curved] <= 0.0).any():
            return None
        own = np.where(curved, w, 1.0)
        with np.errstate(over="ignore"):  # where weights are next to nothing
            excess = (0.5 * k**2 * v + f**2 * v**2 / 6.0) / own / own
            gap += float(np.sum((k**2 * v**2 / 12.0 + f**2 * v**3 / 48.0) / own))
            times.append(0.5 * NORMAL * excess + BENT * np.abs(k) * np.sqrt(v) / own)
        sd = max(sd, 0.5 * float(excess.max(initial=0.0)))
        cube = max(cube, float((np.abs(k) * np.sqrt(v) / own).max(initial=0.0)))
    top = max((float(t.max(initial=0.0)) for t in times), default=0.0)
    if not np.isfinite(sd + top + gap):
        return None
    # Slopes of sites, by these bounds of their predictors: g'Cg <= sum_i g_i^2 / w_i.
    square = 0.0
    for k, f, w, v in zip(derivatives.third, derivatives.fourth, q.weight, q.variance, strict=True):
        slope = np.abs(k) * sd * v + np.abs(f) * cube * v**1.5 / 6.0
        square += float(np.sum(slope**2 / np.where(slope > 0.0, w, 1.0)))
    return RowBounds(sd, top, gap, float(np.sqrt(square)), tuple(times))


def rows_of(linear: LinearGaussian, functional: Predictor | None, chosen: IntArray) -> Predictor:
    """Some latents, or some rows of a functional."""
    if functional is not None:
        return some_rows(functional, chosen)
    columns = {}
    for name, where in linear.slices.items():
        here = (chosen >= where.start) & (chosen < where.stop)
        if here.any():
            dense = np.zeros((len(chosen), where.stop - where.start))
            dense[np.flatnonzero(here), chosen[here] - where.start] = 1.0
            columns[name] = Dense(dense)
    return Predictor(columns, np.zeros(len(chosen)))
