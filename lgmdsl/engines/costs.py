"""What one conditioning with variances costs by each engine, and what it holds, from the sizes and
patterns of priors and operators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lgmdsl.contract.engine import Estimate
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.dense.gram import COPY_LIMIT
from lgmdsl.engines.grouped.batched import BatchedEngine, plates_in
from lgmdsl.engines.grouped.wide import WideEngine
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.iterative.patience import step_cost
from lgmdsl.engines.iterative.prior import IterativePrior
from lgmdsl.engines.nested.border import is_full
from lgmdsl.engines.nested.engine import NestedEngine, nested
from lgmdsl.engines.nested.nest import Nest
from lgmdsl.engines.shared.kept import by_operators
from lgmdsl.engines.shared.prior import is_flat
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.memory import budget
from lgmdsl.numerics.sparse.analyse import DENSE_UP_TO


def covariance_cost(linear: LinearGaussian) -> Estimate:
    """4/3 P^3 once for the variances, and the prior's n_b x n_b arrays."""
    p = float(linear.rows)
    proper = [float(b.size) for b in linear.blocks if not is_flat(b)]
    full = [
        float(b.size) for b in linear.blocks if not is_flat(b) and Shape.DIAGONAL not in b.shape
    ]
    stored = 3.0 * p * p + sum(n * n for n in full) + sum(p * n for n in full if n != p)
    flats = float(linear.size) - sum(proper)
    return Estimate(4.0 / 3.0 * p**3 + 2.0 * p * p * flats + 1e3, stored + p * flats)


def precision_cost(linear: LinearGaussian) -> Estimate:
    """One pass over B (its non-zeros by the row) and 2/3 n^3 + n^3/3 for A."""
    n, products, stored = float(linear.size), 0.0, 0.0
    for predictor in linear.predictors:
        per_row = 0.0
        for operator in predictor.columns.values():
            rows, columns = operator.shape
            if operator.is_sparse:
                entries = operator.entries
                per_row += entries / max(rows, 1)
                stored += 2.0 * entries
            else:
                per_row += columns
                stored += float(rows) * columns
        products += predictor.rows * per_row * per_row
    return Estimate(3.0 * products + n**3 + 1e3, stored + 4.0 * n * n)


# Sparse kernels on fronts as small as the groups of `batched`, against its products.
SMALL_FRONTS = 20.0
# A large table of pairs takes time to make, and this many doubles a pair until it is.
MAKING, HELD = 16.0, 5.0
SMALL = 128  # latents: below, dense algebra has done before a pattern is analysed


def sparse_cost(linear: LinearGaussian) -> Estimate:
    """Factors, the work for the selected inverse, and the table of pairs, counted; as much as
    nested groups where these leave a large full border: an analysis costs more than it tells."""
    n = linear.size
    widest, pairs = _widths(linear)
    if n >= SMALL and not BatchedEngine.refuses(linear):  # small fronts: not worth an analysis
        plates = plates_in(linear)
        fronts = SMALL_FRONTS * plates.groups * float(plates.width) ** 3
        return Estimate(12.0 * pairs + 10.0 * n + fronts + 2e6, 6.0 * pairs + 50.0 * n)
    large = MAKING * pairs if 24.0 * pairs > COPY_LIMIT else 0.0
    dense = widest > 0.5 * n or 8.0 * HELD * pairs > budget()
    if SparseEngine.refuses(linear) or n < SMALL or dense:
        return Estimate(1e6 + 10.0 * float(n) ** 3 + 20.0 * pairs, 4.0 * n * n + 3.0 * pairs)
    if n > DENSE_UP_TO and not NestedEngine.refuses(linear):
        nest = nested(linear)
        if isinstance(nest, Nest) and len(nest.border) > DENSE_UP_TO and is_full(nest):
            return replace(nested_cost(linear), engine=None)
    engine = SparseEngine(linear)
    stored = engine.symbolic.held + 2.0 * engine.table.table.nnz
    stored += 3.0 * n * (engine.prior.rows.shape[0] + len(engine.prior.pins))
    flops = 3.0 * engine.symbolic.flops + 4.0 * engine.table.flops + large + 2e6
    return Estimate(flops, stored, engine)


