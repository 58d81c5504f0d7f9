"""What all bounds of softmax sites share: one form for the sites, one for the bounds.

Every softmax site is l(s) = constant + c's - n log sum_k exp s_k over the classes on offer, so an
upper bound U(m, V) of E_{N(m, V)}[log sum exp s] is all that a bound has to give:

    f(m, V) = constant + c'm - n U(m, V).

Bounds see all K classes; where the last is the reference, its mean and covariances are 0. Each U
here moves with a constant added to all predictors as log sum exp does, so it is asked with the
largest mean at 0.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.bound import Bound
from lgmdsl.contract.questions import Expected, ExpectedAnswer, ExpectedSlopes, ThirdExpected
from lgmdsl.contract.site import Site
from lgmdsl.sites.vector.admixture import TopicSite
from lgmdsl.sites.vector.softmax import SoftmaxSite, complete


class LogSumExpBound(Bound):
    """A bound that gives Expected of every softmax site from U(m, V) >= E[log sum exp s]."""

    @abstractmethod
    def upper(self, mean: Array, variance: Array, offered: BoolArray) -> ExpectedAnswer:
        """U, (N,), dU/dm, (N, K), dU/dV, (N, K, K), and d2U/dm2 where it is not twice dU/dV, over
        the classes on offer, (N, K): at least one in each row. Means of the others are 0, and so
        are their covariances; so must their derivatives be."""

    def third(self, mean: Array, variance: Array, offered: BoolArray) -> Array | None:
        """d3U/dm3, (N, K, K, K); None where differences have to do."""
        return None

    def applies_to(self, site: type[Site]) -> str:
        if issubclass(site, SoftmaxSite | TopicSite):
            return ""
        return f"{site.spec.name} is no softmax: it bounds log(sum of exp(s)) only"

    def lift(self, site: Site) -> SoftmaxExpected | AdmixtureExpected:
        if isinstance(site, TopicSite):
            return AdmixtureExpected(site, self)
        if not isinstance(site, SoftmaxSite):
            raise TypeError(f"{site.spec.name} is no softmax site")
        return SoftmaxExpected(site, self)


@dataclass(frozen=True, eq=False)
class SoftmaxExpected(Expected, ExpectedSlopes, ThirdExpected):
    """E[l] of softmax sites through a bound of the log-sum-exp."""

    site: SoftmaxSite
    bound: LogSumExpBound

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        """Second derivatives in the variance are not had for vector sites."""
        site, free = self.site, mean.shape[1]
        offered = site.offered
        m, v = self._of_classes(mean, variance)
        # A class that is alone on offer is certain, whatever a bound makes of its variance.
        open_ = offered.sum(axis=1) > 1
        u, n = self.bound.upper(m, v, offered), site.trials * open_
        counts = site.counts * open_[:, None]
        bend = None if u.d_mean2 is None else -n[:, None, None] * u.d_mean2[:, :free, :free]
        return ExpectedAnswer(
            value=site.constant + (counts * m).sum(axis=1) - n * u.value,
            d_mean=(counts - n[:, None] * u.d_mean)[:, :free],
            d_variance=-n[:, None, None] * u.d_variance[:, :free, :free],
            d_mean2=bend,
        )

    def third_expected(self, mean: Array, variance: Array) -> Array | None:
        """d3f/dm3, (N, K, K, K), by the bound; None where that does not give it."""
        site, free = self.site, mean.shape[1]
        third = self.bound.third(*self._of_classes(mean, variance), site.offered)
        if third is None:
            return None
        n = site.trials * (site.offered.sum(axis=1) > 1)
        return np.asarray(-n[:, None, None, None] * third[:, :free, :free, :free])

    def _of_classes(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Means of all classes, the largest at 0, and covariances; 0 for those not on offer."""
        offered = self.site.offered
        full, spread = complete(mean, variance, self.site.classes)
        top = np.where(offered, full, -np.inf).max(axis=1, keepdims=True)
        m = np.where(offered, full - top, 0.0)
        return m, spread * (offered[:, :, None] & offered[:, None, :])

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        """A softmax has no continuous parameters."""
        return {}

    def take(self, rows: IntArray) -> SoftmaxExpected:
        """The answer of some rows."""
        return SoftmaxExpected(self.site.take(rows), self.bound)


@dataclass(frozen=True, eq=False)
class AdmixtureExpected(Expected, ExpectedSlopes):
    """E[l] of admixtures through a bound of the log-sum-exp.

    A word's own term log sum_k exp(s_k) emission_kw is bounded from below with a q of its topic,
    E_q[s_k + log emission_kw - log q_k] (Blei and Lafferty 2006); the best q makes that its value
    at the means, so

        f(m, V) = constant + sum_w y_w log sum_k exp(m_k) emission_kw - n U(m, V).
    """

    site: TopicSite
    bound: LogSumExpBound

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        """Second derivatives in the variance are not had for vector sites."""
        site = self.site
        m = mean - mean.max(axis=1, keepdims=True)
        u, n = self.bound.upper(m, variance, np.ones(m.shape, dtype=np.bool_)), site.trials
        value, slope, bend = site.gain(m)
        return ExpectedAnswer(
            value=value - n * u.value,
            d_mean=slope - n[:, None] * u.d_mean,
            d_variance=-n[:, None, None] * u.d_variance,
            d_mean2=bend - n[:, None, None] * u.curvature,
        )

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        """Slopes of E[l] at the means: only the words' own terms know the emission."""
        return self.site.parameter_slopes(mean)

    def take(self, rows: IntArray) -> AdmixtureExpected:
        """The answer of some rows."""
        return AdmixtureExpected(self.site.take(rows), self.bound)


def log_sum_exp(s: Array, offered: BoolArray) -> Array:
    """log of the sum of exp s over the classes on offer, (N,), the largest s being near 0."""
    masked = np.where(offered, s, -np.inf)
    top = masked.max(axis=1)
    return np.asarray(top + np.log(np.exp(masked - top[:, None]).sum(axis=1)))
