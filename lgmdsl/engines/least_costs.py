"""The least that an engine may cost, or why it takes no such model, from sizes alone.

An engine whose least is above the cost of another need not be asked: `costs` forms patterns, and
builds what an engine conditions with. None of these is above its cost there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lgmdsl.contract.linear import LinearGaussian, PriorBlock
from lgmdsl.engines.costs import (
    MAKING,
    NESTED_PAIR,
    NESTED_START,
    SMALL,
    iterations_cost,
)
from lgmdsl.engines.dense.gram import COPY_LIMIT
from lgmdsl.engines.grouped import batched, wide
from lgmdsl.engines.grouped.batched_prior import Form, form_of
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.nested.grouping import plain_refusal
from lgmdsl.engines.shared.kept import by_operators
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Identity, Sparse
from lgmdsl.vocabulary.signature import Trait


class Least(NamedTuple):
    """Flops of one conditioning with variances, doubles held; the refusal, where there is one."""

    flops: float = 0.0
    doubles: float = 0.0
    refusal: str = ""


def least_batched(linear: LinearGaussian) -> Least:
    """Groups of one latent, or of as many as a dense factor joins."""
    refusal = batched.plain_refusal(linear)
    if refusal:
        return Least(refusal=refusal)
    joined = (b for b in linear.blocks if form_of(b) is Form.covariance)
    sizes = (f.size for b in joined for f in b.factors if Trait.IDENTITY not in f.traits())
    width = float(max(sizes, default=1))
    rows, size = float(linear.rows), float(linear.size)
    flops = 4.0 * rows * width**2 + 3.0 * size * width**2 + 1e4
    return Least(flops, 8.0 * rows * width + 5.0 * size * width)


def least_wide(linear: LinearGaussian) -> Least:
    """N vectors that share the rows evenly."""
    if linear.size < SMALL:
        return Least()
    refusal = wide.plain_refusal(linear)
    if refusal:
        return Least(refusal=refusal)
    size, rows = float(linear.size), float(linear.rows)
    length = float(linear.blocks[0].factors[-1].size)
    groups = size / max(length, 1.0)
    each = rows / max(groups, 1.0)
    flops = 8.0 * groups * each**3 + 4.0 * rows * length + 1e6
    return Least(flops, 6.0 * groups * each**2 + 4.0 * size)


def least_sparse(linear: LinearGaussian) -> Least:
    """The pairs of rows that are all as long, and a factor with no more fill than the prior has:
    (sum_j c_j)^2 / n <= sum_j c_j^2 for its n columns of c_j entries."""
    n, pairs = float(linear.size), _least_pairs(linear)
    refusal = SparseEngine.refuses(linear)
    if linear.size < SMALL or refusal:
        return Least(1e6 + 10.0 * n**3 + 20.0 * pairs, 4.0 * n**2 + 3.0 * pairs, refusal)
    large = MAKING * pairs if 24.0 * pairs > COPY_LIMIT else 0.0
    fill = sum(map(_fill, linear.blocks))
    return Least(4.0 * pairs + large + 3.0 * fill**2 / n + 2e6, pairs + 3.0 * fill)


def least_nested(linear: LinearGaussian) -> Least:
    """The pass over rows that are all as long."""
    refusal = plain_refusal(linear)
    if refusal:
        return Least(refusal=refusal)
    pairs = 0.0
    for p in linear.predictors:
        entries = sum(o.entries for o in p.columns.values())
        pairs += entries**2 / max(p.rows, 1)
    return Least(NESTED_START + NESTED_PAIR * pairs, float(linear.rows))


def _fill(block: PriorBlock) -> float:
    """Entries that the factor of a block's precision has at least: the precision of a covariance
    is stored whole, others have a diagonal."""
    entries = 1.0
    for factor in block.factors:
        entries *= float(factor.size) ** (2 if Trait.COVARIANCE in factor.traits() else 1)
    return 0.5 * (entries + block.size)


@by_operators
def _least_pairs(linear: LinearGaussian) -> float:
    """Pairs of entries of sites that are all as long."""
    pairs = 0.0
    for p in linear.predictors:
        each = sum(map(_stored, p.columns.values()))
        pairs += each**2 / max(p.rows // max(p.event, 1), 1)
    return pairs


def _stored(operator: Operator) -> float:
    """Entries of its sparse form, where they are known without making it."""
    if isinstance(operator, Sparse):
        return operator.entries if operator.array.has_canonical_format else 0.0
    if isinstance(operator, Dense):
        return float(np.count_nonzero(operator.array))
    return operator.entries if isinstance(operator, Identity) else 0.0


def least_iterative(linear: LinearGaussian) -> Least:
    """Iterations, the determinants of the prior aside."""
    cost = iterations_cost(linear)
    return Least(cost.flops, cost.doubles, IterativeEngine.refuses(linear))
