"""Arrays whose axes are index names: joined, summed and gathered by name, never by position."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lgmdsl.arrays import Array, IntArray, Matrix
from lgmdsl.errors import MethodError


@dataclass(frozen=True, eq=False)
class NamedArray:
    """`values` has one axis for each name in `dims`; a csr array has exactly two."""

    dims: tuple[str, ...]
    values: Matrix

    @property
    def sparse(self) -> bool:
        return not isinstance(self.values, np.ndarray | np.generic)

    def dense(self) -> Array:
        """The values as an ndarray; MethodError E501 for sparse ones: nothing is densified."""
        if not isinstance(self.values, np.ndarray | np.generic):
            raise sparse_refused(self.dims)
        return np.asarray(self.values)


def sparse_refused(dims: Sequence[str]) -> MethodError:
    """E501 for a sparse matrix in an expression that would fill it."""
    over = ", ".join(d.partition("~")[0] for d in dims)
    return MethodError.of(
        "E501",
        f"the sparse matrix over [{over}] is used where a dense array is needed",
        details=("one sparse matrix can be multiplied with latents: X @ b, sum(X * b, k)",),
        help="give it as a dense array, e.g. X.toarray()",
        layout="plain",
    )


def product(factors: Sequence[NamedArray], dims: tuple[str, ...]) -> Array:
    """Multiply dense factors, joining axes by name; axes that `dims` leaves out are summed.

    Every name in `dims` must occur in a factor.
    """
    # Numbers do not take part in the search for an order, which costs more than a short product.
    number = math.prod(float(f.dense()) for f in factors if not f.dims)
    arrays = [f for f in factors if f.dims]
    if not arrays:
        return np.asarray(number, dtype=np.float64)
    letter: dict[str, int] = {}
    for name in (*dims, *(d for f in arrays for d in f.dims)):
        letter.setdefault(name, len(letter))
    arguments: list[object] = []
    for f in arrays:
        arguments += [f.dense(), [letter[d] for d in f.dims]]
    result = np.einsum(*arguments, [letter[d] for d in dims], optimize=len(arrays) > 2)  # type: ignore[call-overload]
    return np.asarray(result if len(arrays) == len(factors) else number * result, dtype=np.float64)


def expand(named: NamedArray, dims: tuple[str, ...], sizes: Mapping[str, int]) -> Array:
    """Values broadcast to `dims` in that order (a read-only view where it can be)."""
    values = named.dense()
    order = [named.dims.index(d) for d in dims if d in named.dims]
    values = values.transpose(order)
    index = tuple(slice(None) if d in named.dims else None for d in dims)
    return np.broadcast_to(values[index], tuple(sizes[d] for d in dims))


def collapse(values: Array, dims: tuple[str, ...], onto: tuple[str, ...]) -> Array:
    """Sum out the axes not in `onto`, the rest in its order (the adjoint of expand)."""
    away = tuple(i for i, d in enumerate(dims) if d not in onto)
    summed = values.sum(axis=away) if away else values
    remaining = [d for d in dims if d in onto]
    return np.asarray(summed.transpose([remaining.index(d) for d in onto]))


# ---- slots: how one axis of an array is addressed --------------------------------------------


@dataclass(frozen=True)
class Axis:
    """The axis is kept, under an index name."""

    dim: str


@dataclass(frozen=True, eq=False)
class Through:
    """The axis is gathered through a map: integer positions over `dims` (-1: a missing entry)."""

    positions: IntArray
    dims: tuple[str, ...]


@dataclass(frozen=True)
class Pick:
    """One position of the axis."""

    position: int


Slot: TypeAlias = Axis | Through | Pick


def slot_dims(slots: Sequence[Slot]) -> tuple[str, ...]:
    """The index names that a sequence of slots leaves, in order of first appearance."""
    names: dict[str, None] = {}
    for slot in slots:
        for dim in (slot.dim,) if isinstance(slot, Axis) else getattr(slot, "dims", ()):
            names.setdefault(dim)
    return tuple(names)


def slot_indices(
    slots: Sequence[Slot], dims: tuple[str, ...], sizes: Mapping[str, int]
) -> tuple[IntArray, ...]:
    """For each slot an integer array that broadcasts over `dims` and addresses its axis."""
    out = []
    for slot in slots:
        if isinstance(slot, Pick):
            out.append(np.full((1,) * len(dims), slot.position))
        elif isinstance(slot, Axis):
            shape = tuple(-1 if d == slot.dim else 1 for d in dims)
            out.append(np.arange(sizes[slot.dim]).reshape(shape))
        else:
            order = [slot.dims.index(d) for d in dims if d in slot.dims]
            index = tuple(slice(None) if d in slot.dims else None for d in dims)
            out.append(slot.positions.transpose(order)[index])
    return tuple(out)


def compose(slot: Slot, places: Mapping[str, Slot], sizes: Mapping[str, int]) -> Slot:
    """The slot after its index names were replaced by slots."""
    if isinstance(slot, Pick):
        return slot
    if isinstance(slot, Axis):
        return places.get(slot.dim, slot)
    if not any(d in places for d in slot.dims):
        return slot
    inner = tuple(places.get(d, Axis(d)) for d in slot.dims)
    dims = slot_dims(inner)
    if len(dims) == len(inner) and all(isinstance(s, Axis) for s in inner):
        return Through(slot.positions, dims)  # other names, and no copy of the map
    positions = slot.positions[slot_indices(inner, dims, sizes)]
    if not dims:
        return Pick(int(positions))
    return Through(positions, dims)
