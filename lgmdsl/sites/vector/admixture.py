"""admixture.softmax: counts of words, each word of a topic drawn with probability softmax(s).

    l(s) = log n! / prod y_w! + sum_w y_w log sum_k softmax(s)_k emission_kw,   n = sum_w y_w

the likelihood of correlated topic models (Blei and Lafferty 2006; Khan 2012, section 1.2.5). With
L_w = log sum_k exp(s_k + log emission_kw) it is constant + sum_w y_w L_w - n log sum_k exp s_k: a
difference of convex functions, so not log-concave. The topics are shared by all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.classes import Classes, ClassMoments
from lgmdsl.contract.questions import Pointwise, PointwiseAnswer, Sloped
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.numerics.expectations.log_sum_exp import expected_log_sum_exp
from lgmdsl.numerics.stable import Shares, covariances, shares
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_ENTRIES_PER_PASS = 1 << 20  # entries of (words, K, K) that are held at once
_RARE = 1e-200  # a word's probability beside exp(largest s_k) that underflow may have reached
_COMPILED = 10_000  # words times topics from which compiled loops repay the loading of numba
_LEAST = 1e-300  # probability of a word, whose logarithm is taken
_LONG = 2000  # of them in a row that is worth a product of its own


class Words(NamedTuple):
    """The words that some rows hold, sorted by row: the rows, (R,); each word's row among them and
    its position, (P,); `total`, (R, P), sums over a row's words, each as often as counted."""

    rows: IntArray
    row: IntArray
    word: IntArray
    total: sp.csr_array


