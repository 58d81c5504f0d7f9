"""The second-order terms by draws of q, where rows and latents are many."""

from __future__ import annotations

from math import factorial

import numpy as np

from lgmdsl.accuracy.derivatives import Derivatives, pairs_of
from lgmdsl.accuracy.terms import Again, SecondOrder, Spread, drawn
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import StackedPredictors, cut

TRIPLES, WORK = (10, 48), 2e7  # draws for the evidence, by the work that all triples of them are


def evidence_by_draws(
    linear: LinearGaussian, q: Conditioned, derivatives: Derivatives, seed: int, tilted: bool
) -> float:
    """What the bound of the evidence lacks."""
    s = drawn(linear, q, [seed, 3], _triples(linear))
    return _evidence(linear, q, derivatives, s, tilted)


def by_draws(
    linear: LinearGaussian, q: Conditioned, derivatives: Derivatives, seed: int, tilted: bool
) -> SecondOrder:
    """The evidence and the changes of variances."""
    stacked, orders, pairs = StackedPredictors(linear), derivatives.orders(q), pairs_of(linear)
    triples = _triples(linear)
    s = drawn(linear, q, [seed, 3], max(triples, (max(orders) - 1) * pairs))
    evidence = _evidence(linear, q, derivatives, s[:, :triples], tilted)
    spreads, rng = [], np.random.default_rng([seed, 6])
    for order in orders:
        unit = 1.0 / np.sqrt(factorial(order - 1) * pairs)
        products = derivatives.products(order, linear, s)
        more, less = q.solve(stacked.transposed(products)) * unit, np.zeros((linear.size, 0))
        if tilted:
            weights = derivatives.own_terms(order, q.variance)[1]
            signs = np.where(rng.random((linear.rows, pairs)) < 0.5, -1.0, 1.0)
            less = q.solve(stacked.transposed(weights[:, None] * signs)) * unit
        spreads.append(Spread(more, less))
    again = Again(linear, q, derivatives, orders, seed, tilted)
    return SecondOrder(evidence, tuple(spreads), None, derivatives, False, linear, again)


def _evidence(
    linear: LinearGaussian, q: Conditioned, derivatives: Derivatives, s: Array, tilted: bool
) -> float:
    """The larger of what odd and even derivatives change."""
    parts = {3: _by_triples(linear, derivatives.third, s)}
    if 4 in derivatives.orders(q):
        parts[4] = _by_quadruples(linear, derivatives.fourth, s)
    if tilted:
        parts = {n: x - derivatives.own_terms(n, q.variance)[0] for n, x in parts.items()}
    return max(parts.values(), key=abs)


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


def _by_quadruples(linear: LinearGaussian, fourth: Rows, s: Array) -> float:
    """1/48 of the mean of (sum_i f_i x_i y_i w_i u_i)^2 over quadruples of draws s, (P, m): of
    pairs of them, every two."""
    half = s.shape[1] // 2
    products, sums = s[:, :half] * s[:, half : 2 * half], np.zeros((half, half))
    for f, rows in zip(fourth, cut(products, linear.predictors), strict=True):
        if len(f):
            sums += (f[:, None] * rows).T @ rows
    return float(np.mean(sums[np.triu_indices(half, 1)] ** 2)) / 48.0
