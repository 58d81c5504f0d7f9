"""categorical.probit: the class with the largest of s_k + e_k, e_k independent standard normal.

    P(y = k | s) = E_u prod_{j != k} Phi(u + s_k - s_j),   u ~ N(0, 1)

(Girolami and Rogers 2006). With two classes it is Phi((s_1 - s_0) / sqrt 2). The logarithm h(u) of
the integrand has curvature between -K and -1, so the trapezoidal rule about its maximum, with a
step of 0.75 / sqrt K, is good to 1e-13 however small the probability is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.classes import ClassMoments, OneClass, among
from lgmdsl.contract.questions import Pointwise, PointwiseAnswer, Sloped
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.numerics.normal_tail import LOG_TWO_PI, normal_tail
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

# Step of the rule in 1 / sqrt K, its reach, and how closely its middle is found.
STEP, REACH, CLOSE = 0.75, 8.5, 1e-3
# Points times sites from which the compiled rule repays the import of numba.
COMPILED = 2000
NEWTONS = 60
_ENTRIES_PER_PASS = 1 << 21


class _Nodes(NamedTuple):
    """The nodes' shares of the integral, (N, T), log P, (N,), the arguments of Phi at the nodes and
    log Phi, (N, T, K), and which classes are rivals of y, (N, K)."""

    share: Array
    value: Array
    z: Array
    log_cdf: Array
    rival: BoolArray


@dataclass(frozen=True, eq=False)
class CategoricalProbit(Site, Pointwise, Sloped, OneClass):
    """`y`, (N,), counts the classes from 0; `available`, (N, K), is 0 for what cannot be chosen."""

    y: Array
    available: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "categorical.probit",
        signature=declared("family", "categorical"),
        takes=("available",),
        wide=("available",),
        vector=True,
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="probit",
    )

    @cached_property
    def offered(self) -> BoolArray:
        """Which classes can be chosen, (N, K)."""
        return np.asarray(self.available != 0.0)

    @property
    def classes(self) -> int:
        """K."""
        return int(self.available.shape[1])

    @cached_property
    def chosen(self) -> BoolArray:
        """Whether the class is y, (N, K)."""
        return np.asarray(self.y[:, None] == np.arange(self.classes))

    def contrasts(self, predictors: int) -> Array:
        return among(self.offered)

    def log_density(self, s: Array) -> Array:
        return self._in_pieces(s)[0]

    def sloped(self, s: Array) -> tuple[Array, Array]:
        points, n, k = s.shape
        if points * n >= COMPILED:
            from lgmdsl.numerics.expectations.largest_kernel import (
                log_largest,  # numba is slow to import
            )

            return log_largest(s, self.y.astype(np.int64), self.offered)
        many = self.take(np.tile(np.arange(n), points))
        value, slope = many._in_pieces(s.reshape(-1, k))
        return value.reshape(points, n), slope.reshape(s.shape)

    def _in_pieces(self, s: Array) -> tuple[Array, Array]:
        """l and l', a few rows at a time."""
        value, slope = np.empty(len(s)), np.empty(s.shape)
        # log Phi alone: its slope phi / Phi is good to 1e-9 as far as 1e4 out.
        width = int(2.0 * REACH / STEP * np.sqrt(self.classes) + 2.0) * self.classes
        for few in np.array_split(np.arange(len(s)), max(1, len(s) * width // _ENTRIES_PER_PASS)):
            some = self.take(few)
            nodes = some._nodes(s[few])
            value[few] = nodes.value
            hazard = np.exp(-0.5 * nodes.z * nodes.z - nodes.log_cdf - 0.5 * LOG_TWO_PI)
            first = np.einsum("nt,ntk->nk", nodes.share, hazard, optimize=True)
            slope[few] = some._spread(np.where(nodes.rival, first, 0.0))
        return value, slope

    def _nodes(self, s: Array) -> _Nodes:
        """The integrand about its maximum; the log of it falls at least as t^2 / 2 around it."""
        chosen = (s * self.chosen).sum(axis=1, keepdims=True)
        rival = self.offered & ~self.chosen
        lead = np.where(rival, chosen - s, 0.0)
        step = STEP / np.sqrt(self.classes)
        half = int(np.ceil(REACH / step))
        u = self._peak(lead, rival)[:, None] + step * np.arange(-half, half + 1)
        z = lead[:, None, :] + u[:, :, None]
        log_cdf = special.log_ndtr(z)
        h = -0.5 * u * u + np.einsum("ntk,nk->nt", log_cdf, rival * 1.0)
        top = h.max(axis=1, keepdims=True)
        share = np.exp(h - top)
        total = share.sum(axis=1, keepdims=True)
        value = top[:, 0] + np.log(total[:, 0] * step / np.sqrt(2.0 * np.pi))
        value = np.where(rival.any(axis=1), np.minimum(value, 0.0), 0.0)
        possible = (self.chosen & self.offered).any(axis=1)
        return _Nodes(share / total, np.where(possible, value, -np.inf), z, log_cdf, rival)

    @staticmethod
    def _peak(lead: Array, rival: BoolArray) -> Array:
        """Where h is largest: h' is convex and falls, so that Newton from 0 never overshoots."""
        u = np.zeros(len(lead))
        for _ in range(NEWTONS):
            tail = normal_tail(lead + u[:, None])
            slope = np.where(rival, tail.hazard, 0.0).sum(axis=1) - u
            bend = 1.0 + np.where(rival, tail.hazard * tail.excess, 0.0).sum(axis=1)
            u += slope / bend
            if np.abs(slope / bend).max(initial=0.0) < CLOSE:
                break
        return u

    def _spread(self, slope: Array) -> Array:
        """Slopes in the leads s_y - s_j to those in s, (N, K)."""
        return np.asarray(self.chosen * slope.sum(axis=1, keepdims=True) - slope)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """Cumulants of the slopes over the nodes; of a variance that is a number, times I."""
        nodes, n, k = self._nodes(s), len(s), s.shape[1]
        tail, on = normal_tail(nodes.z), nodes.rival[:, None, :]
        first, second = np.where(on, tail.hazard, 0.0), np.where(on, tail.variance - 1.0, 0.0)
        v = variance * np.eye(k) if np.ndim(variance) == 0 else np.asarray(variance)
        turn = self.chosen[:, None, :] * 1.0 - np.eye(k)  # leads = turn s
        c = turn @ np.broadcast_to(v, (n, k, k)) @ turn.transpose(0, 2, 1)
        w = nodes.share
        mean, middle = (np.einsum("nt,ntk->nk", w, g) for g in (first, second))
        g, g2 = first - mean[:, None], second - middle[:, None]
        bend = np.einsum("nt,nti,ntj->nij", w, g, g, optimize=True)
        bend[:, np.arange(k), np.arange(k)] += middle
        diagonal = np.einsum("nii->ni", c)
        form = np.einsum("nti,nij,ntj->nt", g, c, g, optimize=True)
        third = (
            np.einsum("nt,ntk->nk", w, np.where(on, tail.third, 0.0)) * diagonal
            + np.einsum("nt,ntj,nj,nti->ni", w, g2, diagonal, g, optimize=True)
            + 2.0 * np.einsum("nt,nti,ntk,nik->ni", w, g2, g, c, optimize=True)
            + np.einsum("nt,nt,nti->ni", w, form, g, optimize=True)
        )
        return PointwiseAnswer(
            nodes.value,
            self._spread(mean),
            turn.transpose(0, 2, 1) @ bend @ turn,
            np.einsum("nji,nj->ni", turn, third),
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def conditional_mean(self, s: Array) -> Array:
        """The classes' probabilities, (N, K)."""
        one = [
            CategoricalProbit(np.full(len(s), float(k)), self.available)
            for k in range(self.classes)
        ]
        return np.exp(np.stack([site.log_density(s) for site in one], axis=1))

    def conditional_variance(self, s: Array) -> Array:
        """p (1 - p), (N, K)."""
        p = self.conditional_mean(s)
        return np.asarray(p * (1.0 - p))

    def class_moments(self, mean: Array, variance: Array) -> ClassMoments:
        return ClassMoments.of_one_trial(self.predictive(mean, variance))

    def log_mass(self, mean: Array, variance: Array) -> Array:
        p = (self.chosen * self.predictive(mean, variance)).sum(axis=1)
        return np.asarray(np.log(np.maximum(p, 1e-300)))

    def predictive(self, mean: Array, variance: Array) -> Array:
        """E[P(y = k | s)], s ~ N(mean, variance), (N, K): noise and predictors are one Gaussian, so
        that a class is the largest with an orthant's probability, to about 1e-4."""
        return largest(mean, variance + np.eye(self.classes), self.offered)

    def sample(self, s: Array, rng: Generator) -> Array:
        """One class for each row, (N,), counted from 0; -1, as of a missing label, where no class
        is on offer."""
        noisy = np.where(self.offered, s + rng.standard_normal(s.shape), -np.inf)
        return np.where(self.offered.any(axis=1), noisy.argmax(axis=1).astype(np.float64), -1.0)


# ---- orthant -----------------------------------------------------------------------------------
# Which of several correlated Gaussians is the largest, by the GHK simulator with fixed points.
#
# P(x_k > x_j for all j) is an orthant of the K - 1 differences; with LL' their covariance the t_i
# are taken one after another from normals cut where the i-th difference is 0, and the mass is the
# mean of the product of what the cuts leave (Geweke 1989; Hajivassiliou, McFadden and Ruud 1996).
# The last of them needs no points; where one or two others do, they lie on a lattice of normal
# scores.


POINTS = 1024
ORTHANT_REACH, ORTHANT_STEP = 8.0, {1: 0.25, 2: 0.4}


def largest(mean: Array, covariance: Array, offered: BoolArray) -> Array:
    """P(x_k is the largest of those on offer), (N, K), x ~ N(mean, covariance), positive definite;
    0 for what is not on offer. Rows add up to 1; errors are 1e-12 up to three on offer, 3e-6 of
    four, then about 1e-4."""
    n, size = mean.shape
    out = np.zeros((n, size))
    counts = offered.sum(axis=1)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        classes = np.argsort(~offered[rows], axis=1, kind="stable")[:, :count]
        m = np.take_along_axis(mean[rows], classes, axis=1)
        v = covariance[rows[:, None, None], classes[:, :, None], classes[:, None, :]]
        for k in range(int(count)):
            turn = np.eye(int(count))[np.arange(count) != k] * -1.0
            turn[:, k] = 1.0
            out[rows, classes[:, k]] = positive(m @ turn.T, turn @ v @ turn.T)
    return np.asarray(out / np.maximum(out.sum(axis=1, keepdims=True), 1e-300))


def positive(mean: Array, covariance: Array) -> Array:
    """P(x > 0 in every entry), (N,), of x ~ N(mean, covariance), (N, D) and (N, D, D)."""
    n, size = mean.shape
    if not size:
        return np.ones(n)
    root, (u, weight) = np.linalg.cholesky(covariance), _rule(size - 1)
    t = np.zeros((n, len(u), size - 1))
    mass = np.ones((n, len(u)))
    for i in range(size):
        level = mean[:, None, i] + np.einsum("npj,nj->np", t[:, :, :i], root[:, i, :i])
        share = special.ndtr(level / root[:, None, i, i])
        mass *= share
        if i == size - 1:
            break
        # -t is a normal cut to below moved / root_ii.
        t[:, :, i] = -special.ndtri(np.maximum(u[:, i] * share, 1e-300))
    return np.asarray(mass @ weight)


@cache
def _rule(size: int) -> tuple[Array, Array]:
    """Points of the unit cube, (P, D), and their weights."""
    if not size:
        return np.zeros((1, 0)), np.ones(1)
    if size in ORTHANT_STEP:
        line = ORTHANT_STEP[size] * np.arange(
            -int(ORTHANT_REACH / ORTHANT_STEP[size]), int(ORTHANT_REACH / ORTHANT_STEP[size]) + 1
        )
        score = np.stack(np.meshgrid(*[line] * size, indexing="ij"), axis=-1).reshape(-1, size)
        density = np.exp(-0.5 * (score**2).sum(axis=1))
        heavy = density > 1e-14
        return special.ndtr(score[heavy]), density[heavy] / density[heavy].sum()
    from scipy.stats import qmc  # slow to import

    net = qmc.Sobol(size, scramble=True, rng=0).random(POINTS)
    return np.clip(net, 1e-12, 1.0 - 1e-12), np.full(POINTS, 1.0 / POINTS)
