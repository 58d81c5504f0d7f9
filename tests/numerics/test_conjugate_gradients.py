"""Block conjugate gradients against dense solves, and quadrature from their coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.numerics.krylov import (
    KrylovSolution,
    conjugate_gradients,
    lanczos,
    ritz,
    root_of_inverse,
)

RNG = np.random.default_rng(4)
ROOT = RNG.normal(size=(40, 30))
A = ROOT.T @ ROOT + np.diag(np.exp(2 * RNG.normal(size=30)))
SCALE = A.diagonal()[:, None]


def solve(
    rhs: Array, tolerance: object = 1e-12, limit: int = 500, start: Array | None = None
) -> KrylovSolution:
    goal = np.full(rhs.shape[1], tolerance, dtype=np.float64)
    return conjugate_gradients(lambda x: A @ x, rhs, lambda r: r / SCALE, goal, limit, start)


def test_solutions() -> None:
    rhs = RNG.normal(size=(30, 5))
    rhs[:, 2] = 0.0
    found = solve(rhs)
    assert found.converged.all() and not found.indefinite.any()
    assert np.allclose(found.x, np.linalg.solve(A, rhs))
    assert np.allclose(A @ found.x, rhs - found.residual, atol=1e-9)
    again = solve(rhs, start=found.x)
    assert again.steps.max() <= 3


def test_each_column_has_its_own_tolerance() -> None:
    rhs = RNG.normal(size=(30, 4))
    found = solve(rhs, np.array([1e-2, 1e-12, 1e-2, 1e-6]))
    assert found.steps[0] < found.steps[3] < found.steps[1]
    left = np.sqrt(np.sum(found.residual**2 / SCALE, axis=0) / np.sum(rhs**2 / SCALE, axis=0))
    assert (left <= np.array([1e-2, 1e-11, 1e-2, 1e-6])).all()


def test_limit_and_indefinite() -> None:
    rhs = RNG.normal(size=(30, 2))
    short = solve(rhs, limit=3)
    assert not short.converged.any() and (short.steps == 3).all()
    wrong = np.diag(np.r_[-1.0, np.ones(29)])
    found = conjugate_gradients(lambda x: wrong @ x, rhs, lambda r: r, np.full(2, 1e-9), 100)
    assert found.indefinite.all()


def test_quadrature_of_the_logarithm() -> None:
    """z' log(M^-1/2 A M^-1/2) z, to the last digits with enough steps."""
    z = RNG.normal(size=30)
    found = solve((np.sqrt(SCALE) * z[:, None]), 1e-14)
    nodes, weights = ritz(found.slopes[0], found.ratios[0])
    half = 1.0 / np.sqrt(SCALE)
    values, vectors = np.linalg.eigh(half * A * half.T)
    wanted = z @ (vectors * np.log(values)) @ vectors.T @ z
    assert (z @ z) * (weights @ np.log(nodes)) == pytest.approx(wanted, rel=1e-9)
    assert weights.sum() == pytest.approx(1.0)


def test_lanczos_is_exact_in_the_end_and_below_before() -> None:
    exact = np.linalg.inv(A).diagonal()
    start = RNG.normal(size=30)
    last = np.zeros(30)
    for steps in (5, 15, 30, 40):
        basis, diagonal, off = lanczos(lambda x: A @ x, start, steps)
        assert np.allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-10)
        found = (root_of_inverse(basis, diagonal, off) ** 2).sum(axis=1)
        assert (found >= last - 1e-12).all() and (found <= exact * (1 + 1e-9)).all()
        last = found
    assert np.allclose(last, exact)
