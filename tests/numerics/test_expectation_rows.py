"""A row without a Gaussian has no expectation."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.numerics.expectations.expectation import expectations


@pytest.mark.parametrize("checked", [True, False])
def test_a_row_that_no_rule_answers_is_no_number(checked: bool) -> None:
    """It was 0, which a sum over rows takes for a row that says nothing."""
    mean, sd = np.array([0.3, 0.3, 0.3]), np.array([0.5, np.nan, 5.0])
    values = expectations(
        lambda rows, s, t: np.log1p(np.exp(-np.abs(s)))[None],
        mean,
        sd,
        np.zeros(3),
        np.ones(3),
        checked=checked,
    )
    assert np.isnan(values[:, 1]).all() and np.isfinite(values[:, [0, 2]]).all()
