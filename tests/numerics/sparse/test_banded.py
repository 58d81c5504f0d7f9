"""Banded and bordered Cholesky against dense algebra, on LAPACK and compiled alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.numerics.sparse import banded, banded_triangle
from lgmdsl.numerics.sparse.banded import BandedFactor, BandedSymbolic, banded_symbolic
from lgmdsl.numerics.sparse.base import Pattern
from tests.numerics.sparse.banded_matrices import (
    Shape,
    dense_inverse,
    edges,
    grid,
    matrix,
    random_shape,
)

both = pytest.mark.parametrize("compiled", [False, True], ids=["lapack", "compiled"])


def analysed(a: SparseMatrix, compiled: bool | None = None) -> BandedSymbolic:
    symbolic = banded_symbolic(Pattern.of(a), compiled)
    assert symbolic is not None
    return symbolic


def factored(a: SparseMatrix, compiled: bool) -> BandedFactor:
    symbolic = analysed(a, compiled)
    factor = symbolic.factor(symbolic.pattern.values(a))
    assert factor is not None
    return factor


def close(found: Array, truth: Array, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(found, truth, rtol=tolerance, atol=tolerance * np.abs(truth).max())


def agrees_with_dense(a: SparseMatrix, compiled: bool) -> None:
    n, pattern = a.shape[0], Pattern.of(a)
    factor, inverse = factored(a, compiled), dense_inverse(a)
    half = np.linalg.slogdet(a.toarray())[1] / 2
    assert abs(factor.half_log_det - half) <= 1e-12 * max(1.0, abs(half), n / 10)
    close(factor.selected(), inverse[pattern.indices, pattern.columns])
    x = np.random.default_rng(n).normal(size=(n, 3))
    kept = x.copy()
    close(factor.solve(x), inverse @ x)
    close(factor.solve(x[:, 0]), inverse @ x[:, 0])
    close(factor.solve(x[:, :1]), inverse @ x[:, :1])
    close((factor.forward(x) ** 2).sum(axis=0), np.einsum("ij,ij->j", x, inverse @ x))
    close(factor.backward(factor.forward(x[:, 1])), inverse @ x[:, 1])
    root = factor.backward(np.eye(n))
    close(root @ root.T, inverse)
    close(factor.forward(np.eye(n)), root.T)
    np.testing.assert_array_equal(x, kept)
    assert abs(np.log(factor.pivots).sum() / 2 - half) <= 1e-10 * max(1.0, abs(half))


@both
def test_two_hundred_random_bands_and_borders(compiled: bool) -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        agrees_with_dense(matrix(random_shape(rng), rng), compiled)


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 40),
    p=st.integers(0, 6),
    m=st.integers(0, 4),
    chains=st.integers(1, 4),
    cyclic=st.booleans(),
    shuffled=st.booleans(),
    compiled=st.booleans(),
)
def test_any_shape(
    seed: int, n: int, p: int, m: int, chains: int, cyclic: bool, shuffled: bool, compiled: bool
) -> None:
    shape = Shape(n, p, min(m, n - 1), chains, cyclic, shuffled, density=0.8)
    agrees_with_dense(matrix(shape, np.random.default_rng(seed)), compiled)


@both
@pytest.mark.parametrize("p", [0, 1, 2, 5, 40])
def test_longer_chains(p: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(banded_triangle, "ENTRIES_PER_PASS", 3000)  # several chunks of blocks
    rng = np.random.default_rng(p)
    agrees_with_dense(matrix(Shape(301, p, 2, shuffled=True), rng), compiled)


@pytest.mark.parametrize(
    ("shape", "bandwidth", "border"),
    [
        (Shape(50, 0), 0, 0),
        (Shape(50, 1), 1, 0),
        (Shape(50, 2), 2, 0),
        (Shape(60, 4, 3), 4, 3),
        (Shape(60, 1, 4, shuffled=True), 1, 4),
        (Shape(50, 1, cyclic=True), 2, 0),
        (Shape(50, 1, 2, cyclic=True, shuffled=True), 2, 2),
        (Shape(50, 2, cyclic=True), 4, 0),
        (Shape(90, 3, 2, chains=4, cyclic=True), 6, 2),
        (Shape(60, 1, 1, chains=5, shuffled=True), 1, 1),
        (Shape(2000, 3, 40), 3, 40),
    ],
)
def test_structure_is_found(shape: Shape, bandwidth: int, border: int) -> None:
    a = matrix(shape, np.random.default_rng(0))
    symbolic = analysed(a)
    assert (symbolic.structure.bandwidth, symbolic.structure.border) == (bandwidth, border)
    assert symbolic.natural == (not shape.shuffled and not shape.cyclic)


def test_interleaved_chains_come_apart_and_blocks_keep_their_order() -> None:
    chain = matrix(Shape(40, 1), np.random.default_rng(0))
    assert analysed(sp.csr_array(sp.kron(chain, sp.eye_array(5)))).structure.bandwidth == 1
    blocks = analysed(sp.csr_array(sp.kron(chain, np.ones((3, 3)) + np.eye(3))))
    assert blocks.structure.bandwidth == 5 and blocks.natural


@pytest.mark.parametrize("shape", [Shape(60, 4), Shape(60, 3, 4)])
def test_fill_and_flops_are_counted(shape: Shape) -> None:
    """A full band fills wholly: fill is exact; flops those of a count over L's columns."""
    a = matrix(shape, np.random.default_rng(1))
    symbolic = analysed(a)
    order = symbolic.order
    lower = np.linalg.cholesky(a.toarray()[np.ix_(order, order)])
    below = (np.abs(lower) > 0).sum(axis=0) - 1
    assert symbolic.fill == (below + 1).sum()
    assert symbolic.flops == pytest.approx((below * (below + 2.0)).sum(), rel=0.1)


