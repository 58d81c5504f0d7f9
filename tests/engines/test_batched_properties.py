"""Batched against the other engines with K x K blocks; its memory and calls by size; ragged data;
the covariance that all groups share."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Engine, Failed
from lgmdsl.engines.choose import choose
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.grouped.batched import BatchedEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import plan
from tests.compiled import canonical_form
from tests.engines.test_batched import _case

FACTORS = """lgm 1
index person
index item
index factor = 2
index class = {"a", "b", "c"}
data y[person, item] : binary?
data k[person] : class?
hyper L[item, factor] : real = 1
hyper M[class, factor] : real = 1
latent z[person, factor] ~ normal(sd = 1)
let eta[person, item] = L @ z
let w[person, class] = M @ z
observe y ~ bernoulli(logit = eta)
observe k ~ categorical(softmax = w)
"""


@given(st.integers(0, 2**20), st.booleans(), st.booleans())
@settings(max_examples=6, deadline=None)
def test_engines_agree_with_blocks(seed: int, missing: bool, chain: bool) -> None:
    case = _case(seed, missing, vector=True, chain=chain)
    made: dict[str, Conditioned] = {}
    for engine in (BatchedEngine, CovarianceEngine, PrecisionEngine, SparseEngine):
        found = engine(case.linear).condition(case.weight, case.shift)
        assert not isinstance(found, Failed)
        made[engine.name] = found
    known = made["precision"]
    for name, found in made.items():
        assert found.log_normaliser == pytest.approx(known.log_normaliser, rel=1e-9), name
        np.testing.assert_allclose(found.latent_mean, known.latent_mean, atol=1e-8, err_msg=name)
        np.testing.assert_allclose(found.latent_variance, known.latent_variance, rtol=1e-8)
        for a, b in zip(found.variance, known.variance, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, atol=1e-8, err_msg=name)


def people(n: int, seed: int = 0, gaps: float = 0.0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, (n, 5)).astype(float)
    k = np.array(["a", "b", "c"])[rng.integers(0, 3, n)]
    y[rng.random((n, 5)) < gaps] = np.nan
    k[rng.random(n) < gaps] = ""
    return {"y": y, "k": k}


def loadings(seed: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {"L": rng.normal(size=(5, 2)), "M": rng.normal(size=(3, 2))}


def solved(given: dict[str, Any], bound: str, engine: type[Engine]) -> float:
    canonical = canonical_form(FACTORS, given)
    theta = canonical.hypers.theta(loadings())
    made = plan(canonical, "natural-gradient", bound)
    conditioning = cast(Any, engine)(canonical.linear(theta))
    done = run(made.backend, made.at(theta, conditioning), Tolerances(1e-11, 1e-7))
    assert done.posterior is not None
    return done.posterior.log_evidence


@pytest.mark.parametrize("bound", ["bohning", "quadrature"])
def test_ragged_people_stay_batched(bound: str) -> None:
    """Half of the entries are missing, a few people have none at all."""
    given = people(40, gaps=0.5)
    given["y"][:3], given["k"][:3] = np.nan, ""
    canonical = canonical_form(FACTORS, given)
    assert choose(canonical.linear(canonical.hypers.theta(loadings())))[0] is not None
    assert not BatchedEngine.refuses(canonical.linear(canonical.hypers.theta(loadings())))
    found = solved(given, bound, BatchedEngine)
    assert found == pytest.approx(solved(given, bound, SparseEngine), rel=1e-8)


def test_boehnings_covariance_is_factored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One matrix for all people, whatever the number of steps; the curvatures in the means, which
    differ between people, are others."""
    factored: list[int] = []
    plain = np.linalg.cholesky

    def counted(a: Array) -> Array:
        factored.append(len(a) if a.ndim == 3 else 0)
        return np.asarray(plain(a))

    given = people(64)
    known = solved(given, "bohning", SparseEngine)
    monkeypatch.setattr("lgmdsl.engines.grouped.batched.np.linalg.cholesky", counted)
    assert solved(given, "bohning", BatchedEngine) == pytest.approx(known, rel=1e-9)
    # One Newton step in the means has curvatures of their own; all else is one matrix at a time.
    assert factored.count(64) == 1 and set(factored) == {1, 64}
    canonical = canonical_form(FACTORS, given)
    engine = BatchedEngine(canonical.linear(canonical.hypers.theta(loadings())))
    assert engine.alike
    curve = 0.5 * (np.eye(3) - 1.0 / 3.0)
    weight = np.full(64 * 5, 0.25), np.tile(curve, (64, 1, 1))
    factored.clear()
    rng = np.random.default_rng(0)
    for _ in range(3):
        found = engine.condition(weight, (rng.normal(size=320), rng.normal(size=(64, 3))))
        assert not isinstance(found, Failed)
    assert factored == [1]
    ragged = canonical_form(FACTORS, people(64, gaps=0.3))
    assert not BatchedEngine(ragged.linear(ragged.hypers.theta(loadings()))).alike


def cost(n: int) -> tuple[int, int]:
    """Peak bytes of conditioning and moments, and the calls of functions that it takes."""
    canonical = canonical_form(FACTORS, people(n))
    theta = canonical.hypers.theta(loadings())
    engine = BatchedEngine(canonical.linear(theta))
    rng = np.random.default_rng(0)
    weight = (rng.random(n * 5) + 0.1, np.tile(np.eye(3), (n, 1, 1)) * rng.random((n, 1, 1)))
    shift = (rng.normal(size=n * 5), rng.normal(size=(n, 3)))

    def work() -> None:
        found = engine.condition(weight, shift)
        assert not isinstance(found, Failed)
        assert len(found.variance) == 2

    work()
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    work()
    sys.setprofile(None)
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, calls


def test_memory_is_linear_and_no_loop_is_over_people() -> None:
    small, large = cost(500), cost(4000)
    assert large[0] < 8 * 1.2 * small[0]
    assert large[1] <= small[1] + 20
