"""The batched engine against brute force, and which models it takes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.contract.engine import Failed
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.choose import choose
from lgmdsl.engines.grouped.batched import BatchedEngine
from lgmdsl.engines.shared.prior import precision_adjoints
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.operators.explicit import Dense, Sparse
from lgmdsl.structures.catalogue import structure
from lgmdsl.structures.independent import Normal
from lgmdsl.testing.engine_checks import (
    check_answers,
    check_draws,
    check_engine,
    conditioned,
    tilted,
)
from lgmdsl.testing.engine_models import Case

PERSONS = 18


def _case(seed: int, missing: bool = False, vector: bool = False, chain: bool = False) -> Case:
    """Factors of persons, with a second block of one latent (or a chain of three) for each."""
    rng = np.random.default_rng(seed)
    mean, sd = rng.normal(size=2 * PERSONS), np.exp(0.3 * rng.normal(size=2 * PERSONS))
    blocks = [PriorBlock("z", (Normal(2 * PERSONS, mean, sd),), mean)]
    own = 3 if chain else 1
    size = own * PERSONS
    if chain:
        pair = (structure("iid", PERSONS), structure("ar1", 3, sd=1.2, rho=0.5))
        blocks.append(PriorBlock("u", pair, np.zeros(size)))
    else:
        blocks.append(PriorBlock("u", (Normal(size, 0.0, 0.8),), np.zeros(size)))
    predictors, weight, shift = [], [], []
    for event in (0, 3) if vector else (0,):
        person = np.repeat(np.arange(PERSONS), 3)
        if missing and not event:
            person = rng.permutation(person[rng.random(len(person)) < 0.7])
        rows = len(person)
        line = np.repeat(np.arange(rows), 2)
        at = (2 * person[:, None] + np.arange(2)).reshape(-1)
        z = sp.csr_array((rng.normal(size=2 * rows), (line, at)), shape=(rows, 2 * PERSONS))
        place = own * person + rng.integers(own, size=rows)
        u = sp.csr_array((rng.normal(size=rows), (np.arange(rows), place)), shape=(rows, size))
        columns = {"z": Sparse(z), "u": Sparse(u)}
        predictors.append(Predictor(columns, rng.normal(size=rows), event))
        if event:
            root = rng.normal(size=(rows // 3, 3, 3))
            weight.append(root @ root.transpose(0, 2, 1))
            shift.append(rng.normal(size=(rows // 3, 3)))
        else:
            weight.append(np.exp(rng.normal(size=rows)))
            weight[-1][:2] = 0.0, -0.02
            shift.append(rng.normal(size=rows))
    linear = LinearGaussian(tuple(blocks), tuple(predictors))
    name = f"{seed} missing {missing} vector {vector} chain {chain}"
    return Case(name, linear, tuple(weight), tuple(shift))


CASES = [_case(0), _case(1, missing=True), _case(2, vector=True), _case(3, True, True)]


def test_conformance() -> None:
    assert check_engine(BatchedEngine, CASES) == len(CASES)


def test_chains_are_as_by_the_sparse_engine() -> None:
    """Priors that are not diagonal, whose adjoints the checks leave out."""
    case = _case(6, True, True, chain=True)
    tilt = tilted(case)
    for given in (None, tilt):
        found = conditioned(BatchedEngine, case).adjoints(given)
        wanted = conditioned(SparseEngine, case).adjoints(given)
        own, other = found.precision["z"], wanted.precision["z"]
        np.testing.assert_allclose(own.toarray(), other.toarray(), atol=1e-9)
        block = case.linear.blocks[1]
        by_precision = precision_adjoints(block, wanted.precision["u"])[1]
        slopes, first = block.factors[1].pullback_precision(by_precision), found.factors["u"]
        assert first[0] is None and first[1] is not None
        for argument, slope in block.factors[1].pullback_covariance(first[1]).items():
            np.testing.assert_allclose(slope, slopes[argument], rtol=1e-9)
        for name in ("z", "u"):
            np.testing.assert_allclose(found.mean[name], wanted.mean[name], atol=1e-9)
    check_answers(BatchedEngine, case)


def test_draws() -> None:
    check_draws(BatchedEngine, _case(4, True, True))


def test_functionals_across_groups() -> None:
    case = CASES[1]
    q = BatchedEngine(case.linear).condition(case.weight, case.shift)
    assert not isinstance(q, Failed)
    rng = np.random.default_rng(5)
    columns = {b.name: Dense(rng.normal(size=(4, b.size))) for b in case.linear.blocks}
    mean, variance = q.project(Predictor(columns, np.ones(4)))
    whole, covariance = q.project(Predictor(columns, np.ones(4)), full=True)
    np.testing.assert_allclose(mean, whole)
    np.testing.assert_allclose(variance, covariance.diagonal(), rtol=1e-10)


def test_an_indefinite_group_is_a_failure() -> None:
    case = CASES[0]
    weight = case.weight[0].copy()
    weight[7] = -50.0
    failed = BatchedEngine(case.linear).condition((weight,), case.shift)
    assert isinstance(failed, Failed) and "not positive definite" in failed.reason


@pytest.mark.parametrize("what", ["joined", "few", "tied", "dense"])
def test_what_it_refuses(what: str) -> None:
    linear = CASES[0].linear
    predictor = linear.predictors[0]
    constraints = None
    if what == "tied":
        constraints = Constraints({"u": Dense(np.ones((1, PERSONS)))}, np.zeros(1))
    elif what == "joined":
        along = sp.csr_array(np.eye(1, 2 * PERSONS) + np.eye(1, 2 * PERSONS, k=5))
        predictor = Predictor({"z": Sparse(along)}, np.zeros(1))
        rest = Predictor({"z": Sparse(sp.csr_array(np.ones((1, 2 * PERSONS))))}, np.zeros(1))
        linear = LinearGaussian(linear.blocks, (predictor, rest))
    elif what == "few":
        small = PriorBlock("z", (Normal(6, 0.0, 1.0),), np.zeros(6))
        eye = Predictor({"z": Sparse(sp.csr_array(np.eye(6)))}, np.zeros(6))
        linear = LinearGaussian((small,), (eye,))
    else:
        wide = PriorBlock("z", (Normal(80, 0.0, 1.0),), np.zeros(80))
        rows = Predictor({"z": Dense(np.ones((3, 80)))}, np.zeros(3))
        linear = LinearGaussian((wide,), (rows,))
    assert BatchedEngine.refuses(LinearGaussian(linear.blocks, linear.predictors, constraints))


def test_it_is_chosen_for_many_persons() -> None:
    size = 3000
    block = PriorBlock("z", (Normal(2 * size, 0.0, 1.0),), np.zeros(2 * size))
    line = np.repeat(np.arange(4 * size), 2)
    at = (2 * np.repeat(np.arange(size), 4)[:, None] + np.arange(2)).reshape(-1)
    b = sp.csr_array((np.ones(len(at)), (line, at)), shape=(4 * size, 2 * size))
    linear = LinearGaussian((block,), (Predictor({"z": Sparse(b)}, np.zeros(4 * size)),))
    engine, why = choose(linear)
    assert engine is not None and engine.name == "batched"
    assert why.startswith("batched engine for 12000 predictor rows and 6000 latents")