def test_what_is_no_band_is_left_to_others() -> None:
    rng = np.random.default_rng(0)
    random = sp.csr_array(sp.random_array((400, 400), density=0.02, rng=rng))
    full, wide = sp.csr_array(np.ones((100, 100))), matrix(Shape(1000, 1, 70), rng)
    for a in (grid(40, 40), full, wide, sp.csr_array(random + random.T)):
        assert banded_symbolic(Pattern.of(a)) is None
    assert banded_symbolic(Pattern.of(grid(8, 3000))) is not None
    assert banded_symbolic(Pattern.of(sp.csr_array((0, 0)))) is None


@both
@pytest.mark.parametrize("shape", [Shape(30, 1), Shape(30, 2, 1), Shape(30, 4, 3, shuffled=True)])
def test_entries_lie_in_band_and_border(shape: Shape, compiled: bool) -> None:
    a = matrix(shape, np.random.default_rng(2))
    symbolic, factor, inverse = analysed(a), factored(a, compiled), dense_inverse(a)
    i, j = (k.ravel() for k in np.indices(a.shape))
    found = factor.entries(i, j)
    known = ~np.isnan(found)
    assert 2 * symbolic.fill - len(inverse) == known.sum()
    close(found[known], inverse[i, j][known])
    assert known.reshape(a.shape)[a.toarray() != 0].all()


@both
def test_pivots_stand_in_the_order_of_the_rows(compiled: bool) -> None:
    a = matrix(Shape(30, 2, 2, shuffled=True), np.random.default_rng(3))
    order = analysed(a).structure.order
    lower = np.linalg.cholesky(a.toarray()[np.ix_(order, order)])
    close(np.sqrt(factored(a, compiled).pivots[order]), np.asarray(lower.diagonal()))


@both
@pytest.mark.parametrize("p", [0, 1, 2, 3])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(p: int, bad: float, compiled: bool) -> None:
    a = matrix(Shape(20, p, 2), np.random.default_rng(p))
    symbolic = analysed(a, compiled)
    values = symbolic.pattern.values(a)
    for k in range(len(values)):
        spoilt = values.copy()
        spoilt[k] = bad
        assert symbolic.factor(spoilt) is None


