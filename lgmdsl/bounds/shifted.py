"""Bounds of sites that are sums of shifted logistic ones: cumulative logits, continuation ratios.

    l(s) = constant + sum_j c_j log sigma(side_j (s - cut_j)),   c_j 0 or 1

(`sites.ordinal.classes.ShiftedLogistic`). Each term is bounded as a logistic site at
s - cut_j; the constant and the slopes in the cuts are the site's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import Expected, ExpectedAnswer, ExpectedSlopes
from lgmdsl.contract.site import entry_name
from lgmdsl.sites.ordinal.classes import ShiftedLogistic

if TYPE_CHECKING:
    from lgmdsl.bounds.logistic import SoftplusBound


@dataclass(frozen=True, eq=False)
class ShiftedExpected(Expected, ExpectedSlopes):
    """A lower bound of E[l] for the sites."""

    site: ShiftedLogistic
    bound: SoftplusBound

    def terms(self, mean: Array, variance: Array, second: bool = False) -> dict[str, Array]:
        """The bound of each term and its derivatives in s, (N, L), 0 where there is no term."""
        index = np.nonzero(self.site.side)
        side = self.site.side[index]
        away = side * (mean[index[0]] - self.site.cuts[index])
        right = away > 0.0
        u = self.bound.upper(-np.abs(away), variance[index[0]], second)
        # E log sigma(x) >= -U(-x), and U(m) = m + U(-m).
        parts = {
            "value": np.minimum(away, 0.0) - u.value,
            "d_mean": side * np.where(right, u.d_mean, 1.0 - u.d_mean),
            "d_variance": -u.d_variance,
        }
        if u.d_mean2 is not None:
            parts["d_mean2"] = -u.d_mean2
        if u.d_mean_variance is not None and u.d_variance2 is not None:
            parts["d_mean_variance"] = np.where(right, side, -side) * u.d_mean_variance
            parts["d_variance2"] = -u.d_variance2
        return {name: self._spread(index, part) for name, part in parts.items()}

    def _spread(self, index: tuple[IntArray, ...], values: Array) -> Array:
        out = np.zeros_like(self.site.side)
        out[index] = values
        return out

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        sums = {k: part.sum(axis=1) for k, part in self.terms(mean, variance, second).items()}
        value = self.site.constant + sums.pop("value")
        return ExpectedAnswer(value=value, **sums)

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        """A term at s - cut moves with the cut as it does with -s."""
        slopes = self.site.constant_slopes - self.terms(mean, variance)["d_mean"]
        return {entry_name("cuts", j): slopes[:, j] for j in range(self.site.levels)}

    def take(self, rows: IntArray) -> ShiftedExpected:
        """The answer of some rows."""
        return ShiftedExpected(self.site.take(rows), self.bound)
