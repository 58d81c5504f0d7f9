"""Marginals kept by rank-one updates against conditioning from scratch with the same widths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lgmdsl.acquisition.candidates import Chunk, Here, PoolMarginals
from lgmdsl.acquisition.pool import Pool, row
from lgmdsl.acquisition.scores import include, probability
from lgmdsl.contract.engine import Conditioned, Engine, Failed
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Sparse
from lgmdsl.sites.scalar.logistic import BernoulliLogit
from tests.acquisition.pools import small

ORDER = (3, 0, 7, 5)
CASES = [
    ("gaussian", PrecisionEngine), ("gaussian", CovarianceEngine), ("gaussian", SparseEngine),
    ("laplace", PrecisionEngine), ("mixed", PrecisionEngine), ("mixed", CovarianceEngine),
    ("constrained", PrecisionEngine), ("gp", CovarianceEngine),
]  # fmt: skip


def begun(name: str, engine: type[Any]) -> tuple[Pool, PoolMarginals, np.ndarray]:
    made = small(name)
    fit = made.fit()
    pool = made.pool(fit)
    q = engine(pool.linear).condition(fit.weight, fit.shift)
    assert not isinstance(q, Failed)
    return pool, followed(pool, q), made.oracle["y"]


def followed(pool: Pool, q: Conditioned) -> PoolMarginals:
    chosen = np.zeros(pool.candidates.rows, dtype=bool)
    return PoolMarginals(pool, q, pool.linear, Here(pool, q, pool.linear, chosen))


def only(kept: PoolMarginals) -> Chunk:
    assert isinstance(kept.candidates, Here)
    (chunk,) = kept.candidates.chunks
    return chunk


def from_scratch(
    pool: Pool, kept: PoolMarginals, engine: type[Engine], y: np.ndarray
) -> Conditioned:
    problem = pool.with_cases(ORDER, [float(y[i]) for i in ORDER])
    made: Any = engine
    q = made(problem.engine.linear).condition(tuple(kept.weight), tuple(kept.shift))
    assert isinstance(q, Conditioned)
    return q


@pytest.mark.few(7)
@pytest.mark.parametrize(("name", "engine"), CASES)
def test_updates_are_those_of_a_refit(name: str, engine: type[Any]) -> None:
    pool, kept, y = begun(name, engine)
    start = kept.conditioned.log_normaliser
    for i in ORDER:
        kept.join(i, float(y[i]))
    q = from_scratch(pool, kept, engine, y)
    for ours, theirs in ((kept.mean, q.mean), (kept.variance, q.variance)):
        for a, b in zip(ours, theirs, strict=True):
            assert np.allclose(a, b, rtol=1e-8, atol=1e-10)
    mean, variance = q.project(pool.candidates)
    assert np.allclose(only(kept).mean, mean, rtol=1e-8, atol=1e-10)
    assert np.allclose(only(kept).variance, variance, rtol=1e-8, atol=1e-10)
    assert np.allclose(kept.latent_mean, q.latent_mean, rtol=1e-8, atol=1e-10)
    b = row(pool.candidates, 9, pool.linear)
    assert np.allclose(kept.solve(b), q.solve(b), rtol=1e-8, atol=1e-10)
    assert (
        np.isfinite(start) and not only(kept).open[list(ORDER)].any() and only(kept).open.sum() == 8
    )


@pytest.mark.parametrize("name", ["gaussian", "laplace", "mixed"])
def test_log_determinant_and_bound_against_dense_algebra(name: str) -> None:
    """|A'| / |A| by numpy; and log_normaliser by the gains that `include` tells."""
    pool, kept, y = begun(name, PrecisionEngine)
    rows = np.vstack(
        [np.array([row(p, k, pool.linear) for k in range(p.rows)]) for p in pool.linear.predictors]
    )
    prior = PrecisionEngine(pool.linear).precision
    before = prior + rows.T @ (np.concatenate(kept.weight)[:, None] * rows)
    height = gained = 0.0
    for i in ORDER:
        _, mean, variance = kept.marginal(i)
        found = include(BernoulliLogit(y[[i]]), np.array([mean]), np.array([variance]))
        gained += float(found.gain[0])
        x = found.variance + found.mean**2
        height += float((-x * found.weight - 2.0 * BernoulliLogit(y[[i]]).g(x)[0])[0])
        kept.join(i, float(y[i]))
    new = np.array([row(pool.candidates, i, pool.linear) for i in ORDER])
    after = before + new.T @ (kept.weight[pool.response][-4:, None] * new)
    change = np.linalg.slogdet(after)[1] - np.linalg.slogdet(before)[1]
    assert kept.log_det == pytest.approx(change, rel=1e-8)
    q = from_scratch(pool, kept, PrecisionEngine, y)
    moved = q.log_normaliser - kept.conditioned.log_normaliser - 0.5 * height
    assert moved == pytest.approx(gained, rel=1e-8)


