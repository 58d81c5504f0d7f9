"""The search's starts on a sample of `modes.py`, whose whole is run by hand. Never run unasked."""

from __future__ import annotations

import pytest

from tests.benchmarks.modes import WITHIN, examined

pytestmark = pytest.mark.reproduction


@pytest.mark.parametrize("number", range(0, 500, 10))
def test_a_search_ends_in_the_highest_mode(number: int) -> None:
    row = examined(number)
    assert float(row["below"]) <= WITHIN, row
