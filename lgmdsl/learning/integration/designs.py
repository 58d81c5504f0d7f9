"""Where to fit when hyperparameters are integrated: designs in standardised coordinates z.

grid            a lattice, explored from the mode outwards while the density matters (Rue, Martino
                and Chopin 2009, 6.5 of the supplement; they step by 1 and stop 2.5 nats below)
ccd             centre, axial and factorial points on a sphere of radius F0 sqrt(d) (the same, 6.5;
                Box and Wilson 1951)
gauss-hermite   the product rule (Naylor and Smith 1982; Liu and Pierce 1994)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from lgmdsl.arrays import Array

F0 = 1.1  # the radius of the composite design over sqrt(d)
# Points of the lattice whose density is this many nats below the highest one end an exploration;
# beyond REACH half-axes nothing is explored. Steps in half-axes: the trapezoid rule of a normal
# density is exact to 2 exp(-2 pi^2 / step^2), and the surrogate through the fits'
# values and gradients, which is what is integrated, asks for more where they leave it uncertain. Of
# two coordinates or more marches follow the tails (`tails`), on a line its cells do.
DROPS, REACH = (7.0, 5.0), 60.0
# Nats: what the fits next to a cell say is so much lower has no fit; in a plane, and elsewhere.
PLANE_LOWER, LOWER = 0.0, 2.0
SERIOUS = 4.0  # nats below the highest point: what is cut off at such a density is missed
LINE, PLANE, STEP = 1.0, 1.4, 1.25
CELLS = 600  # more are not explored
# Columns whose product gives each further column of a fraction of the corners.
GENERATORS: dict[int, tuple[tuple[int, ...], ...]] = {
    5: ((0, 1, 2, 3),),
    6: ((0, 1, 2, 3, 4),),
    7: ((0, 1, 2, 3, 4, 5),),
    8: ((0, 1, 2, 3), (0, 1, 4, 5)),
}
# Nodes of the product rule by dimension.
NODES = {1: 9, 2: 7, 3: 5, 4: 3}


def step_of(size: int) -> float:
    """Half-axes between neighbouring cells of the lattice."""
    return {1: LINE, 2: PLANE}.get(size, STEP)


def lower_of(size: int) -> float:
    """Nats below `drop_of` at which a cell that its neighbours' fits put there has no fit."""
    return PLANE_LOWER if size == 2 else LOWER


def drop_of(size: int) -> float:
    """Nats below the highest cell beyond which nothing is explored."""
    return DROPS[size > 1]


def near(size: int) -> float:
    """Steps within which what has a cell is inside the integral: half the diagonal of a cell, and
    a step at least."""
    return max(1.0, 0.5 * float(np.sqrt(size)))


def neighbours(cell: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The cells next to one along each axis."""
    axes = range(len(cell))
    return [
        tuple(c + s * (k == axis) for k, c in enumerate(cell)) for axis in axes for s in (-1, 1)
    ]


def explored(
    size: int, density: Callable[[Sequence[tuple[int, ...]]], Sequence[float]]
) -> list[int]:
    """Explore the lattice of cells (integer d-tuples) from 0 outwards; the axes along which the
    exploration ended before the density had fallen off.

    `density` is asked for waves of new cells, in a fixed order, and keeps them; a cell's
    neighbours are visited where its log density is within `drop_of` the highest. -inf stops.
    """
    step, drop = step_of(size), drop_of(size)
    centre = (0,) * size
    top = density([centre])[0]
    known, wave, cut = {centre}, [centre], set[int]()
    while wave and len(known) <= CELLS:
        around = sorted({neighbour for cell in wave for neighbour in neighbours(cell)} - known)
        inside = [c for c in around if step * float(np.linalg.norm(c)) <= REACH]
        known.update(around)
        values = density(inside) if inside else []
        top = max([top, *values])
        ends = list(zip(inside, values, strict=True))
        wave = [c for c, value in ends if value >= top - drop]
        over = len(known) > CELLS
        cut |= {
            int(np.argmax(np.abs(c)))
            for c, value in ends
            if value >= top - SERIOUS and (over or step * (float(np.linalg.norm(c)) + 1.0) > REACH)
        }
    return sorted(cut)


def composite(size: int) -> Array:
    """(n, d) the central composite design: the centre first, then all at radius F0 sqrt(d)."""
    axial = np.sqrt(size) * np.concatenate([np.eye(size), -np.eye(size)])
    return F0 * np.concatenate([np.zeros((1, size)), axial, factorial(size)])


def factorial(size: int) -> Array:
    """(n, d) of +-1: all corners for d <= 4, then a half or less of them, of resolution V, so that
    no two-factor interactions are confounded (Box, Hunter and Hunter 2005, table 6.22)."""
    generators = GENERATORS.get(size, ())
    basic = size - len(generators)
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=basic))).reshape(-1, basic)
    extra = [corners[:, list(columns)].prod(axis=1, keepdims=True) for columns in generators]
    return np.concatenate([corners, *extra], axis=1)


def composite_weights(size: int, count: int) -> Array:
    """(n,) weights of the composite design that are exact for a standard normal density and
    quadratic functions: (1 - 1/F0^2) on the centre, the rest even over the sphere."""
    return np.concatenate([[1.0 - F0**-2], np.full(count - 1, F0**-2 / (count - 1))])


def gauss_hermite(size: int) -> tuple[Array, Array]:
    """Nodes (n, d) and weights (n,), which sum to 1, of the product rule for a standard normal."""
    nodes, weights = hermegauss(NODES.get(size, 3))
    z = np.array(list(itertools.product(nodes, repeat=size))).reshape(-1, size)
    w = np.array([np.prod(c) for c in itertools.product(weights / weights.sum(), repeat=size)])
    return z, w