@dataclass(frozen=True, eq=False)
class TopicSite(Site, Pointwise, Sloped, Classes):
    """Counts y, (N, W), of words; `emission`, (K, W), the distribution over words of each topic."""

    y: Array
    emission: Array

    @cached_property
    def trials(self) -> Array:
        """n, (N,): the length of each row."""
        return np.asarray(self.y.sum(axis=1))

    @cached_property
    def constant(self) -> Array:
        """log n! / prod_w y_w!, (N,)."""
        return np.asarray(
            special.gammaln(self.trials + 1.0) - special.gammaln(self.y + 1.0).sum(axis=1)
        )

    @cached_property
    def likely(self) -> Array:
        """(W, K) the emission by words."""
        return np.ascontiguousarray(self.emission.T)

    @cached_property
    def sparse_counts(self) -> sp.csr_array:
        """The counts that are not 0."""
        return sp.csr_array(self.y)

    @property
    def evaluations(self) -> int:
        """One for each topic and each word that was seen."""
        return self.sparse_counts.nnz * len(self.emission)

    def words(self, power: int) -> Iterator[Words]:
        """All rows in pieces whose arrays (P, K**power) are not too large."""
        size = max(len(self.emission), 1) ** power
        counts, most = self.sparse_counts, max(1, _ENTRIES_PER_PASS // size)
        start = 0
        while start < len(self):
            end = int(np.searchsorted(counts.indptr, counts.indptr[start] + most, side="right")) - 1
            end = min(max(end, start + 1), len(self))
            entries = slice(counts.indptr[start], counts.indptr[end])
            row = np.repeat(np.arange(end - start), np.diff(counts.indptr[start : end + 1]))
            total = sp.csr_array(
                (
                    counts.data[entries],
                    np.arange(len(row)),
                    counts.indptr[start : end + 1] - entries.start,
                ),
                shape=(end - start, len(row)),
            )
            yield Words(np.arange(start, end), row, counts.indices[entries].astype(np.int64), total)
            start = end

    def mixing(self, s: Array, some: Words) -> tuple[Array, Array]:
        """L_w, (P,), and the probabilities of the topics given each word, (P, K)."""
        line, likely = s[some.rows], self.likely[some.word]
        top = line.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.exp(line - top)[some.row] * likely
            whole = part @ np.ones(part.shape[1])
            level = np.log(whole) + top[some.row, 0]
            part /= whole[:, None]
        rare = np.flatnonzero(~(whole > _RARE))  # or of no topic at all
        if len(rare):
            level[rare], part[rare] = _logged(line[some.row[rare]], likely[rare])
        return level, part

    def gain(self, s: Array) -> tuple[Array, Array, Array]:
        """constant + sum_w y_w L_w at s, (N,), its slope, (N, K), and its curvature, (N, K, K):
        sum_w y_w (diag phi - phi phi'), phi as in `mixing`."""
        k, counts = s.shape[1], self.sparse_counts
        value, slope, bend = np.array(self.constant), np.zeros(s.shape), np.zeros((len(s), k, k))
        if self.evaluations >= _COMPILED:
            from lgmdsl.sites.vector.word_kernels import gains

            words = counts.indptr, counts.indices, counts.data
            gains(np.ascontiguousarray(s), words, self.likely, _RARE, value, slope, bend)
            return value, slope, bend
        for some in self.words(2):
            level, topics = self.mixing(s, some)
            value[some.rows] += some.total @ level
            slope[some.rows] = some.total @ topics
            bend[some.rows] = -_squares(topics, some.total)
        bend[:, np.arange(k), np.arange(k)] += slope
        return value, slope, bend

    def shares(self, s: Array) -> Shares:
        """The topics' probabilities at s."""
        return shares(s, np.ones(s.shape, dtype=np.bool_))

    def log_density(self, s: Array) -> Array:
        value = np.array(self.constant)
        for some in self.words(1):
            value[some.rows] += some.total @ self.mixing(s, some)[0]
        return value - self.trials * special.logsumexp(s, axis=1)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """l and its derivatives; a variance that is a number is taken times the identity."""
        softmax, k, n = self.shares(s), s.shape[1], self.trials
        v = variance * np.eye(k)[None] if np.ndim(variance) == 0 else np.asarray(variance)
        v = np.broadcast_to(v, (len(s), k, k))
        third = -n[:, None] * _third(softmax.p, v)
        for some in self.words(2):
            _, topics = self.mixing(s, some)
            third[some.rows] += some.total @ _third(topics, v[some.rows[some.row]])
        value, slope, bend = self.gain(s)
        return PointwiseAnswer(
            value=value - n * special.logsumexp(s, axis=1),
            slope=slope - n[:, None] * softmax.p,
            curvature=bend - n[:, None, None] * covariances(softmax),
            third=third,
        )

    def sloped(self, s: Array) -> tuple[Array, Array]:
        p = self.shares(s.reshape(-1, s.shape[2])).p.reshape(s.shape)
        counts = self.sparse_counts
        if len(s) * self.evaluations >= _COMPILED:
            from lgmdsl.sites.vector.word_kernels import mixtures

            value, slope = np.tile(self.constant, (len(s), 1)), np.empty(s.shape)
            words = counts.indptr, counts.indices, counts.data
            mixtures(p, words, self.likely, _LEAST, value, slope)
            return value, slope - self.trials[:, None] * p
        value, slope = np.empty(s.shape[:2]), np.empty(s.shape)
        for i in range(len(self)):
            entries = slice(counts.indptr[i], counts.indptr[i + 1])
            count, emission = counts.data[entries], self.emission[:, counts.indices[entries]]
            mass = np.maximum(p[:, i] @ emission, _LEAST)
            value[:, i] = self.constant[i] + np.log(mass) @ count
            slope[:, i] = p[:, i] * ((count / mass) @ emission.T - self.trials[i])
        return value, slope

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        """(K, W), summed over the rows."""
        return {"emission": self._by_emission(s, np.zeros_like(s), None)}

    def moved_slopes(self, s: Array, variance: Array, move: Array) -> dict[str, Array]:
        return {"emission": self._by_emission(s, move, variance)}

    def _by_emission(self, s: Array, move: Array, variance: Array | None) -> Array:
        """d(l + tr(V l'') / 2 + move'l')/demission, summed over the rows: the slope in
        log emission_kw is that in s_k of word w's terms alone, and exp(s_k - L_w) / phi_wk = 1 /
        emission_kw."""
        out = np.zeros(self.emission.shape[::-1])
        for some in self.words(1 if variance is None else 2):
            level, topics = self.mixing(s, some)
            rows = some.rows[some.row]
            more = move[rows] - (topics * move[rows]).sum(axis=1, keepdims=True)
            if variance is not None:
                more += 0.5 * _spread(topics, variance[rows])
            count = self.sparse_counts.data[self.sparse_counts.indptr[some.rows[0]] :][
                : len(rows), None
            ]
            ratio = np.exp(np.minimum(s[rows] - level[:, None], 700.0))
            np.add.at(out, some.word, count * ratio * (1.0 + more))
        return np.asarray(out.T)

    def class_moments(self, mean: Array, variance: Array) -> ClassMoments:
        """Moments of the words, as of a softmax: E[pp'] = diag E[p] - curvature mapped through the
        topics."""
        every = np.ones(mean.shape, dtype=np.bool_)
        answer, emission = expected_log_sum_exp(mean, variance, every), self.emission
        word = answer.d_mean @ emission
        topics = np.einsum("nk,kw->nw", answer.d_mean, emission**2)
        topics -= np.einsum("nkl,kw,lw->nw", answer.bend, emission, emission, optimize=True)
        return ClassMoments.of_counts(self.trials, word, word - topics)

    def conditional_mean(self, s: Array) -> Array:
        """n p'emission, (N, W)."""
        return np.asarray(self.trials[:, None] * (self.shares(s).p @ self.emission))

    def conditional_variance(self, s: Array) -> Array:
        """(N, W), that of a binomial count."""
        p = self.shares(s).p @ self.emission
        return np.asarray(self.trials[:, None] * p * (1.0 - p))

    def sample(self, s: Array, rng: Generator) -> Array:
        """Counts that add up to n, (N, W)."""
        p = self.shares(s).p @ self.emission
        drawn = rng.multinomial(self.trials.astype(np.int64), p / p.sum(axis=1, keepdims=True))
        return drawn.astype(np.float64)


@dataclass(frozen=True, eq=False)
class AdmixtureSoftmax(TopicSite):
    """The family `admixture`."""

    spec: ClassVar[SiteSpec] = SiteSpec(
        "admixture.softmax",
        signature=declared("family", "admixture"),
        takes=("emission",),
        wide=("y",),
        shared=("emission",),
        vector=True,
        properties=Property.BOUNDED,
        link="softmax",
        mixture="emission",
    )


def _logged(s: Array, likely: Array) -> tuple[Array, Array]:
    """L_w, (R,), and the probabilities of the topics given each word, (R, K), for rows s, (R, K),
    of words that the topics give with probabilities (R, K), however small; topics are alike for a
    word that none of them gives."""
    with np.errstate(divide="ignore", invalid="ignore"):
        level = s + np.log(likely)
        top = level.max(axis=1, keepdims=True)
        part = np.exp(np.where(top > -np.inf, level - top, 0.0))
        whole = part.sum(axis=1, keepdims=True)
        return np.asarray((top + np.log(whole))[:, 0]), np.asarray(part / whole)


def _squares(topics: Array, total: sp.csr_array) -> Array:
    """sum_w y_w phi phi' of each row, (R, K, K), phi (P, K)."""
    k, ends = topics.shape[1], total.indptr
    if len(topics) * k * k < _LONG * total.shape[0]:
        square = (topics[:, :, None] * topics[:, None, :]).reshape(-1, k * k)
        return np.asarray(total @ square).reshape(-1, k, k)
    counted = topics * total.data[:, None]
    out = np.empty((total.shape[0], k, k))
    for i, (a, b) in enumerate(pairwise(ends)):
        np.matmul(counted[a:b].T, topics[a:b], out=out[i])
    return out


def _spread(p: Array, variance: Array) -> Array:
    """r - p'r, (N, K), r = diag V - 2 V p."""
    r = np.einsum("nii->ni", variance) - 2.0 * np.einsum("nij,nj->ni", variance, p)
    return np.asarray(r - (p * r).sum(axis=1, keepdims=True))


def _third(p: Array, variance: Array) -> Array:
    """The third cumulants of one trial, contracted with V, (N, K)."""
    return p * _spread(p, variance)
