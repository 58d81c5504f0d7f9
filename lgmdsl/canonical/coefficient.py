"""Latent-free expressions as a graph of named-array operations, with values and reverse gradients.

    node.evaluate(theta)            the array at hyperparameters theta
    pullback(node, adjoint, theta)  dF/dtheta from dF/dnode, all hyperparameters at once

Parameters of sites and structures, offsets and the factors of operator terms are all such nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from lgmdsl.arrays import Array, Matrix
from lgmdsl.canonical.named import (
    Axis,
    Named,
    Slot,
    Through,
    collapse,
    expand,
    product,
    slot_dims,
    slot_indices,
    sparse_refused,
)

Theta: TypeAlias = Mapping[str, Array]
Gradient: TypeAlias = dict[str, Array]


@dataclass(frozen=True, eq=False)
class Coefficient(ABC):
    """A node; `dims` are its index names. Nodes are compared by identity."""

    dims: tuple[str, ...]

    @property
    @abstractmethod
    def children(self) -> tuple[Coefficient, ...]: ...

    @abstractmethod
    def evaluate(self, theta: Theta) -> Named:
        """The node's value at theta."""

    @abstractmethod
    def pull(self, adjoint: Array, theta: Theta, out: Gradient) -> None:
        """Add (dF/dnode) (dnode/dtheta) to `out`."""

    @cached_property
    def depends(self) -> frozenset[str]:
        """The hyperparameters that the node depends on."""
        return frozenset[str]().union(*(c.depends for c in self.children))


@dataclass(frozen=True, eq=False)
class Constant(Coefficient):
    """A number or a datum; csr arrays are kept as they are."""

    values: Matrix

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return ()

    def evaluate(self, theta: Theta) -> Named:
        return Named(self.dims, self.values)

    def pull(self, adjoint: Array, theta: Theta, out: Gradient) -> None:
        return None


@dataclass(frozen=True, eq=False)
class HyperValue(Coefficient):
    """The value of a hyperparameter, one axis for each of its indices."""

    name: str

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return ()

    @cached_property
    def depends(self) -> frozenset[str]:
        return frozenset({self.name})

    def evaluate(self, theta: Theta) -> Named:
        return Named(self.dims, np.asarray(theta[self.name], dtype=np.float64))

    def pull(self, adjoint: Array, theta: Theta, out: Gradient) -> None:
        out[self.name] = out.get(self.name, 0.0) + adjoint


@dataclass(frozen=True, eq=False)
class Total(Coefficient):
    """The sum of its terms, joined by name (n-ary, so long sums do not nest)."""

    terms: tuple[Coefficient, ...]

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return self.terms

    def evaluate(self, theta: Theta) -> Named:
        parts = [t.evaluate(theta) for t in self.terms]
        sizes = _sizes(parts)
        result = np.zeros(tuple(sizes[d] for d in self.dims))
        for part in parts:
            result += expand(part, self.dims, sizes)
        return Named(self.dims, result)

    def pull(self, adjoint: Array, theta: Theta, out: Gradient) -> None:
        for term in self.terms:
            if term.depends:
                term.pull(collapse(adjoint, self.dims, term.dims), theta, out)


@dataclass(frozen=True, eq=False)
class Contraction(Coefficient):
    """The product of its factors, joined by name, summed over indices that `dims` leaves out."""

    factors: tuple[Coefficient, ...]

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return self.factors

    def evaluate(self, theta: Theta) -> Named:
        return Named(self.dims, product([f.evaluate(theta) for f in self.factors], self.dims))

    def pull(self, adjoint: Array, theta: Theta, out: Gradient) -> None:
        values = [f.evaluate(theta) for f in self.factors]
        sizes = _sizes(values)
        for k, factor in enumerate(self.factors):
            if factor.depends:
                others = [Named(self.dims, adjoint), *values[:k], *values[k + 1 :]]
                known = {d for o in others for d in o.dims}
                # An index that only this factor has was summed: its adjoint is constant there.
                others += [Named((d,), np.ones(sizes[d])) for d in factor.dims if d not in known]
                factor.pull(product(others, factor.dims), theta, out)


