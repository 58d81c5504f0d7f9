"""Operators made of others: products, sums, stacks and Kronecker products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.operators.base import Gram, Operator, fold, sparse_gram, unfold
from lgmdsl.operators.explicit import Identity, Sparse
from lgmdsl.operators.select import Diagonal, Select


@dataclass(frozen=True, eq=False)
class Product(Operator):
    """B = factors[0] factors[1] ...: the last is applied first."""

    factors: tuple[Operator, ...]

    def __post_init__(self) -> None:
        for left, right in zip(self.factors, self.factors[1:], strict=False):
            if left.shape[1] != right.shape[0]:
                raise ValueError(f"shapes {left.shape} and {right.shape} cannot be multiplied")

    @property
    def shape(self) -> tuple[int, int]:
        return self.factors[0].shape[0], self.factors[-1].shape[1]

    def matvec(self, x: Array) -> Array:
        return reduce(lambda done, f: f.matvec(done), reversed(self.factors), x)

    def rmatvec(self, y: Array) -> Array:
        return reduce(lambda done, f: f.rmatvec(done), self.factors, y)

    def dense(self) -> Array:
        first, last = Product(self.factors[:-1]), self.factors[-1]
        return first.matvec(last.dense()) if len(self.factors) > 1 else last.dense()

    @cached_property
    def _explicit(self) -> SparseMatrix:
        parts = [f.sparse() for f in self.factors]
        return sp.csr_array(reduce(lambda a, b: sp.csr_array(a @ b), parts))

    def sparse(self) -> SparseMatrix:
        return self._explicit if self.is_sparse else super().sparse()

    @property
    def is_sparse(self) -> bool:
        return all(f.is_sparse for f in self.factors)

    def entries_by_row(self) -> Array:
        if not self.is_sparse:
            return super().entries_by_row()
        wide = [f.entries_by_row() for f in self.factors]
        rows = self._picked(self.factors[0])
        if rows is not None and len(self.factors) > 1:
            return Product(self.factors[1:]).entries_by_row()[rows]
        bound = wide[0] * math.prod(float(w.max(initial=0.0)) for w in wide[1:])
        return np.minimum(bound, float(self.shape[1]))

    @staticmethod
    def _picked(factor: Operator) -> IntArray | None:
        """The rows that a factor picks, scaled or not; None for any other factor."""
        if isinstance(factor, Select):
            return factor.rows
        return np.arange(factor.shape[0]) if isinstance(factor, Diagonal | Identity) else None

    @property
    def cost(self) -> float:
        return sum(f.cost for f in self.factors)

    def gram(self, rows: IntArray, columns: IntArray) -> Gram | None:
        """Rows picked and scaled move into the weight, factors on the latents out of it."""
        first, last = self.factors[0], self.factors[-1]
        if len(self.factors) == 1:
            return first.gram(rows, columns)
        squares = _squared(first)
        if squares is not None:
            inner = Product(self.factors[1:]).gram(rows, columns)
            return None if inner is None else _after(squares, inner)
        if isinstance(last, Diagonal):
            inner = Product(self.factors[:-1]).gram(rows, columns)
            return (
                None if inner is None else _scaled(last.factor[rows] * last.factor[columns], inner)
            )
        return super().gram(rows, columns)


def _squared(first: Operator) -> Operator | None:
    """The squares of its entries where a row has one at most, so that B'WB is diagonal."""
    if isinstance(first, Diagonal):
        return Diagonal(first.factor**2)
    if isinstance(first, Sparse) and first.entries_by_row().max(initial=0.0) <= 1.0:
        return Sparse(first.array.power(2))
    return first if isinstance(first, Select | Identity) else None


def _after(first: Operator, gram: Gram) -> Gram:
    return lambda weight: gram(first.rmatvec(weight))


def _scaled(scale: Array, gram: Gram) -> Gram:
    return lambda weight: scale * gram(weight)


def product(*factors: Operator) -> Operator:
    """The product, flat and without identities."""
    flat = [g for f in factors for g in (f.factors if isinstance(f, Product) else (f,))]
    maps = [f for f in flat if not isinstance(f, Identity)]
    if not maps:
        return flat[0]
    return maps[0] if len(maps) == 1 else Product(tuple(maps))


