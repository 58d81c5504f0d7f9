"""Cholesky kernels against dense linear algebra; failure is None, for NaN too."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.numerics.cholesky import Cholesky, cholesky, pivoted_root, symmetrise


def matrix(n: int, seed: int = 0) -> Array:
    root = np.random.default_rng(seed).normal(size=(n, n + 2))
    return np.asarray(root @ root.T)


def factored(a: Array) -> Cholesky:
    factor = cholesky(np.triu(a))  # only the upper triangle is read
    assert factor is not None
    return factor


@pytest.mark.parametrize("n", [1, 5, 300])
def test_answers(n: int) -> None:
    a = matrix(n)
    factor, inverse = factored(a), np.linalg.inv(a)
    rhs = np.random.default_rng(1).normal(size=(n, 3))
    sign, log_det = np.linalg.slogdet(a)
    assert sign > 0
    np.testing.assert_allclose(2 * factor.half_log_det, log_det, rtol=1e-10)
    tolerance = {"rtol": 1e-6, "atol": 1e-9 * np.abs(inverse).max() * n}
    np.testing.assert_allclose(factor.solve(rhs), inverse @ rhs, **tolerance)
    np.testing.assert_allclose(factor.solve(rhs[:, 0]), inverse @ rhs[:, 0], **tolerance)
    np.testing.assert_allclose(factor.inverse(), inverse, **tolerance)
    np.testing.assert_allclose(factor.inverse_diagonal(), inverse.diagonal(), **tolerance)
    np.testing.assert_allclose(factor.backward(factor.forward(rhs)), inverse @ rhs, **tolerance)
    one = factor.backward(factor.forward(rhs[:, 0]))
    np.testing.assert_allclose(one, inverse @ rhs[:, 0], **tolerance)
    estimate = factor.reciprocal_condition(float(np.abs(a).sum(axis=0).max()))
    truth = 1.0 / np.linalg.cond(a, 1)
    assert truth * 0.99 <= estimate <= truth * 10


@pytest.mark.parametrize("n", [0, 1, 64, 65, 201])
def test_triangles_are_inverted_by_halves(n: int) -> None:
    factor = factored(matrix(n))
    found = factor.inverse_lower()
    np.testing.assert_allclose(found @ np.tril(factor.lower), np.eye(n), atol=1e-9)
    assert not np.triu(found, 1).any()


def test_empty() -> None:
    factor = cholesky(np.zeros((0, 0)))
    assert factor is not None and factor.half_log_det == 0.0
    assert factor.solve(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("n", [2, 200])
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_failure_is_none(n: int, bad: float) -> None:
    a = matrix(n)
    a[n // 2, n // 2] = bad
    assert cholesky(a) is None


def test_symmetrise_across_tiles() -> None:
    a = matrix(600)
    np.testing.assert_array_equal(symmetrise(np.triu(a)), np.triu(a) + np.triu(a, 1).T)


def test_pivoted_root_of_a_singular_matrix() -> None:
    root = np.random.default_rng(0).normal(size=(40, 6))
    a = root @ root.T
    found = pivoted_root(a)
    assert found.shape == (40, 6)
    np.testing.assert_allclose(found @ found.T, a, atol=1e-12)
