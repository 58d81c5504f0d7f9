"""Arrays on grids: flat vectors seen with their axes, and margins with their adjoints."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, SparseMatrix

Boundary: TypeAlias = str  # none (differences alone), circular, zero or reflect
_PADDING = {"circular": "wrap", "zero": "constant", "reflect": "symmetric"}


def length(shape: tuple[int, ...]) -> int:
    """Number of cells of a grid."""
    return math.prod(shape)


def unfold(x: Array, shape: tuple[int, ...]) -> Array:
    """(n,) or (n, k) as (*shape, k)."""
    return x.reshape(*shape, -1)


def fold(grid: Array, like: Array) -> Array:
    """(*shape, k) as (n,) or (n, k), as `like` is."""
    if like.ndim == 1:
        return grid.reshape(-1)
    return grid.reshape(-1, like.shape[1])


def along(ndim: int, axis: int, selected: slice) -> tuple[slice, ...]:
    """The index that takes `selected` of one axis and all of the others."""
    return tuple(selected if i == axis else slice(None) for i in range(ndim))


def extend(grid: Array, axis: int, left: int, right: int, boundary: Boundary) -> Array:
    """The grid with margins along an axis: repeated, zeros, or mirrored about the border
    (half-sample: the border cell comes twice)."""
    if not left and not right:
        return grid
    margins = [(left, right) if i == axis else (0, 0) for i in range(grid.ndim)]
    return np.pad(grid, margins, mode=_PADDING[boundary])  # type: ignore[call-overload,no-any-return]


def shrink(grid: Array, axis: int, left: int, right: int, boundary: Boundary) -> Array:
    """The adjoint of `extend`: margins are added where they were taken from."""
    if not left and not right:
        return grid
    size = grid.shape[axis] - left - right

    def part(start: int, stop: int) -> tuple[slice, ...]:
        return along(grid.ndim, axis, slice(start, stop))

    out = grid[part(left, left + size)].copy()
    if boundary == "zero":
        return out
    head, tail = grid[part(0, left)], grid[part(left + size, left + size + right)]
    if boundary == "circular":
        out[part(size - left, size)] += head
        out[part(0, right)] += tail
    else:
        out[part(0, left)] += np.flip(head, axis)
        out[part(size - right, size)] += np.flip(tail, axis)
    return out


def crossed(grid: tuple[int, ...], axis: int, line: SparseMatrix) -> SparseMatrix:
    """I (x) line (x) I: one matrix along an axis of a grid."""
    before = sp.eye_array(length(grid[:axis]), format="csr")
    after = sp.eye_array(length(grid[axis + 1 :]), format="csr")
    inner = sp.kron(line, after, format="csr")
    return sp.csr_array(sp.kron(before, inner, format="csr"))
