"""Site parameters at a place through those of fits: where further fits start."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.learning.integration.visited import NEAREST, SiteSurface, coefficients


def cross(size: int, away: float) -> Array:
    """0 and both ends of every axis."""
    return away * np.concatenate([np.zeros((1, size)), np.eye(size), -np.eye(size)])


@pytest.mark.parametrize("size", [1, 2, 5])
def test_what_is_linear_is_exact_and_coefficients_sum_to_one(size: int) -> None:
    places, rng = cross(size, 1.4), np.random.default_rng(size)
    slope = rng.normal(size=size)
    for place in rng.normal(0.0, 2.0, (20, size)):
        share = coefficients(places, place)
        assert share.sum() == pytest.approx(1.0)
        assert share @ (places @ slope) == pytest.approx(place @ slope, abs=1e-4)


def test_a_fit_that_was_made_is_its_own_start() -> None:
    places = cross(3, 1.4)
    for k, place in enumerate(places):
        assert coefficients(places, place) == pytest.approx(np.eye(len(places))[k], abs=1e-3)


def test_a_single_fit_is_the_start_everywhere() -> None:
    one, two = (np.array([2.0]),), (np.array([-1.0]),)
    weight, shift = SiteSurface(np.zeros((1, 2)), [(one, two)]).at(np.array([3.0, 1.0])).sites
    assert weight[0] == 2.0 and shift[0] == -1.0


def test_weights_follow_their_logs_and_shifts_themselves() -> None:
    places, gain = cross(2, 1.0), np.array([0.3, -0.7])
    weights = [(np.exp(np.array([0.2, -3.0]) + p @ gain),) for p in places]
    shifts = [(np.array([1.0, 2.0]) + p @ gain,) for p in places]
    surface, place = (
        SiteSurface(places, list(zip(weights, shifts, strict=True))),
        np.array([2.0, 1.5]),
    )
    weight, shift = surface.at(place).sites
    assert weight[0] == pytest.approx(np.exp(np.array([0.2, -3.0]) + place @ gain), rel=1e-4)
    assert shift[0] == pytest.approx(np.array([1.0, 2.0]) + place @ gain, rel=1e-4)


@pytest.mark.parametrize("weight", [np.array([0.5, -0.1]), np.eye(2)[None]])
def test_weights_without_a_log_are_those_of_the_nearest_fit(weight: Array) -> None:
    places = cross(2, 1.0)
    weights = [((k + 1.0) * weight,) for k in range(len(places))]
    shifts = [(np.full(2, float(k)),) for k in range(len(places))]
    sites = list(zip(weights, shifts, strict=True))
    found, shift = SiteSurface(places, sites).at(np.array([0.1, -1.2])).sites
    assert np.array_equal(found[0], 5.0 * weight) and np.array_equal(shift[0], [4.0, 4.0])


def test_far_out_the_nearest_fit_is_the_start() -> None:
    places = cross(1, 0.1)
    weights = [(np.array([float(k + 1)]),) for k in range(len(places))]
    sites = list(zip(weights, weights, strict=True))
    found, _ = SiteSurface(places, sites).at(np.array([30.0])).sites
    assert np.array_equal(found[0], [2.0])


def test_only_the_nearest_fits_count() -> None:
    places = np.linspace(0.0, 6.0, 2 * NEAREST)[:, None]
    weights = [(np.array([1.0 if k < NEAREST else np.nan]),) for k in range(len(places))]
    sites = list(zip(weights, weights, strict=True))
    found, _ = SiteSurface(places, sites).at(np.array([0.5])).sites
    assert np.isfinite(found[0]).all()
