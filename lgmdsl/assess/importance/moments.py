"""Corrected means and sds of functionals of z by importance sampling, with q as control variate.

Of y(z), whose mean (0) and variance under q are known, with omega = w / Z and v = q / g at draws of
g, the corrected mean is

    mean(omega y) - beta mean(v y),   E_g[v y] = 0

(Owen, Zhou 2000, Safe and effective importance sampling), beta by regression. Where q is exact
omega = v, beta = 1, and nothing moves, whatever the draws. The same holds of
Z = mean(w) - b (mean(v) - 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.assess.importance.weights import Proposal


@dataclass(frozen=True, eq=False)
class Functional:
    """Something that the model names. `mean` and `sd`, (size,): its moments under q;
    `deviations`: (k, n) moves x of z from E z to (k, size) moves of it from `mean`.
    `judged`: whether the verdict depends on it."""

    name: str
    mean: Array
    sd: Array
    deviations: Callable[[Array], Array]
    judged: bool = True


@dataclass(frozen=True, eq=False)
class Corrected:
    """(size,) each: the corrected mean and sd; what was added to the mean, and its standard error,
    both in corrected sds (0 for what does not vary)."""

    mean: Array
    sd: Array
    shift: Array
    error: Array


class Evidence:
    """log Z and the normalised weights `omega`, from the draws of a proposal."""

    def __init__(self, proposal: Proposal) -> None:
        self.draws = len(proposal.log_weight)
        top = float(proposal.log_weight.max())
        self.possible = bool(np.isfinite(top))
        w = np.exp(proposal.log_weight - top) if self.possible else np.zeros(self.draws)
        self.v = np.exp(proposal.log_own)
        spread = float(self.v.var())
        b = float(np.mean((w - w.mean()) * self.v)) / spread if spread > 0.0 else 0.0
        level = float(w.mean() - b * (self.v.mean() - 1.0))
        if not level > 0.0:  # too few draws for a regression
            b, level = 0.0, float(w.mean())
        self.slope = b / level if self.possible else 0.0
        self.omega = w / level if self.possible else w
        self.log = top + float(np.log(level)) if self.possible else -np.inf

    @cached_property
    def residual(self) -> Array:
        """(n,) what Z is the mean of, relative to Z, without what v explains."""
        return self.omega - self.slope * self.v

    @property
    def error(self) -> float:
        """Standard error of `log`."""
        return float(self.residual.std() / np.sqrt(self.draws))

    @cached_property
    def columns(self) -> Array:
        """(n, 5): what the draws of y and y^2 are summed with."""
        o, v = self.omega, self.v
        return np.column_stack([o, v, o * o, o * v, v * v])


class Moments:
    """Sums over the draws of one functional, chunk by chunk."""

    def __init__(self, functional: Functional) -> None:
        self.functional = functional
        self.first = np.zeros((5, functional.mean.size))
        self.second = np.zeros((5, functional.mean.size))
        self.least = np.full(functional.mean.size, np.inf)
        self.most = -self.least

    @np.errstate(all="ignore")  # a report may be infinite
    def add(self, x: Array, columns: Array) -> None:
        """Draws E z + x, (k, n), and their rows of `Evidence.columns`."""
        y = self.functional.deviations(x)
        self.first += columns.T @ y
        self.second += columns.T @ y**2
        self.least = np.minimum(self.least, y.min(axis=0))
        self.most = np.maximum(self.most, y.max(axis=0))

    @np.errstate(all="ignore")
    def corrected(self, evidence: Evidence) -> Corrected:
        """The estimates, once all draws are in."""
        f, n, b = self.functional, evidence.draws, evidence.slope
        (o, v, oo, ov, vv), (o2, v2, oo2, ov2, vv2) = self.first / n, self.second / n
        # a = omega y - mean(omega y) residual, whose variance is that of the ratio estimate.
        centre = o * evidence.residual.mean()
        level = o - centre
        residual = float(np.mean(evidence.residual**2))
        spread = oo2 - 2.0 * o * (oo - b * ov) + o**2 * residual - level**2
        common = ov2 - o * (ov - b * vv) - level * v
        control = vv2 - v**2
        beta = np.divide(common, control, out=np.zeros_like(control), where=control > 0.0)
        shift, plain = o - beta * v, o / evidence.omega.mean()
        # Not beyond what was drawn: a probability stays one.
        shift = np.where((shift < self.least) | (shift > self.most), plain, shift)
        error = np.sqrt(np.maximum(spread - beta * common, 0.0) / n)
        variance = o2 - beta * (v2 - f.sd**2) - shift**2
        rough = np.maximum(o2 / evidence.omega.mean() - plain**2, 0.0)
        sd = np.sqrt(np.where(variance > 0.0, variance, rough))
        unit = np.where(sd > 0.0, sd, f.sd)
        unit = np.where(f.sd > 0.0, unit, np.inf)
        return Corrected(f.mean + shift, sd, shift / unit, error / unit)
