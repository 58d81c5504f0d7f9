"""L-BFGS a step at a time: known minima, metrics, domains, rounding."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from lgmdsl.arrays import Array
from lgmdsl.numerics.optimisation.lbfgs import LBFGS, Evaluated, Function, Iterate


def run(
    solver: LBFGS, x: Array, function: Function[None], steps: int = 500, tol: float = 1e-8
) -> tuple[Iterate[None], list[float]]:
    at = function(x)
    assert at is not None
    now, values = solver.start(x, at), [at.value]
    for _ in range(steps):
        if np.abs(now.at.gradient).max() <= tol:
            break
        following = solver.step(now, function)
        if following is None:
            break
        now = following
        values.append(now.at.value)
    return now, values


def rosenbrock(x: Array) -> Evaluated[None]:
    return Evaluated(float(optimize.rosen(x)), optimize.rosen_der(x), None)


@pytest.mark.parametrize("memory", [1, 5, 20])
def test_it_finds_the_minimum_of_rosenbrock_s_function_and_never_rises(memory: int) -> None:
    end, values = run(LBFGS(memory), np.full(8, -1.2), rosenbrock)
    np.testing.assert_allclose(end.x, 1.0, atol=1e-6)
    assert (np.diff(values) <= 1e-12).all()
    assert end.evaluations <= 3 * len(values)


def test_a_metric_held_as_two_rows_is_the_whitened_problem() -> None:
    """The steps are those of L-BFGS in y = R x, M = R'R, as if R had been formed."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 5)) + 3 * np.eye(5)
    metric, inverse = root.T @ root, np.linalg.inv(root.T @ root)
    unroot = np.linalg.inv(root)

    def plain(x: Array) -> tuple[float, Array]:
        return float(np.logaddexp(x, -2 * x).sum() + x @ x), (1 - 3 / (1 + np.exp(3 * x)) + 2 * x)

    def paired(x: Array) -> Evaluated[None]:
        value, gradient = plain(x[0])
        return Evaluated(value, np.array([inverse @ gradient, gradient]), None)

    def whitened(y: Array) -> Evaluated[None]:
        value, gradient = plain(unroot @ y)
        return Evaluated(value, unroot.T @ gradient, None)

    start = rng.normal(size=5)
    one = LBFGS(6, inner=lambda u, v: float(u[0] @ v[1]))
    a, first = run(one, np.array([start, metric @ start]), paired, steps=4)
    b, second = run(LBFGS(6), root @ start, whitened, steps=4)
    assert len(first) == len(second) == 5
    np.testing.assert_allclose(first, second, rtol=1e-10)
    np.testing.assert_allclose(a.x[0], unroot @ b.x, rtol=1e-7)


def test_a_preconditioner_is_the_whitened_problem() -> None:
    """Plain gradients and M^-1: the steps are again those of L-BFGS in y = R x, M = R'R."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 5)) + 3 * np.eye(5)
    inverse, unroot = np.linalg.inv(root.T @ root), np.linalg.inv(root)

    def plain(x: Array) -> Evaluated[None]:
        slope = 1 - 3 / (1 + np.exp(3 * x)) + 2 * x
        return Evaluated(float(np.logaddexp(x, -2 * x).sum() + x @ x), slope, None)

    def whitened(y: Array) -> Evaluated[None]:
        at = plain(unroot @ y)
        return Evaluated(at.value, unroot.T @ at.gradient, None)

    start = rng.normal(size=5)
    a, first = run(LBFGS(6, precondition=lambda g: inverse @ g), start, plain, steps=4)
    b, second = run(LBFGS(6), root @ start, whitened, steps=4)
    assert len(first) == len(second) == 5
    np.testing.assert_allclose(first, second, rtol=1e-10)
    np.testing.assert_allclose(a.x, unroot @ b.x, rtol=1e-7)


def test_the_domain_is_respected() -> None:
    """sum x - log x has its minimum at 1 and ends at 0."""

    def barrier(x: Array) -> Evaluated[None] | None:
        if not (x > 0).all():
            return None
        return Evaluated(float((x - np.log(x)).sum()), 1 - 1 / x, None)

    end, _ = run(LBFGS(), np.array([1e-3, 50.0, 2.0]), barrier)
    np.testing.assert_allclose(end.x, 1.0, atol=1e-6)


def test_a_huge_constant_does_not_hide_the_minimum() -> None:
    """Differences of f drown in rounding; the slopes still show the way."""

    def lifted(x: Array) -> Evaluated[None]:
        return Evaluated(1e6 + 0.5 * float(x @ x), x.copy(), None)

    end, _ = run(LBFGS(), np.array([1e-4, -2e-4]), lifted, tol=1e-9)
    assert np.abs(end.x).max() <= 1e-9


def test_a_wrong_slope_ends_the_search() -> None:
    def liar(x: Array) -> Evaluated[None]:
        return Evaluated(float(x @ x), -x, None)

    solver, x = LBFGS(), np.ones(2)
    assert solver.step(solver.start(x, liar(x)), liar) is None


@pytest.mark.parametrize(("noise", "most"), [(0.0, 100), (0.1, 8)])
def test_no_step_is_looked_for_below_the_noise(noise: float, most: int) -> None:
    """A value that jumps by a nat at the start, whatever the slope: fits that stall, each at a
    place of its own. Trials went on until their bracket was one number."""
    tried: list[float] = []

    def jumping(x: Array) -> Evaluated[None]:
        tried.append(float(x[0]))
        value = -16.0 * x[0] + (1.0 if x[0] else 0.0) + 300.0 * x[0] ** 2
        return Evaluated(float(value), 600.0 * x - 16.0, None, noise)

    solver = LBFGS(first=0.1, trials=40)
    x = np.zeros(1)
    assert solver.step(solver.start(x, jumping(x)), jumping) is None
    assert len(tried) <= most
    if not noise:
        assert len(tried) > 30


def test_noise_does_not_hide_a_step_that_lowers_more() -> None:
    def noisy(x: Array) -> Evaluated[None]:
        return Evaluated(0.5 * float(x @ x) + 0.05 * float(np.sin(1e6 * x[0])), x.copy(), None, 0.1)

    solver, x = LBFGS(), np.array([3.0, 4.0])
    following = solver.step(solver.start(x, noisy(x)), noisy)
    assert following is not None and following.at.value < noisy(x).value - 3.0
