"""The batched engine under covariances that have no inverse, or nearly so, and under precisions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.choose import choose
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.grouped.batched import BatchedEngine
from lgmdsl.engines.grouped.batched_factor import Information
from lgmdsl.engines.grouped.batched_prior import joins, pattern
from lgmdsl.engines.shared.prior import BlockPrior, covariance_adjoints, precision_adjoints
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.errors import NumericalError
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Sparse
from lgmdsl.structures.catalogue import kernel, structure
from lgmdsl.structures.independent import Dense as Covariance
from lgmdsl.structures.independent import Normal
from lgmdsl.testing.engine_checks import (
    check_adjoints,
    check_answers,
    check_distances,
    check_draws,
    check_offset_adjoint,
    tilted,
)
from lgmdsl.testing.engine_models import Case, brute, dense_rows, dense_weight

GROUPS, SIZE = 17, 4


def covariance(rank: int, little: float, seed: int = 0) -> Array:
    """(4, 4) of a rank, plus `little` on the diagonal; sds from 0.1 to 10."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(SIZE, rank))
    sd = np.array([0.1, 1.0, 3.0, 10.0])
    return np.asarray(sd[:, None] * (root @ root.T + little * np.eye(SIZE)) * sd)


def case_of(
    s: Array,
    seed: int = 0,
    *,
    signed: bool = False,
    vector: bool = False,
    second: bool = True,
    weight: float = 1.0,
) -> Case:
    """Vectors of correlated latents seen through ragged rows, perhaps beside one more each."""
    rng = np.random.default_rng(seed)
    blocks = [PriorBlock("z", (structure("iid", GROUPS), Covariance(s)), np.zeros(GROUPS * SIZE))]
    if second:
        mean = rng.normal(size=GROUPS)
        blocks.append(PriorBlock("u", (Normal(GROUPS, mean, 0.8),), mean))
    predictors, weights, shifts = [], [], []
    for event in (0, 3) if vector else (0,):
        group = np.repeat(np.arange(GROUPS), 3)
        if not event:
            group = rng.permutation(group[rng.random(len(group)) < 0.8])
        rows = len(group)
        line = np.repeat(np.arange(rows), 2)
        at = (SIZE * group[:, None] + rng.integers(SIZE, size=(rows, 2))).reshape(-1)
        z = sp.csr_array((rng.normal(size=2 * rows), (line, at)), shape=(rows, GROUPS * SIZE))
        columns: dict[str, Operator] = {"z": Sparse(z)}
        if second:
            u = sp.csr_array((rng.normal(size=rows), (np.arange(rows), group)))
            columns["u"] = Sparse(sp.csr_array((u.data, u.indices, u.indptr), (rows, GROUPS)))
        predictors.append(Predictor(columns, rng.normal(size=rows), event))
        if event:
            root = rng.normal(size=(rows // 3, 3, 3))
            weights.append(root @ root.transpose(0, 2, 1))
            shifts.append(rng.normal(size=(rows // 3, 3)))
        else:
            weights.append(weight * np.exp(rng.normal(size=rows)))
            weights[-1][0] = 0.0
            if signed:
                weights[-1][1:4] = -1e-4
            shifts.append(rng.normal(size=rows))
    linear = LinearGaussian(tuple(blocks), tuple(predictors))
    return Case(f"{seed} {signed} {vector}", linear, tuple(weights), tuple(shifts))


def conditioned(case: Case) -> Conditioned:
    found = BatchedEngine(case.linear).condition(case.weight, case.shift)
    assert not isinstance(found, Failed)
    return found


def slope_of(q: Conditioned, tilt: Rows | None = None, name: str = "z", at: int = 1) -> Array:
    """dF/dK_f of a factor."""
    found = q.adjoints(tilt).factors[name]
    assert found[0] is None
    slope = found[at]
    assert slope is not None
    return slope


def slope_by_hand(case: Case, name: str) -> Array:
    """(n_b, n_b) dF/dK = B'(alpha alpha' - C)B / 2 by dense algebra."""
    truth, (b, c) = brute(case.linear, case.weight, case.shift), dense_rows(case.linear)
    w = dense_weight(case.linear, case.weight)
    alpha = np.concatenate([np.reshape(s, -1) for s in case.shift]) - w @ (b @ truth.mean + c)
    inner = np.outer(alpha, alpha) - w + w @ b @ truth.covariance @ b.T @ w
    own = b[:, case.linear.slices[name]]
    return np.asarray(0.5 * own.T @ inner @ own)


@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize(("signed", "vector"), [(False, True), (True, False)])
def test_a_singular_covariance(rank: int, signed: bool, vector: bool) -> None:
    case = case_of(covariance(rank, 0.0), rank, signed=signed, vector=vector)
    check_answers(BatchedEngine, case)
    check_distances(BatchedEngine, case)
    for tilt in (None, tilted(case)):
        check_offset_adjoint(BatchedEngine, case, tilt=tilt)
        check_adjoints(BatchedEngine, case, tilt=tilt)
    found = slope_of(conditioned(case))
    wanted = covariance_adjoints(case.linear.blocks[0], slope_by_hand(case, "z"))[1]
    np.testing.assert_allclose(found, wanted, atol=1e-9 * np.abs(wanted).max())


def test_draws_under_a_singular_covariance() -> None:
    check_draws(BatchedEngine, case_of(covariance(2, 0.0), 5))


@given(st.integers(0, 2**20), st.integers(1, 4), st.floats(-16.0, 0.0), st.booleans())
@settings(max_examples=15, deadline=None)
def test_it_agrees_with_dense_algebra_however_near_singular(
    seed: int, rank: int, little: float, signed: bool
) -> None:
    """The engine over all rows and brute force, and the slope in S, at every condition."""
    s = covariance(rank, 10.0**little, seed)
    case = case_of(s, seed, signed=signed, vector=not signed)
    check_answers(BatchedEngine, case)
    tilt = tilted(case)
    other = CovarianceEngine(case.linear).condition(case.weight, case.shift)
    assert not isinstance(other, Failed)
    q = conditioned(case)
    assert q.log_normaliser == pytest.approx(other.log_normaliser, rel=1e-10, abs=1e-8)
    np.testing.assert_allclose(q.latent_mean, other.latent_mean, atol=1e-8)
    for given_tilt in (None, tilt):
        found, wanted = q.adjoints(given_tilt), other.adjoints(given_tilt)
        slopes = covariance_adjoints(case.linear.blocks[0], wanted.covariance["z"])[1]
        np.testing.assert_allclose(
            slope_of(q, given_tilt), slopes, rtol=0, atol=1e-8 * max(1.0, np.abs(slopes).max())
        )
        np.testing.assert_allclose(found.mean["z"], wanted.mean["z"], atol=1e-8)


@pytest.mark.parametrize("tilted_too", [False, True])
def test_the_slope_in_a_covariance_is_that_of_the_normaliser(tilted_too: bool) -> None:
    """By central differences, out of the range of a singular S too (where it can only grow)."""
    s = covariance(4, 1e-3)
    case = case_of(s, 9, vector=True)
    tilt = tilted(case) if tilted_too else None
    slope = slope_of(conditioned(case), tilt)
    rng = np.random.default_rng(1)
    turn = rng.normal(size=(SIZE, SIZE))
    turn = s @ (turn + turn.T) @ s / np.abs(s).max()

    def value(t: float) -> float:
        block = case.linear.blocks[0]
        moved = PriorBlock("z", (block.factors[0], Covariance(s + t * turn)), block.mean)
        linear = replace(case.linear, blocks=(moved, *case.linear.blocks[1:]))
        q = conditioned(replace(case, linear=linear))
        more: Rows = tilt or ()
        return q.log_normaliser + sum(
            float((a * m).sum()) for a, m in zip(more, q.mean, strict=False)
        )

    h = 1e-5
    assert float((slope * turn).sum()) == pytest.approx(
        (value(h) - value(-h)) / (2.0 * h), rel=1e-6
    )


def test_rows_that_outweigh_the_prior_lose_no_digits() -> None:
    """What an M-step is made of, S + 2/n S G S = E[zz'] / n, against conditioning each vector on
    what is seen of it, at weights of 1e12."""
    rng, s, weight = np.random.default_rng(3), covariance(4, 1.0), 1e12
    seen = np.flatnonzero(rng.random(GROUPS * SIZE) < 0.8)
    y, total = rng.normal(size=len(seen)), np.zeros((SIZE, SIZE))
    for group in range(GROUPS):
        own = seen // SIZE == group
        has = seen[own] % SIZE
        gain = s[:, has] @ np.linalg.inv(s[np.ix_(has, has)] + np.eye(len(has)) / weight)
        mean = gain @ y[own]
        total += np.outer(mean, mean) + s - gain @ s[has]
    block = PriorBlock("z", (structure("iid", GROUPS), Covariance(s)), np.zeros(GROUPS * SIZE))
    rows = sp.csr_array(sp.eye_array(GROUPS * SIZE, format="csr"))[seen]
    linear = LinearGaussian((block,), (Predictor({"z": Sparse(rows)}, np.zeros(len(seen))),))
    case = Case("outweighed", linear, (np.full(len(seen), weight),), (weight * y,))
    slope = slope_of(conditioned(case))
    np.testing.assert_allclose(GROUPS * s + 2.0 * s @ slope @ s, total, rtol=1e-9)


def test_gaussian_processes_of_persons_and_autoregressions_of_second_order() -> None:
    """A covariance alone, with duplicate inputs, beside a precision alone; in one group each."""
    rng = np.random.default_rng(2)
    at = np.array([0.0, 0.5, 0.5, 2.0])[:, None]
    gp = structure("gp", 4, at=at, kernel=kernel("se", sd=1.2, length=0.7))
    ar = structure("ar", 3, sd=0.9, pacf=np.array([0.4, -0.3]))
    blocks = (
        PriorBlock("g", (structure("iid", GROUPS), gp), np.zeros(4 * GROUPS)),
        PriorBlock("a", (structure("iid", GROUPS), ar), np.zeros(3 * GROUPS)),
    )
    group = np.repeat(np.arange(GROUPS), 5)
    rows = len(group)
    columns: dict[str, Operator] = {}
    for block, size in zip(blocks, (4, 3), strict=True):
        place = size * group + rng.integers(size, size=rows)
        b = sp.csr_array((rng.normal(size=rows), (np.arange(rows), place)), (rows, block.size))
        columns[block.name] = Sparse(b)
    linear = LinearGaussian(blocks, (Predictor(columns, rng.normal(size=rows)),))
    case = Case("gp and ar", linear, (np.exp(rng.normal(size=rows)),), (rng.normal(size=rows),))
    known = Covariance(np.linalg.inv(ar.precision().toarray()))
    both = (blocks[0], PriorBlock("a", (structure("iid", GROUPS), known), blocks[1].mean))
    dense = replace(case, linear=replace(linear, blocks=both))
    by_factor = covariance_adjoints(blocks[0], slope_by_hand(dense, "g"))[1]
    np.testing.assert_allclose(slope_of(conditioned(case), name="g"), by_factor, atol=1e-9)
    alone = LinearGaussian(blocks[1:], (Predictor({"a": columns["a"]}, np.zeros(rows)),))
    only = replace(case, linear=alone)
    own, other = conditioned(only), SparseEngine(alone).condition(case.weight, case.shift)
    assert not isinstance(other, Failed)
    assert own.log_normaliser == pytest.approx(other.log_normaliser, rel=1e-10)
    np.testing.assert_allclose(own.latent_variance, other.latent_variance, rtol=1e-9)
    slopes = [
        ar.pullback_precision(precision_adjoints(blocks[1], a.adjoints().precision["a"])[1])
        for a in (own, other)
    ]
    for name, slope in slopes[0].items():
        np.testing.assert_allclose(slope, slopes[1][name], rtol=1e-8)


def test_two_correlated_axes_are_folded_onto_each() -> None:
    s, r = covariance(2, 1e-3)[:2, :2], covariance(2, 1e-2, 1)[1:, 1:]
    block = PriorBlock("z", (structure("iid", 16), Covariance(s), Covariance(r)), np.zeros(96))
    rng = np.random.default_rng(0)
    rows = np.kron(np.eye(16), rng.normal(size=(3, 6)))
    linear = LinearGaussian((block,), (Predictor({"z": Sparse(sp.csr_array(rows))}, np.zeros(48)),))
    case = Case("two axes", linear, (np.exp(rng.normal(size=48)),), (rng.normal(size=48),))
    check_answers(BatchedEngine, case)
    wanted = covariance_adjoints(block, slope_by_hand(case, "z"))
    for at in (1, 2):
        found = slope_of(conditioned(case), at=at)
        np.testing.assert_allclose(found, wanted[at], atol=1e-8 * np.abs(wanted[at]).max())


def test_what_is_informed_of_a_covariance() -> None:
    rng = np.random.default_rng(0)
    root = np.tril(rng.normal(size=(3, 5, 5)))
    u = rng.normal(size=(3, 2, 5))
    h = u.transpose(0, 2, 1) @ u
    h[2] -= 1e-3 * np.eye(5)
    k = root @ root.transpose(0, 2, 1)
    found, x = Information.of(h, root), rng.normal(size=(3, 5))
    wanted = np.linalg.inv(np.eye(5) + h @ k)
    np.testing.assert_allclose(found.slope, wanted @ h, atol=1e-10)
    np.testing.assert_allclose(found.pull(x), np.einsum("nij,nj->ni", wanted, x), atol=1e-10)


def test_persons_with_a_nearly_singular_covariance_stay_batched() -> None:
    """A dense operator and a second block keep `wide` out; nothing is of the size of all rows."""
    size = 2000
    s = np.array([[1.0, 1.0 - 1e-13], [1.0 - 1e-13, 1.0]])
    z = PriorBlock("z", (structure("iid", size), Covariance(s)), np.zeros(2 * size))
    u = PriorBlock("u", (Normal(size, 0.0, 1.0),), np.zeros(size))
    rows = sp.csr_array(sp.eye_array(2 * size, format="csr"))
    own = sp.csr_array(sp.kron(sp.eye_array(size), np.ones((2, 1)), format="csr"))
    predictor = Predictor({"z": Sparse(rows), "u": Sparse(own)}, np.zeros(2 * size))
    linear = LinearGaussian((z, u), (predictor,))
    assert choose(linear)[1].startswith("batched engine")
    singular = PriorBlock("z", (structure("iid", size), Covariance(np.ones((2, 2)))), z.mean)
    assert choose(replace(linear, blocks=(singular, u)))[1].startswith("batched engine")


def test_what_is_no_covariance_and_what_is_too_large() -> None:
    bad = case_of(np.diag([1.0, 1.0, 1.0, 1.0]) + np.eye(4)[::-1] * 2.0)
    with pytest.raises(NumericalError, match="not positive semidefinite"):
        BatchedEngine(bad.linear)
    large = Covariance(np.ones((70, 70)))
    block = PriorBlock("z", (structure("iid", 20), large), np.zeros(1400))
    eye = Predictor({"z": Sparse(sp.csr_array(sp.eye_array(1400, format="csr")))}, np.zeros(1400))
    assert "a large covariance" in BatchedEngine.refuses(LinearGaussian((block,), (eye,)))
    dense = Predictor({"z": Dense(np.eye(1, 1400))}, np.zeros(1))
    assert BatchedEngine.refuses(LinearGaussian((block,), (dense,)))


def test_latents_of_very_different_sizes_all_move() -> None:
    """Pivots are judged beside a latent's own variance, not beside the largest."""
    case = case_of(np.diag([1e-20, 1.0, 1.0, 1.0]))
    assert BatchedEngine(case.linear).prior.moving.all()
    assert conditioned(case).latent_variance[0] > 0.0


def test_groups_are_found_without_the_whole_pattern() -> None:
    cov = np.eye(3)[:, [0, 1, 2]] + 0.5
    for factors in (
        (structure("iid", 5), Covariance(cov)),
        (Covariance(cov), structure("iid", 5), Covariance(np.eye(2))),
    ):
        size = int(np.prod([f.size for f in factors]))
        prior = BlockPrior(PriorBlock("z", factors, np.zeros(size)), 0)
        few, all_ = joins(prior), pattern(prior)
        assert few.nnz < all_.nnz or size == 0
        first, second = (connected_components(m, directed=False)[1] for m in (few, all_))
        np.testing.assert_array_equal(first, second)
