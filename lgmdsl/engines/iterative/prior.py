"""The prior as the iterative engine sees it: products with Q, and noise with covariance Q.

A diagonally dominant Q (a graph's Laplacian, a proper field on one) is RR' with a column for each
pair of neighbours, and Re has covariance Q. Else, with x ~ N(0, V), V = (Q + E tau E')^-1 and E as
many entries as Q has null directions, Qx has covariance QVQ = Q; of a Kronecker product each factor
works along its own axis.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.engines.shared.prior import BlockPrior, is_flat
from lgmdsl.numerics.sparse.analyse import analyse
from lgmdsl.numerics.sparse.base import Factor, Pattern, Symbolic, times

UNEVEN = 1e-13  # of a diagonal: what rounding leaves of rows that sum to nothing


class IterativePrior:
    """z ~ N(mu, Q^-1) over all blocks, constraints aside; flat blocks count as Q = 0."""

    def __init__(self, linear: LinearGaussian) -> None:
        self.blocks = [BlockPrior(b, linear.starts[b.name]) for b in linear.blocks]
        self.mu = np.concatenate([b.mean for b in self.blocks])
        parts = [b.sparse_precision for b in self.blocks]
        self.precision = sp.csr_array(sp.block_diag(parts, format="csr"))
        self.log_det = sum(b.log_det_precision for b in self.blocks)
        self.free = sum(b.nullity for b in self.blocks)
        self.cost = 2.0 * self.precision.nnz

    @staticmethod
    def refuses(linear: LinearGaussian) -> str:
        """Why a prior is none of this engine's, in one sentence."""
        for b in linear.blocks:
            names = " * ".join(f.name for f in b.factors)
            if Shape.PRECISION not in b.shape or Shape.SPARSE not in b.shape:
                return f"block `{b.name}` ({names}) has no sparse precision"
        return ""

    @staticmethod
    def factored(linear: LinearGaussian) -> list[Symbolic]:
        """What log|Q| takes: an analysis for each structure off the diagonal. Raises TooLarge."""
        blocks = (b for b in linear.blocks if not is_flat(b))
        thick = (f for b in blocks for f in b.factors if Shape.DIAGONAL not in f.shape)
        return [analyse(Pattern.of(sp.csr_array(f.precision()))) for f in thick]

    @cached_property
    def whites(self) -> int:
        """How many normals the noise takes."""
        return sum(
            b.size if b.name not in self._roots else self._roots[b.name].shape[1]
            for b in self.blocks
        )

    @cached_property
    def _roots(self) -> dict[str, SparseMatrix]:
        thick = (b for b in self.blocks if not (b.flat or b.diagonal))
        roots = {b.name: dominant_root(b.sparse_precision) for b in thick}
        return {name: root for name, root in roots.items() if root is not None}

    @cached_property
    def diagonal(self) -> Array:
        """(n,) diag Q."""
        return np.asarray(self.precision.diagonal(), dtype=np.float64)

    def times(self, x: Array) -> Array:
        """Q x for (n,) or (n, k)."""
        if self._thin:
            return self.diagonal * x if x.ndim == 1 else self.diagonal[:, None] * x
        return times(self.precision, x)

    @cached_property
    def _thin(self) -> bool:
        return all(b.flat or b.diagonal for b in self.blocks)

    def entries(self, rows: IntArray, columns: IntArray) -> Array:
        """Q at (row, column)."""
        if self._thin:
            return np.where(rows == columns, self.diagonal[rows], 0.0)
        return np.asarray(self.precision[rows, columns], dtype=np.float64).reshape(-1)

    def noise(self, white: Array) -> Array:
        """(n, k) with covariance Q from independent standard normals, (whites, k)."""
        out, first = np.zeros((len(self.mu), white.shape[1])), 0
        for b in self.blocks:
            root = self._roots.get(b.name)
            taken = b.size if root is None else root.shape[1]
            e, first = white[first : first + taken], first + taken
            if b.flat:
                continue
            if root is not None:
                out[b.where] = times(root, e)
            elif b.diagonal:
                out[b.where] = np.sqrt(self.diagonal[b.where])[:, None] * e
            else:
                out[b.where] = times(b.sparse_precision, self._coloured(b, e))
        return out

    def _coloured(self, block: BlockPrior, e: Array) -> Array:
        """x ~ N(0, V), axis by axis."""
        grid = e.reshape(*[f.size for f in block.block.factors], -1)
        for axis, factor in enumerate(self._factors[block.name]):
            first = np.moveaxis(grid, axis, 0)
            flat = np.ascontiguousarray(first).reshape(first.shape[0], -1)
            grid = np.moveaxis(factor.backward(flat).reshape(first.shape), 0, axis)
        return np.ascontiguousarray(grid).reshape(e.shape)

    @cached_property
    def _factors(self) -> dict[str, list[Factor]]:
        return {
            b.name: [_factor(f) for f in b.block.factors]
            for b in self.blocks
            if not (b.flat or b.diagonal)
        }

    def covariance(self, block: BlockPrior, rows: IntArray, columns: IntArray) -> Array:
        """Entries of a proper block's K, places within the block."""
        if block.diagonal:
            return np.where(rows == columns, block.variance[rows], 0.0)
        out, left, right = np.ones(len(rows)), rows, columns
        for f in reversed(block.block.factors):
            q = sp.csr_array(f.precision())
            pattern = Pattern.of(q)
            (left, i), (right, j) = np.divmod(left, f.size), np.divmod(right, f.size)
            out *= _factor(f).selected()[pattern.find(i, j)]
        return out


def dominant_root(q: SparseMatrix) -> SparseMatrix | None:
    """R with RR' = Q, (n, m) csr: for each pair i, j of neighbours a column with |q|^1/2 at i and
    q |q|^-1/2 at j, and for each row the root of what the diagonal has left; None where it has less
    than that."""
    n, low = q.shape[0], sp.tril(q, -1).tocoo()
    nonzero = low.data != 0.0
    i, j, value = low.row[nonzero], low.col[nonzero], low.data[nonzero]
    size, diagonal = np.abs(value), q.diagonal()
    excess = diagonal - np.bincount(i, size, n) - np.bincount(j, size, n)
    if (excess < -UNEVEN * diagonal).any():
        return None
    excess = np.where(excess > UNEVEN * diagonal, excess, 0.0)
    edges, rows = np.arange(len(size)), np.arange(n)
    entries = np.concatenate([np.sqrt(size), np.sign(value) * np.sqrt(size), np.sqrt(excess)])
    places = np.concatenate([i, j, rows]), np.concatenate([edges, edges, len(size) + rows])
    return sp.csr_array((entries, places), shape=(n, len(size) + n))


def _factor(structure: Structure) -> Factor:
    """Factor of Q + E tau E', positive definite, of one structure."""
    q = sp.csr_array(structure.precision())
    null = structure.null_space()
    if null.shape[1]:
        _, _, order = sla.qr(null.T, mode="economic", pivoting=True)
        lift = np.zeros(structure.size)
        lift[order[: null.shape[1]]] = q.diagonal().mean()
        q = sp.csr_array(q + sp.diags_array(lift, format="csr"))
    pattern = Pattern.of(q)
    factor = analyse(pattern).factor(pattern.values(q))
    assert factor is not None, "a structure's precision is definite off its null space"
    return factor
