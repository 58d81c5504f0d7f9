"""k-hat: known tails, constants, ripples, and what happens without arviz-stats."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.accuracy import tails as pareto
from lgmdsl.accuracy.tails import effective_size, k_hat, threshold


def shape_of(log_weights: np.ndarray) -> float:
    return k_hat(log_weights, effective_size(log_weights))


@pytest.mark.parametrize("shape", [0.3, 0.6, 0.9, 1.3])
def test_pareto_tails_have_their_shape(shape: float) -> None:
    found = [
        shape_of(shape * np.random.default_rng(seed).exponential(size=4000)) for seed in range(12)
    ]
    assert np.mean(found) == pytest.approx(shape, abs=0.1)


@given(st.integers(0, 2**20), st.floats(-700.0, 700.0))
def test_constants_and_units(seed: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    assert shape_of(np.full(500, level)) == -np.inf
    assert shape_of(level + 1e-8 * rng.normal(size=500)) == -np.inf
    log_weights = rng.exponential(size=500)
    assert shape_of(log_weights + level) == pytest.approx(shape_of(log_weights), abs=1e-6)


def test_weights_below_a_ceiling_are_light() -> None:
    rng = np.random.default_rng(0)
    assert shape_of(np.minimum(rng.normal(size=1000), 0.5)) == -np.inf
    assert shape_of(np.log(rng.random(1000))) < 0.0


def test_a_ripple_is_no_tail() -> None:
    """log w = 0.001 He_4(x): what is left of a posterior whose mean and variance q has."""
    x = np.random.default_rng(0).normal(size=4000)
    ripple = 1e-3 * (x**4 - 6.0 * x**2 + 3.0)
    assert np.exp(ripple).max() < 1.3 and pareto._fitted(ripple - ripple.max()) > 2.0
    assert 0.0 <= shape_of(ripple) < 0.1


def test_draws_without_a_density() -> None:
    log_weights = np.full(1000, -np.inf)
    assert shape_of(log_weights) == np.inf
    log_weights[:90] = np.random.default_rng(0).normal(size=90)
    assert shape_of(log_weights) == np.inf
    log_weights[:900] = np.random.default_rng(0).normal(size=900)
    assert np.isfinite(shape_of(log_weights))


def test_effective_size() -> None:
    assert effective_size(np.full(7, -900.0)) == pytest.approx(7.0)
    assert effective_size(np.array([0.0, -np.inf, -np.inf])) == 1.0
    assert effective_size(np.full(3, -np.inf)) == 0.0
    assert effective_size(np.log([1.0, 2.0, 3.0])) == pytest.approx(36.0 / 14.0)


def test_fewer_draws_allow_less() -> None:
    assert threshold(4000) == 0.7 and threshold(100) == pytest.approx(0.5)
    assert 0.5 < threshold(500) < 0.7


def test_without_arviz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pareto, "find_spec", lambda name: None)
    with pytest.raises(lgm.MethodError, match=r"lgmdsl\[arviz\]"):
        pareto.check_arviz()
