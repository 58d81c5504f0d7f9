"""Properties over random models: agreement, quadrature, limits of wide priors, digits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.contract.engine import Conditioned, Engine, Failed
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.covariance_conditioned import CovarianceConditioned
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.operators.explicit import Dense, Identity
from lgmdsl.structures.catalogue import structure
from lgmdsl.testing.engine_checks import conditioned
from lgmdsl.testing.engine_models import Case, brute, random_case
from tests.agreement.comparisons import compared, must_run

seeds = st.integers(0, 100_000)
ties = st.sampled_from(["", "proper", "flat"])


def solved(engine: type[Engine], case: Case) -> Conditioned:
    return conditioned(engine, case)


def close(a: object, b: object, rtol: float = 1e-10) -> None:
    a, b = np.asarray(a), np.asarray(b)
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, float(np.abs(b).max())))


@must_run
@given(seeds, st.booleans(), st.booleans(), ties)
def test_engines_agree(seed: int, signed: bool, vector: bool, tie: str) -> None:
    case = random_case(seed, gp=False, signed=signed, vector=vector, tie=tie)
    first = PrecisionEngine(case.linear).condition(case.weight, case.shift)
    second = CovarianceEngine(case.linear).condition(case.weight, case.shift)
    assert isinstance(first, Failed) == isinstance(second, Failed)
    if isinstance(first, Failed) or isinstance(second, Failed):
        return
    compared()
    spread = np.linalg.cond(
        brute(case.linear, case.weight, case.shift).covariance + np.eye(case.linear.size)
    )
    tolerance = 1e-10 * max(1.0, spread / 1e4)
    close(first.log_normaliser, second.log_normaliser, tolerance)
    close(first.latent_mean, second.latent_mean, tolerance)
    close(first.latent_variance, second.latent_variance, tolerance)
    for a, b in zip(first.variance + first.mean, second.variance + second.mean, strict=True):
        close(a, b, tolerance)
    close(
        PrecisionEngine(case.linear).prior_mean[0],
        CovarianceEngine(case.linear).prior_mean[0],
        1e-9,
    )


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("engine", [CovarianceEngine, PrecisionEngine])
def test_quadrature(dimensions: int, engine: type) -> None:
    """log_normaliser and moments by a product of trapezoids, which knows no linear algebra."""
    rng = np.random.default_rng(dimensions)
    mean, sd = rng.normal(size=dimensions), np.exp(0.3 * rng.normal(size=dimensions))
    block = PriorBlock("z", (structure("normal", dimensions, mean=mean, sd=sd),), mean)
    p = Predictor({"z": Dense(rng.normal(size=(4, dimensions)))}, rng.normal(size=4))
    linear = LinearGaussian((block,), (p,))
    w, b = np.array([1.0, 0.0, -0.05, 0.6]), rng.normal(size=4)
    q = engine(linear).condition((w,), (b,))
    axes = [
        np.linspace(m - 10 * s, m + 10 * s, 121)
        for m, s in zip(q.latent_mean, np.sqrt(q.latent_variance), strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimensions)
    cell = np.prod([a[1] - a[0] for a in axes])
    s = grid @ p.columns["z"].dense().T + p.offset
    log_p = -0.5 * (((grid - mean) / sd) ** 2 + np.log(2 * np.pi * sd**2)).sum(axis=1)
    mass = np.exp(log_p - 0.5 * (s * s) @ w + s @ b) * cell
    close(q.log_normaliser, np.log(mass.sum()), 1e-9)
    mass /= mass.sum()
    close(q.latent_mean, mass @ grid, 1e-9)
    close(q.mean[0], mass @ s, 1e-9)
    close(q.variance[0], mass @ (s - mass @ s) ** 2, 1e-9)


@pytest.mark.parametrize("engine", [CovarianceEngine, PrecisionEngine])
def test_quadrature_of_flat_and_constrained(engine: type) -> None:
    """A proper and a flat pair, sum of the flat one fixed: density 1 along the constrained line."""
    block = PriorBlock("z", (structure("normal", 1, sd=1.3),), np.zeros(1))
    flat = PriorBlock("f", (structure("flat", 2),), np.zeros(2))
    rng = np.random.default_rng(4)
    p = Predictor(
        {"z": Dense(rng.normal(size=(3, 1))), "f": Dense(rng.normal(size=(3, 2)))}, np.zeros(3)
    )
    held = Constraints({"f": Dense(np.array([[3.0, 3.0]]))}, np.array([1.5]))
    linear = LinearGaussian((block, flat), (p,), held)
    w, b = np.array([1.0, 2.0, 0.5]), rng.normal(size=3)
    q = engine(linear).condition((w,), (b,))
    t = np.linspace(-60, 60, 4001)
    along = np.stack([0.25 + t / np.sqrt(2), 0.25 - t / np.sqrt(2)], axis=1)  # unit speed
    z = np.linspace(-14, 14, 1201)
    s = (z[:, None, None] * p.columns["z"].dense()[:, 0]) + (along @ p.columns["f"].dense().T)[None]
    log_mass = -0.5 * (z / 1.3) ** 2 - np.log(1.3) - 0.5 * np.log(2 * np.pi)
    mass = np.exp(log_mass[:, None] - 0.5 * (s * s) @ w + s @ b) * (t[1] - t[0]) * (z[1] - z[0])
    close(q.log_normaliser, np.log(mass.sum()), 1e-8)


@given(seeds)
def test_constraint_across_flat_and_proper_is_the_limit_of_wide_priors(seed: int) -> None:
    """log_normaliser with prior sd S in place of flat, times (2 pi S^2)^(free/2), S -> inf."""
    rng = np.random.default_rng(seed)
    tie = {"w": Dense(rng.normal(size=(2, 3))), "f": Dense(np.array([[1.0, 2.0], [0.0, 0.0]]))}
    held = Constraints(tie, rng.normal(size=2))
    p = Predictor(
        {"w": Dense(rng.normal(size=(6, 3))), "f": Dense(rng.normal(size=(6, 2)))},
        rng.normal(size=6),
    )
    w, b = (np.exp(rng.normal(size=6)),), (rng.normal(size=6),)
    mean = rng.normal(size=3)
    proper = PriorBlock("w", (structure("normal", 3, mean=mean, sd=1.0),), mean)

    def model(f: object) -> LinearGaussian:
        return LinearGaussian((proper, PriorBlock("f", (f,), np.zeros(2))), (p,), held)  # type: ignore[arg-type]

    flat = [
        engine(model(structure("flat", 2))).condition(w, b)
        for engine in (CovarianceEngine, PrecisionEngine)
    ]
    close(flat[0].log_normaliser, flat[1].log_normaliser, 1e-9)
    wide = 1e4
    q = PrecisionEngine(model(structure("normal", 2, sd=wide))).condition(w, b)
    close(flat[1].log_normaliser, q.log_normaliser + 0.5 * np.log(2 * np.pi * wide**2), 1e-4)
    close(flat[0].latent_mean, q.latent_mean, 1e-4)


@given(st.integers(0, 10_000), st.floats(-4, 8))
def test_no_digits_are_lost_where_weights_are_large(seed: int, size: float) -> None:
    """Duplicate inputs (K singular), weights up to 1e8: against the same model in latent form."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(8, 3))
    root[1] = root[0]
    k = structure("dense", 8, cov=root @ root.T)
    gp = LinearGaussian(
        (PriorBlock("f", (k,), np.zeros(8)),), (Predictor({"f": Identity(8)}, np.zeros(8)),)
    )
    low = LinearGaussian(
        (PriorBlock("x", (structure("iid", 3),), np.zeros(3)),),
        (Predictor({"x": Dense(root)}, np.zeros(8)),),
    )
    w, b = (10.0**size * np.exp(rng.normal(size=8)),), (10.0**size * rng.normal(size=8),)
    one, two = CovarianceEngine(gp).condition(w, b), PrecisionEngine(low).condition(w, b)
    # 1 + wS reaches 1e10 here, so eps times that is what any factorisation of B_w leaves.
    tolerance = 1e-10 * max(1.0, 10.0 ** (size - 4))
    close(one.mean[0], two.mean[0], tolerance)
    np.testing.assert_allclose(
        one.variance[0], two.variance[0], rtol=max(1e-9, 1e-15 * 10 ** (size + 2))
    )