@dataclass(frozen=True, eq=False)
class Sum(Operator):
    """B = terms[0] + terms[1] + ..."""

    terms: tuple[Operator, ...]

    def __post_init__(self) -> None:
        if len({t.shape for t in self.terms}) != 1:
            raise ValueError("the terms of a sum have different shapes")

    @property
    def shape(self) -> tuple[int, int]:
        return self.terms[0].shape

    def matvec(self, x: Array) -> Array:
        return reduce(np.add, (t.matvec(x) for t in self.terms))

    def rmatvec(self, y: Array) -> Array:
        return reduce(np.add, (t.rmatvec(y) for t in self.terms))

    def dense(self) -> Array:
        return reduce(np.add, (t.dense() for t in self.terms))

    @cached_property
    def _explicit(self) -> SparseMatrix:
        return sp.csr_array(reduce(lambda a, b: a + b, (t.sparse() for t in self.terms)))

    def sparse(self) -> SparseMatrix:
        return self._explicit if self.is_sparse else super().sparse()

    @property
    def is_sparse(self) -> bool:
        return all(t.is_sparse for t in self.terms)

    def entries_by_row(self) -> Array:
        wide = reduce(np.add, (t.entries_by_row() for t in self.terms))
        return np.minimum(wide, float(self.shape[1]))

    @property
    def cost(self) -> float:
        return sum(t.cost for t in self.terms) + float(self.shape[0]) * (len(self.terms) - 1)


@dataclass(frozen=True, eq=False)
class Stack(Operator):
    """The parts' rows below one another."""

    parts: tuple[Operator, ...]

    def __post_init__(self) -> None:
        if len({p.shape[1] for p in self.parts}) != 1:
            raise ValueError("the parts of a stack have different numbers of columns")

    @cached_property
    def _rows(self) -> list[slice]:
        ends = np.cumsum([p.shape[0] for p in self.parts]).tolist()
        return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows[-1].stop, self.parts[0].shape[1]

    def matvec(self, x: Array) -> Array:
        return np.concatenate([p.matvec(x) for p in self.parts])

    def rmatvec(self, y: Array) -> Array:
        pairs = zip(self.parts, self._rows, strict=True)
        return reduce(np.add, (p.rmatvec(y[rows]) for p, rows in pairs))

    def normal(self, weight: Array, x: Array, single: bool = False) -> Array:
        pairs = zip(self.parts, self._rows, strict=True)
        return reduce(np.add, (p.normal(weight[rows], x, single) for p, rows in pairs))

    def dense(self) -> Array:
        return np.vstack([p.dense() for p in self.parts])

    def sparse(self) -> SparseMatrix:
        return sp.csr_array(sp.vstack([p.sparse() for p in self.parts], format="csr"))

    @property
    def is_sparse(self) -> bool:
        return all(p.is_sparse for p in self.parts)

    def entries_by_row(self) -> Array:
        return np.concatenate([p.entries_by_row() for p in self.parts])

    @property
    def cost(self) -> float:
        return sum(p.cost for p in self.parts)

    def gram(self, rows: IntArray, columns: IntArray) -> Gram | None:
        candidates = [
            (p.gram(rows, columns), where) for p, where in zip(self.parts, self._rows, strict=True)
        ]
        grams = [(g, where) for g, where in candidates if g is not None]
        if len(grams) < len(candidates):
            return None
        return lambda weight: reduce(np.add, (g(weight[where]) for g, where in grams))


def parts_of(operator: Operator) -> tuple[Operator, ...]:
    """The parts of a stack; any other operator is its only part."""
    return operator.parts if isinstance(operator, Stack) else (operator,)


