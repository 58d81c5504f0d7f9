"""Hyperparameters in the predictor of rows that are read by batches.

A row's coefficient on a latent of its place is x_ik f_gk(theta): x_ik, of data alone, is packed
with the row, and the multiplier f is one number for all rows of the place. What f is computed from,
such as the item whose loading it is, therefore tells places apart: rows with equal inputs are a
*cell* (`moving.py`). An offset with hyperparameters is such a coefficient too, on a latent that
is 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Coefficient, Gradient, Theta
from lgmdsl.canonical.expressions.named import collapse, expand
from lgmdsl.errors import DataError, Diagnostic, Span

CELL = "~cell"  # the axis of the cells; no user's index can have this name
ONE = ""  # the latent that is 1


@dataclass(frozen=True, eq=False)
class Piece:
    """A node over CELL, of `count` cells, and `rest`, W entries; what sums run over has names of
    its own in each batch."""

    node: Coefficient
    count: int
    rest: tuple[str, ...]
    sizes: Mapping[str, int]

    def at(self, theta: Theta) -> Array:
        """(count, W)."""
        value = expand(self.node.evaluate(theta), *self._over)
        return value.reshape(self.count, -1)

    def pull(self, slope: Array, theta: Theta, out: Gradient) -> None:
        """Add to `out` what a slope in its values, (count, W), gives."""
        dims, sizes = self._over
        whole = slope.reshape([sizes[d] for d in dims])
        self.node.pull(collapse(whole, dims, self.node.dims), theta, out)

    @property
    def _over(self) -> tuple[tuple[str, ...], dict[str, int]]:
        return (CELL, *self.rest), {**self.sizes, CELL: self.count}


@dataclass(frozen=True, eq=False)
class Multiplier:
    """f at the entries `where`, (W,), of every place: `pieces` of the cells, C together; `cells`,
    (G,): the cell of each place, None where there is one."""

    where: IntArray
    pieces: tuple[Piece, ...]
    cells: IntArray | None

    def at(self, theta: Theta) -> Array:
        """(C, W)."""
        return np.concatenate([piece.at(theta) for piece in self.pieces])

    def pull(self, slope: Array, theta: Theta, out: Gradient) -> None:
        """Add to `out` what a slope in f, (C, W), gives."""
        start = 0
        for piece in self.pieces:
            piece.pull(slope[start : start + piece.count], theta, out)
            start += piece.count

    @property
    def count(self) -> int:
        """C."""
        return sum(piece.count for piece in self.pieces)


@dataclass(frozen=True, eq=False)
class Multipliers:
    """f of G places, K entries each: those of `parts`, and 1 at all others. `name` and `span`: of
    the rows' site block."""

    places: int
    entries: int
    parts: tuple[Multiplier, ...]
    name: str
    span: Span

    def at(self, theta: Theta) -> Array:
        """(G, K) at theta. Raises DataError E303 where one is not finite."""
        out = np.ones((self.places, self.entries))
        for part in self.parts:
            value = part.at(theta)
            if not np.isfinite(value).all():
                raise DataError(not_finite(self.name, self.span))
            out[:, part.where] = value if part.cells is None else value[part.cells]
        return out

    def pull(self, slope: Array, theta: Theta, out: Gradient) -> None:
        """Add to `out` what a slope in f, (G, K), gives in the hyperparameters."""
        for part in self.parts:
            own = slope[:, part.where]
            if part.cells is None:
                total = np.sum(own, axis=0, keepdims=True)
            else:
                total = np.stack([np.bincount(part.cells, x, part.count) for x in own.T], axis=1)
            part.pull(total, theta, out)

    def at_places(self, some: IntArray) -> Multipliers:
        """The multipliers of some places, (g,)."""
        parts = tuple(p if p.cells is None else replace(p, cells=p.cells[some]) for p in self.parts)
        return replace(self, places=len(some), parts=parts)


def not_finite(name: str, span: Span) -> Diagnostic:
    """E303 for a coefficient or an offset that is not finite."""
    return Diagnostic(
        "E303",
        f"the predictor of `{name}` is not finite in some rows",
        span,
        help="`lgm check MODEL DATA` shows what was read: look for a missing covariate, a division "
        "by zero, the log of 0, or numbers too large",
    )
