"""Site weights over all predictor rows: W is diagonal, or has K x K blocks (vector sites)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.contract.engine import EPSILON, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.stacked import flatten, row_slices

FAR = 1e-9  # nats


def far(start: Array, weight: SiteWeight) -> bool:
    """Whether predictors at the prior's mean, (P,), are so far from 0 that a mean computed from
    there lacks digits of the evidence."""
    return EPSILON * abs(float(start @ weight.times(start))) > FAR


class SiteWeight:
    """W as an operator. `diagonal` is (P,) where every site is scalar, else None."""

    def __init__(self, predictors: Sequence[Predictor], weight: Rows) -> None:
        self.rows = sum(p.rows for p in predictors)
        pairs = zip(row_slices(predictors), weight, strict=True)
        self.parts = [(rows, np.asarray(w, dtype=np.float64)) for rows, w in pairs]
        self.diagonal = flatten(weight) if all(w.ndim == 1 for _, w in self.parts) else None

    def extended(self, extra: int) -> tuple[SiteWeight, float]:
        """W with `extra` pseudo-rows of a weight tau of the others' size, and tau."""
        sizes = [float(np.abs(w).mean()) for _, w in self.parts if w.size]
        tau = max(sizes, default=1.0) or 1.0
        longer = SiteWeight((), ())
        longer.rows = self.rows + extra
        longer.parts = [*self.parts, (slice(self.rows, longer.rows), np.full(extra, tau))]
        if self.diagonal is None:
            longer.diagonal = None
        else:
            longer.diagonal = np.concatenate([self.diagonal, np.full(extra, tau)])
        return longer, tau

    @property
    def finite(self) -> bool:
        """Whether no weight is NaN or infinite."""
        return all(bool(np.isfinite(w).all()) for _, w in self.parts)

    def times(self, x: Array) -> Array:
        """W x for (P,) or (P, k)."""
        if self.diagonal is not None:
            return self.diagonal * x if x.ndim == 1 else self.diagonal[:, None] * x
        out = np.empty_like(x)
        for rows, w in self.parts:
            if w.ndim == 1:
                out[rows] = w * x[rows] if x.ndim == 1 else w[:, None] * x[rows]
            else:
                sites, k = w.shape[0], w.shape[1]
                part = x[rows].reshape(sites, k, math.prod(x.shape[1:]))  # -1 is lost on no sites
                if x.ndim == 1:  # matmul is slow on many small ones
                    turned = np.einsum("nij,nj->ni", w, part[:, :, 0])
                else:
                    turned = np.matmul(w, part)
                out[rows] = turned.reshape(x[rows].shape)
        return out

    def root(self, x: Array) -> Array | None:
        """(P, k) X with X'X = x'Wx, for x of (P, k); None where a weight is negative."""
        values, basis = self.spectrum()
        if (values < 0.0).any():
            return None
        turned = x if basis is None else basis.forward(x)
        return np.asarray(np.sqrt(values)[:, None] * turned)

    def sparse(self) -> SparseMatrix:
        """W as csr."""
        pieces: list[SparseMatrix] = [sp.csr_array((0, 0))]  # a model may have no sites
        for _, w in self.parts:
            if w.ndim == 1:
                pieces.append(sp.csr_array(sp.diags_array(w, format="csr")))
            else:
                sites, k = w.shape[0], w.shape[1]
                index = np.arange(sites)
                blocks = sp.bsr_array(
                    (w, index, np.arange(sites + 1)), shape=(sites * k, sites * k)
                )
                pieces.append(sp.csr_array(blocks))
        return sp.csr_array(sp.block_diag(pieces, format="csr"))

    def spectrum(self) -> tuple[Array, Basis | None]:
        """Eigenvalues (P,) and the basis U with W = U diag U'; None for the identity."""
        if self.diagonal is not None:
            return self.diagonal, None
        values = np.empty(self.rows)
        bases: list[tuple[slice, Array | None]] = []
        for rows, w in self.parts:
            if w.ndim == 1:
                values[rows] = w
                bases.append((rows, None))
            else:
                spectrum, vectors = np.linalg.eigh(w)
                # eigh leaves rounding noise where a weight is singular (softmax sites).
                noise = 1e-15 * w.shape[1] * np.abs(spectrum).max(axis=1, keepdims=True)
                values[rows] = np.where(np.abs(spectrum) <= 4 * noise, 0.0, spectrum).reshape(-1)
                bases.append((rows, vectors))
        return values, Basis(bases)


class Basis:
    """Block-diagonal orthogonal U, (P, P)."""

    def __init__(self, parts: list[tuple[slice, Array | None]]) -> None:
        self.parts = parts

    def forward(self, x: Array, transpose: bool = True) -> Array:
        """U'x for (P,) or (P, k)."""
        out = np.empty_like(x, order="C")
        for rows, u in self.parts:
            if u is None:
                out[rows] = x[rows]
            else:
                turned = u.transpose(0, 2, 1) if transpose else u
                width = math.prod(x.shape[1:])
                piece = np.ascontiguousarray(x[rows]).reshape(u.shape[0], u.shape[1], width)
                out[rows] = np.matmul(turned, piece).reshape(x[rows].shape)
        return out

    def back(self, x: Array) -> Array:
        """U x for (P,) or (P, k)."""
        return self.forward(x, transpose=False)


def site_blocks(left: Array, right: Array, predictors: Sequence[Predictor]) -> list[Array]:
    """Blocks of left'right, both (r, P): (N,) for scalar, (N, K, K) for vector site blocks."""
    blocks = []
    for p, rows in zip(predictors, row_slices(predictors), strict=True):
        a, b = left[:, rows], right[:, rows]
        if p.event:
            shape = a.shape[0], p.rows // p.event, p.event
            blocks.append(np.einsum("rni,rnj->nij", a.reshape(shape), b.reshape(shape)))
        else:
            blocks.append(np.einsum("rn,rn->n", a, b))
    return blocks
