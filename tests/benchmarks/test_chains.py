"""Chains and state-space models beside SciPy's band and sparse solvers, and how they grow.

Ours: factor, log-determinant, one solve, all variances. The peers: the same without the variances,
which they do not have. `pytest tests/benchmarks --benchmark-only -s`, one BLAS thread.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.sparse.linalg import splu

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.numerics.sparse.banded import banded_symbolic
from lgmdsl.numerics.sparse.base import Pattern
from tests.benchmarks.conftest import side_by_side

SIZES = (62_500, 250_000, 1_000_000)


def band(n: int, p: int) -> Array:
    """(p + 1, n), LAPACK's lower band storage of a diagonally dominant matrix."""
    lower = np.random.default_rng(0).uniform(-1.0, 0.0, (p + 1, n))
    lower[0] = 2.0 * p
    return lower


def matrix(lower: Array, border: Array) -> SparseMatrix:
    """The whole matrix, with dense columns after the band."""
    n, m = border.shape
    size = (n, n)
    below = [row[: n - k] for k, row in enumerate(lower)]
    half = sum(
        (
            sp.coo_array((v, (np.arange(k, n), np.arange(n - k))), shape=size)
            for k, v in enumerate(below)
            if k
        ),
        sp.csr_array(size),
    )
    inner = sp.csr_array(half + half.T + sp.diags_array(lower[0]))
    if not m:
        return inner
    corner = sp.csr_array(2.0 * n * np.eye(m))
    beside = sp.csr_array(border)
    top = sp.hstack([inner, beside], format="csr")
    return sp.csr_array(sp.vstack([top, sp.hstack([beside.T, corner])], format="csr"))


@pytest.mark.parametrize(("p", "m"), [(1, 0), (1, 1), (2, 0), (4, 0), (4, 4), (15, 0)])
def test_chains(p: int, m: int, benchmark: Any) -> None:
    """p = 15: eight states a step, as 8 x 8 blocks; a border is so many more right-hand sides.

    splu keeps the order: here its own orderings are slower.
    """
    seconds = []
    for n in SIZES if p < 15 else tuple(n // 4 for n in SIZES):
        lower = band(n, p)
        border = np.random.default_rng(1).uniform(-0.5, 0.5, (n, m))
        a = matrix(lower, border)
        pattern = Pattern.of(a)
        values, rhs = pattern.values(a), np.ones(pattern.size)
        start = time.process_time()
        symbolic = banded_symbolic(pattern)
        assert symbolic is not None and symbolic.structure.bandwidth == p
        assert symbolic.target is not None  # found on first use
        found = time.process_time() - start

        def own(symbolic: Any = symbolic, values: Array = values, rhs: Array = rhs) -> Array:
            factor = symbolic.factor(values)
            factor.half_log_det, factor.selected()
            solution: Array = factor.solve(rhs)
            return solution

        def banded(lower: Array = lower, border: Array = border, rhs: Array = rhs) -> Array:
            factor = cholesky_banded(lower, lower=True, check_finite=False)
            np.log(factor[0]).sum()
            beside = np.column_stack([border, rhs[: len(border)]])
            solved = cho_solve_banded((factor, True), beside, check_finite=False)
            k = border.shape[1]
            schur = 2.0 * len(border) * np.eye(k) - border.T @ solved[:, :k]
            last = np.linalg.solve(schur, rhs[len(border) :] - border.T @ solved[:, k])
            return np.concatenate([solved[:, k] - solved[:, :k] @ last, last])

        def general(a: SparseMatrix = a, rhs: Array = rhs) -> Array:
            factor = splu(
                sp.csc_array(a),
                permc_spec="NATURAL",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
            np.log(factor.U.diagonal()).sum()
            return np.asarray(factor.solve(rhs))

        np.testing.assert_allclose(own(), banded(), rtol=1e-9)
        np.testing.assert_allclose(own(), general(), rtol=1e-9)
        ours, theirs = side_by_side(own, banded, runs=5)
        seconds.append(ours)
        _, sparse = side_by_side(own, general, runs=1)
        print(
            f"\np = {p}, m = {m}, {n} rows: lgmdsl {ours:.4f} s with variances, "
            f"cholesky_banded {theirs:.4f} s and splu {sparse:.4f} s without, "
            f"ratios {ours / theirs:.2f} and {ours / sparse:.2f}; structure {found:.3f} s"
        )
    exponent = np.polyfit(np.log(SIZES), np.log(seconds), 1)[0]
    print(f"exponent {exponent:.2f} (linear)")
    benchmark.pedantic(own, rounds=3)
