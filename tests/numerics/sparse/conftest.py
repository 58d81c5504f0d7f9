"""Symmetric patterns of every kind, and the kernels that must agree on them."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.numerics.sparse.analyse import DenseSymbolic
from lgmdsl.numerics.sparse.base import Pattern, Symbolic
from lgmdsl.numerics.sparse.supernodal import SupernodalSymbolic

Kernel = Callable[[Pattern], Symbolic]
KERNELS = {"dense": DenseSymbolic, "supernodal": SupernodalSymbolic}
KINDS = (
    "random",
    "forest",
    "blocks",
    "arrow",
    "dense rows",
    "diagonal",
    "band",
    "grid",
    "shared",
    "full",
)


@pytest.fixture(params=[*KERNELS, "without pymetis"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Every kernel on every size, whatever `analyse` would choose."""
    if request.param == "without pymetis":
        monkeypatch.setitem(sys.modules, "pymetis", None)
        return SupernodalSymbolic
    return KERNELS[request.param]


def adjacency(kind: str, n: int, rng: np.random.Generator) -> Array:
    """(n, n) of zeros and ones, symmetric, in a random order."""
    i, j = np.indices((n, n))
    if kind == "random":
        lower = rng.random((n, n)) < rng.choice([1.0, 3.0, 8.0]) / n
    elif kind == "forest":  # each vertex hangs on an earlier one, some on none
        lower = (
            (i > 0) & (j == rng.integers(0, np.arange(n) + 1)[:, None]) & (rng.random((n, 1)) < 0.9)
        )
    elif kind == "blocks":  # cliques apart from one another
        group = rng.integers(0, max(n // 6, 1), size=n)
        lower = group[:, None] == group
    elif kind == "arrow":
        lower = np.broadcast_to(i == 0, (n, n))
    elif kind == "dense rows":
        lower = (rng.random((n, 1)) < 0.05) | (rng.random((n, n)) < 1.5 / n)
    elif kind == "diagonal":
        lower = np.zeros((n, n), dtype=bool)
    elif kind == "band":
        lower = np.abs(i - j) <= rng.integers(1, 5)
    elif kind == "grid":
        side = max(int(np.sqrt(n)), 1)
        lower = ((i - j == 1) & (i % side != 0)) | (i - j == side)
    elif kind == "shared":  # two cliques of 3/5 that share 1/5
        lower = (np.maximum(i, j) < 0.6 * n) | (np.minimum(i, j) >= 0.4 * n)
    else:
        lower = np.ones((n, n), dtype=bool)
    order = rng.permutation(n)
    return np.asarray(((lower | lower.T) & (i != j))[np.ix_(order, order)], dtype=np.float64)


def lattice(side: int, dimensions: int) -> SparseMatrix:
    """The graph Laplacian of side^dimensions points, negative off its diagonal, degrees on it."""
    low, ones = np.arange(side - 1), np.ones(2 * side - 2)
    places = (np.concatenate([low, low + 1]), np.concatenate([low + 1, low]))
    line = sp.csr_array((ones, places), shape=(side, side))
    one = sp.eye_array(side, format="csr")
    edges = line
    for _ in range(dimensions - 1):
        inner = sp.eye_array(edges.shape[0], format="csr")
        edges = sp.csr_array(sp.kron(edges, one, "csr") + sp.kron(inner, line, "csr"))
    degrees = np.asarray(edges @ np.ones(edges.shape[0]))
    return sp.csr_array(sp.diags_array(degrees, format="csr") - edges)


def positive_definite(kind: str, n: int, seed: int) -> SparseMatrix:
    """A well-conditioned matrix on such a pattern, some of whose stored entries may be zero."""
    rng = np.random.default_rng(seed)
    edges = sp.triu(sp.coo_array(adjacency(kind, n, rng)), k=1).tocoo()
    values = rng.normal(size=edges.nnz) * (rng.random(edges.nnz) < 0.95)
    i, j = edges.coords
    weight = np.bincount(i, np.abs(values), n) + np.bincount(j, np.abs(values), n)
    diagonal = weight + rng.uniform(0.2, 2.0, size=n)
    rows, columns = np.concatenate([i, j, np.arange(n)]), np.concatenate([j, i, np.arange(n)])
    stored = np.concatenate([values, values, diagonal])
    return sp.csr_array(sp.coo_array((stored, (rows, columns)), shape=(n, n)))
