"""What the covariance engine keeps for one model: S = BKB', flat columns H, pseudo-rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, Array, Matrix
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.engines.shared.prior import BlockPrior

SMALL = 20_000  # entries of a sparse B that is kept dense: a product takes less than to ask for it


class RowSpace:
    """Rows of B for proper and flat blocks, extended by `pins` (dense rows over all latents)."""

    def __init__(self, design: StackedPredictors, blocks: list[BlockPrior], pins: Array) -> None:
        self.proper = [b for b in blocks if not b.flat]
        self.flats = [b for b in blocks if b.flat]
        self.rows = design.rows + len(pins)
        self.latents = design.size
        self.b: dict[str, Matrix | None] = {
            b.name: _small(_extended(design, b, pins))
            for b in blocks
            if b.name in design.parts or np.any(pins[:, b.where])
        }
        self.flat_columns = np.zeros((self.rows, sum(b.size for b in self.flats)))
        self.flat_where, start = [], 0
        for b in self.flats:
            self.flat_where.append(slice(start, start + b.size))
            if b.name in self.b:
                self.flat_columns[:, start : start + b.size] = _dense(self.b[b.name], self.rows)
            start += b.size

    def s(self) -> Array:
        """(P, P) S = BKB'; the covariance itself (no copy) for one identity operator."""
        total: Array | None = None
        owned = False
        for block in self.proper:
            if block.name not in self.b:
                continue
            piece, fresh = _sandwich(self.b[block.name], block)
            if total is None:
                total, owned = piece, fresh
            elif owned:
                total += piece
            else:
                total, owned = total + piece, True
        return np.zeros((self.rows, self.rows)) if total is None else total

    def times(self, z: Array) -> Array:
        """B z over the proper blocks, for (n,) or (n, k)."""
        out = np.zeros((self.rows, *z.shape[1:]))
        for block in self.proper:
            if block.name in self.b:
                b = self.b[block.name]
                piece = z[block.where]
                out += piece if b is None else np.asarray(b @ piece)
        return out

    def transposed(self, y: Array) -> Array:
        """B'y, (n,) or (n, k), zero in the flat blocks."""
        out = np.zeros((self.latents, *y.shape[1:]))
        for block in self.proper:
            if block.name in self.b:
                b = self.b[block.name]
                out[block.where] = y if b is None else b.T @ y
        return out

    def prior_times(self, x: Array) -> Array:
        """K x for (n,) or (n, k), zero in the flat blocks."""
        out = np.zeros_like(x)
        columns = x if x.ndim == 2 else x[:, None]
        view = out if x.ndim == 2 else out[:, None]
        for block in self.proper:
            view[block.where] = block.times(columns[block.where])
        return out

    def flat_part(self, x: Array) -> Array:
        """Rows of the flat blocks, (k,) or (k, m)."""
        return np.concatenate([x[b.where] for b in self.flats]) if self.flats else x[:0]

    def place_flat(self, z: Array, f: Array) -> None:
        """Write flat values (k,) or (k, m) into z, in place."""
        for block, where in zip(self.flats, self.flat_where, strict=True):
            z[block.where] = f[where]

    def block_dense(self, block: BlockPrior) -> Array:
        """(P, n_b)."""
        if block.name not in self.b:
            return np.zeros((self.rows, block.size))
        return _dense(self.b[block.name], self.rows)

    def compress(self, m: Array, block: BlockPrior) -> Array:
        """B_b'M B_b, (n_b, n_b)."""
        if block.name not in self.b:
            return np.zeros((block.size, block.size))
        b = self.b[block.name]
        return m if b is None else np.asarray(b.T @ np.asarray(b.T @ m).T)


def _small(b: Matrix | None) -> Matrix | None:
    """Dense, where that is small."""
    if b is None or isinstance(b, np.ndarray) or b.shape[0] * b.shape[1] > SMALL:
        return b
    return np.asarray(b.toarray())


def _dense(b: Matrix | None, rows: int) -> Array:
    if b is None:
        return np.eye(rows)
    return b if isinstance(b, np.ndarray) else np.asarray(b.toarray())


def _extended(design: StackedPredictors, block: BlockPrior, pins: Array) -> Matrix | None:
    part = design.parts.get(block.name, sp.csr_array((design.rows, block.size)))
    if not len(pins):
        return part
    more = pins[:, block.where]
    if isinstance(part, np.ndarray):
        return np.vstack([part, more])
    explicit = design.block(block.name) if part is None else part
    return sp.csr_array(sp.vstack([sp.csr_array(explicit), sp.csr_array(more)], format="csr"))


def _gathered(b: Matrix) -> AnyArray | None:
    """Column of the single 1 in each row of a gather, else None."""
    if isinstance(b, np.ndarray) or b.nnz != b.shape[0]:
        return None
    if not (np.diff(b.indptr) == 1).all() or not (b.data == 1.0).all():
        return None
    return b.indices


def _sandwich(b: Matrix | None, block: BlockPrior) -> tuple[Array, bool]:
    """B K B' and whether the array is ours to overwrite."""
    if b is None:
        if block.diagonal:
            return np.diag(block.variance), True
        return block.covariance, False
    if block.diagonal:
        if isinstance(b, np.ndarray):
            half = b * np.sqrt(block.variance)
            return half @ half.T, True
        scaled = b.multiply(block.variance)
        return np.asarray((sp.csr_array(scaled) @ b.T).toarray(), order="C"), True
    index = _gathered(b)
    if index is not None:
        return np.ascontiguousarray(block.covariance[index][:, index]), True
    half = np.asarray(b @ block.covariance)
    return np.ascontiguousarray(b @ half.T), True
