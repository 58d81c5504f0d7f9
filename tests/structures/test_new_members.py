"""New members of a smooth walk, against dense algebra."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.structures.catalogue import structure
from lgmdsl.structures.ordered.walks import grid_step, spline


def test_beyond_uneven_positions_the_walk_goes_on_with_its_own_differences() -> None:
    at = np.array([0.0, 1.0, 3.0, 4.0, 6.0, 7.0, 9.0, 11.0])
    whole = np.concatenate([at, [12.0, 13.0, 14.0, -1.0, -2.0]])
    fitted, longer = (structure("rw2", len(a), sd=0.7, at=a) for a in (at, whole))
    gap = np.diff(at).mean() / np.diff(np.sort(whole)).mean()
    scale = fitted.unit.scale[0] / longer.unit.scale[0] * gap**3  # type: ignore[attr-defined]
    q = longer.precision().toarray() * scale
    old, new = np.arange(8), np.arange(8, 13)
    covariance = np.linalg.inv(q[np.ix_(new, new)])
    found = fitted.extension(at, whole[8:])
    weights = -covariance @ q[np.ix_(new, old)]
    np.testing.assert_allclose(found.weights.toarray(), weights, atol=1e-10)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-10)


def test_between_its_members_it_is_the_integrated_wiener_process() -> None:
    rng = np.random.default_rng(0)
    knots = np.sort(rng.uniform(0.0, 10.0, 9))
    new = np.sort(rng.uniform(knots[0], knots[-1], 7))
    found = spline(1.3, knots, new)
    at = np.concatenate([new, knots])

    def kernel(x: Array) -> Array:
        low, high = np.minimum.outer(x, x), np.maximum.outer(x, x)
        return np.asarray(1.3 * low * low * (3.0 * high - low) / 6.0)

    k = kernel(at)
    lines = np.column_stack([np.ones(9), knots])
    # universal kriging: the level and the slope are free
    whole = np.block([[k[7:, 7:], lines], [lines.T, np.zeros((2, 2))]])
    right = np.vstack([k[7:, :7], np.ones(7), new])
    weights = np.linalg.solve(whole, right)[:9].T
    np.testing.assert_allclose(found.weights.toarray(), weights, atol=1e-9)
    left = np.hstack([np.eye(7), -weights])
    np.testing.assert_allclose(found.covariance, left @ k @ left.T, atol=1e-9)


@pytest.mark.parametrize("unit", [1.0, 10.0, 1e6, 1e-3, 1.0 / 7.0, 1e30, 1e-30])
@pytest.mark.parametrize(
    ("ages", "step"),
    [
        ([18.4, 19.0, 19.2, 25.0, 31.0, 40.5, 41.0], 0.1),
        ([0.0, 3.0, 7.0, 8.0], 1.0),
        ([2.0, 2.0 + np.pi, 2.0 + 3.0 * np.pi], np.pi),
        ([0.0, math.e, np.pi, 5.0], 5.0 / 3.0),
    ],
)
def test_the_unit_of_the_positions_changes_nothing(
    ages: list[float], step: float, unit: float
) -> None:
    at = np.array(ages)
    assert grid_step(unit * at) == pytest.approx(unit * step, rel=1e-9)
    new = np.array([at[0] - 0.4 * step, 0.5 * (at[0] + at[1]), at[-1] + 2.0, at[-1] + 9.3])
    found = structure("rw2", len(at), sd=0.7, at=unit * at).extension(unit * at, unit * new)
    known = structure("rw2", len(at), sd=0.7, at=at).extension(at, new)
    np.testing.assert_allclose(found.weights.toarray(), known.weights.toarray(), atol=1e-8)
    np.testing.assert_allclose(found.covariance, known.covariance, rtol=1e-8, atol=1e-10)