@by_operators
def _widths(linear: LinearGaussian) -> tuple[float, float]:
    """Entries of the longest site, and pairs of entries of all sites."""
    widest, pairs = 0.0, 0.0
    for predictor in linear.predictors:
        width = np.zeros(predictor.rows)
        for operator in predictor.columns.values():
            width += operator.entries_by_row()
        per_site = width.reshape(-1, max(predictor.event, 1)).sum(axis=1)
        widest, pairs = max(widest, per_site.max(initial=0.0)), pairs + float(per_site @ per_site)
    return widest, pairs


# Of the compiled pass: its start, flops for each pair of entries of a row, and how much longer it
# takes where the border has sparse columns, which the groups' sums are added to one by one.
NESTED_START, NESTED_PAIR, SCATTERED = 2.5e6, 2.0, 4.0


def nested_cost(linear: LinearGaussian) -> Estimate:
    """The pass over the rows, the elimination of each group, and the factor of the border."""
    if NestedEngine.refuses(linear):
        return Estimate(1e6 + 10.0 * float(linear.size) ** 3, 4.0 * float(linear.size) ** 2)
    engine = NestedEngine(linear)
    nest, symbolic = engine.nest, engine.border.symbolic
    r, k = nest.widths.astype(np.float64), nest.touched.astype(np.float64)
    groups = float((r**3 + 2.0 * r**2 * k + 2.0 * (r + 1.0) * k**2).sum())
    passes = NESTED_PAIR * nest.pairs + groups
    passes *= SCATTERED if len(nest.lines.columns) else 1.0
    flops = NESTED_START + passes + 3.0 * symbolic.flops
    held = 3.0 * float(nest.cross_start[-1] + nest.square_start[-1])
    held += len(engine.border.slots) + symbolic.held + 2.0 * engine.border.pattern.nnz
    entries = len(nest.lines.value) + nest.lines.dense.size
    return Estimate(flops, held + 2.0 * entries + 2.0 * linear.rows, engine)


def batched_cost(linear: LinearGaussian) -> Estimate:
    """B'WB and the variances row by row, and a small factor for each group."""
    if BatchedEngine.refuses(linear):
        return Estimate(float(linear.size) ** 3 + 1e6, 0.0)
    engine = BatchedEngine(linear)
    groups, width = engine.plates.groups, float(engine.plates.width)
    flops = 4.0 * linear.rows * width**2 + 3.0 * groups * width**3
    return Estimate(flops + 1e4, 8.0 * linear.rows * width + 5.0 * groups * width**2, engine)


def wide_cost(linear: LinearGaussian) -> Estimate:
    """A factor and a few products for each vector, of the size of its rows."""
    if linear.size < SMALL or WideEngine.refuses(linear):
        return Estimate(float(linear.size) ** 3 + 1e6, 0.0)
    engine = WideEngine(linear)
    groups, most = engine.s.shape[:2]
    means = float(linear.rows) * engine.rows.size
    flops = 8.0 * groups * float(most) ** 3 + 4.0 * means
    return Estimate(flops + 1e6, 6.0 * engine.s.size + 4.0 * linear.size, engine)


# Of conjugate gradients, and the columns of samples and probes: guesses, as weights are unknown.
ITERATIONS, COLUMNS = 60, 56.0


def iterative_cost(linear: LinearGaussian) -> Estimate:
    """Products with B and B' for the samples and probes, what moves through memory with them, and
    the blocks of vectors they need."""
    cost = iterations_cost(linear)
    flops, stored = cost.flops, cost.doubles
    if not IterativeEngine.refuses(linear):
        factored = IterativePrior.factored(linear)
        stored += max((factor.held for factor in factored), default=0.0)
        flops += sum(factor.flops for factor in factored)
    return Estimate(flops, stored)


def iterations_cost(linear: LinearGaussian) -> Estimate:
    """Cost of conjugate gradients alone, without the prior's determinants."""
    n = float(linear.size)
    stored = sum(op.entries for p in linear.predictors for op in p.columns.values() if op.in_memory)
    flops = ITERATIONS * COLUMNS * step_cost(linear)
    return Estimate(flops, 6.0 * COLUMNS * n + 2.0 * COLUMNS * linear.rows + stored)
