"""Random positive definite matrices of a known band and border."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix


@dataclass(frozen=True)
class Shape:
    """n rows in all, m of them the border; `chains` of half-bandwidth p, each a ring if cyclic."""

    n: int
    p: int = 1
    m: int = 0
    chains: int = 1
    cyclic: bool = False
    shuffled: bool = False
    density: float = 1.0


def random_shape(rng: np.random.Generator) -> Shape:
    """n 1 to 80, p 0 to 6, m 0 to 4, and everything else by chance."""
    n = int(rng.integers(1, 81))
    return Shape(
        n,
        p=int(rng.integers(0, 7)),
        m=min(int(rng.integers(0, 5)), n - 1),
        chains=int(rng.integers(1, 4)),
        cyclic=bool(rng.random() < 0.3),
        shuffled=bool(rng.random() < 0.5),
        density=float(rng.choice([0.5, 1.0])),
    )


def edges(shape: Shape, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """(i, j) of the strict lower triangle, before any shuffle; the border's rows last."""
    inner = shape.n - shape.m
    rows, columns = [], []
    for chain in np.array_split(np.arange(inner), shape.chains):
        for k in range(1, min(shape.p, len(chain) - 1) + 1):
            ends = np.roll(chain, -k) if shape.cyclic else chain[k:]
            starts = chain if shape.cyclic else chain[:-k]
            rows.append(np.maximum(starts, ends))
            columns.append(np.minimum(starts, ends))
    for b in range(inner, shape.n):
        rows.append(np.full(b, b))
        columns.append(np.arange(b))
    if not rows:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    i, j = np.concatenate(rows), np.concatenate(columns)
    kept = (rng.random(len(i)) < shape.density) & (i != j)
    i, j = np.unique(np.stack([i[kept], j[kept]]), axis=1)  # rings of few rows meet themselves
    return i, j


def matrix(shape: Shape, rng: np.random.Generator) -> SparseMatrix:
    """Random off-diagonals and just enough on the diagonal."""
    i, j = edges(shape, rng)
    off = rng.normal(size=len(i))
    if shape.shuffled:
        relabelled = rng.permutation(shape.n)
        i, j = relabelled[i], relabelled[j]
    sums = np.bincount(i, np.abs(off), shape.n) + np.bincount(j, np.abs(off), shape.n)
    diagonal = sums * 1.01 + rng.uniform(0.1, 1.0, shape.n)
    k = np.arange(shape.n)
    rows, columns = np.concatenate([i, j, k]), np.concatenate([j, i, k])
    values = np.concatenate([off, off, diagonal])
    return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=(shape.n, shape.n)))


def grid(rows: int, columns: int) -> SparseMatrix:
    """Five-point Laplacian plus one."""

    def path(k: int) -> SparseMatrix:
        i = np.arange(k - 1)
        off = sp.coo_array((-np.ones(k - 1), (i, i + 1)), shape=(k, k))
        return sp.csr_array(off + off.T + 2.0 * sp.eye_array(k))

    across = sp.kron(sp.eye_array(rows), path(columns))
    down = sp.kron(path(rows), sp.eye_array(columns))
    return sp.csr_array(across + down + sp.eye_array(rows * columns))


def dense_inverse(a: SparseMatrix) -> Array:
    return np.asarray(np.linalg.inv(a.toarray()))
