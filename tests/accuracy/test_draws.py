"""Monte Carlo errors of draws."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.accuracy.errors import errors_of_draws
from lgmdsl.accuracy.limits import LEVELS


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
