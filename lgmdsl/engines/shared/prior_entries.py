"""Entries of a prior covariance on the pattern of its precision, from the factors of a product.

(K_1 (x) K_2)[(i, k), (j, l)] = K_1[i, j] K_2[k, l], and so for Q^+ where factors are intrinsic: a
product of 625 by 160 needs two small covariances, never a factor of the product.

They are paired with slopes of Q and nothing else. Where one number c scales a factor, Q = U / c,
the slope is -Q / c, and <Q^+, Q> = rank Q whatever Q is: a diagonal so paired stands for Q^+,
whose entries next to those of a stiff walk would cancel all their digits (over 5,000 points of rw2
the slope in sd was off by 1).
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.linear import LinearGaussian, PriorBlock
from lgmdsl.contract.structure import Structure
from lgmdsl.engines.shared.prior_precision import SparsePrior


def constrained_entries(
    prior: SparsePrior, block: PriorBlock, rows: IntArray, columns: IntArray
) -> Array:
    """Entries as `covariance_entries`, of a block of a whole prior, which the user may constrain;
    `rows`, `columns`: places in the block."""
    if prior.reaches(block.name):
        start = prior.linear.starts[block.name]
        return prior.covariance(rows + start, columns + start)
    return covariance_entries(block, rows, columns)


def covariance_entries(block: PriorBlock, rows: IntArray, columns: IntArray) -> Array:
    """Entries on Q's pattern of the block's K, without its free directions, or of what is paired
    with the slopes of Q as K is; KeyError for one that Q does not store. Raises NumericalError E601
    where Q is not positive definite off its null space."""
    if len(block.factors) == 1:
        return _entries(block.factors[0], rows, columns)
    sizes = [f.size for f in block.factors]
    out = np.ones(len(rows))
    places = zip(np.unravel_index(rows, sizes), np.unravel_index(columns, sizes), strict=True)
    for factor, (i, j) in zip(block.factors, places, strict=True):
        out *= _entries(factor, i, j)
    return out


def _entries(factor: Structure, rows: IntArray, columns: IntArray) -> Array:
    known = factor.covariance_at(rows, columns)
    if known is not None:
        return known
    if factor.proportional:
        diagonal = np.asarray(factor.precision().diagonal())
        share = (factor.size - factor.nullity) / float(diagonal @ diagonal)
        return np.where(rows == columns, share * diagonal[rows], 0.0)
    block = PriorBlock("", (factor,), np.zeros(factor.size))
    prior = SparsePrior(LinearGaussian((block,), ()))
    return prior.covariance(rows, columns)
