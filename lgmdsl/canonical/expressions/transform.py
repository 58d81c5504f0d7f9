"""Operators of the language on named axes, and latent-free values transformed by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Coefficient, Theta
from lgmdsl.canonical.expressions.named import NamedArray, collapse, expand
from lgmdsl.operators.base import Operator


@dataclass(frozen=True, eq=False)
class Transform:
    """`operator` takes values over `before`, sizes `grid`, flattened row-major, to values over
    `after`, sizes `result`. `written` is what the text calls it: `diff(., row)`, the dot being the
    operand."""

    written: str
    before: tuple[str, ...]
    grid: tuple[int, ...]
    after: tuple[str, ...]
    result: tuple[int, ...]
    operator: Operator


@dataclass(frozen=True, eq=False)
class Transformed(Coefficient):
    """transform(operand)."""

    transform: Transform
    operand: Coefficient

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return (self.operand,)

    def value(self, parts: Sequence[NamedArray], theta: Theta) -> NamedArray:
        t = self.transform
        sizes = dict(zip(t.before, t.grid, strict=True))
        flat = expand(parts[0], t.before, sizes).reshape(-1)
        return NamedArray(t.after, t.operator.matvec(np.array(flat)).reshape(t.result))

    def slopes(self, adjoint: Array, parts: Sequence[NamedArray]) -> Sequence[Array | None]:
        t = self.transform
        below = t.operator.rmatvec(np.ascontiguousarray(adjoint).reshape(-1)).reshape(t.grid)
        return (collapse(below, t.before, self.operand.dims),)
