"""Searches with pinned coordinates, and the profiles that are made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.solve.again import maximised_objective
from lgmdsl.contract.status import Status
from lgmdsl.learning.profile import Profile, Reached
from tests.api import mixed_models as mixed


@pytest.fixture(scope="module")
def profile() -> Profile:
    fit = lgm.fit(lgm.loads(mixed.CROSSED), mixed.crossed(), hyper="map")
    objective = maximised_objective(fit, fit.canonical, "a test")
    top = objective.at(objective.coordinates.pack(fit.theta), fit.posterior)
    assert top is not None
    made = Profile.about(objective, top)
    assert made is not None
    return made


@pytest.mark.parametrize("j", range(5))
def test_a_pinned_coordinate_stays_and_the_others_are_at_their_best(
    profile: Profile, j: int
) -> None:
    x = profile.top.x.copy()
    x[j] += 0.4
    first = profile.objective.at(x, profile.top.posterior)
    assert first is not None
    found = replace(profile.search, pinned=(j,)).run(first)
    assert found.status is Status.converged and not found.edges
    assert found.at.x[j] == x[j]
    others = np.delete(found.at.gradient, j)
    assert np.abs(others).max() < 1e-2 < abs(found.at.gradient[j])
    assert profile.top.value > found.at.value > first.value


def test_a_pinned_sd_near_zero_is_not_released(profile: Profile) -> None:
    """The density rises by 3 nats from there inwards."""
    j = profile.objective.coordinates.names.index("t")
    x = profile.top.x.copy()
    x[j] -= 6.0
    first = profile.objective.at(x, profile.top.posterior)
    assert first is not None
    found = replace(profile.search, pinned=(j,)).run(first)
    assert found.at.x[j] == x[j]
    assert found.at.value < profile.top.value - 3.0


def test_an_end_is_where_the_profile_has_fallen_by_the_quantile(profile: Profile) -> None:
    for end in profile.interval(2, 0.9):
        assert end.reached is Reached.ROOT
        at = profile.objective.at(end.x, profile.top.posterior)
        assert at is not None
        assert profile.top.value - at.value == pytest.approx(0.5 * 1.6448536**2, abs=1e-4)
        assert np.sign(end.x[2] - profile.top.x[2]) == end.side
