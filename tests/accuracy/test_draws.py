"""Monte Carlo errors of draws."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.accuracy.errors import errors_of_draws, largest_by_chance
from lgmdsl.accuracy.limits import LEVELS, NORMAL


def test_errors_of_draws_are_those_of_repeated_ones() -> None:
    """Of normal draws, and of skewed ones, whose long tail has few."""
    rng = np.random.default_rng(1)
    for law in (rng.standard_normal, rng.standard_exponential):
        many = law((1000, 400))
        sd, points = many.std(), np.quantile(many, LEVELS, axis=0)
        known = errors_of_draws(many, 1000.0)
        for claimed, made in (
            (known.mean, many.mean(axis=0).std() / sd),
            (known.sd, many.std(axis=0).std() / sd),
            (known.quantile, points.std(axis=1).max() / sd),
        ):
            assert np.mean(claimed) == pytest.approx(made, rel=0.2)
    fixed = errors_of_draws(np.ones((100, 1)), 100.0)
    assert fixed.mean[0] == fixed.sd[0] == fixed.quantile[0] == 0.0


def test_the_largest_of_many_errors() -> None:
    """Of 1,000 draws of 300 independent normal numbers, repeated."""
    rng = np.random.default_rng(2)
    made, claimed = [], []
    for _ in range(20):
        draws = rng.standard_normal((1000, 300))
        claimed.append(largest_by_chance([errors_of_draws(draws, 1000.0)], 300))
        off = np.abs(np.quantile(draws, LEVELS, axis=0) - [[-NORMAL], [NORMAL]])
        made.append(
            [np.abs(draws.mean(axis=0)).max(), np.abs(draws.std(axis=0) - 1.0).max(), off.max()]
        )
    np.testing.assert_allclose(np.mean(claimed, axis=0), np.mean(made, axis=0), rtol=0.2)
