"""Intrinsic and constrained models: every engine against dense algebra on the subspace."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.contract.engine import Failed
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.testing.engine_models import Case, dense_rows

from .subspace import by_subspace, case, factors, ties

NAMES = tuple(factors(np.random.default_rng(0), 5))
PRODUCTS = (("besag", "ar1"), ("besag", "rw1"), ("rw1", "rw2"), ("iid", "besag"), ("rw2", "ar1"),
            ("besag", "iid", "rw1 cyclic"), ("rw2 cyclic", "besag"), ("car", "ou"),
            ("besag", "dense"))  # fmt: skip
Kind = type[SparseEngine] | type[PrecisionEngine] | type[CovarianceEngine]
ENGINES: tuple[Kind, ...] = (SparseEngine, PrecisionEngine, CovarianceEngine)


def check(engine: Kind, made: Case) -> bool:
    """Normaliser, moments, solves and draws; False where the engine refuses the model."""
    if engine.refuses(made.linear):
        return False
    q = engine(made.linear).condition(made.weight, made.shift)
    truth = by_subspace(made.linear, made.weight, made.shift)
    assert isinstance(q, Failed) == (truth is None), f"{engine.name}, {made.name}"
    if isinstance(q, Failed) or truth is None:
        return True
    scale = max(1.0, abs(truth.log_normaliser))
    assert abs(q.log_normaliser - truth.log_normaliser) < 1e-8 * scale, made.name
    sd = np.sqrt(truth.covariance.diagonal()) + 1e-6
    assert np.abs((q.latent_mean - truth.mean) / sd).max() < 1e-7, made.name
    np.testing.assert_allclose(q.latent_variance, truth.covariance.diagonal(), rtol=1e-7, atol=1e-9)
    b, _ = dense_rows(made.linear)
    variance = np.einsum("ij,jk,ik->i", b, truth.covariance, b)
    np.testing.assert_allclose(q.variance[0], variance, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        q.project(made.linear.predictors[0])[1], variance, rtol=1e-7, atol=1e-9
    )
    rhs = np.random.default_rng(1).normal(size=made.linear.size)
    np.testing.assert_allclose(q.solve(rhs), truth.covariance @ rhs, atol=1e-7 * sd.max() ** 2)
    rows, values = ties(made.linear)
    z = q.sample(np.random.default_rng(2), 4)
    # 1e-13 was measured for sparse and precision. Where a tie repeats what a prior says already,
    # the covariance has an eigenvalue of rounding there, whose root is drawn: sqrt(1e-16) in units
    # of the terms (5e-8 was measured, where their absolute values sum to 24).
    size = np.maximum(np.abs(z) @ np.abs(rows).T, 1.0)
    close = 1e-7 if engine is CovarianceEngine else 1e-11
    np.testing.assert_allclose(z @ rows.T / size, np.tile(values, (4, 1)) / size, atol=close)
    return True


@pytest.mark.few(7)
@pytest.mark.parametrize("names", [(n,) for n in NAMES] + list(PRODUCTS), ids=" * ".join)
def test_engines_against_dense_algebra(names: tuple[str, ...]) -> None:
    for seed, tie in enumerate(("", "sum", "point", "effects")):
        made = case(seed, names, tie)
        assert check(SparseEngine, made)
        for engine in ENGINES[1:]:
            check(engine, made)
        check(SparseEngine, case(seed + 10, names, tie, signed=True))


@pytest.mark.parametrize("names", [("besag", "ar1"), ("rw2",)], ids=" * ".join)
def test_draws_on_the_subspace(names: tuple[str, ...]) -> None:
    """Moments by Monte Carlo, within 5.5 standard errors; exact sums."""
    made = case(4, names, "point")
    q = SparseEngine(made.linear).condition(made.weight, made.shift)
    truth = by_subspace(made.linear, made.weight, made.shift)
    assert not isinstance(q, Failed) and truth is not None
    size = 20_000
    z = q.sample(np.random.default_rng(0), size)
    variance = truth.covariance.diagonal()
    sd = np.sqrt(np.maximum(variance, 0.0)) + 1e-9
    assert np.abs((z.mean(axis=0) - truth.mean) / sd).max() < 5.5 / np.sqrt(size)
    found = np.cov(z.T)
    spread = np.sqrt(np.outer(variance, variance) + truth.covariance**2) + 1e-12
    assert np.abs((found - truth.covariance) / spread).max() < 5.5 / np.sqrt(size)
