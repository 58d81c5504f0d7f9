"""The second-order terms by draws of q, where rows and latents are many."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np

from lgmdsl.accuracy.derivatives import Derivatives, pairs_of
from lgmdsl.accuracy.terms import Again, SecondOrder, Spread, drawn
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import StackedPredictors

FEW, WORK = (4, 12), 1e6  # draws for the evidence, by the work that all pairs of them are


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
    stacked, orders, pairs = StackedPredictors(linear), derivatives.orders(q), pairs_of(linear)
    few, most = _few(linear), max(orders) - 1
    s = drawn(linear, q, [seed, 3], max(few, most * pairs))
    evidence = _evidence(linear, q, derivatives, s[:, :few], tilted)
    spreads, rng = [], np.random.default_rng([seed, 6])
    for order in orders:
        unit = 1.0 / np.sqrt(factorial(order - 1) * pairs)
        products = derivatives.products(
            order, linear, np.split(s[:, : (order - 1) * pairs], order - 1, axis=1)
        )
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