def test_without_a_label_the_mean_stays_and_the_expected_weight_counts() -> None:
    pool, kept, _ = begun("gaussian", PrecisionEngine)
    d, mean, variance = kept.marginal(4)
    p = float(probability(pool.make, np.array([mean]), np.array([variance]))[0])
    before = only(kept).mean.copy(), only(kept).variance.copy()
    yes, no = (
        include(BernoulliLogit(np.array([v])), np.array([mean]), np.array([variance]))
        for v in (1.0, 0.0)
    )
    weight = float((p * yes.weight + (1 - p) * no.weight)[0])
    assert kept.join(4, None) == pytest.approx(p, rel=1e-12)
    w = np.array([row(pool.candidates, k, pool.linear) @ d for k in range(12)])
    assert np.array_equal(only(kept).mean, before[0])
    want = before[1] - w * w / (variance + 1.0 / weight)
    assert np.allclose(only(kept).variance, want, rtol=1e-12)
    assert len(kept.weight[pool.response]) == 25 and not only(kept).open[4]


class Underestimated(Conditioned):
    """A posterior whose variances are estimates: a share of the exact ones."""

    def __init__(self, exact: Conditioned, share: float) -> None:
        self.exact, self.share = exact, share

    def __getattribute__(self, name: str) -> Any:
        get = object.__getattribute__
        if name in ("exact", "share", "__class__"):
            return get(self, name)
        exact, share = get(self, "exact"), get(self, "share")
        if name == "variance":
            return tuple(share * v for v in exact.variance)
        if name == "project":
            return lambda p: (lambda m, v: (m, share * v))(*exact.project(p))
        return getattr(exact, name)


Underestimated.__abstractmethods__ = frozenset()


def test_negative_variances_leave_or_are_solved_for() -> None:
    pool, exact, y = begun("gaussian", PrecisionEngine)
    estimated: Any = Underestimated
    q = estimated(exact.conditioned, 0.05)
    kept = followed(pool, q)
    for i in ORDER:
        kept.join(i, float(y[i]))
        exact.join(i, float(y[i]))
    # The chosen cases themselves enter by a solve, so their widths are those of exact variances.
    assert np.allclose(kept.weight[0], exact.weight[0], rtol=1e-10)
    below = only(kept).variance < 0.0
    assert below.any() and not only(kept).open[below].any()
    lost = [np.flatnonzero(v < 0.0) for v in kept.variance]
    assert sum(map(len, lost)) > 0 and kept.repair() == sum(map(len, lost))
    for where, ours, theirs in zip(lost, kept.variance, exact.variance, strict=True):
        assert np.allclose(ours[where], theirs[where], rtol=1e-10) and (ours >= 0.0).all()


class Unlisted(Operator):
    """An operator that has products only."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape[0], self.array.shape[1]

    def matvec(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.array @ x)

    def rmatvec(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(self.array.T @ y)

    def dense(self) -> np.ndarray:
        raise AssertionError("the candidates are never made dense")


@pytest.mark.parametrize("kind", ["sparse", "unlisted"])
def test_candidates_of_any_operator(kind: str) -> None:
    import scipy.sparse as sp

    pool, _, y = begun("gaussian", PrecisionEngine)
    columns = {
        n: Sparse(sp.csr_array(o.dense())) if kind == "sparse" else Unlisted(o.dense())
        for n, o in pool.candidates.columns.items()
    }
    other = replace(pool, candidates=replace(pool.candidates, columns=columns))
    labels = [float(y[i]) for i in ORDER]
    ours = other.with_cases(ORDER, labels).engine.linear.predictors[0]
    theirs = pool.with_cases(ORDER, labels).engine.linear.predictors[0]
    assert isinstance(ours.columns["w"], Dense)
    assert np.array_equal(ours.columns["w"].dense(), theirs.columns["w"].dense())
    assert np.array_equal(
        row(other.candidates, 2, pool.linear), row(pool.candidates, 2, pool.linear)
    )
