"""Where the entries of an operator with hyperparameters in it stand: found once, for every theta.

Only the values of its terms' factors depend on theta. B is a csr matrix whose entry e is the sum of
the elementary entries that are placed there, and dF/d(an elementary entry) is dF/dB at its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import BoolArray, IntArray, Matrix, SparseMatrix
from lgmdsl.canonical.expressions.affine import Term
from lgmdsl.canonical.expressions.coefficient import Gradient, Theta
from lgmdsl.canonical.lowering import flatten
from lgmdsl.numerics.sparse.base import filled, same_pattern
from lgmdsl.operators.explicit import Sparse

MOST = 1_000_000  # elementary entries whose places are kept


@dataclass(frozen=True, eq=False)
class Placed:
    """Places in B of the entries of terms with these `grids`: `places`, (m,), which of B's stored
    entries each elementary one is added to; `kept`: which of them stand in B's rows, None for all.
    `like` has B's places."""

    grids: tuple[flatten.Grid, ...]
    places: IntArray
    kept: BoolArray | None
    like: SparseMatrix

    def at(self, theta: Theta) -> Sparse:
        """B at theta."""
        values = np.concatenate([flatten.entries(g, theta).reshape(-1) for g in self.grids])
        values = values if self.kept is None else values[self.kept]
        return Sparse(filled(self.like, np.bincount(self.places, values, self.like.nnz)))

    def holds(self, adjoint: Matrix) -> bool:
        """Whether dF/dB stands on B's pattern."""
        return not isinstance(adjoint, np.ndarray) and same_pattern(adjoint, self.like)

    def pull(self, adjoint: SparseMatrix, theta: Theta, out: Gradient) -> None:
        """Add dF/dtheta to `out` from dF/dB, which stands on B's pattern."""
        slopes = adjoint.data[self.places]
        if self.kept is not None:
            every = np.zeros(len(self.kept))
            every[self.kept] = slopes
            slopes = every
        start = 0
        for grid in self.grids:
            end = start + len(grid.rows)
            if any(f.depends for f in grid.factors):
                flatten.pull_grid(grid, slopes[start:end], theta, out)
            start = end


def placed(
    terms: Sequence[Term],
    dims: tuple[str, ...],
    latent: tuple[int, ...],
    sizes: flatten.Sizes,
    theta: Theta,
    rows: IntArray | None,
) -> Placed | None:
    """The places of all terms on one latent, over all rows or some of them, each once. None where B
    is no such matrix (an operator of the language, a design that is kept whole, a pattern that
    depends on theta), where a row is wanted twice, and where entries are too many to be kept.
    """
    if not all(flatten.is_elementary(t, dims, latent, sizes, theta) for t in terms):
        return None
    grids = tuple(flatten.grid_of(t, dims, latent, sizes, theta) for t in terms)
    if sum(len(g.rows) for g in grids) > MOST:
        return None
    row, column = (
        np.concatenate(x) for x in zip(*((g.rows, g.columns) for g in grids), strict=True)
    )
    height, width = flatten.length([sizes[d] for d in dims]), flatten.length(latent)
    kept = None
    if rows is not None:
        order = np.full(height, -1)
        order[rows] = np.arange(len(rows))
        if (order[rows] != np.arange(len(rows))).any():
            return None
        row, height = order[row], len(rows)
        kept = row >= 0
        row, column = row[kept], column[kept]
    keys, places = np.unique(row * width + column, return_inverse=True)
    stored, indices = np.divmod(keys, max(width, 1))
    indptr = np.searchsorted(stored, np.arange(height + 1))
    like = sp.csr_array((np.zeros(len(keys)), indices, indptr), shape=(height, width))
    like.has_canonical_format = True
    return Placed(grids, places.reshape(-1), kept, like)
