"""Projected Newton in a box: active bounds, barriers, domains, and what is no progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.numerics.optimisation.newton import Box, newton_in_box


@dataclass(frozen=True)
class Quadratic:
    """x'Ax/2 - b'x - sum w log x, the sum over w > 0."""

    x: Array
    a: Array
    b: Array
    w: Array

    @property
    def positive(self) -> Array:
        """x where it must be, else 1."""
        return np.where(self.w > 0.0, self.x, 1.0)

    @property
    def value(self) -> float:
        barrier = self.w @ np.log(self.positive)
        return float(0.5 * self.x @ self.a @ self.x - self.b @ self.x - barrier)

    @property
    def noise(self) -> float:
        return 1e-13 * (1.0 + abs(self.value))

    @property
    def gradient(self) -> Array:
        return np.asarray(self.a @ self.x - self.b - self.w / self.positive)

    def step(self, free: BoolArray) -> Array | None:
        h = self.a + np.diag(self.w / self.positive**2)
        d = np.zeros_like(self.x)
        d[free] = -np.linalg.solve(h[np.ix_(free, free)], self.gradient[free])
        return d


def moving(calls: list[Array]) -> Callable[[Array, Quadratic], Quadratic | None]:
    def evaluate(x: Array, before: Quadratic) -> Quadratic | None:
        calls.append(x)
        if ((x <= 0.0) & (before.w > 0.0)).any():
            return None
        return Quadratic(x, before.a, before.b, before.w)

    return evaluate


def settled(point: Quadratic, held: BoolArray) -> bool:
    return float(np.abs(np.where(held, 0.0, point.gradient)).max()) <= 1e-9


@given(st.integers(0, 2**20))
def test_it_finds_the_minimum_in_a_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(5, 5))
    a, b = root @ root.T + 0.05 * np.eye(5), 3.0 * rng.normal(size=5)
    low, high = np.full(5, -0.5), np.full(5, 0.8)
    box, calls = Box(low, high, np.full(5, 1e-12), np.zeros(5, dtype=bool)), list[Array]()
    end = newton_in_box(
        moving(calls), Quadratic(np.zeros(5), a, b, np.zeros(5)), box, settled, limit=60
    )

    def downhill(x: Array) -> tuple[float, Array]:
        return float(0.5 * x @ a @ x - b @ x), np.asarray(a @ x - b)

    known = optimize.minimize(
        downhill,
        np.zeros(5),
        jac=True,
        method="L-BFGS-B",
        bounds=optimize.Bounds(low, high),
        options={"ftol": 1e-16, "gtol": 1e-12},
    )
    assert end.value <= known.fun + 1e-9
    assert all((x >= low).all() and (x <= high).all() for x in calls)


@pytest.mark.parametrize("weight", [1e-12, 1.0])
def test_barriers_are_met_inside(weight: float) -> None:
    w = np.array([weight, 0.0])
    start = Quadratic(np.array([3.0, 0.0]), np.eye(2), np.array([-1.0, 1.0]), w)
    wall = np.array([True, False])
    box = Box(np.array([0.0, -np.inf]), np.full(2, np.inf), np.zeros(2), wall)
    calls: list[Array] = []
    end = newton_in_box(moving(calls), start, box, settled)
    # x + 1 - w / x = 0
    assert end.x[0] == pytest.approx(0.5 * (np.sqrt(1.0 + 4.0 * weight) - 1.0), rel=1e-6)
    assert end.x[1] == pytest.approx(1.0) and len(calls) < 25


@dataclass(frozen=True)
class Level:
    """f at its minimum as far as rounding goes, with a gradient that never settles."""

    x: Array
    value = 1.0
    noise = 1e-13

    @property
    def gradient(self) -> Array:
        return np.full(1, 1e-8)

    def step(self, free: BoolArray) -> Array | None:
        return np.full(1, -1e-8)


def test_steps_that_gain_nothing_end_it() -> None:
    calls: list[Array] = []

    def evaluate(x: Array, before: Level) -> Level:
        calls.append(x)
        return Level(x)

    box = Box(np.full(1, -5.0), np.full(1, 5.0), np.zeros(1), np.zeros(1, dtype=bool))
    newton_in_box(evaluate, Level(np.zeros(1)), box, lambda point, held: False)
    assert 1 <= len(calls) <= 4
