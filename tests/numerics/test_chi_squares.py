"""Tails of weighted sums of chi-squares against those of chi-square and F, and draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lgmdsl.numerics.chi_squares import upper_tail


@pytest.mark.parametrize(("df", "x"), [(1, 0.1), (1, 80.0), (2, 1e-3), (9, 300.0), (3.3, 4.0)])
def test_one_chi_square(df: float, x: float) -> None:
    for scale in (1.0, 1e-20, 1e20):
        found = upper_tail(scale * x, np.array([scale]), np.array([df]))
        np.testing.assert_allclose(found, stats.chi2.sf(x, df), rtol=1e-12)


@pytest.mark.parametrize(
    ("df", "noise", "x"), [(1, 50, 4.0), (9, 44.2, 16.0), (3, 5, 0.2), (8, 1000, 12.0), (2, 1, 9.0)]
)
def test_a_ratio_is_of_f(df: float, noise: float, x: float) -> None:
    found = upper_tail(0.0, np.array([1.0, -x * df / noise]), np.array([df, noise]))
    np.testing.assert_allclose(found, stats.f.sf(x, df, noise), rtol=1e-12)


def test_equal_weights_add_their_degrees_of_freedom() -> None:
    found = upper_tail(7.0, np.full(4, 2.0), np.array([1.0, 2.0, 0.5, 1.5]))
    np.testing.assert_allclose(found, stats.chi2.sf(3.5, 5.0), rtol=1e-12)


def test_unequal_weights_are_those_of_draws() -> None:
    weights = np.array([3.0, 1.0, 0.2, 1e-6])
    draws = np.random.default_rng(0).standard_normal((400_000, 4)) ** 2 @ weights
    for x in np.quantile(draws, [0.1, 0.5, 0.95, 0.999]):
        share = float((draws > x).mean())
        error = np.sqrt(share * (1.0 - share) / len(draws))
        assert abs(upper_tail(float(x), weights, np.ones(4)) - share) < 5.0 * error


def test_what_is_certain() -> None:
    one = np.ones(1)
    assert upper_tail(0.0, one, one) == upper_tail(-1.0, one, one) == 1.0
    assert upper_tail(0.0, -one, one) == 0.0
