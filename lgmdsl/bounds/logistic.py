"""What all bounds of logistic sites share: one form for the sites, one for the bounds.

Every logistic site is, with x = s / width and r(x) = max(x, 0),

    l(s) = constant + y x - n log(1 + e^x),

so an upper bound U(m, v) of E_{N(m,v)}[log(1 + e^x)] is all that a bound has to give. Each here has
U(m, v) = m + U(-m, v), as the softplus has, and is asked at -|m| only, where nothing cancels:

    f(m, v) = constant - y r(-m) - (n - y) r(m) - n U(-|m|, v).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.bound import Bound, BoundSpec
from lgmdsl.contract.questions import Expected, ExpectedAnswer, ExpectedSlopes
from lgmdsl.contract.site import Site, entry_name
from lgmdsl.contract.status import Guarantee
from lgmdsl.numerics.stable import sigmoids
from lgmdsl.sites.ordinal.classes import ShiftedLogistic
from lgmdsl.sites.scalar.logistic import LogisticDensity, LogisticSite, even_slopes
from lgmdsl.vocabulary.notes import Notes

ROWS_PER_PASS = 1 << 13  # rows that are answered together


@dataclass(frozen=True, eq=False)
class LogisticForm:
    """l(s) = constant + y x - n log(1 + e^x), x = s / width; (N,) each.

    The logistic density is the square root's square: y = 1 of n = 2, over its width, which is
    `widening` times the family's parameter `scale`; the others have no continuous parameter.
    """

    constant: Array
    y: Array
    n: Array
    width: Array
    widening: float | None = None

    def take(self, rows: IntArray | slice) -> LogisticForm:
        """The form of some rows."""
        return LogisticForm(
            self.constant[rows], self.y[rows], self.n[rows], self.width[rows], self.widening
        )


def logistic_form(site: Site) -> LogisticForm:
    """The form of a logistic site; TypeError for another (`applies_to` is asked first)."""
    if isinstance(site, LogisticSite):
        return LogisticForm(site.constant, site.y, site.trials, np.ones_like(site.y))
    if isinstance(site, LogisticDensity):
        width = site.width
        one = np.ones_like(width)
        return LogisticForm(-np.log(width), one, 2.0 * one, width, site.widening)
    raise TypeError(f"{site.spec.name} is no logistic site")


class SoftplusBound(Bound):
    """A bound that gives Expected of every logistic site from U(m, v) >= E[log(1 + e^x)].

    `spec.error` is its largest gap for one trial; n trials have n times that.
    """

    @abstractmethod
    def upper(self, mean: Array, variance: Array, second: bool) -> ExpectedAnswer:
        """U and its derivatives at mean <= 0, (N,)."""

    def applies_to(self, site: type[Site]) -> str:
        if issubclass(site, (LogisticSite, LogisticDensity, ShiftedLogistic)):
            return ""
        return f"{site.spec.name} is not logistic: it bounds log(1 + exp(s)) only"

    def lift(self, site: Site) -> Expected:
        if isinstance(site, ShiftedLogistic):
            return ShiftedExpected(site, self)
        return LogisticExpected(logistic_form(site), self)


@dataclass(frozen=True, eq=False)
class LogisticExpected(Expected, ExpectedSlopes):
    """A lower bound of E[l] for the sites of a form."""

    form: LogisticForm
    bound: SoftplusBound

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        if len(mean) <= ROWS_PER_PASS:
            return self._expected(mean, variance, second)
        answers = [p._expected(mean[rows], variance[rows], second) for rows, p in self._pieces]
        names = [f.name for f in fields(ExpectedAnswer) if getattr(answers[0], f.name) is not None]
        whole = {k: np.concatenate([getattr(a, k) for a in answers]) for k in names}
        return replace(answers[0], **whole)

    @cached_property
    def _pieces(self) -> list[tuple[slice, LogisticExpected]]:
        """Runs of rows whose temporaries stay in the processor's cache."""
        runs = [slice(i, i + ROWS_PER_PASS) for i in range(0, len(self.form.y), ROWS_PER_PASS)]
        return [(rows, LogisticExpected(self.form.take(rows), self.bound)) for rows in runs]

    def _expected(self, mean: Array, variance: Array, second: bool) -> ExpectedAnswer:
        y, n, width = self.form.y, self.form.n, self.form.width
        m, v = mean / width, variance / width**2
        failures = n - y
        u = self.bound.upper(-np.abs(m), v, second)
        right = m > 0.0
        mixed = twice = None
        if u.d_mean_variance is not None and u.d_variance2 is not None:
            mixed = np.where(right, n, -n) * u.d_mean_variance / width**3
            twice = -n * u.d_variance2 / width**4
        straight = y * np.maximum(-m, 0.0) + failures * np.maximum(m, 0.0)
        return ExpectedAnswer(
            value=self.form.constant - straight - n * u.value,
            d_mean=np.where(right, n * u.d_mean - failures, y - n * u.d_mean) / width,
            d_variance=-n * u.d_variance / width**2,
            d_mean_variance=mixed,
            d_variance2=twice,
            d_mean2=None if u.d_mean2 is None else -n * u.d_mean2 / width**2,
        )

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        """f = F(m / width, v / width^2) - log width: df/dwidth from f_m and f_v."""
        if self.form.widening is None:
            return {}
        f = self.expected(mean, variance)
        by_width = -1.0 - mean * f.d_mean - 2.0 * variance * f.d_variance
        return {"scale": by_width * self.form.widening / self.form.width}

    def take(self, rows: IntArray) -> LogisticExpected:
        """The answer of some rows."""
        return LogisticExpected(self.form.take(rows), self.bound)


# ---- shifted -----------------------------------------------------------------------------------
# Bounds of sites that are sums of shifted logistic ones: cumulative logits, continuation ratios.
#
#     l(s) = constant + sum_j c_j log sigma(side_j (s - cut_j)),   c_j 0 or 1
#
# (`sites.ordinal.classes.ShiftedLogistic`). Each term is bounded as a logistic site at
# s - cut_j; the constant and the slopes in the cuts are the site's own.


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


# ---- jaakkola ----------------------------------------------------------------------------------
# The bound `jaakkola`: a quadratic through +-xi with xi = sqrt(m^2 + v), the best there is.


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


# ---- bohning -----------------------------------------------------------------------------------
# The bound `bohning`: a quadratic of the largest curvature, 1/4, expanded at the mean.


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
