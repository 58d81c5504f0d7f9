"""Constraints and sum-to-zero priors in the iterative engine, beside dense algebra on the
subspace."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from lgmdsl.contract.engine import Failed
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.iterative.conditioned import IterativeConditioned
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.operators.explicit import Dense, Identity
from lgmdsl.structures.catalogue import structure
from lgmdsl.structures.independent import Normal
from lgmdsl.testing.engine_models import Case, dense_rows

from .subspace import by_subspace, case, ties

NAMES = (("rw2",), ("besag",), ("rw1 free",), ("ar1",), ("besag", "ar1"), ("rw1", "rw2"))
TIES = ("", "sum", "point", "effects")


def conditioned(made: Case, seed: int) -> IterativeConditioned:
    q = IterativeEngine(made.linear, seed=seed).condition(made.weight, made.shift)
    assert isinstance(q, IterativeConditioned)
    return q


@pytest.mark.thorough
def test_moments_and_normaliser() -> None:
    """Means, solves and constraints exact; estimates as far off as their errors say."""
    of_log, of_rows = [], []
    for names in NAMES:
        for seed, tie in enumerate(TIES):
            made = case(seed, names, tie)
            q, truth = conditioned(made, seed), by_subspace(made.linear, made.weight, made.shift)
            assert truth is not None
            variance = truth.covariance.diagonal()
            sd = np.sqrt(np.maximum(variance, 0.0)) + 1e-6
            assert np.abs((q.latent_mean - truth.mean) / sd).max() < 1e-5, made.name
            rhs = np.random.default_rng(1).normal(size=made.linear.size)
            assert np.allclose(q.solve(rhs), truth.covariance @ rhs, atol=1e-7 * sd.max() ** 2)
            length = float(rhs @ truth.covariance @ rhs)
            assert q.squared_length(rhs) == pytest.approx(length, rel=0.05)
            rows, values = ties(made.linear)
            draws = q.sample(np.random.default_rng(2), 3)
            assert np.allclose(draws @ rows.T, np.tile(values, (3, 1)), atol=1e-7)
            b, _ = dense_rows(made.linear)
            exact = np.einsum("ij,jk,ik->i", b, truth.covariance, b)
            error = q.variance_error[0]
            chance = error > 1e-9 * exact.max()
            of_rows.extend(((q.variance[0] - exact) / error)[chance])
            of_log.append((q.log_normaliser - truth.log_normaliser) / q.log_normaliser_error)
    assert 0.8 < np.sqrt(np.mean(np.square(of_rows))) < 1.25
    assert 0.6 < np.sqrt(np.mean(np.square(of_log))) < 1.4


@pytest.mark.parametrize("names", [("besag", "ar1"), ("rw2",)], ids=" * ".join)
def test_draws_and_their_distances(names: tuple[str, ...]) -> None:
    made = case(4, names, "point")
    q, truth = conditioned(made, 0), by_subspace(made.linear, made.weight, made.shift)
    assert truth is not None
    drawn = q.draw(np.random.default_rng(0), 4000)
    sd = np.sqrt(np.maximum(truth.covariance.diagonal(), 0.0)) + 1e-9
    assert np.abs((drawn.z.mean(axis=0) - truth.mean) / sd).max() < 5.5 / np.sqrt(4000)
    assert drawn.rank == np.linalg.matrix_rank(truth.covariance, tol=1e-9 * sd.max() ** 2)
    assert drawn.radius.mean() == pytest.approx(drawn.rank, rel=5.5 * np.sqrt(2 / 4000))
    away = drawn.z - truth.mean
    exact = np.einsum("ij,jk,ik->i", away, np.linalg.pinv(truth.covariance, rcond=1e-9), away)
    assert np.allclose(drawn.radius, exact, rtol=1e-4)


@pytest.mark.parametrize("tilted", [False, True])
@pytest.mark.parametrize("names", [("rw1",), ("besag", "ar1")], ids=" * ".join)
def test_adjoints(names: tuple[str, ...], tilted: bool) -> None:
    """Those of means exact, those of precisions with many samples."""
    made = case(1, names, "sum")
    shape = np.random.default_rng(4).normal(size=made.linear.rows)
    tilt = (shape,) if tilted else None
    q = IterativeEngine(made.linear, samples=4000, most=4000).condition(made.weight, made.shift)
    exact = SparseEngine(made.linear).condition(made.weight, made.shift)
    assert not isinstance(q, Failed) and not isinstance(exact, Failed)
    given, wanted = q.adjoints(tilt), exact.adjoints(tilt)
    assert np.allclose(given.offset[0], wanted.offset[0], atol=1e-5)
    for name, pull in wanted.mean.items():
        assert np.allclose(given.mean[name], pull, atol=1e-5)
    for name in wanted.precision:
        a = np.asarray(given.precision[name].todense())
        b = np.asarray(wanted.precision[name].todense())
        assert np.abs(a - b).max() < 0.1 * np.abs(b).max() + 1e-6


def test_what_iteration_leaves_is_counted_within_the_constraints() -> None:
    """Q (d - d0) = B'alpha - residual + C'multipliers, at a loose solution too."""
    made = case(2, ("besag",), "point")
    q, (rows, _) = conditioned(made, 0), ties(made.linear)
    off = 1e-3 * np.random.default_rng(0).normal(size=made.linear.size)
    q.delta = q.delta + off - np.linalg.pinv(rows) @ (rows @ off)
    engine, left = q.engine, q.leftover
    assert left is not None
    gap = engine.prior.times(left.delta) - engine.own.rmatvec(q.alpha) + left.residual
    assert np.allclose(rows @ left.delta, 0.0, atol=1e-8)
    multipliers, *_ = np.linalg.lstsq(rows.T, gap, rcond=None)
    assert np.allclose(rows.T @ multipliers, gap, atol=1e-7 * (1.0 + np.abs(gap).max()))
    assert np.linalg.norm(left.residual) > 1e-6


def test_what_the_constraint_takes_is_given_back_to_the_neighbours_first() -> None:
    """A long walk with little data: the samples' part lacks the level that the constraint ties."""
    walk = PriorBlock("w", (structure("rw1", 60, sd=np.asarray(1.0)),), np.zeros(60))
    linear = LinearGaussian((walk,), (Predictor({"w": Identity(60)}, np.zeros(60)),))
    weight, shift = (np.full(60, 1e-3),), (np.ones(60),)
    q = IterativeEngine(linear, samples=400).condition(weight, shift)
    truth = by_subspace(linear, weight, shift)
    assert isinstance(q, IterativeConditioned) and truth is not None
    off = q.variance[0] / truth.covariance.diagonal() - 1.0
    assert abs(off.mean()) < 0.1
    assert np.abs(off).max() < 0.3


