"""Anderson's candidate on linear maps, where it is exact once it has seen every direction."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.numerics.optimisation.anderson import Anderson


def linear(seed: int, n: int = 4) -> tuple[Array, Array, Array]:
    """A map x -> A x + c that stretches some directions twofold, and its fixed point."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    matrix = root @ np.diag(np.linspace(-2.0, 0.9, n)) @ np.linalg.inv(root)
    c = rng.normal(size=n)
    return np.asarray(matrix), c, np.asarray(np.linalg.solve(np.eye(n) - matrix, c))


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("measured", [False, True])
def test_it_solves_linear_maps(share: float, measured: bool) -> None:
    matrix, c, fixed = linear(0)
    scale = np.array([1e3, 1.0, 1e-2, 5.0])

    def measure(change: Array) -> Array:
        return scale * change if change.ndim == 1 else scale[:, None] * change

    history, x = Anderson(6), np.zeros(4)
    for _ in range(6):
        history = history.seen(x, matrix @ x + c)
        x = history.candidate(measure if measured else None, share)
    np.testing.assert_allclose(x, fixed, rtol=1e-6)


def test_the_first_candidate_is_a_share_of_the_plain_step() -> None:
    history = Anderson(3).seen(np.zeros(2), np.array([1.0, -2.0]))
    np.testing.assert_array_equal(history.candidate(share=0.25), [0.25, -0.5])


@pytest.mark.parametrize(("kept", "wanted"), [(0, [2.0, 3.0]), (1, [1.5, 2.0])])
def test_the_measure_decides_what_is_made_small(kept: int, wanted: list[float]) -> None:
    """F = (0.5, 1), dF = (-0.5, 0), dX = (1, 1): c = -1 makes the first entry vanish, none the
    second."""
    history = Anderson(3).seen(np.zeros(2), np.array([1.0, 1.0]))
    history = history.seen(np.array([1.0, 1.0]), np.array([1.5, 2.0]))
    found = history.candidate(lambda change: change[kept : kept + 1])
    np.testing.assert_allclose(found, wanted)


def test_only_the_memory_is_kept() -> None:
    history = Anderson(2)
    for k in range(6):
        history = history.seen(np.full(3, float(k)), np.full(3, k + 1.0))
    assert len(history.points) == 3 and history.points[0][0] == 3.0
