"""Which cuts a class has reached, and where it was taken."""

from __future__ import annotations

import numpy as np

from lgmdsl.sites.vector.stick import reached_and_taken


def test_a_class_is_taken_at_its_own_cut_and_has_passed_those_before() -> None:
    reached, taken = reached_and_taken(np.array([0.0, 1.0, 2.0, 3.0]), 3)
    assert reached.tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1]]
    assert taken.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