@pytest.mark.parametrize("engine", [CovarianceEngine, PrecisionEngine])
@pytest.mark.parametrize("tied", [False, True])
def test_without_predictors_the_prior_is_left(engine: type[Engine], tied: bool) -> None:
    mean, sd = np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, 0.5])
    block = PriorBlock("w", (structure("normal", 3, mean=mean, sd=sd),), mean)
    held = Constraints({"w": Dense(np.ones((1, 3)))}, np.array([3.0])) if tied else None
    q = engine(LinearGaussian((block,), (), held)).condition((), ())
    assert not isinstance(q, Failed)
    close(q.log_normaliser, 0.0)
    assert q.mean == () and q.variance == ()
    lost = sd**4 / np.sum(sd**2) if tied else 0.0
    moved = sd**2 * (3.0 - mean.sum()) / np.sum(sd**2) if tied else 0.0
    close(q.latent_mean, mean + moved)
    close(q.latent_variance, sd**2 - lost)
    draws = q.sample(np.random.default_rng(0), 50_000)
    np.testing.assert_allclose(draws.std(axis=0), np.sqrt(sd**2 - lost), rtol=0.02)


@pytest.mark.parametrize("tied", [False, True])
def test_latents_that_are_the_predictors(tied: bool) -> None:
    """One identity operator: the shortcut, the rows and brute force agree."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 4))
    block = PriorBlock("f", (structure("dense", 5, cov=root @ root.T),), rng.normal(size=5))
    held = Constraints({"f": Dense(np.ones((1, 5)))}, np.array([0.3])) if tied else None
    linear = LinearGaussian((block,), (Predictor({"f": Identity(5)}, np.zeros(5)),), held)
    case = Case("", linear, (np.exp(rng.normal(size=5)),), (rng.normal(size=5),))
    q = solved(CovarianceEngine, case)
    assert isinstance(q, CovarianceConditioned)
    truth = brute(linear, case.weight, case.shift).covariance.diagonal()
    close(q.latent_variance, truth)
    close(q.latent_variance_by_rows(), truth)
