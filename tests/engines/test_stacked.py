"""B of all sites, stacked: every form of it is the same matrix; rows are cut where they belong."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.arrays import Array
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.stacked import StackedPredictors, cut, flatten, split, split_like, stack
from lgmdsl.operators.base import Operator
from lgmdsl.operators.compose import Kronecker
from lgmdsl.operators.explicit import Dense, Identity, Sparse
from lgmdsl.structures.independent import Normal

RNG = np.random.default_rng(0)
SIZES = {"a": 4, "b": 6, "unseen": 2}
COLUMNS: dict[str, list[dict[str, Operator]]] = {
    "one identity": [{"a": Identity(4)}],
    "identities": [{"a": Identity(4)}, {"a": Identity(4)}],
    "dense": [
        {"a": Dense(RNG.normal(size=(3, 4))), "b": Dense(RNG.normal(size=(3, 6)))},
        {"b": Dense(RNG.normal(size=(6, 6)))},
    ],
    "sparse": [
        {"b": Sparse(sp.csr_array(np.eye(3, 6)))},
        {"a": Sparse(sp.csr_array(np.eye(6, 4))), "b": Identity(6)},
    ],
    "mixed, in another order": [
        {"b": Sparse(sp.csr_array(np.eye(6, 6, 1))), "a": Dense(RNG.normal(size=(6, 4)))},
        {"b": Kronecker((Dense(RNG.normal(size=(2, 2))), Dense(RNG.normal(size=(3, 3)))))},
    ],
    "none": [],
}


def model(name: str) -> LinearGaussian:
    blocks = tuple(PriorBlock(n, (Normal(k, 0.0, 1.0),), np.zeros(k)) for n, k in SIZES.items())
    predictors = []
    for number, columns in enumerate(COLUMNS[name]):
        rows = next(iter(columns.values())).shape[0]
        event = 3 if number and rows == 6 else 0
        predictors.append(Predictor(columns, RNG.normal(size=rows), event))
    return LinearGaussian(blocks, tuple(predictors))


def whole(linear: LinearGaussian) -> Array:
    """B, entry by entry of z."""
    out = np.zeros((linear.rows, linear.size))
    at = 0
    for p in linear.predictors:
        for name, operator in p.columns.items():
            for k, j in enumerate(range(*linear.slices[name].indices(linear.size))):
                out[at : at + p.rows, j] = operator.matvec(np.eye(operator.shape[1])[k])
        at += p.rows
    return out


@pytest.mark.parametrize("name", COLUMNS)
def test_every_form_is_the_same_matrix(name: str) -> None:
    linear = model(name)
    b, stacked = whole(linear), StackedPredictors(linear)
    z, y = RNG.normal(size=(12, 3)), RNG.normal(size=(linear.rows, 3))
    held = stacked.matrix()
    every = {"sparse", "identities", "one identity"}
    assert isinstance(held, np.ndarray) is (name not in every)
    forms = {
        "dense": stacked.dense(), "sparse": stacked.sparse().toarray(),
        "matrix": held if isinstance(held, np.ndarray) else held.toarray(),
        "blocks": np.hstack([stacked.block_dense(n) for n in SIZES]),
    }  # fmt: skip
    for form, matrix in forms.items():
        np.testing.assert_allclose(matrix, b, atol=1e-15, err_msg=form)
    np.testing.assert_allclose(stacked.times(z), b @ z, atol=1e-13)
    np.testing.assert_allclose(stacked.lifted(z), b @ z, atol=1e-13)
    np.testing.assert_allclose(stacked.lifted(z[:, 0]), b @ z[:, 0], atol=1e-13)
    np.testing.assert_allclose(stacked.transposed(y), b.T @ y, atol=1e-13)
    rows = split(y[:, 0], linear.predictors)
    np.testing.assert_allclose(stacked.pulled(rows), b.T @ y[:, 0], atol=1e-13)
    if name == "none":
        return
    np.testing.assert_allclose(stacked.operator().matvec(z), b @ z, atol=1e-13)
    np.testing.assert_allclose(stacked.operator().rmatvec(y), b.T @ y, atol=1e-13)
    for one in (stacked.predictor(), stack(linear.predictors)):
        np.testing.assert_allclose(one.times(z, linear.slices), b @ z, atol=1e-13)
        shifted = (b @ z).T + one.offset
        np.testing.assert_allclose(one.values(z, linear.slices), shifted.T, atol=1e-13)
        back = np.zeros((linear.size, 3))
        one.add_transposed(y, linear.slices, back)
        np.testing.assert_allclose(back, b.T @ y, atol=1e-13)
        np.testing.assert_array_equal(one.offset, stacked.offset)


def test_rows_are_cut_where_they_belong() -> None:
    linear = model("dense")
    flat = np.arange(9.0)
    first, second = split(flat, linear.predictors)
    assert first.shape == (3,) and second.shape == (2, 3)
    np.testing.assert_array_equal(flatten((first, second)), flat)
    assert [len(p) for p in cut(flat, linear.predictors)] == [3, 6]
    again = split_like(flat, (first, second))
    assert [x.tolist() for x in again] == [first.tolist(), second.tolist()]
    assert flatten(()).shape == (0,) and split(np.zeros(0), ()) == ()
