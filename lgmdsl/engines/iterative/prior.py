"""The prior as the iterative engine sees it: products with Q, and noise with covariance Q.

With x ~ N(0, V), V = (Q + E tau E')^-1 and E as many entries as Q has null directions, Qx has
covariance QVQ = Q; of a Kronecker product each factor works along its own axis.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.numerics.sparse.analyse import analyse
from lgmdsl.numerics.sparse.base import Factor, Pattern, times


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
        """(n, k) with covariance Q from independent standard normals of the same shape."""
        out = np.zeros_like(white)
        for b in self.blocks:
            e = white[b.where]
            if b.flat:
                continue
            if b.diagonal:
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


def _factor(structure: Structure) -> Factor:
    """Of Q + E tau E'."""
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
