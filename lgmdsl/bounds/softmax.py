"""What all bounds of softmax sites share: one form for the sites, one for the bounds.

Every softmax site is l(s) = constant + c's - n log sum_k exp s_k over the classes on offer, so an
upper bound U(m, V) of E_{N(m, V)}[log sum exp s] is all that a bound has to give:

    f(m, V) = constant + c'm - n U(m, V).

Bounds see all K classes; where the last is the reference, its mean and covariances are 0. Each U
here moves with a constant added to all predictors as log sum exp does, so it is asked with the
largest mean at 0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.bounds.logistic import Jaakkola, LogisticExpected, LogisticForm, SoftplusBound
from lgmdsl.contract.bound import Bound, BoundSpec
from lgmdsl.contract.questions import Expected, ExpectedAnswer, ExpectedSlopes, ThirdExpected
from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.numerics.expectations.log_sum_exp import expected_log_sum_exp, third_of_log_sum_exp
from lgmdsl.numerics.stable import covariances, shares, sigmoids, softplus
from lgmdsl.sites.vector.admixture import TopicSite
from lgmdsl.sites.vector.softmax import SoftmaxSite, complete
from lgmdsl.vocabulary.notes import Notes


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


# ---- softmax quadrature ------------------------------------------------------------------------
# The rule `quadrature` of softmax sites: expectations over two contrasts by nested rules, over
# more by quasi-Monte Carlo.


@dataclass(frozen=True)
class SoftmaxByQuadrature(LogSumExpBound):
    """E[log sum exp s] itself: to 1e-9 up to three classes on offer, with more to 4e-3 relative, by
    2 x 2048 points that all sites and steps share, so that the objective is smooth.

    Measured: 1.5e-3 of up to six classes at predictor sds to 8, 3.2e-3 of twelve. `seed` scrambles
    the points: fits with several seeds give their standard error.
    """

    seed: int = 0

    spec: ClassVar[BoundSpec] = BoundSpec(
        "quadrature",
        asks=Site,
        gives=Expected,
        guarantee=Guarantee.NUMERICAL,
        error=4e-3,
        summary="expectations of softmax sites: 1e-9 up to three classes, else 4e-3",
        notes=Notes(
            formula="E[log sum exp s] by nested rules up to three classes, else by quasi-random "
            "points",
            support="softmax sites: categorical, multinomial, admixture",
            advice="taken by itself; no gap, to the error that is stated",
            example="lgm fit classes.lgm classes.npz --method natural-gradient --bound quadrature",
            see_also=("jaakkola", "tilted", "natural-gradient", "ep"),
        ),
    )

    def applies_to(self, site: type[Site]) -> str:
        if issubclass(site, SoftmaxSite):
            return ""
        return f"{site.spec.name} is no softmax: this rule integrates log(sum of exp(s)) only"

    def upper(self, mean: Array, variance: Array, offered: BoolArray) -> ExpectedAnswer:
        answer = expected_log_sum_exp(mean, variance, offered, self.seed)
        return ExpectedAnswer(answer.value, answer.d_mean, answer.d_variance, d_mean2=answer.bend)

    def third(self, mean: Array, variance: Array, offered: BoolArray) -> Array | None:
        return third_of_log_sum_exp(mean, variance, offered, self.seed)


# ---- bohning multinomial -----------------------------------------------------------------------
# The bound `bohning` of softmax sites: a quadratic of fixed curvature, expanded at the mean.


@dataclass(frozen=True)
class BohningMultinomial(LogSumExpBound):
    """U = log sum exp m + tr(A V) / 2, A = (I - 11'/K) / 2 over the K classes on offer.

    A is at least diag(p) - pp' for every p (Boehning 1992; Khan 2012, section 5.4). With a
    reference class it is (I - 11'/K) / 2 over the K - 1 free ones. The weight -2 f_V = n A never
    changes.
    """

    spec: ClassVar[BoundSpec] = BoundSpec(
        "bohning",
        asks=Site,
        gives=Expected,
        guarantee=Guarantee.LOWER,
        error=math.inf,
        paper="Boehning 1992",
        summary="quadratic of fixed curvature (I - 11'/K) / 2",
        notes=Notes(
            formula="E[log sum exp s] <= log sum exp m + tr(A V) / 2, A = (I - 11'/K) / 2",
            support="softmax sites: categorical, multinomial, admixture",
            advice="its weight is the same at every step; looser than tilted where variances are "
            "large",
            example="lgm fit classes.lgm classes.npz --method natural-gradient --bound bohning",
            see_also=("tilted", "log", "product-of-sigmoids", "quadrature"),
        ),
    )

    def upper(self, mean: Array, variance: Array, offered: BoolArray) -> ExpectedAnswer:
        on = offered.astype(np.float64)
        size = on.sum(axis=1)[:, None, None]
        curve = 0.5 * (
            on[:, :, None] * np.eye(on.shape[1]) - on[:, :, None] * on[:, None, :] / size
        )
        softmax = shares(mean, offered)
        return ExpectedAnswer(
            value=log_sum_exp(mean, offered) + 0.5 * np.einsum("nij,nij->n", curve, variance),
            d_mean=softmax.p,
            d_variance=0.5 * curve,
            d_mean2=covariances(softmax),
        )


# ---- delta -------------------------------------------------------------------------------------
# The rule `delta` of softmax sites: a Taylor expansion at the mean, which bounds nothing.


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


# ---- log ---------------------------------------------------------------------------------------
# The bound `log`: Jensen's inequality on the outer logarithm.


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


# ---- product of sigmoids -------------------------------------------------------------------------
# The bounds `product-of-sigmoids` of softmax sites, a bound of logistic sites inside.


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
