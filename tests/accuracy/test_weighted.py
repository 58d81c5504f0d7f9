"""Weighted draws: what they say of themselves, against repetition and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.accuracy.weighted import Weighted, bridged


def test_every_draw_is_taken_as_often_as_its_weight_says() -> None:
    rng = np.random.default_rng(0)
    of = Weighted(np.zeros((60, 1)), 2.0 * rng.normal(size=60))
    for count in (7, 500):
        positions = of.positions(count, np.random.default_rng(1))
        assert (np.diff(positions) >= 0).all()
        taken = np.bincount(positions, minlength=60)
        assert (np.abs(taken - count * of.weights) < 1.0).all()


@pytest.mark.parametrize("repeats", [1, 4])
def test_scatter_is_that_of_as_many_independent_draws(repeats: int) -> None:
    x = np.random.default_rng(2).normal(size=(400, 600))
    of = Weighted(np.repeat(x, repeats, axis=0), np.zeros(400 * repeats), parts=8)
    assert of.scatter() * 400 == pytest.approx(1.0, rel=0.1)


def test_scatter_sees_squares_where_means_are_balanced() -> None:
    """Of x and -x a mean is exact, and a square is worth half of the draws."""
    x = np.random.default_rng(3).normal(size=(8, 25, 600))
    both = np.concatenate([x, -x], axis=1).reshape(400, 600)
    assert Weighted(both, np.zeros(400), parts=8).scatter() * 400 == pytest.approx(2.0, rel=0.1)


def test_scatter_sees_means_where_squares_are_independent() -> None:
    """Draws that share their sign by twos: E |x1 x2| = 2 / pi."""
    rng = np.random.default_rng(5)
    x = np.abs(rng.normal(size=(400, 600))) * np.repeat(rng.choice([-1, 1], (200, 600)), 2, axis=0)
    scatter = Weighted(x, np.zeros(400), parts=8).scatter() * 400
    assert scatter == pytest.approx(1.0 + 2.0 / np.pi, rel=0.1)


def test_stated_errors_of_evidences_are_those_of_repetition() -> None:
    """Draws of N(0, 1) weighted for e^3 N(0.3, 0.8^2)."""
    logs, errors = [], []
    for seed in range(300):
        x = np.random.default_rng(seed).normal(size=(800, 1))
        log = 3.0 - np.log(0.8) - 0.5 * ((x[:, 0] - 0.3) / 0.8) ** 2 + 0.5 * x[:, 0] ** 2
        for parts in (1, 8):
            of = Weighted(x, log, parts=parts)
            logs.append(of.log_evidence)
            errors.append(of.error)
    assert np.mean(logs) == pytest.approx(3.0, abs=4.0 * np.std(logs) / np.sqrt(300))
    assert np.mean(errors[::2]) == pytest.approx(np.std(logs), rel=0.15)
    assert np.mean(errors[1::2]) == pytest.approx(np.std(logs), rel=0.15)


def test_parts_are_weighted_as_the_whole_is() -> None:
    rng = np.random.default_rng(4)
    of = Weighted(rng.normal(size=(40, 2)), rng.normal(size=40), rng.normal(size=40), parts=4)
    for k in range(4):
        part, where = of.part(k), slice(10 * k, 10 * k + 10)
        np.testing.assert_array_equal(part.draws, of.draws[where])
        np.testing.assert_allclose(part.weights, of.weights[where] / of.weights[where].sum())
        np.testing.assert_allclose(part.own, of.own[where] / of.own[where].sum())


def test_bridges_between_two_densities() -> None:
    """Of N(0, 1) and e^2 N(1, 0.7^2), whose draws do not cover one another's tails."""
    logs, errors = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        q, p = rng.normal(size=500), 1.0 + 0.7 * rng.normal(size=500)
        of_q, of_p = (2.0 - np.log(0.7) - 0.5 * ((x - 1) / 0.7) ** 2 + 0.5 * x**2 for x in (q, p))
        log, error = bridged(of_q, of_p, 500.0)
        logs.append(log)
        errors.append(error)
    assert np.mean(logs) == pytest.approx(2.0, abs=4.0 * np.std(logs) / np.sqrt(200))
    assert np.mean(errors) == pytest.approx(np.std(logs), rel=0.15)
    assert bridged(np.full(3, -np.inf), np.zeros(3), 3.0) == (-np.inf, np.inf)
