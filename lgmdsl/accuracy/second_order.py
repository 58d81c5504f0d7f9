"""What the third derivatives of the sites change in a variational Gaussian, to second order.

With k_i = E_q[l_i'''], C = Cov_q(s), c_a = Cov_q(s, a'z), V = Cov_q(z), at the optimum of the
variational bound (a perturbation series about q; third-order Hermite terms alone):

    log p(y) - bound     = 1/12 sum_ij k_i k_j C_ij^3
    Var(a'z) - a'Va      = 1/2  sum_ij k_i k_j c_ai c_aj C_ij^2
    third cumulant of a'z = sum_i k_i c_ai^3

For EP (Opper, Paquet and Winther 2013, "Perturbative corrections for approximate inference in
Gaussian latent variable models") the same with the third cumulants of the tilted distributions in
k, without the terms i = j, which its own moments hold already.

Vector sites have tensors t_i in place of k_i. Three routes to the sums: a third-order tensor over
whitened latents where they are few; all of C where rows are few; else draws of q, of which
independent x, y, w with T(x, y, w) = sum_i k_i x_i y_i w_i have E T^2 = sum_ij k_i k_j C_ij^3, and
one solve d = VB'(k x y) serves Var(a'z) for all a at once: E (a'd)^2 = sum_ij k_i k_j c_ai c_aj
C_ij^2.
"""

# Long because the three routes to the same sums stand next to one another.
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.stacked import StackedPredictors, cut, split

FEW_LATENTS = 24  # of the tensor: its entries are their third power
FEW_ROWS = 600  # of C
ENTRIES = 4_000_000  # of the cross covariances of latents and rows that are held
CHUNK = 2_000_000
PAIRS, ROWS = (12, 64), 1_300_000  # draws x, y for variances, fewer of very many rows
TRIPLES, WORK = (10, 48), 5e7  # draws for the evidence, by the work that all triples of them are


@dataclass(frozen=True, eq=False)
class Again:
    """Other draws, from which single functionals are estimated once more: of the largest of many
    estimates those of the same draws would be too large."""

    linear: LinearGaussian
    q: Conditioned
    third: Rows
    seed: int
    tilted: bool

    @cached_property
    def drawn(self) -> Array:
        """(P, 2 pairs) predictors of the draws."""
        return _drawn(self.linear, self.q, [self.seed, 4], 2 * _pairs(self.linear))

    def variances_and_cumulants(self, functional: Predictor) -> tuple[Array, Array]:
        """(m,) each, of few rows: the change of the variance, and the third cumulant (no estimate,
        given the cross covariances)."""
        stacked = StackedPredictors(self.linear)
        rows = np.zeros((self.linear.size, functional.rows))
        functional.add_transposed(np.eye(functional.rows), self.linear.slices, rows)
        crossed = stacked.lifted(self.q.solve(rows)).T  # (m, P)
        s, squares, pairs = self.drawn, np.zeros(functional.rows), _pairs(self.linear)
        for j in range(pairs):
            product = _contracted(self.linear, self.third, s[:, j], s[:, pairs + j])
            squares += (crossed @ product) ** 2
        variance, start, cumulants = 0.5 * squares / pairs, 0, np.zeros(functional.rows)
        for t, v in zip(self.third, self.q.variance, strict=True):
            size = t.shape[0] * (1 if t.ndim == 1 else t.shape[1])
            part = crossed[:, start : start + size]
            cumulants += _cubes(t, part)
            if self.tilted:
                k, own = _along(t, v)
                variance -= 0.5 * part**2 @ (k * own) ** 2
            start += size
        return variance, cumulants


@dataclass(frozen=True, eq=False)
class SecondOrder:
    """`evidence`: log p(y) less the variational bound, in nats. D = `more` more' - `less` less',
    (n, r) and (n, q): the change of Cov(z). `crossed` (n, P): VB', where it is held, and `third`
    k of scalar rows, or the tensors by site block; `exact`: whether nothing was drawn. `whitened`:
    a root R of Cov(z) and the tensor over R^-1 z, (n, n, n), where latents are few."""

    evidence: float
    more: Array
    less: Array
    crossed: Array | None
    third: Rows
    exact: bool
    linear: LinearGaussian
    again: Again | None = None
    whitened: tuple[Array, Array] | None = None

    def variances(self, functional: Predictor | None = None) -> Array:
        """The change of the variance of every latent, or of the rows of a functional."""
        more, less = self._of(self.more, functional), self._of(self.less, functional)
        return np.asarray(np.sum(more**2, axis=1) - np.sum(less**2, axis=1))

    def cumulants(self, functional: Predictor | None = None) -> Array | None:
        """Third cumulants of every latent, or of the rows of a functional; None where the cross
        covariances are not held."""
        if self.crossed is None:
            return None
        if self.whitened is not None:
            root, tensor = self.whitened
            return _along_rows(tensor, self._of(root, functional))
        out, start = np.zeros(len(self.crossed) if functional is None else functional.rows), 0
        for t in self.third:
            size = t.shape[0] * (1 if t.ndim == 1 else t.shape[1])
            c = self._of(self.crossed[:, start : start + size], functional)
            out, start = out + _cubes(t, c), start + size
        return out

    def _of(self, columns: Array, functional: Predictor | None) -> Array:
        if functional is None:
            return columns
        if not columns.shape[1]:
            return np.zeros((functional.rows, 0))
        return functional.times(columns, self.linear.slices)


