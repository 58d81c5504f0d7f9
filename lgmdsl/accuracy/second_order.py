"""What the third and fourth derivatives of the sites change in a variational Gaussian, to second
order.

With k_i = E_q[l_i'''], f_i = E_q[l_i''''], C = Cov_q(s), c_a = Cov_q(s, a'z), V = Cov_q(z), at the
optimum of the variational bound (a perturbation series about q, by orders of Hermite polynomials)

    log p(y) - bound = 1/12 sum_ij k_i k_j C_ij^3            or 1/48 sum_ij f_i f_j C_ij^4
    Var(a'z) - a'Va  = 1/2 sum_ij k_i k_j c_ai c_aj C_ij^2   or 1/6 sum_ij f_i f_j c_ai c_aj C_ij^3
    third cumulant of a'z = sum_i k_i c_ai^3
    E a'z - a'm = sum_j c_aj (1/2 k_j (Var(s_j) - C_jj) + 1/6 f_j sum_i k_i C_ij^3)

of the first two whichever is larger: of symmetric sites (laplace, student_t) the first is 0; of
skewed ones terms of third order undo the second (`largest`). The terms i = j of the evidence are
known to all orders, log E_q[t_i / t~_i] - E_q[log t_i / t~_i] with the Gaussian sites t~, and are
taken from there: heavy tails (student_t) need more than their second order. Fourth cumulants, sum_i
f_i c_ai^4, hardly change a 5 or 95 % point (Cornish and Fisher: by (z^3 - 3z) / 24 = -0.02 of
them). What moves the mean is of third order, but adds up over rows that share a latent: of a level
of 1,667 groups of three counts to 0.1 sds and more.

For EP (Opper, Paquet and Winther 2013, "Perturbative corrections for approximate inference in
Gaussian latent variable models") the same with the cumulants of the tilted distributions in
k and f, without the terms i = j, which its own moments hold already.

Vector sites have tensors t_i in place of k_i; sums over rows have such f_i too, others none. Four
routes: a tensor over whitened latents where they are few; all of C where rows are few; upper bounds
(`bound`), where these are low; else draws of q, of which independent x, y, w with
T(x, y, w) = sum_i k_i x_i y_i w_i have E T^2 = sum_ij k_i k_j C_ij^3, and one solve d = VB'(k x y)
serves Var(a'z) for all a at once: E (a'd)^2 = sum_ij k_i k_j c_ai c_aj C_ij^2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import factorial

import numpy as np

from lgmdsl.accuracy.bound import MANY, CloseBounds, Conditions, RowBounds, row_bounds
from lgmdsl.accuracy.derivatives import Derivatives, pairs_of
from lgmdsl.accuracy.limits import ENTRIES, FEW_LATENTS, FEW_ROWS, MEAN, QUANTILE
from lgmdsl.accuracy.terms import (
    Again,
    SecondOrder,
    Spread,
    along_rows,
    drawn,
    positive_root,
    root_of,
)
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import StackedPredictors

CROSSED = 4_000_000  # entries of the cross covariances of latents and rows that are held
FOURTH = 5e8  # operations of the tensor of fourth derivatives
# Bounds that are taken as they are, of all functionals at once, by a look at each row (half of what
# is tolerated, so that `effort=high` tolerates it too).
LOW = 0.5 * QUANTILE
NOTHING = 0.01  # nats
LEAST = 0.1 * MEAN  # of what bounds leave of means, in sds
# What may be missing of means, as a share of the larger of the two parts that undo most of one
# another: of bounds, and of EP, whose moments hold the terms of single sites but not those of rows
# that are alike.
UNSURE = {False: 0.09, True: 0.25}
FEW, WORK = (4, 12), 1e6  # draws for the evidence, by the work that all pairs of them are


def second_order(
    linear: LinearGaussian,
    q: Conditioned,
    derivatives: Derivatives,
    seed: int,
    tilted: bool = False,
    evidence_alone: bool = False,
    condition: Conditions | None = None,
) -> SecondOrder:
    """`tilted`: without the terms i = j; `evidence_alone`: where no more is asked of what is made
    of draws; `condition`: of the engine of q, for bounds of each functional."""
    stacked = StackedPredictors(linear)
    n, rows = linear.size, linear.rows
    if n <= FEW_LATENTS:
        return _by_tensor(linear, stacked, q, derivatives, seed, tilted)
    if derivatives.scalar and rows <= FEW_ROWS and n * rows <= CROSSED:
        return _by_rows(linear, stacked, q, derivatives, tilted, evidence_alone)
    bounds = row_bounds(q, derivatives)
    low: RowBounds | CloseBounds | None = None
    if not evidence_alone:
        low = None if bounds is None else _low(linear, derivatives, bounds, q, condition)
        if low is None:
            return by_draws(linear, q, derivatives, seed, tilted)
    if bounds is not None and bounds.gap < NOTHING and not tilted:
        evidence = max(derivatives.own_terms(order, q.variance)[0] for order in (3, 4))
    else:
        evidence = evidence_by_draws(linear, q, derivatives, seed, tilted)
    draw = partial(by_draws, linear, q, derivatives, seed, tilted)
    change = SecondOrder(evidence, (), None, derivatives, False, linear, bounds=low, draw=draw)
    if bounds is None or evidence_alone or bounds.moved <= LEAST:
        return change
    s, rng = drawn(linear, q, [seed, 3], 2 * pairs_of(linear)), np.random.default_rng([seed, 6])
    spread = _spread(linear, stacked, q, derivatives, 3, s, rng, tilted)
    return _with_means(change, stacked, q, spread, _cubes(stacked, spread, s), tilted)


def _low(
    linear: LinearGaussian,
    derivatives: Derivatives,
    bounds: RowBounds,
    q: Conditioned,
    condition: Conditions | None,
) -> RowBounds | CloseBounds | None:
    """Bounds that are low enough to ask no more, or too high for a few functionals alone."""
    if bounds.quantile <= LOW:
        return bounds
    close = None if condition is None else bounds.closer(linear, derivatives, q, condition)
    return close if close is not None and close.above(QUANTILE) <= MANY else None


def _with_means(
    change: SecondOrder,
    stacked: StackedPredictors,
    q: Conditioned,
    spread: Spread,
    cubes: Array,
    tilted: bool,
) -> SecondOrder:
    """With how far means move, of scalar sites: by the change of Cov(z) by third derivatives, and
    the third cumulants of the predictors, (P,)."""
    wide = np.sum(stacked.times(spread.more) ** 2, axis=1)
    wide -= np.sum(stacked.times(spread.less) ** 2, axis=1)
    slopes = change.derivatives.slopes(q.variance, wide, cubes, tilted)
    moved = q.solve(stacked.transposed(slopes))
    return replace(change, moved=moved, unsure=UNSURE[tilted])


def _by_tensor(
    linear: LinearGaussian,
    stacked: StackedPredictors,
    q: Conditioned,
    derivatives: Derivatives,
    seed: int,
    tilted: bool,
) -> SecondOrder:
    n = linear.size
    root = root_of(q, n)
    a = stacked.times(root)  # (P, n): s = a x, x ~ N(0, I)
    tensors = {3: _third(derivatives, a)}
    if derivatives.bends(q) and len(a) * n**4 <= FOURTH:
        tensors[4] = _fourth(derivatives, a)
    parts = {}
    for order, tensor in tensors.items():
        flat = tensor.reshape(n, -1)
        evidence = float(np.sum(flat**2)) / (2.0 * factorial(order))
        parts[order] = evidence, root @ positive_root(flat @ flat.T / factorial(order - 1))
    crossed = root @ a.T
    whole = replace(
        _joined(linear, q, derivatives, crossed, parts, tilted), whitened=(root, tensors[3])
    )
    spread = whole.spreads[0]
    if tilted:  # of many rows all of its columns have too many entries
        rng = np.random.default_rng([seed, 6])
        spread = replace(spread, less=_signed(linear, stacked, q, derivatives, 3, rng))
    if derivatives.scalar:
        return _with_means(whole, stacked, q, spread, along_rows(tensors[3], a), tilted)
    if not derivatives.complete or len(a) * n**4 > FOURTH:
        return whole
    third, fourth = tensors[3].reshape(n, -1), tensors.get(4)
    fourth = _fourth(derivatives, a) if fourth is None else fourth
    odd = 0.25 * third @ (third @ third.T).reshape(-1)
    even = fourth.reshape(n, -1) @ third.reshape(-1) / 6.0
    return replace(whole, moved=root @ np.column_stack([odd, even]), unsure=UNSURE[False])


def _joined(
    linear: LinearGaussian,
    q: Conditioned,
    derivatives: Derivatives,
    crossed: Array,
    parts: Mapping[int, tuple[float, Array]],
    tilted: bool,
) -> SecondOrder:
    """Second-order terms of `parts`, (evidence, more) by order; where `tilted` (EP), less the
    sites' own terms."""
    gaps, spreads = [], []
    for order, (evidence, more) in parts.items():
        less = np.zeros((linear.size, 0))
        if tilted:
            weights = derivatives.own_terms(order, q.variance)[1]
            less = crossed * (weights / np.sqrt(factorial(order - 1)))
        gaps.append(evidence - derivatives.excess(order, q.variance, tilted))
        spreads.append(Spread(more, less))
    gap = max(gaps, key=abs)
    return SecondOrder(gap, tuple(spreads), crossed, derivatives, True, linear)


