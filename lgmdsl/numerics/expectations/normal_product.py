"""Averages over Gaussians of a few dimensions, by rules that grow until two of them agree.

s = m + R t with RR' = V and t standard normal, so V may be singular. First products of Gauss-
Hermite rules, exact for polynomials; then the trapezoidal rule on a lattice, whose error
e^{-2 pi d / step} is smaller where there are singularities at a distance d from the real axis;
where much is left at its border, as of e^{a s} for large a, longer Gauss-Hermite rules, whose
nodes reach further out. Above three dimensions quasi-Monte Carlo (Sobol 1967), symmetric and with
the covariance of t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray, IntArray

# Points of each rule above three dimensions, and to what two of them are to agree at least.
SAMPLED, ROUGHLY = (1 << 9, 1 << 11, 1 << 13), 2e-3
# Nodes on the axis of the largest sd, in turn; steps of lattices in a ball of REACH sds; further
# nodes. The first rule is by the largest sd. Rules of three dimensions end at 7,000 points.
LADDER: dict[int, tuple[int, ...]] = {
    1: (4, 6, 9, 13, 19, 27),
    2: (4, 6, 9, 13, 19, 27),
    3: (4, 6, 9, 13, 19),
}
STEPS: dict[int, tuple[float, ...]] = {1: (0.3, 0.15, 0.07, 0.03), 2: (0.42, 0.3, 0.2, 0.14), 3: ()}
FURTHER: dict[int, tuple[int, ...]] = {1: (56, 80, 120), 2: (39, 56, 80), 3: ()}
PER_SD = 6.0
# An axis whose sd is smaller by this factor has the nodes of the rung below, FEWEST at least. Over
# ten families, sds of 0.01 to 1.3 turned at random: errors to 2e-8, those of equal nodes, of which
# it takes half in three dimensions; with 1.45 the errors were 2e-7 for a sixth.
RUNG, FEWEST = 1.8, 3
# What the outermost sd of a lattice may hold of an average, relative.
REACH, BORDER = 8.5, 1e-9
POINTS_PER_PASS = 1 << 18  # points of all rows that are held at once

# rows (n,), s (n, p, K) -> (q, n, p)
Values = Callable[[IntArray, Array], Array]


class Rule(NamedTuple):
    """Points (P, K) and weights (P,) of the standard normal, and which points are at the border of
    a lattice."""

    points: Array
    weight: Array
    border: BoolArray | None = None


def averages(
    values: Values, mean: Array, variance: Array, tolerance: float = 3e-7
) -> tuple[Array, BoolArray]:
    """E[values], (q, N), s ~ N(mean, variance), (N, K) and (N, K, K); and in which rows the last
    two rules agree, relative to 1 + |E|: the longer one's error is far below their difference.
    Above K = 3 the rules are sampled (`sampled_rule`), and they are to agree to ROUGHLY."""
    n, k = mean.shape
    root = root_of(variance)
    if k not in LADDER:
        return _sampled(values, mean, root, max(tolerance, ROUGHLY))
    sd = np.sqrt((root * root).sum(axis=1))
    largest = sd.max(axis=1, initial=0.0)
    rungs = len(LADDER[k])
    first = np.minimum(np.searchsorted(LADDER[k], LADDER[k][0] + PER_SD * largest), rungs - 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        down = np.log(largest[:, None] / sd) / np.log(RUNG)
    down = np.where(sd > 0.0, np.minimum(down, rungs), rungs).astype(np.intp)
    settled = np.zeros(n, dtype=np.bool_)
    out: Array | None = None
    kinds, kind = np.unique(np.column_stack([first, down]), axis=0, return_inverse=True)
    for number, (level, *lower) in enumerate(kinds.tolist()):
        rows = np.flatnonzero(kind.ravel() == number)
        for rules in (_ladder(tuple(lower))[level:], _lattices(k), _further(k)):
            before: Array | None = None
            for rule in rules:
                after, inside = _by_rule(values, rows, mean, root, rule)
                if out is None:
                    out = np.empty((len(after), n))
                out[:, rows] = after
                if before is not None:
                    with np.errstate(invalid="ignore"):
                        near = np.abs(after - before) <= tolerance * (1.0 + np.abs(after))
                    same = near.all(axis=0) & inside
                    settled[rows[same]] = True
                    rows, after, inside = rows[~same], after[:, ~same], inside[~same]
                before = after
                if not len(rows):
                    break
            if not len(rows):
                break
    if out is None:
        out = np.empty((len(values(np.zeros(0, dtype=np.intp), np.empty((0, 1, k)))), 0))
    return out, settled


def _sampled(values: Values, mean: Array, root: Array, tolerance: float) -> tuple[Array, BoolArray]:
    """`averages` in many dimensions."""
    n, k = mean.shape
    rows = np.arange(n)
    out, _ = _by_rule(values, rows, mean, root, sampled_rule(SAMPLED[0], k))
    settled = np.zeros(n, dtype=np.bool_)
    for size in SAMPLED[1:]:
        after, _ = _by_rule(values, rows, mean, root, sampled_rule(size, k))
        with np.errstate(invalid="ignore"):
            near = np.abs(after - out[:, rows]) <= tolerance * (1.0 + np.abs(after))
        out[:, rows] = after
        settled[rows] = near.all(axis=0)
        rows = rows[~settled[rows]]
        if not len(rows):
            break
    return out, settled


def rungs(dimension: int) -> tuple[Rule, ...]:
    """Rules in turn, each better than the one before."""
    if dimension not in LADDER:
        return (sampled_rule(SAMPLED[1], dimension),)
    return _ladder((0,) * dimension) + _lattices(dimension)


def rung_for(sd: Array, dimension: int) -> IntArray:
    """Which of the `rungs` is good for smooth functions at such sds, (N,)."""
    if dimension not in LADDER:
        return np.zeros(len(sd), dtype=np.int64)
    ladder = LADDER[dimension]
    level = np.searchsorted(ladder, ladder[0] + PER_SD * sd) + 2
    return np.minimum(level, len(ladder) - 1)


def root_of(variance: Array) -> Array:
    """R with RR' = V, (N, K, K), V positive semidefinite up to rounding."""
    values, turn = np.linalg.eigh(variance)
    return np.asarray(turn * np.sqrt(np.maximum(values, 0.0))[:, None, :])


