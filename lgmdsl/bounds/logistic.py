"""What all bounds of logistic sites share: one form for the sites, one for the bounds.

Every logistic site is, with x = s / width and r(x) = max(x, 0),

    l(s) = constant + y x - n log(1 + e^x),

so an upper bound U(m, v) of E_{N(m,v)}[log(1 + e^x)] is all that a bound has to give. Each here has
U(m, v) = m + U(-m, v), as the softplus has, and is asked at -|m| only, where nothing cancels:

    f(m, v) = constant - y r(-m) - (n - y) r(m) - n U(-|m|, v).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.bounds.shifted import ShiftedExpected
from lgmdsl.contract.bound import Bound
from lgmdsl.contract.questions import Expected, ExpectedAnswer, ExpectedSlopes
from lgmdsl.contract.site import Site
from lgmdsl.sites.ordinal.classes import ShiftedLogistic
from lgmdsl.sites.scalar.logistic import LogisticDensity, LogisticSite

CHUNK = 1 << 13  # rows that are answered together


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
        if len(mean) <= CHUNK:
            return self._expected(mean, variance, second)
        answers = [p._expected(mean[rows], variance[rows], second) for rows, p in self._pieces]
        names = [f.name for f in fields(ExpectedAnswer) if getattr(answers[0], f.name) is not None]
        whole = {k: np.concatenate([getattr(a, k) for a in answers]) for k in names}
        return replace(answers[0], **whole)

    @cached_property
    def _pieces(self) -> list[tuple[slice, LogisticExpected]]:
        """Runs of rows whose temporaries stay in the processor's cache."""
        runs = [slice(i, i + CHUNK) for i in range(0, len(self.form.y), CHUNK)]
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