def second_order(
    linear: LinearGaussian,
    q: Conditioned,
    third: Rows,
    seed: int,
    tilted: bool = False,
    evidence_alone: bool = False,
) -> SecondOrder:
    """`third`: k of each site block, (N,), or the tensors of a vector one, (N, K, K, K); `tilted`:
    without the terms i = j; `evidence_alone`: where no more is asked of what is made of draws."""
    stacked = StackedPredictors(linear)
    scalar = all(t.ndim == 1 for t in third)
    n, rows = linear.size, linear.rows
    if n <= FEW_LATENTS:
        return _by_tensor(linear, stacked, q, third, tilted)
    if scalar and rows <= FEW_ROWS and n * rows <= ENTRIES:
        return _by_rows(linear, stacked, q, third, tilted)
    return _by_draws(linear, stacked, q, third, seed, tilted, evidence_alone)


def _along(t: Array, v: Array) -> tuple[Array, Array]:
    """(N,) or (N K,) each: third derivatives and variances along each predictor alone."""
    if t.ndim > 1:
        t, v = np.einsum("niii->ni", t), np.einsum("nii->ni", v)
    return t.reshape(-1), v.reshape(-1)


def _cubes(t: Array, c: Array) -> Array:
    """(m,) sum of t over all three places with c, (m, N) or (m, N K)."""
    if t.ndim == 1:
        return np.asarray(c**3 @ t)
    c = c.reshape(len(c), *t.shape[:2])
    return np.asarray(np.einsum("nijk,ani,anj,ank->a", t, c, c, c, optimize=True))


def _root(q: Conditioned, n: int) -> Array:
    """(n, n) R with RR' = Cov_q(z)."""
    covariance = q.solve(np.eye(n))
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _own_terms(third: Rows, variance: Rows) -> tuple[float, Array]:
    """The terms i = j, of vector sites along each predictor alone: of the evidence, and w, (P,), of
    the covariance by 1/2 VB' diag(w^2) BV."""
    evidence, weights = 0.0, [np.zeros(0)]
    for t, v in zip(third, variance, strict=True):
        k, own = _along(t, v)
        evidence += float(np.sum(k**2 * own**3)) / 12.0
        weights.append(np.abs(k) * own)
    return evidence, np.concatenate(weights)


