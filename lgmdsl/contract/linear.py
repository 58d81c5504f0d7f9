"""The linear-Gaussian half of a problem at fixed hyperparameters: what an engine is built from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.operators.base import Operator
from lgmdsl.operators.compose import product
from lgmdsl.operators.explicit import Dense
from lgmdsl.operators.select import Select


@dataclass(frozen=True)
class PriorBlock:
    """One latent block z ~ N(mean, K), K = factor_1 (x) factor_2 (x) ..., flattened row-major.

    A `normal` or `flat` block has a single factor of the block's whole size, whatever its axes.
    """

    name: str
    factors: tuple[Structure, ...]
    mean: Array

    @property
    def size(self) -> int:
        return len(self.mean)

    @cached_property
    def shape(self) -> Shape:
        """What the product offers: only what every factor offers (IMPROPER if any is)."""
        offered = Shape.COVARIANCE | Shape.PRECISION | Shape.DIAGONAL
        for factor in self.factors:
            offered &= factor.shape
        if any(Shape.IMPROPER in f.shape for f in self.factors):
            offered = (offered | Shape.IMPROPER) & ~Shape.COVARIANCE
        thin = Shape.SPARSE | Shape.DIAGONAL
        if Shape.PRECISION in offered and any(f.shape & thin for f in self.factors):
            offered |= Shape.SPARSE
        return offered


@dataclass(frozen=True)
class Predictor:
    """s = sum_b columns[b] z_b + offset, P rows in row-major order of the predictor's indices.

    `event` is K for vector sites (P = N K, the event index last) and 0 for scalar ones.
    """

    columns: Mapping[str, Operator]
    offset: Array
    event: int = 0

    @property
    def rows(self) -> int:
        return len(self.offset)

    def times(self, z: Array, where: Mapping[str, slice]) -> Array:
        """B z, (P,) or (P, k), for z of shape (n,) or (n, k) in which the blocks are at `where`."""
        return self._added(np.zeros((self.rows, *z.shape[1:])), z, where)

    def values(self, z: Array, where: Mapping[str, slice]) -> Array:
        """s = B z + offset, shaped as B z."""
        s = np.zeros((self.rows, *z.shape[1:]))
        s.T[...] = self.offset
        return self._added(s, z, where)

    def _added(self, s: Array, z: Array, where: Mapping[str, slice]) -> Array:
        for name, operator in self.columns.items():
            s += operator.matvec(np.ascontiguousarray(z[where[name]]))
        return s

    def add_transposed(self, y: Array, where: Mapping[str, slice], out: Array) -> None:
        """B'y for y of shape (P,) or (P, k), added to `out`, (n,) or (n, k)."""
        for name, operator in self.columns.items():
            out[where[name]] += operator.rmatvec(y)


@dataclass(frozen=True)
class Constraints:
    """C z = e over all latents: one operator for each block it touches, and e, (k,)."""

    columns: Mapping[str, Operator]
    values: Array


@dataclass(frozen=True)
class LinearGaussian:
    """Prior blocks, the predictors of all site blocks, and exact linear constraints."""

    blocks: tuple[PriorBlock, ...]
    predictors: tuple[Predictor, ...]
    constraints: Constraints | None = None
    starts: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        starts, start = {}, 0
        for block in self.blocks:
            starts[block.name] = start
            start += block.size
        object.__setattr__(self, "starts", starts)

    @cached_property
    def size(self) -> int:
        """Number of latents n, all blocks together."""
        return sum(b.size for b in self.blocks)

    @cached_property
    def rows(self) -> int:
        """Number of predictor entries P, all site blocks together."""
        return sum(p.rows for p in self.predictors)

    def part(self, names: Collection[str]) -> LinearGaussian:
        """The model of some blocks alone, which no row and no constraint joins to another block:
        their priors, the predictors and the constraints that they enter."""
        chosen = set(names)
        blocks = tuple(b for b in self.blocks if b.name in chosen)
        predictors = tuple(p for p in self.predictors if chosen & p.columns.keys())
        constraints = self.constraints
        if constraints is not None:
            columns = {n: op for n, op in constraints.columns.items() if n in chosen}
            rows = np.flatnonzero(sum(abs(op.dense()).sum(axis=1) for op in columns.values()))
            own_columns = {n: Dense(op.dense()[rows]) for n, op in columns.items()}
            constraints = Constraints(own_columns, constraints.values[rows]) if columns else None
        return LinearGaussian(blocks, predictors, constraints)

    def alone(self, names: Collection[str]) -> LinearGaussian:
        """The model of some blocks, which no constraint joins to another: their priors and
        constraints, and what they add to every row (zeros where that is nothing)."""
        predictors = tuple(
            Predictor(
                {n: op for n, op in p.columns.items() if n in names},
                np.zeros(p.rows),
                p.event,
            )
            for p in self.predictors
        )
        return replace(self.part(names), predictors=predictors)

    def of_rows(self, rows: Sequence[IntArray]) -> LinearGaussian:
        """The model at some rows of each site block, by position; operators are not touched before
        they are asked for."""
        predictors = []
        for p, few in zip(self.predictors, rows, strict=True):
            event = max(p.event, 1)
            where = (few[:, None] * event + np.arange(event)).reshape(-1)
            pick = Select(where, p.rows)
            columns = {name: product(pick, op) for name, op in p.columns.items()}
            predictors.append(Predictor(columns, p.offset[where], p.event))
        return replace(self, predictors=tuple(predictors))

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each block stands among all latents."""
        return {
            b.name: slice(self.starts[b.name], self.starts[b.name] + b.size) for b in self.blocks
        }