@dataclass(frozen=True, eq=False)
class Power(Coefficient):
    """base ^ exponent, joined by name."""

    base: Coefficient
    exponent: Coefficient

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return self.base, self.exponent

    def _both(self, theta: Theta) -> tuple[Array, Array]:
        parts = [self.base.evaluate(theta), self.exponent.evaluate(theta)]
        sizes = _sizes(parts)
        return expand(parts[0], self.dims, sizes), expand(parts[1], self.dims, sizes)

    def evaluate(self, theta: Theta) -> Named:
        base, exponent = self._both(theta)
        with np.errstate(all="ignore"):  # non-finite values are reported by whoever uses them
            return Named(self.dims, np.asarray(base**exponent))

    def pull(self, adjoint: Array, theta: Theta, out: Gradient) -> None:
        base, exponent = self._both(theta)
        if self.base.depends:
            slope = adjoint * exponent * base ** (exponent - 1.0)
            self.base.pull(collapse(slope, self.dims, self.base.dims), theta, out)
        if self.exponent.depends:
            slope = adjoint * base**exponent * np.log(base)
            self.exponent.pull(collapse(slope, self.dims, self.exponent.dims), theta, out)


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

    def evaluate(self, theta: Theta) -> Named:
        with np.errstate(all="ignore"):
            values = np.asarray(_FUNCTIONS[self.function][0](self.operand.evaluate(theta).dense()))
        return Named(self.dims, values)

    def pull(self, adjoint: Array, theta: Theta, out: Gradient) -> None:
        slope = _FUNCTIONS[self.function][1](self.operand.evaluate(theta).dense())
        self.operand.pull(adjoint * slope, theta, out)


@dataclass(frozen=True, eq=False)
class Gather(Coefficient):
    """operand[slot, ...]: axes kept, gathered through maps or picked."""

    operand: Coefficient
    slots: tuple[Slot, ...]
    sizes: Mapping[str, int]

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return (self.operand,)

    def evaluate(self, theta: Theta) -> Named:
        named = self.operand.evaluate(theta)
        index = slot_indices(self.slots, self.dims, self.sizes)
        if named.sparse:
            return _gather_sparse(named, self.slots, self.dims)
        return Named(self.dims, self._full(np.asarray(named.dense()[index])))

    def _full(self, values: Array) -> Array:
        return np.broadcast_to(values, tuple(self.sizes[d] for d in self.dims))

    def pull(self, adjoint: Array, theta: Theta, out: Gradient) -> None:
        below = np.zeros(self.operand.evaluate(theta).dense().shape)
        index = np.broadcast_arrays(
            *slot_indices(self.slots, self.dims, self.sizes),
            np.empty(tuple(self.sizes[d] for d in self.dims)),
        )[:-1]
        np.add.at(below, tuple(index), adjoint)
        self.operand.pull(below, theta, out)


def _gather_sparse(named: Named, slots: tuple[Slot, ...], dims: tuple[str, ...]) -> Named:
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
    return Named(order, values)


def _sizes(parts: list[Named]) -> dict[str, int]:
    return {d: n for p in parts for d, n in zip(p.dims, p.values.shape, strict=True)}


def number(value: float) -> Constant:
    """A scalar constant."""
    return Constant((), np.asarray(value, dtype=np.float64))


def union(*dims: tuple[str, ...]) -> tuple[str, ...]:
    """All names, in order of first appearance."""
    return tuple(dict.fromkeys(d for group in dims for d in group))


def add(*terms: Coefficient) -> Coefficient:
    """The sum, flattened."""
    flat = [u for t in terms for u in (t.terms if isinstance(t, Total) else (t,))]
    return flat[0] if len(flat) == 1 else Total(union(*(t.dims for t in flat)), tuple(flat))


def multiply(*factors: Coefficient) -> Coefficient:
    """The product, not summed."""
    return (
        factors[0] if len(factors) == 1 else Contraction(union(*(f.dims for f in factors)), factors)
    )


def factors_of(node: Coefficient) -> tuple[Coefficient, ...]:
    """The factors of a plain product, so that a sparse one stays by itself."""
    if isinstance(node, Contraction) and node.dims == union(*(f.dims for f in node.factors)):
        return tuple(g for f in node.factors for g in factors_of(f))
    return (node,)


def gather(node: Coefficient, slots: tuple[Slot, ...], sizes: Mapping[str, int]) -> Coefficient:
    """node[slots]."""
    return Gather(slot_dims(slots), node, slots, sizes)


def pullback(node: Coefficient, adjoint: Array, theta: Theta) -> Gradient:
    """dF/dtheta for every hyperparameter the node depends on."""
    out: Gradient = {}
    if node.depends:
        node.pull(np.asarray(adjoint, dtype=np.float64), theta, out)
    return out
