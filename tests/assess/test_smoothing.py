"""Pareto-smoothed weights against arviz-stats, and what they are for."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.accuracy.tails import pareto, smoothed


def test_weights_are_those_of_arviz() -> None:
    array_stats = pytest.importorskip("arviz_stats.base.array").array_stats
    rng = np.random.default_rng(0)
    for scale in (0.3, 1.0, 2.0):
        ratios = scale * rng.standard_normal((3600, 3))  # 3 sqrt n is whole
        weights, shapes = smoothed(ratios)
        for j in range(3):
            theirs, shape = array_stats.psislw(-ratios[:, j])
            assert shapes[j] == pytest.approx(float(shape), abs=1e-6)
            assert weights[:, j] == pytest.approx(theirs, abs=1e-6)


def test_constant_and_bounded_weights_are_left_alone() -> None:
    ratios = np.column_stack([np.zeros(500), np.r_[np.zeros(400), np.full(100, -3.0)]])
    weights, shapes = smoothed(ratios)
    assert (shapes == -np.inf).all()
    assert np.exp(weights).sum(axis=0) == pytest.approx(1.0)
    assert np.ptp(weights[:, 0]) == 0.0 and weights[0, 1] - weights[-1, 1] == pytest.approx(3.0)
    assert smoothed(np.array([[0.0], [np.inf]]))[1][0] in (np.inf, -np.inf)


def test_a_tail_has_its_shape() -> None:
    u = (np.arange(20000) + 0.5) / 20000
    for shape in (-0.2, 0.4, 0.9):
        x = np.sort(((1.0 - u) ** -shape - 1.0) / shape)
        found, scale = pareto(2.0 * x)
        assert found == pytest.approx(shape, abs=0.03) and scale == pytest.approx(2.0, rel=0.03)


def test_smoothing_steadies_a_mean_of_heavy_weights() -> None:
    """E[exp(0.9 |x|)-like weights]: the smoothed mean of x under shifted weights scatters less."""
    raw, better = [], []
    for seed in range(40):
        x = np.random.default_rng(seed).standard_normal(1000)
        ratio = 1.6 * x - 1.28  # of N(1.6, 1) over N(0, 1)
        plain = np.exp(ratio)
        raw.append(plain @ x**2 / plain.sum())
        better.append(np.exp(smoothed(ratio[:, None])[0][:, 0]) @ x**2)
    exact = 1.0 + 1.6**2
    error = [np.sqrt(np.mean((np.array(v) - exact) ** 2)) for v in (raw, better)]
    assert error[1] < 1.02 * error[0] < 1.0
