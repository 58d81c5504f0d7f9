"""All predictor rows of a model, s = Bz + c: B of all site blocks stacked, and cutting rows into
site blocks.

`Rows` hold an array for each site block, (N,) or (N, K); here they lie below one another, (P,).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix, SparseMatrix
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.rows import Rows
from lgmdsl.operators.base import Operator
from lgmdsl.operators.compose import Stack, hstack
from lgmdsl.operators.explicit import Dense, Identity, Sparse

if TYPE_CHECKING:
    from lgmdsl.contract.linear import LinearGaussian


def flatten(rows: Rows) -> Array:
    """All site blocks below one another, (P,): a view where there is one block."""
    if len(rows) == 1:
        return np.asarray(rows[0], dtype=np.float64).reshape(-1)
    return np.concatenate([np.reshape(r, -1) for r in rows]) if rows else np.zeros(0)


def row_slices(predictors: Sequence[Predictor]) -> tuple[slice, ...]:
    """Where the rows of each site block are among all P."""
    return _slices([p.rows for p in predictors])


def cut(flat: Array, predictors: Sequence[Predictor]) -> list[Array]:
    """(P,) or (P, k) into one piece for each site block, (N,) or (N K,)."""
    return [flat[rows] for rows in row_slices(predictors)]


def split(flat: Array, predictors: Sequence[Predictor]) -> Rows:
    """(P,) into one array for each site block, (N,) or (N, K)."""
    pairs = zip(cut(flat, predictors), predictors, strict=True)
    return tuple(part.reshape(-1, p.event) if p.event else part for part, p in pairs)


def split_like(flat: Array, like: Rows) -> Rows:
    """One array of the shape of each of `like`, whose entries lie below one another in `flat`."""
    pairs = zip(_slices([x.size for x in like]), like, strict=True)
    return tuple(flat[rows].reshape(x.shape) for rows, x in pairs)


def _slices(sizes: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(a, b) for a, b in pairwise(accumulate(sizes, initial=0)))


def column(pieces: Sequence[Operator | None], rows: Sequence[int], size: int) -> Matrix | None:
    """(P, size) the pieces of one latent block below one another, csr where every one is; zeros in
    the `rows` of one that is None. None for one identity."""
    if len(pieces) == 1 and isinstance(pieces[0], Identity):
        return None
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


def stack(predictors: Sequence[Predictor]) -> Predictor:
    """Several predictors below one another, as one of scalar rows; itself where there is one."""
    if len(predictors) == 1:
        return predictors[0]
    widths = {name: op.shape[1] for p in predictors for name, op in p.columns.items()}
    rows = [p.rows for p in predictors]
    parts = {n: column([p.columns.get(n) for p in predictors], rows, w) for n, w in widths.items()}
    return Predictor(_operators(parts), flatten(tuple(p.offset for p in predictors)))


def _operators(parts: Mapping[str, Matrix | None]) -> dict[str, Operator]:
    """The matrices as operators; the identity is that of one predictor."""
    return {
        name: Dense(part) if isinstance(part, np.ndarray) else Sparse(part)
        for name, part in parts.items()
        if part is not None
    }


class StackedPredictors:
    """s = Bz + c with z all latents, (n,), and s all predictor rows, (P,).

    `lifted` and `pulled` apply the operators as they are; everything else works on the explicit
    matrices of the latent blocks, `parts`, which are made when first asked for.
    """

    def __init__(self, linear: LinearGaussian) -> None:
        self.predictors, self.where = linear.predictors, linear.slices
        self.size, self.rows = linear.size, linear.rows

    @cached_property
    def offset(self) -> Array:
        """(P,) c."""
        return flatten(tuple(p.offset for p in self.predictors))

    def lifted(self, z: Array) -> Array:
        """B z for (n,) or (n, k), operator by operator."""
        none = np.zeros((0, *z.shape[1:]))
        return np.concatenate([none, *(p.times(z, self.where) for p in self.predictors)])

    def pulled(self, rows: Rows) -> Array:
        """B'x for x given by site blocks, (n,), operator by operator."""
        out = np.zeros(self.size)
        for predictor, x in zip(self.predictors, rows, strict=True):
            predictor.add_transposed(x.reshape(-1), self.where, out)
        return out

    def predictor(self) -> Predictor:
        """All of them as one of scalar rows; the only one as it is."""
        if len(self.predictors) == 1:
            return self.predictors[0]
        return Predictor(_operators(self.parts), self.offset)

    def operator(self) -> Operator:
        """B as an operator over all latents, made of those of the predictors."""
        widths = [w.stop - w.start for w in self.where.values()]
        parts = [
            hstack([p.columns.get(name) for name in self.where], widths, p.rows)
            for p in self.predictors
        ]
        return parts[0] if len(parts) == 1 else Stack(tuple(parts))

    @cached_property
    def parts(self) -> Mapping[str, Matrix | None]:
        """The (P, n_b) matrix of every latent block that a predictor has: csr where every operator
        is; None for the identity."""
        rows = [p.rows for p in self.predictors]
        return {
            name: column([p.columns.get(name) for p in self.predictors], rows, w.stop - w.start)
            for name, w in self.where.items()
            if any(name in p.columns for p in self.predictors)
        }

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
            sp.csr_array(self.block(name))
            if name in self.parts
            else sp.csr_array((self.rows, w.stop - w.start))
            for name, w in self.where.items()
        ]
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

    def matrix(self) -> Matrix:
        """(P, n): csr where every operator is, else dense."""
        parts = self.parts.values()
        thin = bool(parts) and not any(isinstance(p, np.ndarray) for p in parts)
        return self.sparse() if thin else self.dense()
