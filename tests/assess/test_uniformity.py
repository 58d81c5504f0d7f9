"""The test of uniformity: its level, its band, and what it says of values that are not uniform."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from lgmdsl.assess.uniformity import band, ecdf, uniformity


@pytest.mark.parametrize("count", [25, 200])
def test_uniform_values_are_rejected_as_often_as_they_should_be(count: int) -> None:
    rng = np.random.default_rng(0)
    found = np.array([uniformity(rng.random(count)).p for _ in range(400)])
    for level in (0.05, 0.2, 0.5):
        # The statistic is discrete, so p is a little too large at most.
        assert np.mean(found <= level) == pytest.approx(level, abs=3 * (level / 400) ** 0.5)


@given(st.integers(0, 2**20), st.sampled_from([0.01, 0.05, 0.3]), st.floats(0.5, 2.0))
def test_values_leave_the_band_exactly_where_p_is_below_its_level(
    seed: int, alpha: float, power: float
) -> None:
    values = np.random.default_rng(seed).random(80) ** power
    z, low, high = band(80, alpha)
    at = ecdf(values, z)
    inside = bool(np.all((at >= low - 1e-12) & (at <= high + 1e-12)))
    p = uniformity(values).p
    if abs(p - alpha) > 0.01:  # the level itself is a quantile of draws
        assert inside == (p > alpha)


def normal(mean: float, sd: float, size: int = 400) -> np.ndarray:
    x = special.ndtri((np.arange(size) + 0.5) / size)
    return np.asarray(special.ndtr(mean + sd * x))


@pytest.mark.parametrize(
    ("mean", "sd", "said"),
    [
        (0.4, 1.0, "too low, by 0.40 sd"),
        (-0.4, 1.0, "too high, by 0.40 sd"),
        (0.0, 1.5, "too narrow: the truth is 1.50 sd away"),
        (0.0, 0.6, "too wide: the truth is 0.60 sd away"),
    ],
)
def test_faults_are_named(mean: float, sd: float, said: str) -> None:
    test = uniformity(normal(mean, sd))
    assert test.p < 1e-3 and said in test.fault()
    assert test.bias == pytest.approx(mean, abs=0.01)
    assert test.spread == pytest.approx(sd, rel=0.02)


def test_another_shape() -> None:
    """Two lumps with the moments of a normal."""
    x = special.ndtri((np.arange(200) + 0.5) / 200)
    values = np.asarray(special.ndtr(np.r_[0.95 + 0.312 * x, -0.95 + 0.312 * x]))
    test = uniformity(values)
    assert test.p < 1e-3 and "another shape" in test.fault()


def test_extremes_stay_finite() -> None:
    test = uniformity(np.r_[np.zeros(20), np.ones(20)])
    assert np.isfinite([test.p, test.bias, test.spread]).all() and test.spread > 5
