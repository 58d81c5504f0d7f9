"""Latent-free expressions as a graph: what all its nodes share, and the two walks over it.

    node.evaluate(theta)        the array at hyperparameters theta
    node.pull(adjoint, theta)   dF/dtheta from dF/dnode, all hyperparameters at once

Parts of a graph are shared (a let is used twice, and again by the next one), so each walk visits
every node once; and they are deep, so no walk recurses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeVar

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.named import NamedArray
from lgmdsl.state import FieldState

Node = TypeVar("Node")

Theta: TypeAlias = Mapping[str, Array]
Gradient: TypeAlias = dict[str, Array]

KEPT = 10_000  # entries up to which the value of a part without hyperparameters is kept


@dataclass(frozen=True, eq=False)
class Coefficient(FieldState, ABC):
    """A node; `dims` are its index names, `depends` the hyperparameters that it depends on. Nodes
    are compared by identity."""

    dims: tuple[str, ...]
    depends: frozenset[str] = field(init=False, repr=False)
    sparse: bool = field(init=False, repr=False)  # whether it contains a sparse array

    def __post_init__(self) -> None:
        object.__setattr__(self, "depends", self.dependencies)
        object.__setattr__(self, "sparse", self.stored or any(c.sparse for c in self.children))

    @property
    def dependencies(self) -> frozenset[str]:
        """`depends`, from that of the children."""
        parts = {c.depends for c in self.children}
        return next(iter(parts)) if len(parts) == 1 else frozenset[str]().union(*parts)

    @property
    def stored(self) -> bool:
        """Whether the node is a sparse array."""
        return False

    @property
    def hyper(self) -> str:
        """The hyperparameter that the node is, if it is one."""
        return ""

    @property
    @abstractmethod
    def children(self) -> tuple[Coefficient, ...]: ...

    @abstractmethod
    def value(self, parts: Sequence[NamedArray], theta: Theta) -> NamedArray:
        """The node's value, from those of its children."""

    @abstractmethod
    def slopes(self, adjoint: Array, parts: Sequence[NamedArray]) -> Sequence[Array | None]:
        """dF/dchild for each child that depends on hyperparameters, from dF/dnode."""

    @cached_property
    def order(self) -> tuple[Coefficient, ...]:
        """All nodes below and this one, each once, children before what is made of them."""
        return _ordered(self, frozenset())

    @cached_property
    def size(self) -> int:
        """Nodes of the expression written out, shared parts as often as they are used."""
        sizes: dict[int, int] = {}
        for node in self.order:
            sizes[id(node)] = 1 + sum(sizes[id(c)] for c in node.children)
        return sizes[id(self)]

    @cached_property
    def _plan(self) -> tuple[tuple[Coefficient, ...], Mapping[int, int], Mapping[int, NamedArray]]:
        """What a walk visits, how often each value is used, and those that are known: of the parts
        without hyperparameters, where they are short."""
        known: dict[int, NamedArray] = {}
        for node in self.order:
            constant = None if node.depends or not node.children else node._constant
            if constant is not None:
                known[id(node)] = constant
        order = _ordered(self, frozenset(known))
        uses = Counter(id(c) for node in order if id(node) not in known for c in node.children)
        return order, uses, known

    @cached_property
    def _constant(self) -> NamedArray | None:
        """The value of a node without hyperparameters, where it is short enough to be kept."""
        parts = []
        for child in self.children:
            part = child.value((), {}) if not child.children else child._constant
            if part is None:
                return None
            parts.append(part)
        value = self.value(parts, {})
        return None if value.sparse or value.dense().size > KEPT else value

    def evaluate(self, theta: Theta) -> NamedArray:
        """The node's value at theta."""
        if not self.children:
            return self.value((), theta)
        order, uses, known = self._plan
        values, pending = dict(known), dict(uses)
        for node in order:
            if id(node) in values:
                continue
            children = [id(c) for c in node.children]
            values[id(node)] = node.value([values[c] for c in children], theta)
            for c in children:  # frees values with no further uses
                pending[c] -= 1
                if not pending[c]:
                    del values[c]
        return values[id(self)]

    def pull(self, adjoint: Array, theta: Theta, out: Gradient) -> None:
        """Add (dF/dnode) (dnode/dtheta) to `out`, in one walk back over the graph."""
        if not self.depends:
            return
        order, _, known = self._plan
        values = dict(known)
        for node in order:
            if id(node) not in values:
                values[id(node)] = node.value([values[id(c)] for c in node.children], theta)
        adjoints = {id(self): adjoint}
        for node in reversed(order):
            above = adjoints.pop(id(node), None)
            if above is None:
                continue
            if node.hyper:
                out[node.hyper] = out.get(node.hyper, 0.0) + above
            slopes = node.slopes(above, [values[id(c)] for c in node.children])
            for child, slope in zip(node.children, slopes, strict=True):
                if slope is not None and child.depends:
                    before = adjoints.get(id(child))
                    adjoints[id(child)] = slope if before is None else before + slope


def ordered(root: Node, children: Callable[[Node], Sequence[Node]]) -> tuple[Node, ...]:
    """All nodes up to a root, each once however often it is used, children before their parents."""
    seen: set[int] = set()
    out: list[Node] = []
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            out.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(child, False) for child in reversed(children(node))]
    return tuple(out)


def _ordered(root: Coefficient, leaves: frozenset[int]) -> tuple[Coefficient, ...]:
    """The nodes from `leaves` (by identity) and those without children up to a root."""
    return ordered(root, lambda node: () if id(node) in leaves else node.children)
