"""Compiled expectations of two and three classes beside the same by arrays, which few rows take."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.numerics.expectations.log_sum_exp import COMPILED_FROM, LogSumExp, expected_log_sum_exp

ROWS = 130


def moments(sd: float, size: int) -> tuple[Array, Array]:
    """Means and covariances, some of low rank, some means far away."""
    rng = np.random.default_rng(int(100 * sd) + size)
    mean, root = rng.normal(size=(ROWS, size)), sd * rng.normal(size=(ROWS, size, size))
    root[::4, :, 1:] *= 1e-3
    root[1::4, :, 0] = 0.0
    mean[::3] *= 20.0 * max(sd, 1.0)
    return mean, root @ root.transpose(0, 2, 1)


def by_few(mean: Array, variance: Array) -> LogSumExp:
    """By arrays: fewer rows at a time than are compiled."""
    assert 40 < COMPILED_FROM < ROWS
    size = mean.shape[1]
    few = [
        expected_log_sum_exp(m, v, np.ones((len(m), size), dtype=np.bool_))
        for m, v in zip(np.array_split(mean, 4), np.array_split(variance, 4), strict=True)
    ]
    return LogSumExp(*(np.concatenate(p) for p in zip(*few, strict=True)))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("sd", [0.0, 1e-3, 0.1, 0.5, 0.85, 1.0, 2.9, 3.1, 12.0, 90.0])
def test_beside_arrays(sd: float, size: int) -> None:
    mean, variance = moments(sd, size)
    found = expected_log_sum_exp(mean, variance, np.ones(mean.shape, dtype=np.bool_))
    known = by_few(mean, variance)
    np.testing.assert_allclose(found.value, known.value, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found.d_mean, known.d_mean, atol=1e-10)
    np.testing.assert_allclose(found.d_variance, known.d_variance, atol=3e-10)
    np.testing.assert_allclose(found.bend, known.bend, atol=6e-10)
    assert np.abs(found.d_mean.sum(axis=1) - 1.0).max() < 1e-11


@pytest.mark.parametrize("sd", [0.3, 1.5, 7.0, 50.0])
def test_two_classes_against_a_fine_grid(sd: float) -> None:
    mean, variance = moments(sd, 2)
    found = expected_log_sum_exp(mean, variance, np.ones(mean.shape, dtype=np.bool_))
    t = np.linspace(-9.0, 9.0, 60_001)
    w = np.exp(-0.5 * t * t) / np.exp(-0.5 * t * t).sum()
    gap = mean[:, 1] - mean[:, 0]
    spread = np.sqrt(np.maximum(variance[:, 0, 0] + variance[:, 1, 1] - 2 * variance[:, 0, 1], 0))
    for i in range(0, ROWS, 10):
        x = gap[i] + spread[i] * t
        value = mean[i, 0] + w @ np.logaddexp(0.0, x)
        assert found.value[i] == pytest.approx(value, rel=1e-10, abs=1e-10)
        assert found.d_mean[i, 1] == pytest.approx(w @ special.expit(x), abs=1e-10)


@pytest.mark.parametrize("size", [2, 3])
@np.errstate(invalid="ignore")
def test_what_is_not_finite_ends(size: int) -> None:
    """A number of nodes that follows from NaN would be no number."""
    mean, variance = moments(1.0, size)
    whole = expected_log_sum_exp(mean, variance, np.ones(mean.shape, dtype=np.bool_))
    broken = [(0, np.nan, 1.0), (1, np.inf, 1.0), (2, 0.0, np.nan), (3, 0.0, np.inf)]
    for row, at, scale in broken:
        mean[row, 0] = at + mean[row, 0]
        variance[row] *= scale
    found = expected_log_sum_exp(mean, variance, np.ones(mean.shape, dtype=np.bool_))
    np.testing.assert_array_equal(found.value[4:], whole.value[4:])
    assert not np.isfinite(found.value[:4]).any()
