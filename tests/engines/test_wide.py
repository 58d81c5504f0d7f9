"""The wide engine against brute force and the covariance engine; learned covariances against dense
algebra; which models it takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import lgmdsl as lgm
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.choose import choose
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.grouped.wide import WideEngine
from lgmdsl.engines.shared.prior import covariance_adjoints
from lgmdsl.operators.explicit import Dense, Sparse
from lgmdsl.structures.catalogue import structure
from lgmdsl.structures.independent import Dense as DenseCovariance
from lgmdsl.structures.independent import Normal
from lgmdsl.testing.engine_checks import (
    check_answers,
    check_distances,
    check_draws,
    check_offset_adjoint,
    conditioned,
    tilted,
)
from lgmdsl.testing.engine_models import Case

N, D = 5, 7


def _case(seed: int, entries: int = 1, signed: bool = False, singular: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(D, 4 if singular else D))
    factors = (structure("iid", N), DenseCovariance(root @ root.T))
    block = PriorBlock("z", factors, rng.normal(size=N * D))
    predictors, weight, shift = [], [], []
    for rows in (9, 6):
        group = rng.integers(N, size=rows)
        at = np.array([g * D + rng.permutation(D)[:entries] for g in group])
        line = np.repeat(np.arange(rows), entries)
        value = rng.normal(size=at.size) if entries > 1 else np.ones(rows)
        b = sp.csr_array((value, (line, at.reshape(-1))), shape=(rows, N * D))
        predictors.append(Predictor({"z": Sparse(b)}, rng.normal(size=rows)))
        weight.append(np.exp(rng.normal(size=rows)))
        weight[-1][:2] = 0.0, -0.005 if signed else 0.3
        shift.append(rng.normal(size=rows))
    linear = LinearGaussian((block,), tuple(predictors))
    name = f"{seed} entries {entries} signed {signed} singular {singular}"
    return Case(name, linear, tuple(weight), tuple(shift))


CASES = [_case(0), _case(1, entries=3), _case(2, signed=True), _case(3, 2, True, True)]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_conformance(case: Case) -> None:
    assert not WideEngine.refuses(case.linear)
    check_answers(WideEngine, case)
    check_distances(WideEngine, case)
    own, other = conditioned(WideEngine, case), conditioned(CovarianceEngine, case)
    slope = np.random.default_rng(0).normal(size=N * D)
    b = sp.vstack([p.columns["z"].sparse() for p in case.linear.predictors])
    for g in (slope, np.asarray(b.T @ slope[: b.shape[0]])):
        assert own.squared_length(g) == pytest.approx(g @ own.solve(g), rel=1e-9)
    for tilt in (None, tilted(case)):
        check_offset_adjoint(WideEngine, case, tilt=tilt)
        found, wanted = own.adjoints(tilt), other.adjoints(tilt)
        np.testing.assert_allclose(found.mean["z"], wanted.mean["z"], atol=1e-9)
        by_factor = covariance_adjoints(case.linear.blocks[0], wanted.covariance["z"])
        np.testing.assert_allclose(np.asarray(found.factors["z"][1]), by_factor[1], atol=1e-9)
        for k in range(2):
            a, c = found.operator[k]["z"], wanted.operator[k]["z"]
            np.testing.assert_allclose(a.toarray(), c.toarray(), atol=1e-9)  # type: ignore[attr-defined]


@pytest.mark.parametrize("sd", [1e-2, 1e-4, 1e-6])
def test_noise_that_is_small_beside_the_covariance(sd: float) -> None:
    """What q says, by (S + sd^2 I)^-1 of each vector, whose condition is that of S: weights of 1e12
    take no digits. As b - W E[s] and S - S C S they took all: a covariance and its noise sd were
    sought along slopes of rounding."""
    rng, s = np.random.default_rng(4), np.asarray(_case(0).linear.blocks[0].factors[1].covariance())
    at = np.array([g * D + j for g in range(N) for j in rng.permutation(D)[:3]])
    b = np.eye(N * D)[at]
    block = PriorBlock("z", (structure("iid", N), DenseCovariance(s)), rng.normal(size=N * D))
    predictor = Predictor({"z": Sparse(sp.csr_array(b))}, rng.normal(size=len(b)))
    y, weight = rng.normal(size=len(b)), np.full(len(b), sd**-2)
    q = WideEngine(LinearGaussian((block,), (predictor,))).condition((weight,), (y * weight,))
    assert not isinstance(q, Failed)
    k = b @ np.kron(np.eye(N), s) @ b.T
    inverse = np.linalg.inv(k + sd**2 * np.eye(len(k)))
    alpha = inverse @ (y - predictor.offset - b @ block.mean)
    np.testing.assert_allclose(q.adjoints().offset[0], alpha, atol=1e-9 * np.abs(alpha).max())
    np.testing.assert_allclose(q.variance[0], sd**2 - sd**4 * np.diag(inverse), rtol=1e-9)
    inner = (b.T @ (np.outer(alpha, alpha) - inverse) @ b).reshape(N, D, N, D)
    wanted = 0.5 * np.einsum("nanb->ab", inner)
    found = np.asarray(q.adjoints().factors["z"][1])
    np.testing.assert_allclose(found, wanted, atol=1e-8 * np.abs(wanted).max())
    half = 0.5 * np.linalg.slogdet(np.eye(len(k)) + k / sd**2)[1]
    assert q.centred == pytest.approx(-0.5 * alpha @ k @ alpha - half, rel=1e-9)


def test_draws() -> None:
    check_draws(WideEngine, CASES[1])


def test_an_indefinite_vector_is_a_failure() -> None:
    case = CASES[0]
    weight = case.weight[0].copy()
    weight[3] = -50.0
    failed = WideEngine(case.linear).condition((weight, case.weight[1]), case.shift)
    assert isinstance(failed, Failed) and "not positive definite" in failed.reason


@pytest.mark.parametrize("what", ["joined", "plain", "vector", "dense", "empty"])
def test_what_it_refuses(what: str) -> None:
    linear = CASES[0].linear
    first = linear.predictors[0]
    if what == "joined":
        row = np.zeros((1, N * D))
        row[0, [0, D]] = 1.0
        first = Predictor({"z": Sparse(sp.csr_array(row))}, np.zeros(1))
    elif what == "empty":
        first = Predictor({"z": Sparse(sp.csr_array((1, N * D)))}, np.zeros(1))
    elif what == "vector":
        first = replace(first, event=3)
    elif what == "dense":
        first = Predictor({"z": Dense(np.ones((1, N * D)))}, np.zeros(1))
    blocks = linear.blocks
    if what == "plain":
        blocks = (PriorBlock("z", (Normal(N * D, 0.0, 1.0),), np.zeros(N * D)),)
    assert WideEngine.refuses(LinearGaussian(blocks, (first,)))


TEXT = """lgm 1
index row
index column
index seen
data who[seen] : row
data what[seen] : column
data y[seen] : real
hyper S[column, column] : covariance ~ flat
latent z[row, column] ~ iid * dense(cov = S)
let eta[seen] = z[who, what]
observe y ~ normal(mean = eta, sd = 0.7)
"""


def sparse_table(rows: int, columns: int, each: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(8)
    what = np.argsort(rng.random((rows, columns)), axis=1)[:, :each].reshape(-1)
    loads = rng.normal(size=(columns, 3)) / np.sqrt(3.0)
    factors = np.repeat(rng.normal(size=(rows, 3)), each, axis=0)
    y = np.einsum("sk,sk->s", factors, loads[what]) + 0.7 * rng.normal(size=rows * each)
    return {
        "who": np.repeat(np.arange(rows), each), "what": what, "y": y,
        "row": np.arange(rows), "column": np.arange(columns),
    }  # fmt: skip


def test_a_step_for_wide_data_is_that_of_dense_algebra() -> None:
    """Khan 2012, section 6.4.4: S - S mean(C_n - alpha alpha') S, against E[zz'] of every row."""
    data, s = sparse_table(60, 30, 4), 0.5 * np.eye(30) + 0.3
    fit = lgm.fit(lgm.loads(TEXT), data, fixed={"S": s})
    total, evidence = np.zeros((30, 30)), 0.0
    for n in range(60):
        has, y = data["what"][4 * n : 4 * n + 4], data["y"][4 * n : 4 * n + 4]
        own = s[np.ix_(has, has)] + 0.49 * np.eye(4)
        mean = s[:, has] @ np.linalg.solve(own, y)
        total += np.outer(mean, mean) + s - s[:, has] @ np.linalg.solve(own, s[has])
        evidence -= 0.5 * (y @ np.linalg.solve(own, y) + np.linalg.slogdet(2 * np.pi * own)[1])
    assert fit.log_evidence == pytest.approx(evidence, rel=1e-10)
    engine, why = choose(fit.canonical.linear(fit.theta))
    assert isinstance(engine, WideEngine), why
    q = engine.condition(fit.weight, fit.shift)
    assert not isinstance(q, Failed)
    slope = q.adjoints().factors["z"][1]
    assert slope is not None
    found = s + 2.0 / 60 * s @ slope @ s
    np.testing.assert_allclose(found, total / 60, atol=1e-10)


def test_functionals_across_vectors() -> None:
    """A row may reach into several vectors, each of which adds to its variance."""
    case = CASES[1]
    q, rng = conditioned(WideEngine, case), np.random.default_rng(5)
    functional = Predictor({"z": Dense(rng.normal(size=(4, N * D)))}, np.ones(4))
    mean, variance = q.project(functional)
    whole, covariance = q.project(functional, full=True)
    np.testing.assert_allclose(mean, whole)
    np.testing.assert_allclose(variance, covariance.diagonal(), rtol=1e-10)


def test_rows_of_many_entries_are_refused() -> None:
    """Products of all pairs of entries are made: eight at most."""
    block = PriorBlock("z", (structure("iid", 4), DenseCovariance(np.eye(9))), np.zeros(36))
    for entries, refused in ((8, False), (9, True)):
        rows = sp.csr_array(np.kron(np.eye(4), np.r_[np.ones(entries), np.zeros(9 - entries)]))
        linear = LinearGaussian((block,), (Predictor({"z": Sparse(rows)}, np.zeros(4)),))
        assert bool(WideEngine.refuses(linear)) == refused
