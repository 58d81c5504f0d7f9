"""New members of a smooth walk, against dense algebra."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.structures.catalogue import structure
from lgmdsl.structures.walk_members import spline


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
