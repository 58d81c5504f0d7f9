"""Latent-free expressions as a graph of named-array operations, with values and reverse gradients.

Sums and products are flattened while they are short; a long one is one part of the next, so that
what is shared stays shared. Parameters of sites and structures, offsets and the factors of operator
terms are all such nodes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, Matrix
from lgmdsl.canonical.expressions.named import (
    Axis,
    NamedArray,
    Slot,
    Through,
    collapse,
    compose,
    expand,
    product,
    slot_dims,
    slot_indices,
    sparse_refused,
)
from lgmdsl.canonical.expressions.node import Coefficient, Gradient, Theta

__all__ = ["Coefficient", "Gradient", "Theta"]

# Terms of a sum, and factors of a product, up to which they are flattened. (einsum takes 32.)
LONGEST = 12


@dataclass(frozen=True, eq=False)
class Constant(Coefficient):
    """A number or a datum; csr arrays are kept as they are."""

    values: Matrix

    @property
    def stored(self) -> bool:
        return NamedArray(self.dims, self.values).sparse

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return ()

    def value(self, parts: Sequence[NamedArray], theta: Theta) -> NamedArray:
        return NamedArray(self.dims, self.values)

    def slopes(self, adjoint: Array, parts: Sequence[NamedArray]) -> Sequence[Array | None]:
        return ()


@dataclass(frozen=True, eq=False)
class HyperValue(Coefficient):
    """The value of a hyperparameter, one axis for each of its indices."""

    name: str

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return ()

    @property
    def dependencies(self) -> frozenset[str]:
        return frozenset({self.name})

    def value(self, parts: Sequence[NamedArray], theta: Theta) -> NamedArray:
        return NamedArray(self.dims, np.asarray(theta[self.name], dtype=np.float64))

    def slopes(self, adjoint: Array, parts: Sequence[NamedArray]) -> Sequence[Array | None]:
        return ()

    @property
    def hyper(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Total(Coefficient):
    """The sum of its terms, joined by name (n-ary, so long sums do not nest)."""

    terms: tuple[Coefficient, ...]

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return self.terms

    def value(self, parts: Sequence[NamedArray], theta: Theta) -> NamedArray:
        if not self.dims:
            return NamedArray((), np.asarray(sum(p.dense() for p in parts), dtype=np.float64))
        sizes = _sizes(parts)
        result = np.zeros(tuple(sizes[d] for d in self.dims))
        for part in parts:
            result += expand(part, self.dims, sizes)
        return NamedArray(self.dims, result)

    def slopes(self, adjoint: Array, parts: Sequence[NamedArray]) -> Sequence[Array | None]:
        return [collapse(adjoint, self.dims, t.dims) if t.depends else None for t in self.terms]


@dataclass(frozen=True, eq=False)
class Contraction(Coefficient):
    """The product of its factors, joined by name, summed over indices that `dims` leaves out."""

    factors: tuple[Coefficient, ...]

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return self.factors

    def value(self, parts: Sequence[NamedArray], theta: Theta) -> NamedArray:
        return NamedArray(self.dims, product(parts, self.dims))

    def slopes(self, adjoint: Array, parts: Sequence[NamedArray]) -> Sequence[Array | None]:
        sizes = _sizes(parts)
        out: list[Array | None] = []
        for k, factor in enumerate(self.factors):
            if not factor.depends:
                out.append(None)
                continue
            others = [NamedArray(self.dims, adjoint), *parts[:k], *parts[k + 1 :]]
            known = {d for o in others for d in o.dims}
            # An index that only this factor has was summed: its adjoint is constant there.
            others += [NamedArray((d,), np.ones(sizes[d])) for d in factor.dims if d not in known]
            out.append(product(others, factor.dims))
        return out


@dataclass(frozen=True, eq=False)
class Power(Coefficient):
    """base ^ exponent, joined by name."""

    base: Coefficient
    exponent: Coefficient

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return self.base, self.exponent

    def _both(self, parts: Sequence[NamedArray]) -> tuple[Array, Array]:
        if not self.dims:
            return parts[0].dense(), parts[1].dense()
        sizes = _sizes(parts)
        return expand(parts[0], self.dims, sizes), expand(parts[1], self.dims, sizes)

    def value(self, parts: Sequence[NamedArray], theta: Theta) -> NamedArray:
        base, exponent = self._both(parts)
        with np.errstate(all="ignore"):  # non-finite values are reported by whoever uses them
            return NamedArray(self.dims, np.asarray(base**exponent))

    def slopes(self, adjoint: Array, parts: Sequence[NamedArray]) -> Sequence[Array | None]:
        base, exponent = self._both(parts)
        out: list[Array | None] = [None, None]
        if self.base.depends:
            slope = adjoint * exponent * base ** (exponent - 1.0)
            out[0] = collapse(slope, self.dims, self.base.dims)
        if self.exponent.depends:
            slope = adjoint * base**exponent * np.log(base)
            out[1] = collapse(slope, self.dims, self.exponent.dims)
        return out


_FUNCTIONS: Mapping[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "log": (np.log, lambda x: 1.0 / x),
    "exp": (np.exp, np.exp),
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x)),
}


@dataclass(frozen=True, eq=False)
class Elementwise(Coefficient):
    """log, exp or sqrt of a node."""

    function: str
    operand: Coefficient

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return (self.operand,)

    def value(self, parts: Sequence[NamedArray], theta: Theta) -> NamedArray:
        with np.errstate(all="ignore"):
            return NamedArray(self.dims, np.asarray(_FUNCTIONS[self.function][0](parts[0].dense())))

    def slopes(self, adjoint: Array, parts: Sequence[NamedArray]) -> Sequence[Array | None]:
        return (adjoint * _FUNCTIONS[self.function][1](parts[0].dense()),)


@dataclass(frozen=True, eq=False)
class Gather(Coefficient):
    """operand[slot, ...]: axes kept, gathered through maps or picked."""

    operand: Coefficient
    slots: tuple[Slot, ...]
    sizes: Mapping[str, int]

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return (self.operand,)

    def value(self, parts: Sequence[NamedArray], theta: Theta) -> NamedArray:
        named = parts[0]
        if named.sparse:
            return _gather_sparse(named, self.slots, self.dims)
        if self._map is not None:
            axis, positions = self._map
            return NamedArray(self.dims, np.take(named.dense(), positions, axis=axis))
        index = slot_indices(self.slots, self.dims, self.sizes)
        return NamedArray(self.dims, self._full(np.asarray(named.dense()[index])))

    def _full(self, values: Array) -> Array:
        return np.broadcast_to(values, tuple(self.sizes[d] for d in self.dims))

    @cached_property
    def _map(self) -> tuple[int, IntArray] | None:
        """The one axis that a map of one index gathers, and the map; None unless all others stay as
        they are, in their order."""
        through = [k for k, s in enumerate(self.slots) if isinstance(s, Through)]
        if len(through) != 1:
            return None
        slot = self.slots[through[0]]
        names = tuple(
            s.dim if isinstance(s, Axis) else s.dims[0] if isinstance(s, Through) and s.dims else ""
            for s in self.slots
        )
        if names != self.dims or not isinstance(slot, Through) or len(slot.dims) != 1:
            return None
        return through[0], slot.positions

    def slopes(self, adjoint: Array, parts: Sequence[NamedArray]) -> Sequence[Array | None]:
        shape = parts[0].dense().shape
        extent = tuple(self.sizes[d] for d in self.dims)
        adjoint = np.broadcast_to(adjoint, extent)
        if self._map is not None:
            axis, positions = self._map
            return (_summed(adjoint, axis, positions, shape[axis]),)
        flat = np.zeros((1,) * len(self.dims), dtype=np.int64)
        indices = slot_indices(self.slots, self.dims, self.sizes)
        for index, size in zip(indices, shape, strict=True):
            flat = flat * size + index % size  # -1, a missing entry, is the last as in `value`
        places = np.broadcast_to(flat, extent).reshape(-1)
        below = np.bincount(places, adjoint.reshape(-1), math.prod(shape))
        return (np.asarray(below.reshape(shape), dtype=np.float64),)


def _summed(values: Array, axis: int, positions: IntArray, size: int) -> Array:
    """The adjoint of np.take: the sum of what stands at each of `size` positions of an axis."""
    count, rest = len(positions), (*values.shape[:axis], *values.shape[axis + 1 :])
    rows = np.moveaxis(values, axis, 0).reshape(count, math.prod(rest))
    entries = (np.ones(count), positions % max(size, 1), np.arange(count + 1))
    below = sp.csr_array(entries, shape=(count, size)).T @ rows
    return np.moveaxis(np.asarray(below).reshape(size, *rest), 0, axis)


def _gather_sparse(named: NamedArray, slots: tuple[Slot, ...], dims: tuple[str, ...]) -> NamedArray:
    """Rows and columns of a csr array by one-dimensional maps."""
    values = named.values
    for axis, slot in enumerate(slots):
        if isinstance(slot, Through) and len(slot.dims) == 1:
            values = values[slot.positions] if axis == 0 else values[:, slot.positions]
        elif not isinstance(slot, Axis):
            raise sparse_refused(named.dims)
    order = tuple(s.dim if isinstance(s, Axis) else s.dims[0] for s in slots)  # type: ignore[union-attr]
    if len(set(order)) < 2:
        raise sparse_refused(named.dims)
    return NamedArray(order, values)


def _sizes(parts: Sequence[NamedArray]) -> dict[str, int]:
    return {d: n for p in parts for d, n in zip(p.dims, p.values.shape, strict=True)}


def number(value: float) -> Constant:
    """A scalar constant."""
    return Constant((), np.asarray(value, dtype=np.float64))


def union(*dims: tuple[str, ...]) -> tuple[str, ...]:
    """All names, in order of first appearance."""
    return tuple(dict.fromkeys(d for group in dims for d in group))


def add(*terms: Coefficient) -> Coefficient:
    """The sum, flattened; equal terms are counted."""
    short = [t.terms if isinstance(t, Total) and len(t.terms) <= LONGEST else (t,) for t in terms]
    each = {id(u): u for part in short for u in part}
    times = Counter(id(u) for part in short for u in part)
    flat = [t if times[k] == 1 else multiply(number(times[k]), t) for k, t in each.items()]
    return flat[0] if len(flat) == 1 else Total(union(*(t.dims for t in flat)), tuple(flat))


def multiply(*factors: Coefficient) -> Coefficient:
    """The product, not summed."""
    return (
        factors[0] if len(factors) == 1 else Contraction(union(*(f.dims for f in factors)), factors)
    )


def factors_of(node: Coefficient) -> tuple[Coefficient, ...]:
    """The factors of a plain product, so that a sparse one stays by itself."""
    flat: list[Coefficient] = []
    stack = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, Contraction) and top.dims == union(*(f.dims for f in top.factors)):
            stack += reversed(top.factors)
        else:
            flat.append(top)
        if len(flat) + len(stack) > LONGEST and not node.sparse:
            return (node,)
    return tuple(flat)


def gather(node: Coefficient, slots: tuple[Slot, ...], sizes: Mapping[str, int]) -> Coefficient:
    """node[slots]; of what is gathered itself, the two in one."""
    dims = slot_dims(slots)
    if isinstance(node, Gather) and not node.sparse:
        places = dict(zip(node.dims, slots, strict=True))
        sizes = {**node.sizes, **sizes}
        slots = tuple(compose(s, places, sizes) for s in node.slots)
        node = node.operand
    return Gather(dims, node, slots, sizes)
