"""Densities given by their logarithms against those in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from lgmdsl.arrays import Array
from lgmdsl.numerics.expectations.log_line import log_line

MEANS, SDS = np.array([[0.0, 3.0], [-40.0, 250.0]]), np.array([[1.0, 1e-3], [5.0, 20.0]])
LEVELS = np.array([1e-6, 0.05, 0.5, 0.95])


def _normals(x: Array) -> Array:
    return np.asarray(stats.norm.logpdf(x, MEANS, SDS) + 7.0)


def test_normals_of_many_widths_at_once() -> None:
    line = log_line(_normals, MEANS + 0.3 * SDS, SDS)
    np.testing.assert_allclose(line.log_integral, 7.0, atol=1e-10)
    np.testing.assert_allclose(line.mean(lambda x: x), MEANS, atol=1e-9)
    np.testing.assert_allclose(line.mean(lambda x: (x - MEANS) ** 2), SDS**2, rtol=1e-9)
    exact = MEANS + SDS * special.ndtri(LEVELS).reshape(-1, 1, 1)
    assert np.abs((line.quantile(LEVELS) - exact) / SDS).max() < 1e-8


def test_the_guess_may_be_far_off_and_the_top_narrow() -> None:
    def narrow(x: Array) -> Array:
        return np.asarray(stats.norm.logpdf(x, 7.3, 1e-4))

    line = log_line(narrow, np.zeros(1), np.ones(1))
    np.testing.assert_allclose(line.log_integral, 0.0, atol=1e-9)


def test_a_density_that_ends_abruptly() -> None:
    def piece(x: Array) -> Array:
        return np.where((x >= -1.0) & (x <= 0.5), x, -np.inf)

    line = log_line(piece, np.zeros(1), np.ones(1), (-1.0, 0.5))
    exact = np.log(np.exp(0.5) - np.exp(-1.0))
    np.testing.assert_allclose(line.log_integral, exact, rtol=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_density_that_does_not_fall_off_has_no_integral(sign: float) -> None:
    line = log_line(lambda x: -np.logaddexp(0.0, -sign * x), np.zeros(2), np.ones(2))
    assert np.isposinf(line.log_integral).all()