@dataclass(frozen=True, eq=False)
class Kronecker(Operator):
    """factors[0] (x) factors[1] (x) ..., row-major: each factor works along its own axis."""

    factors: tuple[Operator, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return (
            math.prod(f.shape[0] for f in self.factors),
            math.prod(f.shape[1] for f in self.factors),
        )

    def matvec(self, x: Array) -> Array:
        return self._each(x, False)

    def rmatvec(self, y: Array) -> Array:
        return self._each(y, True)

    def _each(self, x: Array, adjoint: bool) -> Array:
        grid = unfold(x, tuple(f.shape[0 if adjoint else 1] for f in self.factors))
        for axis, f in enumerate(self.factors):
            first = np.moveaxis(grid, axis, 0)
            flat = np.ascontiguousarray(first).reshape(first.shape[0], -1)
            done = f.rmatvec(flat) if adjoint else f.matvec(flat)
            grid = np.moveaxis(done.reshape(-1, *first.shape[1:]), 0, axis)
        return fold(np.ascontiguousarray(grid), x)

    def dense(self) -> Array:
        return reduce(_kron, [f.dense() for f in self.factors])

    def sparse(self) -> SparseMatrix:
        return sp.csr_array(reduce(_sparse_kron, [f.sparse() for f in self.factors]))

    @property
    def is_sparse(self) -> bool:
        return any(f.is_sparse for f in self.factors)

    def entries_by_row(self) -> Array:
        return reduce(_kron, [f.entries_by_row() for f in self.factors])

    @property
    def cost(self) -> float:
        total, sizes = 0.0, [f.shape[1] for f in self.factors]
        for axis, f in enumerate(self.factors):
            total += f.cost * math.prod(sizes) / sizes[axis]
            sizes[axis] = f.shape[0]
        return total


def _kron(a: Array, b: Array) -> Array:
    return np.asarray(np.kron(a, b))


def _sparse_kron(a: SparseMatrix, b: SparseMatrix) -> SparseMatrix:
    return sp.csr_array(sp.kron(a, b, format="csr"))


# ---- hstack ------------------------------------------------------------------------------------
# Operators side by side: B z = B_1 z_1 + B_2 z_2 + ..., z cut into pieces.


@dataclass(frozen=True, eq=False)
class HStack(Operator):
    """parts[k] works on `widths[k]` entries of z, or is None where B is zero there."""

    parts: tuple[Operator | None, ...]
    widths: tuple[int, ...]
    rows: int

    @cached_property
    def _pieces(self) -> list[tuple[Operator, slice]]:
        ends = np.cumsum(self.widths).tolist()
        cuts = zip(self.parts, [0, *ends], ends, strict=False)
        return [(p, slice(a, b)) for p, a, b in cuts if p is not None]

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, sum(self.widths)

    def matvec(self, x: Array) -> Array:
        out = np.zeros((self.rows, *x.shape[1:]))
        for part, where in self._pieces:
            out += part.matvec(x[where])
        return out

    def rmatvec(self, y: Array) -> Array:
        out = np.zeros((self.shape[1], *y.shape[1:]))
        for part, where in self._pieces:
            out[where] = part.rmatvec(y)
        return out

    def dense(self) -> Array:
        out = np.zeros(self.shape)
        for part, where in self._pieces:
            out[:, where] = part.dense()
        return out

    @cached_property
    def _explicit(self) -> SparseMatrix:
        blocks = [
            sp.csr_array((self.rows, w)) if p is None else p.sparse()
            for p, w in zip(self.parts, self.widths, strict=True)
        ]
        return sp.csr_array(sp.hstack(blocks, format="csr"))

    def sparse(self) -> SparseMatrix:
        return self._explicit if self.is_sparse else super().sparse()

    @property
    def is_sparse(self) -> bool:
        return all(p.is_sparse for p, _ in self._pieces)

    @property
    def in_memory(self) -> bool:
        return all(p.in_memory for p, _ in self._pieces)

    def entries_by_row(self) -> Array:
        return np.asarray(sum((p.entries_by_row() for p, _ in self._pieces), np.zeros(self.rows)))

    @property
    def cost(self) -> float:
        return sum(p.cost for p, _ in self._pieces)

    def gram(self, rows: IntArray, columns: IntArray) -> Gram | None:
        """Pairs of latents of one part from that part; of two parts only where all is sparse."""
        if not self._pieces:
            return lambda weight: np.zeros(len(rows))
        owner = np.full(self.shape[1], -1)
        for k, (_, where) in enumerate(self._pieces):
            owner[where] = k
        seen = (owner[rows] >= 0) & (owner[columns] >= 0)
        if (owner[rows] != owner[columns])[seen].any():
            return sparse_gram(self.sparse(), rows, columns) if self.is_sparse else None
        grams: list[tuple[IntArray, Gram]] = []
        for k, (part, where) in enumerate(self._pieces):
            pairs = np.flatnonzero(seen & (owner[rows] == k))
            gram = part.gram(rows[pairs] - where.start, columns[pairs] - where.start)
            if gram is None:
                return None
            grams.append((pairs, gram))

        def entries(weight: Array) -> Array:
            out = np.zeros(len(rows))
            for pairs, gram in grams:
                out[pairs] = gram(weight)
            return out

        return entries


def hstack(columns: Sequence[Operator | None], widths: Sequence[int], rows: int) -> Operator:
    """The operator itself where it is the only one."""
    if len(columns) == 1 and columns[0] is not None:
        return columns[0]
    return HStack(tuple(columns), tuple(widths), rows)