def _by_tensor(
    linear: LinearGaussian, stacked: StackedPredictors, q: Conditioned, third: Rows, tilted: bool
) -> SecondOrder:
    n = linear.size
    root = _root(q, n)
    a = stacked.times(root)  # (P, n): s = a x, x ~ N(0, I)
    tensor, start = np.zeros((n, n, n)), 0
    for t in third:
        k = 1 if t.ndim == 1 else t.shape[1]
        part = a[start : start + len(t) * k].reshape(len(t), k, n)
        start += len(t) * k
        step = max(1, CHUNK // (k * n * n))
        whole = t.reshape(-1, 1, 1, 1) if t.ndim == 1 else t
        for low in range(0, len(t), step):
            rows, piece = part[low : low + step], whole[low : low + step]
            half = np.einsum("nijk,nic->njkc", piece, rows)
            half = np.einsum("njkc,njb->nkbc", half, rows)
            tensor += np.einsum("nkbc,nka->abc", half, rows, optimize=True)
    crossed = root @ a.T
    evidence = float(np.sum(tensor**2)) / 12.0
    more, less = root @ tensor.reshape(n, n * n) * np.sqrt(0.5), np.zeros((n, 0))
    if tilted:
        own, weights = _own_terms(third, q.variance)
        evidence, less = evidence - own, crossed * (weights * np.sqrt(0.5))
    whitened = root, tensor
    return SecondOrder(evidence, more, less, crossed, third, True, linear, whitened=whitened)


def _along_rows(tensor: Array, rows: Array) -> Array:
    """(m,) the tensor, (n, n, n), over all three places with each of rows, (m, n)."""
    step, out = max(1, CHUNK // max(rows.shape[1] ** 2, 1)), np.empty(len(rows))
    for low in range(0, len(rows), step):
        part = rows[low : low + step]
        half = np.einsum("abc,ic->iab", tensor, part, optimize=True)
        out[low : low + step] = np.einsum("iab,ia,ib->i", half, part, part, optimize=True)
    return out


def _by_rows(
    linear: LinearGaussian, stacked: StackedPredictors, q: Conditioned, third: Rows, tilted: bool
) -> SecondOrder:
    k = np.concatenate([np.zeros(0), *third])
    crossed = q.solve(stacked.transposed(np.eye(linear.rows)))
    c = stacked.times(crossed)
    c = 0.5 * (c + c.T)
    evidence = float(k @ c**3 @ k) / 12.0
    # kk' o C o C is positive semidefinite (Schur): its root by eigenvalues, some of which are 0.
    values, vectors = np.linalg.eigh(0.5 * np.outer(k, k) * c**2)
    kept = values > 1e-12 * max(float(values.max(initial=0.0)), 1e-300)
    more = crossed @ (vectors[:, kept] * np.sqrt(values[kept]))
    less = np.zeros((linear.size, 0))
    if tilted:
        own, weights = _own_terms(third, q.variance)
        evidence, less = evidence - own, crossed * (weights * np.sqrt(0.5))
    return SecondOrder(evidence, more, less, crossed, third, True, linear)


def _by_draws(
    linear: LinearGaussian,
    stacked: StackedPredictors,
    q: Conditioned,
    third: Rows,
    seed: int,
    tilted: bool,
    evidence_alone: bool,
) -> SecondOrder:
    none = np.zeros((linear.size, 0))
    pairs, triples = _pairs(linear), _triples(linear)
    count = triples if evidence_alone else max(triples, 2 * pairs)
    s = _drawn(linear, q, [seed, 3], count)
    evidence = _by_triples(linear, third, s[:, :triples])
    weights = np.zeros(0)
    if tilted:
        own, weights = _own_terms(third, q.variance)
        evidence -= own
    if evidence_alone:
        return SecondOrder(evidence, none, none, None, third, False, linear)
    x, y = s[:, :pairs], s[:, pairs : 2 * pairs]
    products = np.empty((linear.rows, pairs))
    for j in range(pairs):
        products[:, j] = _contracted(linear, third, x[:, j], y[:, j])
    more = q.solve(stacked.transposed(products)) * np.sqrt(0.5 / pairs)
    less = none
    if tilted:
        rng = np.random.default_rng([seed, 6])
        signs = np.where(rng.random((linear.rows, pairs)) < 0.5, -1.0, 1.0)
        less = q.solve(stacked.transposed(weights[:, None] * signs)) * np.sqrt(0.5 / pairs)
    again = Again(linear, q, third, seed, tilted)
    return SecondOrder(evidence, more, less, None, third, False, linear, again)


def _drawn(linear: LinearGaussian, q: Conditioned, seed: list[int], count: int) -> Array:
    """(P, count) predictors, less their means, of draws of q."""
    z = q.sample(np.random.default_rng(seed), count) - q.latent_mean
    return StackedPredictors(linear).lifted(z.T)


def _pairs(linear: LinearGaussian) -> int:
    """Draws x, y for variances."""
    return int(np.clip(ROWS // max(linear.rows, 1), *PAIRS))


def _triples(linear: LinearGaussian) -> int:
    """Draws for the evidence: all triples of them cost their third power times the rows."""
    return int(np.clip((WORK / max(linear.rows, 1)) ** (1.0 / 3.0), *TRIPLES))


def _by_triples(linear: LinearGaussian, third: Rows, s: Array) -> float:
    """1/12 of the mean of T(x, y, w)^2 over all triples of draws s, (P, m)."""
    m = s.shape[1]
    pieces = cut(s, linear.predictors)
    squares, count = 0.0, 0
    for i in range(m - 2):
        sums = np.zeros((m - i - 1, m - i - 1))
        for t, rows in zip(third, pieces, strict=True):
            rest = rows[:, i + 1 :]
            if t.ndim == 1:
                sums += ((t * rows[:, i])[:, None] * rest).T @ rest
            else:
                shape = t.shape[:2]
                half = np.einsum("nijk,ni->njk", t, rows[:, i].reshape(shape))
                others = rest.reshape(*shape, -1)
                sums += np.einsum("njk,nja,nkb->ab", half, others, others, optimize=True)
        upper = np.triu_indices(len(sums), 1)
        squares, count = squares + float(np.sum(sums[upper] ** 2)), count + len(upper[0])
    return squares / max(count, 1) / 12.0


def _contracted(linear: LinearGaussian, third: Rows, x: Array, y: Array) -> Array:
    """(P,) t contracted with x and y, (P,) each."""
    parts = [np.zeros(0)]
    pieces = zip(third, split(x, linear.predictors), split(y, linear.predictors), strict=True)
    for t, a, b in pieces:
        if t.ndim == 1:
            parts.append(t * a * b)
        else:
            parts.append(np.einsum("nijk,nj,nk->ni", t, a, b).reshape(-1))
    return np.concatenate(parts)
