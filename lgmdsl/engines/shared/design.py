"""B of all site blocks, stacked below one another, one explicit matrix for each latent block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix, SparseMatrix
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.operators.base import Operator
from lgmdsl.operators.compose import Stack
from lgmdsl.operators.explicit import Identity
from lgmdsl.operators.hstack import beside

Columns = Mapping[str, Operator]


def stack(columns: Sequence[Columns], rows: Sequence[int], name: str, size: int) -> Matrix | None:
    """The (P, size) matrix of one latent block, csr where every piece is; None for the identity."""
    if len(columns) == 1 and isinstance(columns[0].get(name), Identity):
        return None
    pieces = [c.get(name) for c in columns]
    if all(p is None or p.is_sparse for p in pieces):
        parts = [
            sp.csr_array((r, size)) if p is None else p.sparse()
            for p, r in zip(pieces, rows, strict=True)
        ]
        whole = parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")
        return sp.csr_array(whole)
    dense = [
        np.zeros((r, size)) if p is None else p.dense() for p, r in zip(pieces, rows, strict=True)
    ]
    return np.ascontiguousarray(dense[0] if len(dense) == 1 else np.vstack(dense))


class Design:
    """s = Bz + c with z all latents, (n,), and s all predictor rows, (P,)."""

    def __init__(self, linear: LinearGaussian) -> None:
        self.size, self.rows = linear.size, linear.rows
        self.where = {b.name: slice(linear.starts[b.name], linear.starts[b.name] + b.size)
                      for b in linear.blocks}  # fmt: skip
        columns = [p.columns for p in linear.predictors]
        counts = [p.rows for p in linear.predictors]
        self.parts: dict[str, Matrix | None] = {
            b.name: stack(columns, counts, b.name, b.size)
            for b in linear.blocks
            if any(b.name in c for c in columns)
        }
        self.offset = (
            np.concatenate([np.asarray(p.offset, dtype=np.float64) for p in linear.predictors])
            if linear.predictors
            else np.zeros(0)
        )

    def times(self, z: Array) -> Array:
        """B z for (n,) or (n, k)."""
        out = np.zeros((self.rows, *z.shape[1:]))
        for name, part in self.parts.items():
            piece = z[self.where[name]]
            out += piece if part is None else np.asarray(part @ piece)
        return out

    def transposed(self, y: Array) -> Array:
        """B'y for (P,) or (P, k)."""
        out = np.zeros((self.size, *y.shape[1:]))
        for name, part in self.parts.items():
            out[self.where[name]] = y if part is None else part.T @ y
        return out

    def block(self, name: str) -> Matrix:
        """The explicit (P, n_b) matrix of a block."""
        part = self.parts[name]
        if part is None:
            return sp.csr_array(sp.eye_array(self.rows, format="csr"))
        return part

    def block_dense(self, name: str) -> Array:
        """(P, n_b) dense; zeros where no predictor has the block."""
        where = self.where[name]
        if name not in self.parts:
            return np.zeros((self.rows, where.stop - where.start))
        part = self.block(name)
        return part if isinstance(part, np.ndarray) else np.asarray(part.toarray())

    @property
    def has_sparse(self) -> bool:
        """Whether any part is the identity or csr, or a block is left out."""
        explicit = len(self.parts) == len(self.where)
        return not explicit or any(not isinstance(p, np.ndarray) for p in self.parts.values())

    def entries_by_row(self) -> Array:
        """(P,) entries held in each row."""
        counts = np.zeros(self.rows)
        for part in self.parts.values():
            if part is None:
                counts += 1.0
            elif isinstance(part, np.ndarray):
                counts += part.shape[1]
            else:
                counts += np.diff(part.indptr)
        return counts

    def sparse(self) -> SparseMatrix:
        """(P, n) csr of all blocks side by side."""
        pieces = [
            sp.csr_array(self.block(name)) if name in self.parts
            else sp.csr_array((self.rows, w.stop - w.start))
            for name, w in self.where.items()
        ]  # fmt: skip
        if len(pieces) == 1:
            return pieces[0]
        return sp.csr_array(sp.hstack(pieces, format="csr"))

    def dense(self) -> Array:
        """(P, n) array of all blocks side by side."""
        if len(self.parts) == len(self.where) == 1 and not self.has_sparse:
            return self.block_dense(next(iter(self.parts)))
        out = np.zeros((self.rows, self.size))
        for name in self.parts:
            part = self.block(name)
            out[:, self.where[name]] = part if isinstance(part, np.ndarray) else part.toarray()
        return out


def dense_rows(columns: Columns, where: Mapping[str, slice], size: int) -> Array:
    """(P, n) array of a few rows given as operators (constraints)."""
    rows = next(iter(columns.values())).shape[0]
    out = np.zeros((rows, size))
    for name, operator in columns.items():
        out[:, where[name]] = operator.dense()
    return out


def row_chunks(columns: Columns, where: Mapping[str, slice], rows: int, size: int,
               step: int) -> list[tuple[slice, list[tuple[slice, Matrix]]]]:  # fmt: skip
    """Row slices of an operator sum, so that dense transposes stay bounded by step * n."""
    matrices = [(where[name], operator.matrix()) for name, operator in columns.items()]
    out = []
    for at in range(0, rows, step):
        rows_here = slice(at, min(at + step, rows))
        out.append((rows_here, [(w, cast("Matrix", m[rows_here])) for w, m in matrices]))
    return out


def transpose_dense(pieces: Sequence[tuple[slice, Matrix]], rows: int, size: int) -> Array:
    """(n, rows) F-ordered array of the transposed row chunk."""
    out = np.zeros((rows, size))
    for where, m in pieces:
        out[:, where] = m if isinstance(m, np.ndarray) else m.toarray()
    return out.T


def whole(linear: LinearGaussian) -> Operator:
    """B of all predictors, below one another, over all latents."""
    widths = [b.size for b in linear.blocks]
    parts = [
        beside([p.columns.get(b.name) for b in linear.blocks], widths, p.rows)
        for p in linear.predictors
    ]
    return parts[0] if len(parts) == 1 else Stack(tuple(parts))
