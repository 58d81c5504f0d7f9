"""Sparse logistic regression of 72,000 x 20,000: the double loop, matrix-free, beside the MAP.

`pytest tests/benchmarks/test_sparse_logistic.py --benchmark-only -s`, one BLAS thread, CPU seconds.
"""

from __future__ import annotations

import resource
import time
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

import lgmdsl as lgm
from lgmdsl.arrays import Array, SparseMatrix
from tests.benchmarks.conftest import side_by_side

MODEL = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent w[feat] ~ normal(sd = 1)
let s[obs] = X @ w
observe y ~ bernoulli(logit = s)
"""
SAMPLE = 400  # weights whose variance is compared with a solve of its own


def exact(x: SparseMatrix, weight: Array, some: Array) -> Array:
    """Entries of diag (I + X'WX)^-1, each by conjugate gradients to 1e-6."""
    n, xt = x.shape[1], sp.csr_array(x.T)
    scale = 1.0 + np.asarray(xt.multiply(xt) @ weight)
    a = LinearOperator((n, n), matvec=lambda v: v + xt @ (weight * (x @ v)))
    jacobi = LinearOperator((n, n), matvec=lambda v: v / scale)
    found = []
    for i in some:
        unit = np.zeros(n)
        unit[i] = 1.0
        solution, info = cg(a, unit, rtol=1e-6, M=jacobi)
        assert info == 0
        found.append(solution[i])
    return np.array(found)


def test_beside_the_mode(benchmark: Any, peers: ModuleType) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    model = lgm.loads(MODEL)
    x, y, _ = peers.realsim_like()
    data = {"X": sp.csr_array(x), "y": y}

    def mode() -> object:
        fitted = linear_model.LogisticRegression(
            C=1.0, fit_intercept=False, tol=1e-8, max_iter=1000
        )
        return fitted.fit(x, y)

    own, peer = side_by_side(lambda: lgm.fit(model, data, "double-loop"), mode, runs=3)
    fit = lgm.fit(model, data, "double-loop")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    some = np.random.default_rng(0).choice(x.shape[1], SAMPLE, replace=False)
    truth = exact(data["X"], fit.weight[0], some)
    off = float(np.sqrt(np.mean((fit.sd("w").values[some] ** 2 / truth - 1.0) ** 2)))
    print(
        f"\n{x.shape[0]:,} x {x.shape[1]:,}, {x.nnz:,} non-zeros: double-loop {own:.2f} s in "
        f"{fit.steps} steps, MAP {peer:.2f} s, ratio {own / peer:.1f}; {memory:.2f} GiB; "
        f"variances off by {100 * off:.1f} % (RMS of {SAMPLE})"
    )
    benchmark.pedantic(lambda: None, rounds=1)


def test_growth(benchmark: Any, peers: ModuleType) -> None:
    """Seconds of an outer step against the non-zeros, rows and weights growing together, from where
    the iterative engine takes over."""
    model, counted, seconds = lgm.loads(MODEL), [], []
    for part in (2.0, 1.4, 1.0):
        x, y, _ = peers.realsim_like(*(int(full / part) for full in (72_000, 20_000, 3_700_000)))
        start = time.process_time()
        fit = lgm.fit(model, {"X": sp.csr_array(x), "y": y}, "double-loop")
        seconds.append((time.process_time() - start) / (fit.steps + 1))
        counted.append(x.nnz)
    exponent = np.polyfit(np.log(counted), np.log(seconds), 1)[0]
    told = ", ".join(f"{n:,}: {s:.2f} s" for n, s in zip(counted, seconds, strict=True))
    print(f"\nan outer step by non-zeros: {told}; exponent {exponent:.2f}")
    benchmark.pedantic(lambda: None, rounds=1)
