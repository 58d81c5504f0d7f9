"""Averages over Gaussians of a few dimensions: accuracy, and how many points they take."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics.expectations.normal_product import averages


def test_narrow_axes_have_fewer_nodes() -> None:
    """E exp(a's) = exp(a'm + a'Va / 2): 2,900 points a row with as many nodes on each axis."""
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.normal(size=(20, 3, 3)))[0]
    sd = np.array([0.6, 0.2, 0.05])
    variance = np.einsum("nij,j,nkj->nik", turn, sd**2, turn)
    mean, a = rng.normal(size=(20, 3)), np.array([1.0, -0.5, 0.7])
    taken = 0

    def values(rows: IntArray, s: Array) -> Array:
        nonlocal taken
        taken += s.shape[0] * s.shape[1]
        return np.asarray(np.exp(s @ a)[None])

    found, settled = averages(values, mean, variance, 1e-8)
    assert settled.all()
    exact = np.exp(mean @ a + 0.5 * np.einsum("i,nij,j->n", a, variance, a))
    np.testing.assert_allclose(found[0], exact, rtol=1e-9)
    assert taken < 20 * 1_000