@pytest.mark.parametrize("variances", ["samples", "lanczos"])
@pytest.mark.parametrize("steps", [3, 40])
def test_what_constraints_hold_fixed_has_no_variance(
    variances: Literal["samples", "lanczos"], steps: int
) -> None:
    """Entries, sums and combinations of constraints; what is nearly one of them keeps its own."""
    size = 30
    rng = np.random.default_rng(0)
    ties = np.zeros((3, size))
    ties[0, 4] = 1.0
    ties[1, 6:9] = 1.0
    ties[2] = ties[0] - 2.0 * ties[1]
    ties[2, 20] = 1.0
    unit = np.eye(size)
    rows = np.vstack([ties, ties[0] + 3.0 * ties[1], ties[0] + 1e-3 * unit[11], unit[6]])
    linear = LinearGaussian(
        (PriorBlock("w", (Normal(size, 0.0, 2.0),), np.zeros(size)),),
        (
            Predictor({"w": Identity(size)}, np.zeros(size)),
            Predictor({"w": Dense(rows)}, np.zeros(len(rows))),
        ),
        Constraints({"w": Dense(ties)}, np.zeros(3)),
    )
    weight = (rng.uniform(0.2, 2.0, size), np.zeros(len(rows)))
    shift = (rng.normal(size=size), np.zeros(len(rows)))
    engine = IterativeEngine(linear, seed=0, variances=variances, steps=steps)
    q = engine.condition(weight, shift)
    truth = by_subspace(linear, weight, shift)
    assert isinstance(q, IterativeConditioned) and truth is not None
    exact = np.einsum("ij,jk,ik->i", rows, truth.covariance, rows)
    fixed = [True, True, True, True, False, False]
    assert (q.variance[1] == 0.0).tolist() == fixed
    assert (q.variance_error[1][:4] == 0.0).all() and (exact[:4] < 1e-12).all()
    assert q.latent_variance[4] == 0.0 and q.latent_variance[6] != 0.0
    error = q.variance_error[1][4:] + 1e-9
    above = q.variance[1][4:] - exact[4:]
    assert (above < 4.0 * error + 1e-6 * exact[4:]).all() and (q.latent_variance >= 0.0).all()
    if variances == "samples":  # Lanczos's are below
        assert (above > -4.0 * error - 1e-6 * exact[4:]).all()
    mean, variance = q.project(Predictor({"w": Dense(rows)}, np.zeros(len(rows))))
    assert (variance == 0.0).tolist() == fixed and np.allclose(mean[:4], 0.0, atol=1e-9)
