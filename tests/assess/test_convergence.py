"""Rates of convergence: of runs, and of px-vb's rounds against theorem 4.1 of Qi and Jaakkola."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.assess.convergence import derivative, observed_rate, spectral_radius
from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.problem import Problem
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.testing.models import random_models
from lgmdsl.testing.random.model import RandomModel
from lgmdsl_backends.px_vb import ParameterExpanded
from tests.agreement.methods import few
from tests.backends.test_px_vb import FLAT, fitted, problem_of, small

CASES = {
    "flat": FLAT,
    "normal": FLAT.replace("flat()", "normal(mean = 0.5, sd = 2)"),
    "offset": FLAT.replace("= X @ w", "= X @ w - 0.7").replace("flat()", "normal(sd = 1)"),
}


def hessian(
    X: Array, y: Array, prior: Array, mean: Array, offset: float, m: Array, t: Array
) -> Array:
    """(n + N, n + N) of the bound in the means of z and the parameters t of q(zeta_i), N(t_i, 1)
    cut off at 0, at a fixed covariance of z: by differences of its gradient, in closed form."""
    sign = 2.0 * y - 1.0

    def moments(t: Array) -> tuple[Array, Array]:
        hazard = np.exp(-0.5 * t * t - special.log_ndtr(sign * t)) / np.sqrt(2.0 * np.pi)
        return t + sign * hazard, 1.0 - hazard * (sign * t + hazard)

    def gradient(x: Array) -> Array:
        z, u = x[: len(m)], x[len(m) :]
        first, variance = moments(u)
        s = X @ z + offset
        # d bound / du: the moments of zeta move by their covariance with zeta.
        return np.concatenate([X.T @ (first - s) - prior @ (z - mean), (s - u) * variance])

    at, out = np.concatenate([m, t]), []
    for k in range(len(at)):
        h = np.zeros(len(at))
        h[k] = 1e-5
        out.append((gradient(at + h) - gradient(at - h)) / 2e-5)
    return np.array(out)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CASES)
def test_theorem_4_1(name: str) -> None:
    """The derivative of a plain round is the product of P_s = [I, -D_{rest,s} D_ss^-1; 0, 0], and
    the expanded round's spectral radius is not above its own."""
    data = small(1)
    X, y = data["X"], data["y"]
    fit = fitted(data, CASES[name], tol=1e-12)
    prior, mean, offset = {
        "flat": (np.zeros((3, 3)), np.zeros(3), 0.0),
        "normal": (np.eye(3) / 4.0, np.full(3, 0.5), 0.0),
        "offset": (np.eye(3), np.zeros(3), -0.7),
    }[name]
    m = fit.mean("w").values
    d = hessian(X, y, prior, mean, offset, m, X @ m + offset)
    n = len(m)
    product = np.eye(len(d))
    for own in (slice(n, None), slice(0, n)):  # q(zeta), then q(z)
        p = np.eye(len(d))
        rest = np.ones(len(d), dtype=bool)
        rest[own] = False
        p[:, own] = 0.0
        p[np.ix_(rest, ~rest)] = -d[np.ix_(rest, ~rest)] @ np.linalg.inv(d[own, own])
        product = product @ p
    theorem = np.abs(np.linalg.eigvals(product)).max()
    radii = fit.convergence().radii
    assert radii["plain"] == pytest.approx(theorem, abs=1e-6)
    assert radii["expanded"] < radii["plain"] < 1.0


@pytest.mark.thorough
@given(
    random_models(
        ("bernoulli.probit", "binomial.probit"), rows=(1, 10), latents=(1, 6), wild=False, flat=True
    )
)
@few(12)
def test_the_expansion_contracts_no_less(case: RandomModel) -> None:
    problem = case.problem("px-vb")
    found = run(ParameterExpanded(), problem, Tolerances(1e-12, 1e-7), 3000)
    assume(str(found.status) == "converged")
    q = found.posterior
    assert q is not None
    radii = [
        spectral_radius(problem, turn, q.weight, q.shift)
        for turn in ParameterExpanded().rounds().values()
    ]
    assert radii[0] <= radii[1] + 1e-6


@pytest.mark.parametrize("expand", [True, False])
def test_the_rate_of_a_run_is_the_radius_of_its_round(expand: bool) -> None:
    found = fitted(small(), tol=1e-10, options={"expand": expand}).convergence()
    name = "expanded" if expand else "plain"
    assert next(iter(found.radii)) == name and len(found.radii) == 2
    assert 1.0 - found.rate == pytest.approx(1.0 - found.radii[name], rel=0.03)
    shown = str(found)
    assert f"spectral radius  {found.radii[name]:.6f} ({name} round), a digit in " in shown
    assert f"observed rate    {found.rate:.6f} a step" in shown


def test_rates_of_sequences() -> None:
    t = np.arange(40)
    assert observed_rate(list(3.0 * 0.9**t)) == pytest.approx(0.9, rel=1e-12)
    # Faster modes are gone by the end.
    assert observed_rate(list(0.9**t + 10.0 * 0.3**t)) == pytest.approx(0.9, rel=1e-4)
    assert np.isnan(observed_rate([1.0, 0.5, 0.25]))
    assert np.isnan(observed_rate([1.0] * 10 + [0.0] * 10))


def test_the_derivative_of_a_linear_map() -> None:
    """A map of (W, b) that is linear in both: its matrix comes back, weights included."""
    problem = problem_of(FLAT, small())
    matrix = np.random.default_rng(0).normal(size=(50, 50))

    def turn(problem: Problem, weight: Rows, shift: Rows) -> tuple[Rows, Rows] | Failed:
        y = matrix @ np.concatenate([*weight, *shift])
        return (y[:25],), (y[25:],)

    at = (np.ones(25),), (np.zeros(25),)
    found = derivative(problem, turn, *at)
    assert found is not None
    np.testing.assert_allclose(found, matrix, atol=1e-8)
    radius = np.abs(np.linalg.eigvals(matrix)).max()
    assert spectral_radius(problem, turn, *at) == pytest.approx(radius, rel=1e-7)
    failing = spectral_radius(problem, lambda *_: Failed("no"), *at)
    assert np.isnan(failing)


def test_fits_tell(tmp_path: Path) -> None:
    data = small()
    fit = fitted(data, tol=1e-9)
    found = fit.convergence()
    fit.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc").convergence(data=data)
    assert again.radii == pytest.approx(found.radii, abs=1e-7)
    with pytest.raises(lgm.DataError, match="E305"):
        lgm.load_fit(tmp_path / "fit.nc").convergence()
    other = lgm.fit(lgm.loads(FLAT), data, "natural-gradient").convergence()
    assert other.radii == {}
    short = fitted(data, max_steps=2)
    with pytest.raises(lgm.MethodError, match="has not reached it"):
        short.convergence()