def _by_rule(
    values: Values, rows: IntArray, mean: Array, root: Array, rule: Rule
) -> tuple[Array, BoolArray]:
    """The averages of rows, and where the border of the rule holds next to nothing of them."""
    size = max(1, 3 * POINTS_PER_PASS // (len(rule.points) * max(3, mean.shape[1])))
    parts, inside = [], []
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        s = mean[some][:, None, :] + rule.points @ root[some].transpose(0, 2, 1)
        y = values(some, s)
        parts.append(y @ rule.weight)
        if rule.border is None:
            inside.append(np.ones(len(some), dtype=np.bool_))
            continue
        outermost = np.abs(y[:, :, rule.border]) @ rule.weight[rule.border]
        small = outermost <= BORDER * (1.0 + np.abs(parts[-1]))
        inside.append(np.asarray(small.all(axis=0)))
    return np.concatenate(parts, axis=1), np.concatenate(inside)


@cache
def _ladder(rungs: tuple[int, ...]) -> tuple[Rule, ...]:
    """The rules in turn, the axes so many rungs below that of the largest sd."""
    ladder = LADDER[len(rungs)]
    known = (FEWEST,) * len(ladder) + ladder
    return tuple(
        _product([known[len(ladder) + level - down] for down in rungs])
        for level in range(len(ladder))
    )


@cache
def _lattices(dimension: int) -> tuple[Rule, ...]:
    return tuple(lattice(step, dimension) for step in STEPS[dimension])


@cache
def _further(dimension: int) -> tuple[Rule, ...]:
    return tuple(product_rule(nodes, dimension) for nodes in FURTHER[dimension])


def _grid(lines: Sequence[Array]) -> Array:
    return np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, len(lines))


@cache
def product_rule(nodes: int, dimension: int) -> Rule:
    """Gauss-Hermite on each axis."""
    return _product([nodes] * dimension)


def _product(nodes: Sequence[int]) -> Rule:
    lines = [_hermite(count) for count in nodes]
    return Rule(_grid([x for x, _ in lines]), _grid([w for _, w in lines]).prod(axis=1))


@cache
def _hermite(nodes: int) -> tuple[Array, Array]:
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    return np.asarray(x, dtype=np.float64), np.asarray(w / w.sum(), dtype=np.float64)


@cache
def sampled_rule(count: int, dimension: int) -> Rule:
    """`count` points of equal weight, those of a scrambled Sobol sequence and their opposites, made
    to have the covariance of the standard normal: exact for polynomials of degree 3. The last
    directions, the widest of `root_of`, have the sequence's first and best coordinates."""
    from scipy.stats import qmc  # slow to import

    draws = qmc.Sobol(dimension, seed=np.random.default_rng(0)).random(count // 2)
    half = special.ndtri(np.clip(draws, 1e-12, 1.0 - 1e-12))[:, ::-1]
    if dimension < count // 4:
        half = np.linalg.solve(np.linalg.cholesky(half.T @ half / len(half)), half.T).T
    points = np.concatenate([half, -half])
    return Rule(points, np.full(len(points), 1.0 / len(points)))


def lattice(step: float, dimension: int) -> Rule:
    """The trapezoidal rule in a ball."""
    half = int(REACH / step)
    line = np.asarray(step * np.arange(-half, half + 1), dtype=np.float64)
    points = _grid([line] * dimension)
    square = (points**2).sum(axis=1)
    inside = square <= REACH**2
    weight = np.exp(-0.5 * square[inside])
    return Rule(points[inside], weight / weight.sum(), square[inside] > (REACH - 1.0) ** 2)
