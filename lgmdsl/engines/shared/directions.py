"""Improper posteriors: which direction of the flat blocks nothing determines."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Direction, Failed, Failure, Term
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.numerics.cholesky import Cholesky, cholesky
from lgmdsl.numerics.sparse.base import Factor, Symbolic, times

_EPS = float(np.finfo(np.float64).eps)


def undetermined(
    a: Array,
    factor: Cholesky | None,
    linear: LinearGaussian,
    labels: list[tuple[str, int]] | None = None,
) -> Failed | None:
    """Why A (upper triangle given) is singular, naming the direction; None where it is not.

    A is judged with its diagonal scaled to one: reciprocal condition below 50 n eps is singular.
    """
    n = len(a)
    scale = np.sqrt(np.abs(a.diagonal()))
    if n and scale.min() == 0.0:
        block, i = (labels or _names(linear))[int(np.argmin(scale))]
        return _free(Direction((Term(block, i),)))
    if n and not np.isfinite(scale).all():
        return Failed(kind=Failure.NOT_FINITE)
    if factor is not None and _comfortable(factor):
        return None
    with np.errstate(all="ignore"):
        unit = np.triu(a) / scale[:, None] / scale
    if not np.isfinite(unit).all():
        return Failed(kind=Failure.NOT_FINITE)
    unit = unit + np.triu(unit, 1).T
    if factor is not None:
        again = cholesky(unit.copy())
        norm = float(np.abs(unit).sum(axis=0).max())
        if again is not None and again.reciprocal_condition(norm) > 50 * n * _EPS:
            return None
    values, vectors = np.linalg.eigh(unit)
    if values[0] < -50 * n * _EPS * values[-1]:
        return Failed(kind=Failure.NEGATIVE_WEIGHTS)
    if factor is not None and values[0] > 50 * n * _EPS * values[-1]:
        return None
    return _free(_direction(vectors[:, 0] / scale, labels or _names(linear)))


def loosest(
    symbolic: Symbolic, values: Array, data: Array, factor: Factor | None, linear: LinearGaussian
) -> Failed | None:
    """Why a sparse A = Q + B'WB, given on its pattern with B'WB, is singular, naming the direction;
    None where it is not. A pivot below 50 sqrt(n) eps of its diagonal entry is what rounding leaves
    of nothing; where the data do say something along the direction, rounding has swallowed it."""
    pattern = symbolic.pattern
    diagonal = values[pattern.on_diagonal]
    if not np.isfinite(values).all():
        return Failed(kind=Failure.NOT_FINITE)
    if pattern.size and diagonal.min() <= 0.0:
        if diagonal.min() < 0.0:
            return Failed(kind=Failure.NEGATIVE_WEIGHTS)
        block, i = _names(linear)[int(np.argmin(diagonal))]
        return _free(Direction((Term(block, i),)))
    if factor is not None and (factor.pivots > 50 * pattern.size**0.5 * _EPS * diagonal).all():
        return None
    lifted = values.copy()
    lifted[pattern.on_diagonal] *= 1.0 + 1e-6
    near = symbolic.factor(lifted)
    if near is None:
        return Failed(kind=Failure.NEGATIVE_WEIGHTS)
    # Two steps of inverse iteration from the latent with the smallest pivot.
    direction = np.zeros(pattern.size)
    direction[int(np.argmin(near.pivots / diagonal))] = 1.0
    for _ in range(2):
        direction = near.solve(direction * diagonal)
        direction /= np.abs(direction).max()
    weighted = pattern.matrix(data)
    names = _names(linear)
    information, most = (
        direction @ times(weighted, direction),
        abs(weighted.diagonal()) @ direction**2,
    )
    if information > 1e-6 * most > 0.0:
        return Failed(kind=Failure.HIDDEN, direction=_direction(direction, names))
    return _free(_direction(direction, names))


def _names(linear: LinearGaussian) -> list[tuple[str, int]]:
    """Block and entry of each latent."""
    return [(b.name, i) for b in linear.blocks for i in range(b.size)]


def _comfortable(factor: Cholesky) -> bool:
    """A cheap sufficient test: the pivots stay far from rounding."""
    d = factor.lower.diagonal()
    return bool(d.min() > 1e-4 * d.max()) if len(d) else True


def _free(direction: Direction) -> Failed:
    return Failed(kind=Failure.UNDETERMINED, direction=direction)


def _direction(direction: Array, names: list[tuple[str, int]]) -> Direction:
    """A direction of the latents by its largest terms, the largest 1 in size."""
    direction = direction / np.abs(direction).max()
    # Terms alike but for rounding stay in the order of the model, on any machine.
    order = np.argsort(-np.round(np.abs(direction), 6), kind="stable")[:4]
    pairs = [(names[i], float(direction[i])) for i in order if abs(direction[i]) > 1e-3]
    terms = tuple(Term(name, entry, value) for (name, entry), value in pairs)
    return Direction(terms, int(np.sum(np.abs(direction) > 1e-3)) > len(terms))
