"""The coordinates of covariances with a sparse inverse: slopes and Jacobian by differences."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.learning.coordinates.restricted import SparsePrecision

FORM = SparsePrecision((3, 3))
X = np.array([2.0, 0.5, 1.5, 0.0, -0.3, 1.0])
LOWER = np.tril_indices(3)


def differences(function: object, h: float = 1e-6) -> Array:
    assert callable(function)
    return np.array([(function(X + h * e) - function(X - h * e)) / (2 * h) for e in np.eye(6)])


def test_zeros_of_the_inverse_come_back() -> None:
    value = FORM.value(X)
    np.testing.assert_allclose(np.linalg.inv(value)[LOWER], X, atol=1e-12)
    assert FORM.coordinates(value)[3] == 0.0


def test_the_pull_counts_entries_beside_the_diagonal_twice() -> None:
    weights = np.random.default_rng(0).normal(size=(3, 3))
    measured = differences(lambda x: float((weights * FORM.value(x)).sum()))
    np.testing.assert_allclose(FORM.pull(weights, X).x, measured, rtol=1e-7, atol=1e-8)


def test_the_jacobian_is_that_of_the_lower_triangle() -> None:
    """log |dS/dP|, and its slopes."""
    total, slopes = FORM.log_jacobian(X)
    turned = differences(lambda x: FORM.value(x)[LOWER])
    assert total == pytest.approx(np.linalg.slogdet(turned)[1], abs=1e-7)
    measured = differences(lambda x: FORM.log_jacobian(x)[0])
    np.testing.assert_allclose(slopes.x, measured, rtol=1e-7, atol=1e-8)


def test_what_is_no_precision_has_no_value() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        FORM.value(np.array([1.0, 2.0, 1.0, 0.0, 0.0, 1.0]))
    assert np.isnan(FORM.coordinates(np.diag([1.0, -1.0, 1.0]))).all()