def _third(derivatives: Derivatives, a: Array) -> Array:
    """(n, n, n) sum_i t_i over a_i, the rows of each site, in all three places."""
    n = a.shape[1]
    tensor, start = np.zeros((n, n, n)), 0
    for t in derivatives.third:
        k = 1 if t.ndim == 1 else t.shape[1]
        part = a[start : start + len(t) * k].reshape(len(t), k, n)
        start += len(t) * k
        step = max(1, ENTRIES // (k * n * n))
        whole = t.reshape(-1, 1, 1, 1) if t.ndim == 1 else t
        for low in range(0, len(t), step):
            rows, piece = part[low : low + step], whole[low : low + step]
            half = np.einsum("nijk,nic->njkc", piece, rows)
            half = np.einsum("njkc,njb->nkbc", half, rows)
            tensor += np.einsum("nkbc,nka->abc", half, rows, optimize=True)
    return tensor


def _fourth(derivatives: Derivatives, a: Array) -> Array:
    """(n^2, n^2) sum_i f_i over a_i in all four places."""
    n = a.shape[1]
    tensor, start = np.zeros((n * n, n * n)), 0
    for t, f in zip(derivatives.third, derivatives.fourth, strict=True):
        size = len(t) if t.ndim == 1 else len(t) * t.shape[1]
        step = max(1, ENTRIES // (n * n))
        if f.ndim > 1:
            k = f.shape[1]
            part = a[start : start + size].reshape(len(f), k, n)
            start, step = start + size, max(1, step // k**2)
            for low in range(0, len(f), step):
                rows = part[low : low + step]
                pairs = np.einsum("nia,njb->nijab", rows, rows).reshape(-1, k * k, n * n)
                whole = f[low : low + step].reshape(-1, k * k, k * k)
                tensor += np.einsum("npa,npq,nqb->ab", pairs, whole, pairs, optimize=True)
            continue
        for low in range(0, len(f), step):
            rows = a[start + low : start + min(low + step, len(f))]
            pairs = (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
            tensor += (pairs * f[low : low + step, None]).T @ pairs
        start += size
    return tensor


def _by_rows(
    linear: LinearGaussian,
    stacked: StackedPredictors,
    q: Conditioned,
    derivatives: Derivatives,
    tilted: bool,
    evidence_alone: bool,
) -> SecondOrder:
    crossed = q.solve(stacked.transposed(np.eye(linear.rows)))
    c = stacked.times(crossed)
    c = 0.5 * (c + c.T)
    parts, square = {}, c * c
    for order in derivatives.orders(q):
        rows = derivatives.third if order == 3 else derivatives.fourth
        k = np.concatenate([np.zeros(0), *rows])
        lower = square if order == 3 else square * c  # ** takes twenty times as long
        evidence = float(k @ (lower * c) @ k) / (2.0 * factorial(order))
        if evidence_alone:
            parts[order] = evidence, np.zeros((linear.size, 0))
            continue
        # kk' o C o C is positive semidefinite (Schur): its root by eigenvalues, some of them 0.
        values, vectors = np.linalg.eigh(np.outer(k, k) * lower / factorial(order - 1))
        kept = values > 1e-12 * max(float(values.max(initial=0.0)), 1e-300)
        parts[order] = evidence, crossed @ (vectors[:, kept] * np.sqrt(values[kept]))
    whole = _joined(linear, q, derivatives, crossed, parts, tilted)
    if evidence_alone:
        return whole
    cubes = (square * c) @ np.concatenate([np.zeros(0), *derivatives.third])
    return _with_means(whole, stacked, q, whole.spreads[0], cubes, tilted)


def evidence_by_draws(
    linear: LinearGaussian, q: Conditioned, derivatives: Derivatives, seed: int, tilted: bool
) -> float:
    """What the bound of the evidence lacks."""
    s = drawn(linear, q, [seed, 3], _few(linear))
    return _evidence(linear, q, derivatives, s, tilted)


def by_draws(
    linear: LinearGaussian, q: Conditioned, derivatives: Derivatives, seed: int, tilted: bool
) -> SecondOrder:
    """The evidence and the changes of variances."""
    stacked, orders, few = StackedPredictors(linear), derivatives.orders(q), _few(linear)
    s = drawn(linear, q, [seed, 3], max(few, (max(orders) - 1) * pairs_of(linear)))
    evidence = _evidence(linear, q, derivatives, s[:, :few], tilted)
    rng = np.random.default_rng([seed, 6])
    spreads = [_spread(linear, stacked, q, derivatives, n, s, rng, tilted) for n in orders]
    again = Again(linear, q, derivatives, orders, seed, tilted)
    whole = SecondOrder(evidence, tuple(spreads), None, derivatives, False, linear, again)
    if derivatives.scalar:
        return _with_means(whole, stacked, q, spreads[0], _cubes(stacked, spreads[0], s), tilted)
    if not derivatives.complete:
        return whole
    lifted = stacked.times(spreads[0].more)
    pairs = lifted.shape[1]
    both = (s[:, :pairs], s[:, pairs : 2 * pairs], lifted)
    odd = 0.5 * derivatives.products(3, linear, (lifted, lifted)).sum(axis=1)
    even = derivatives.products(4, linear, both).sum(axis=1) * np.sqrt(2.0 / pairs) / 6.0
    moved = q.solve(stacked.transposed(np.column_stack([odd, even])))
    return replace(whole, moved=moved, unsure=UNSURE[False])


def _spread(
    linear: LinearGaussian,
    stacked: StackedPredictors,
    q: Conditioned,
    derivatives: Derivatives,
    order: int,
    s: Array,
    rng: np.random.Generator,
    tilted: bool,
) -> Spread:
    """The change of Cov(z) by the derivatives of an order, from the first draws of s, (P, m)."""
    pairs = pairs_of(linear)
    unit = 1.0 / np.sqrt(factorial(order - 1) * pairs)
    draws = np.split(s[:, : (order - 1) * pairs], order - 1, axis=1)
    more = q.solve(stacked.transposed(derivatives.products(order, linear, draws))) * unit
    less = _signed(linear, stacked, q, derivatives, order, rng) if tilted else more[:, :0]
    return Spread(more, less)


def _signed(
    linear: LinearGaussian,
    stacked: StackedPredictors,
    q: Conditioned,
    derivatives: Derivatives,
    order: int,
    rng: np.random.Generator,
) -> Array:
    """(n, r) the root of the sites' own terms in Cov(z), by random signs."""
    pairs, weights = pairs_of(linear), derivatives.own_terms(order, q.variance)[1]
    signs = np.where(rng.random((linear.rows, pairs)) < 0.5, -1.0, 1.0)
    unit = 1.0 / np.sqrt(factorial(order - 1) * pairs)
    return np.asarray(q.solve(stacked.transposed(weights[:, None] * signs)) * unit)


def _cubes(stacked: StackedPredictors, spread: Spread, s: Array) -> Array:
    """(P,) third cumulants of the predictors, from the draws, (P, m), that a spread by third
    derivatives is made of."""
    pairs = spread.more.shape[1]
    products = s[:, :pairs] * s[:, pairs : 2 * pairs]
    return np.asarray(np.sum(products * stacked.times(spread.more), axis=1) * np.sqrt(2.0 / pairs))


def _evidence(
    linear: LinearGaussian, q: Conditioned, derivatives: Derivatives, s: Array, tilted: bool
) -> float:
    """The larger of what odd and even derivatives change, from draws s, (P, m): for p = k x y (or
    f x y w) over all pairs (triples) of them, E p'Cp = sum_ij k_i k_j C_ij^3. The last draw of
    each product is averaged over in closed form: what is left varies little where sites are many
    and far from one another."""
    stacked, parts = StackedPredictors(linear), []
    for order in derivatives.orders(q):
        chosen = np.array(list(combinations(range(s.shape[1]), order - 1))).T
        products = derivatives.products(order, linear, [s[:, k] for k in chosen])
        pulled = stacked.transposed(products)
        square = float(np.sum(pulled * q.solve(pulled))) / products.shape[1]
        excess = derivatives.excess(order, q.variance, tilted)
        parts.append(square / (2.0 * factorial(order)) - excess)
    return float(max(parts, key=abs))


def _few(linear: LinearGaussian) -> int:
    """Draws for the evidence, of which all pairs are taken."""
    return int(np.clip(np.sqrt(WORK / max(linear.rows, 1)), *FEW))
