"""Fits on a lattice are as far away as one another: rounding chooses none of them."""

from __future__ import annotations

import numpy as np

from lgmdsl.learning.integration.landscape import _spread_out


def test_equal_distances_are_chosen_from_by_order_and_not_by_rounding() -> None:
    axes = 1.3 * np.arange(-5, 6), 1.7 * np.arange(-4, 5)
    places = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
    eligible = np.linalg.norm(places, axis=1) > 2.0
    plain = _spread_out(places, eligible)
    assert len(plain) > 10
    rng = np.random.default_rng(0)
    for _ in range(20):
        rounded = places * (1.0 + 1e-13 * rng.normal(size=places.shape))
        assert _spread_out(rounded, eligible) == plain