@both
@pytest.mark.parametrize("m", [0, 2])
@pytest.mark.parametrize("p", [0, 1, 2, 3, 5])
def test_indefinite_matrices_are_refused(p: int, m: int, compiled: bool) -> None:
    """At every row: what makes the diagonal entry too small by a little, and one that overflows."""
    a = matrix(Shape(25, p, m), np.random.default_rng(p))
    symbolic = analysed(a, compiled)
    pattern = symbolic.pattern
    values, inverse = pattern.values(a), dense_inverse(a)
    for k in range(25):
        least = pattern.on_diagonal[k]
        for beyond, stands in ((0.999, True), (1.001, False), (1e300, False)):
            changed = values.copy()
            changed[least] -= beyond / inverse[k, k]  # singular at 1, by Sherman and Morrison
            assert (symbolic.factor(changed) is not None) == stands
    huge = values.copy()
    huge[pattern.indices != pattern.columns] = 1e200
    assert p + m == 0 or symbolic.factor(huge) is None


@both
@pytest.mark.parametrize("shape", [Shape(40, 1), Shape(40, 3, 2, shuffled=True)])
def test_one_pattern_takes_many_values(shape: Shape, compiled: bool) -> None:
    """Nothing of one factorisation is left in the next, and answers may be overwritten."""
    rng = np.random.default_rng(4)
    a = matrix(shape, rng)
    symbolic = analysed(a, compiled)
    values = symbolic.pattern.values(a)
    first = symbolic.factor(values)
    once = first.selected()
    second = symbolic.factor(2.0 * values)
    second.selected()
    close(second.selected(), once / 2.0)
    np.testing.assert_array_equal(first.selected(), once)
    once[:] = 0.0
    assert (first.selected() != 0.0).any()


@both
def test_right_hand_sides_of_any_layout(compiled: bool) -> None:
    a = matrix(Shape(30, 1, 1), np.random.default_rng(6))
    factor, inverse = factored(a, compiled), dense_inverse(a)
    x = np.random.default_rng(7).normal(size=(30, 4))
    for given_x in (np.asfortranarray(x), x[::-1, ::2], x[:, :0], x[:, 2:3]):
        close(factor.solve(given_x), inverse @ given_x) if given_x.size else None
        assert factor.solve(given_x).shape == given_x.shape
    close(factor.solve(np.arange(30.0)), inverse @ np.arange(30.0))


def test_kernel_by_size() -> None:
    def chosen(n: int, p: int) -> bool:
        shape = Shape(n, p)
        i, j = edges(shape, np.random.default_rng(0))
        return analysed(laplacian(n, i, j)).compiled

    assert not chosen(banded.COMPILED_FROM - 1, 1)
    assert chosen(banded.COMPILED_FROM, 1)
    assert not chosen(banded.COMPILED_FROM, 33)


def laplacian(n: int, i: IntArray, j: IntArray) -> SparseMatrix:
    off = sp.coo_array((-np.ones(len(i)), (i, j)), shape=(n, n))
    return sp.csr_array(off + off.T + sp.eye_array(n))


def test_small_chains_start_no_compiler(root: Path) -> None:
    program = (
        "import sys, numpy as np, scipy.sparse as sp\n"
        "from lgmdsl.numerics.sparse.banded import banded_symbolic\n"
        "from lgmdsl.numerics.sparse.base import Pattern\n"
        "a = sp.csr_array(sp.diags_array([-np.ones(99), np.full(100, 3.0), -np.ones(99)],"
        " offsets=[-1, 0, 1]))\n"
        "pattern = Pattern.of(a)\n"
        "factor = banded_symbolic(pattern).factor(pattern.values(a))\n"
        "factor.selected(), factor.solve(np.ones(100))\n"
        "print('LOADED', 'numba' in sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert "LOADED False" in result.stdout, result.stderr
