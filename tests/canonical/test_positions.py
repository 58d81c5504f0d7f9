"""Where labels stand in an index set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.canonical.grounding.model import IndexSet

HUGE = 2**62


@given(
    labels=st.lists(st.integers(-30, 30), min_size=1, max_size=40, unique=True),
    spread=st.sampled_from([1, 3, 10**6, HUGE // 32]),
    asked=st.lists(st.integers(-35, 35), max_size=30),
)
def test_whole_numbers_are_found_by_their_value(
    labels: list[int], spread: int, asked: list[int]
) -> None:
    members = IndexSet("g", np.array(labels, dtype=np.int64) * spread)
    values = np.clip(np.array(asked, dtype=object) * spread, -HUGE, HUGE).astype(np.int64)
    known = {label * spread: k for k, label in enumerate(labels)}
    want = [known.get(int(v), -1) for v in values]
    assert members.positions(values).tolist() == want
    assert members.positions(values.astype(np.str_)).tolist() == want


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64])
def test_numbers_of_few_bytes_are_looked_up(dtype: type) -> None:
    members = IndexSet("g", np.arange(1000, 1300))
    assert members.positions(np.array([5, 100, -3], dtype=dtype)).tolist() == [-1, -1, -1]
    few = IndexSet("g", np.array([7, -2, 3]))
    assert few.positions(np.array([3, -2, 7, 4], dtype=dtype)).tolist() == [2, 1, 0, -1]


def test_of_labels_that_are_one_the_first_is_found() -> None:
    assert IndexSet("g", np.array([4, 2, 4])).positions(np.array([4, 2])).tolist() == [0, 1]
