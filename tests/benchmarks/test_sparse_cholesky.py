"""Sparse Cholesky and selected inverse beside CHOLMOD (cvxopt), SuperLU (SciPy) and qdldl."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.numerics.sparse.base import Factor, Pattern
from lgmdsl.numerics.sparse.ordering import Graph, nested_dissection
from lgmdsl.numerics.sparse.supernodal import SupernodalSymbolic
from tests.benchmarks.conftest import side_by_side
from tests.numerics.sparse.conftest import lattice


class Problem:
    """A grid's Laplacian plus 0.001, analysed."""

    def __init__(self, side: int, dimensions: int) -> None:
        points = lattice(side, dimensions)
        self.matrix: SparseMatrix = sp.csr_array(
            points + 1e-3 * sp.eye_array(points.shape[0], format="csr")
        )
        self.pattern = Pattern.of(self.matrix)
        self.values: Array = self.pattern.values(self.matrix)
        start = time.process_time()
        self.symbolic = SupernodalSymbolic(self.pattern)
        self.analysis = time.process_time() - start

    def factor(self) -> Factor:
        found = self.symbolic.factor(self.values)
        assert found is not None
        return found


def solves(factor: Factor, *sides: Array) -> list[float]:
    """Median CPU seconds for each right-hand side."""
    works: list[Callable[[], object]] = [partial(factor.solve, side) for side in sides]
    return [side_by_side(work, lambda: None, runs=3)[0] for work in works]


def test_a_million_nodes(benchmark: Any) -> None:
    """1000 x 1000: factor, selected inverse and solve, and the peak of their memory."""
    problem = Problem(1000, 2)
    symbolic = problem.symbolic
    factor = problem.factor()
    a, b = side_by_side(problem.factor, factor.selected, runs=5)
    rhs = np.ones((problem.pattern.size, 20))
    one, many = solves(factor, rhs[:, 0], rhs)
    print(f"\nanalysis {problem.analysis:.2f} s, factor {a:.2f} s, selected inverse {b:.2f} s")
    print(f"solve {one:.2f} s, of 20 columns {many:.2f} s")
    print(f"L {symbolic.fill / 1e6:.1f}e6 entries, {symbolic.flops / 1e9:.1f} Gflop")
    fresh = SupernodalSymbolic(problem.pattern)
    tracemalloc.start()
    held = fresh.factor(problem.values)
    first = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    assert held is not None
    held.selected()
    second = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"peak beyond the analysis: factor {first / 1e6:.0f} MB, then {second / 1e6:.0f} MB")
    benchmark.pedantic(problem.factor, rounds=3)


@pytest.mark.parametrize(("side", "dimensions"), [(300, 2), (1000, 2), (40, 3)])
def test_beside_cholmod(benchmark: Any, side: int, dimensions: int) -> None:
    """CHOLMOD's supernodal numeric step, with the same kind of ordering and with its own."""
    cvxopt = pytest.importorskip("cvxopt")
    cholmod = pytest.importorskip("cvxopt.cholmod")
    problem = Problem(side, dimensions)
    lower = sp.coo_array(sp.tril(problem.matrix))
    i, j = lower.coords
    peer = cvxopt.spmatrix(lower.data.tolist(), i.tolist(), j.tolist(), lower.shape)
    cholmod.options["supernodal"] = 2
    dissected = nested_dissection(Graph.of(problem.pattern))
    orders: dict[str, dict[str, Any]] = {"its own order": {}}
    if dissected is not None:
        orders["the same nested dissection"] = {"p": cvxopt.matrix(dissected.tolist(), tc="i")}
    ours = problem.factor()
    inverse, _ = side_by_side(ours.selected, lambda: None, runs=3)
    for name, order in orders.items():
        start = time.process_time()
        found = cholmod.symbolic(peer, **order)
        analysis = time.process_time() - start

        def other(found: Any = found) -> None:
            cholmod.numeric(peer, found)

        a, b = side_by_side(problem.factor, other, runs=5)
        log_det = 2 * float(np.log(np.array(cholmod.diag(found))).sum())
        assert 2 * ours.half_log_det == pytest.approx(log_det, rel=1e-10)
        print(f"\n{side}^{dimensions}, {name}: factor {a:.3f} s, CHOLMOD {b:.3f} s, {a / b:.2f}")
        print(f"selected inverse {inverse:.3f} s, {inverse / b:.2f} of CHOLMOD's factor")
        print(f"analysis {problem.analysis:.2f} s, CHOLMOD {analysis:.2f} s without our METIS")
    benchmark.pedantic(problem.factor, rounds=3)


def test_beside_superlu_and_qdldl(benchmark: Any) -> None:
    """300 x 300; both peers order anew with each factorisation, so ours does too."""
    problem = Problem(300, 2)
    whole = sp.csc_matrix(problem.matrix)

    def own() -> Factor | None:
        return SupernodalSymbolic(problem.pattern).factor(problem.values)

    def superlu() -> object:
        return splu(
            whole,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )

    a, b = side_by_side(own, superlu, runs=3)
    numeric, _ = side_by_side(problem.factor, lambda: None, runs=5)
    print(f"\nanalysis and factor {a:.3f} s, factor {numeric:.3f} s; SuperLU {b:.3f} s")
    qdldl = pytest.importorskip("qdldl")
    _, c = side_by_side(lambda: None, lambda: qdldl.Solver(whole), runs=3)
    print(f"qdldl {c:.3f} s with its ordering")
    benchmark.pedantic(problem.factor, rounds=3)


@pytest.mark.parametrize(
    ("dimensions", "sides"),
    [(1, (10_000, 100_000, 1_000_000)), (2, (100, 300, 1000)), (3, (12, 22, 40))],
)
def test_growth(benchmark: Any, dimensions: int, sides: tuple[int, ...]) -> None:
    """Exponents in n: theory gives 1, 1.5 and 2 for the factor, 1, 1 and 4/3 for its entries."""
    seconds, entries, problem = [], [], None
    for side in sides:
        problem = Problem(side, dimensions)
        factor = problem.factor()
        a, b = side_by_side(problem.factor, factor.selected, runs=3)
        c = solves(factor, np.ones(problem.pattern.size))[0]
        seconds.append((problem.analysis, a, b, c))
        entries.append(problem.symbolic.fill)
        print(f"\nn = {problem.pattern.size}: " + ", ".join(f"{t:.4f}" for t in seconds[-1]))
    sizes = np.log([side**dimensions for side in sides])
    slopes = np.polyfit(sizes, np.log(np.maximum(seconds, 1e-6)), 1)[0]
    names = ("analysis", "factor", "selected inverse", "solve")
    print(", ".join(f"{n} {s:.2f}" for n, s in zip(names, slopes, strict=True)), end="")
    print(f", entries of L {np.polyfit(sizes, np.log(entries), 1)[0]:.2f}")
    assert problem is not None
    benchmark.pedantic(problem.factor, rounds=1)
