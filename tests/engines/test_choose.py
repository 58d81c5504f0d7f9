"""The choice of engine, refusals in words, memory, and Failed as a value."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.arrays import SparseMatrix
from lgmdsl.contract.engine import Engine, Failed
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.choose import ENGINES, Entry, Option, Terms, choose, preferred, reason, table
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.gram import DenseGram, PairGram, SparseGram
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.shared.weights import SiteWeight
from lgmdsl.errors import NumericalError
from lgmdsl.numerics.cholesky import cholesky, pivoted_root
from lgmdsl.operators.convolution import Convolution
from lgmdsl.operators.differences import DifferenceOperator
from lgmdsl.operators.explicit import Dense, Identity, Sparse
from lgmdsl.structures.catalogue import kernel, structure
from lgmdsl.structures.independent import Flat


def gp(n: int) -> LinearGaussian:
    at = np.random.default_rng(0).normal(size=(n, 2))
    k = structure("gp", n, at=at, kernel=kernel("se", sd=1.0, length=1.0))
    p = Predictor({"f": Identity(n)}, np.zeros(n))
    return LinearGaussian((PriorBlock("f", (k,), np.zeros(n)),), (p,))


def regression(rows: int, n: int, name: str = "normal") -> LinearGaussian:
    x = np.random.default_rng(0).normal(size=(rows, n))
    s = structure(name, n, **({"sd": 1.0} if name == "normal" else {}))
    return LinearGaussian(
        (PriorBlock("w", (s,), np.zeros(n)),), (Predictor({"w": Dense(x)}, np.zeros(rows)),)
    )


def test_choices() -> None:
    engine, why = choose(gp(40))
    assert isinstance(engine, CovarianceEngine)
    assert why.startswith("covariance engine for 40 predictor rows and 40 latents: the cheapest")
    refusals = {o.name: o.refusal for o in table(gp(40))}
    assert "block `f` (gp) has a covariance but no precision" in refusals["precision"]
    engine, why = choose(regression(500, 5))
    assert isinstance(engine, PrecisionEngine) and "500 predictor rows and 5 latents" in why
    assert isinstance(choose(regression(20, 400))[0], CovarianceEngine)
    assert isinstance(choose(regression(300, 4, "flat"))[0], PrecisionEngine)


def test_memory_is_a_refusal_with_the_size() -> None:
    engine, why = choose(gp(60), Terms(1000.0))
    assert engine is None and "kB" in why and "60 predictor rows" in why
    assert all(o.refusal for o in table(gp(60), Terms(1000.0)))


def test_engines_refuse_in_the_constructor_too() -> None:
    with pytest.raises(TypeError, match="no precision"):
        PrecisionEngine(gp(3))


@pytest.mark.parametrize("engine", [CovarianceEngine, PrecisionEngine])
def test_contradicting_constraints_fail_with_a_reason(engine: type) -> None:
    base = regression(6, 3)
    ones = np.ones((2, 3))
    linear = LinearGaussian(
        base.blocks, base.predictors, Constraints({"w": Dense(ones)}, np.array([0.0, 1.0]))
    )
    q = engine(linear).condition((np.ones(6),), (np.ones(6),))
    assert isinstance(q, Failed) and "contradict" in q.reason
    twice = LinearGaussian(
        base.blocks, base.predictors, Constraints({"w": Dense(ones)}, np.ones(2))
    )
    once = LinearGaussian(
        base.blocks, base.predictors, Constraints({"w": Dense(ones[:1])}, np.ones(1))
    )
    a, b = (engine(m).condition((np.ones(6),), (np.ones(6),)) for m in (twice, once))
    np.testing.assert_allclose(a.log_normaliser, b.log_normaliser, rtol=1e-12)


def test_a_constraint_on_a_constant_is_redundant_or_a_contradiction() -> None:
    s = structure("normal", 2, sd=np.array([0.0, 1.0]))
    block = PriorBlock("w", (s,), np.zeros(2))
    p = Predictor({"w": Dense(np.array([[1.0, 1.0]]))}, np.zeros(1))
    w, b = (np.ones(1),), (np.ones(1),)
    free = CovarianceEngine(LinearGaussian((block,), (p,))).condition(w, b)
    row = Dense(np.array([[2.0, 0.0]]))
    held = CovarianceEngine(LinearGaussian((block,), (p,), Constraints({"w": row}, np.zeros(1))))
    np.testing.assert_allclose(held.condition(w, b).log_normaliser, free.log_normaliser, rtol=1e-12)
    other = CovarianceEngine(LinearGaussian((block,), (p,), Constraints({"w": row}, np.ones(1))))
    assert "contradict the prior" in other.condition(w, b).reason


@pytest.mark.parametrize("engine", [CovarianceEngine, PrecisionEngine])
def test_a_constraint_makes_a_flat_block_proper(engine: type) -> None:
    """Intercept and levels, both flat: data leave one direction, the constraint fixes it."""
    index = np.repeat(np.arange(3), 4)
    levels = Sparse(sp.csr_array((np.ones(12), index, np.arange(13)), shape=(12, 3)))
    blocks = (
        PriorBlock("a", (structure("flat", 1),), np.zeros(1)),
        PriorBlock("u", (structure("flat", 3),), np.zeros(3)),
    )
    p = Predictor({"a": Dense(np.ones((12, 1))), "u": levels}, np.zeros(12))
    y = np.random.default_rng(0).normal(size=12)
    lost = engine(LinearGaussian(blocks, (p,))).condition((np.ones(12),), (y,))
    assert isinstance(lost, Failed) and "determines the direction" in lost.reason
    assert "a[0]" in lost.reason and "u[2]" in lost.reason
    held = Constraints({"u": Dense(np.ones((1, 3)))}, np.zeros(1))
    q = engine(LinearGaussian(blocks, (p,), held)).condition((np.ones(12),), (y,))
    means = y.reshape(3, 4).mean(axis=1)
    np.testing.assert_allclose(q.latent_mean, [means.mean(), *(means - means.mean())], atol=1e-12)
    np.testing.assert_allclose(q.variance[0], 0.25, rtol=1e-11)
    # cells (a + u_k) have density d(cells) = sqrt(3) d(a) d(line of u) on orthonormal coordinates
    fit = 0.5 * 4 * means @ means + 0.5 * 3 * np.log(2 * np.pi / 4) - 0.5 * np.log(3)
    np.testing.assert_allclose(q.log_normaliser, fit, rtol=1e-10)


@pytest.mark.parametrize("engine", [CovarianceEngine, PrecisionEngine])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_fail(engine: type, bad: float) -> None:
    with np.errstate(all="ignore"):
        q = engine(regression(6, 3)).condition((np.array([1, 1, bad, 1, 1, 1.0]),), (np.ones(6),))
    assert isinstance(q, Failed)


def test_forms_of_the_gram_agree() -> None:
    rng = np.random.default_rng(0)
    b = sp.csr_array(rng.normal(size=(300, 40)) * (rng.uniform(size=(300, 40)) < 0.1))
    p = (Predictor({}, np.zeros(200)), Predictor({}, np.zeros(100)))
    weight = SiteWeight(p, (rng.normal(size=200), rng.uniform(size=100)))
    wanted = b.toarray().T @ weight.times(b.toarray())
    a = np.eye(40) + b.toarray().T @ b.toarray()
    factor = cholesky(a.copy())
    assert factor is not None
    variance = np.einsum("pi,ij,pj->p", b.toarray(), np.linalg.inv(a), b.toarray())
    for gram in (PairGram(b, p), SparseGram(b, p), DenseGram(b.toarray(), p)):
        np.testing.assert_allclose(np.triu(gram.weighted(weight)), np.triu(wanted), atol=1e-12)
        np.testing.assert_allclose(np.concatenate(gram.variance(factor)), variance, rtol=1e-11)


def test_a_sparse_operator_keeps_its_array() -> None:
    array = sp.csr_array((np.ones(4), np.array([1, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 2))
    s = structure("normal", 2, sd=1.0)
    linear = LinearGaussian(
        (PriorBlock("w", (s,), np.zeros(2)),), (Predictor({"w": Sparse(array)}, np.zeros(2)),)
    )
    for engine in (PrecisionEngine, CovarianceEngine):
        q = engine(linear).condition((np.ones(2),), (np.ones(2),))
        inverse = np.linalg.inv(np.eye(2) + array.toarray().T @ array.toarray())
        np.testing.assert_allclose(q.latent_variance, inverse.diagonal(), rtol=1e-12)
    np.testing.assert_array_equal(array.indices, [1, 0, 1, 1])


def test_mixed_dense_and_gathered_columns_stay_sparse() -> None:
    """Covariates beside 400 group effects: no (P, n) array is formed, answers are the same."""
    rng = np.random.default_rng(0)
    rows, groups = 2000, 400
    one_each = (np.ones(rows), rng.integers(groups, size=rows), np.arange(rows + 1))
    who: SparseMatrix = sp.csr_array(one_each, shape=(rows, groups), dtype=np.float64)
    x = rng.normal(size=(rows, 3))
    blocks = (
        PriorBlock("b", (structure("flat", 3),), np.zeros(3)),
        PriorBlock("u", (structure("normal", groups, sd=0.7),), np.zeros(groups)),
    )
    p = Predictor({"b": Dense(x), "u": Sparse(who)}, np.zeros(rows))
    engine = PrecisionEngine(LinearGaussian(blocks, (p,)))
    assert isinstance(engine.gram, PairGram)
    dense = Predictor({"b": Dense(x), "u": Dense(np.asarray(who.toarray()))}, np.zeros(rows))
    other = PrecisionEngine(LinearGaussian(blocks, (dense,)))
    assert isinstance(other.gram, DenseGram)
    w, b = (rng.uniform(size=rows),), (rng.normal(size=rows),)
    one, two = engine.condition(w, b), other.condition(w, b)
    assert not isinstance(one, Failed) and not isinstance(two, Failed)
    np.testing.assert_allclose(one.log_normaliser, two.log_normaliser, rtol=1e-12)
    np.testing.assert_allclose(one.variance[0], two.variance[0], rtol=1e-11)


@pytest.mark.parametrize("engine", [CovarianceEngine, PrecisionEngine])
def test_vector_weights_that_are_not_finite_fail(engine: type[Engine]) -> None:
    base = regression(6, 3)
    p = Predictor(base.predictors[0].columns, np.zeros(6), event=2)
    weight = np.full((3, 2, 2), np.nan)
    with np.errstate(all="ignore"):
        q = engine(LinearGaussian(base.blocks, (p,))).condition((weight,), (np.ones((3, 2)),))
    assert isinstance(q, Failed)


def test_a_covariance_that_is_none() -> None:
    with pytest.raises(NumericalError, match="E601"):
        pivoted_root(np.array([[1.0, 2.0], [2.0, 1.0]]))
    np.testing.assert_array_equal(pivoted_root(np.zeros((2, 2))), np.zeros((2, 0)))
    root = pivoted_root(np.array([[4.0, 2.0], [2.0, 1.0]]))
    assert root.shape == (2, 1)


@pytest.mark.parametrize(("size", "name"), [(16, "precision"), (128, "iterative")])
def test_estimates_only_where_exact_answers_are_dear(size: int, name: str) -> None:
    """A blur so wide that every row is long: 16 x 16 is solved exactly, 128 x 128 is not."""
    n = size * size
    blur = Convolution((size, size), np.full((15, 15), 1.0 / 225.0), "circular")
    predictors = tuple(
        Predictor({"u": op}, np.zeros(op.shape[0]))
        for op in (blur, DifferenceOperator((size, size), 0))
    )
    linear = LinearGaussian((PriorBlock("u", (Flat(n),), np.zeros(n)),), predictors)
    engine, why = choose(linear, Terms(1e12))
    assert engine is not None and engine.name == name
    assert engine.exact is (name == "precision")
    assert ("it estimates variances" in why) is not engine.exact


EXACT, ESTIMATING = (next(e for e in ENGINES if e.engine.exact is exact) for exact in (True, False))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            [(EXACT, "", 1e6), (ESTIMATING, "", 1e3)],
            "the cheapest exact engine, 1e+06 flops for one conditioning, below the limit of "
            "2e+11 from which estimates are considered",
        ),
        (
            [(EXACT, "", 1e6), (replace(EXACT), "", 3e6), (ESTIMATING, "", 1e3)],
            "2e+11 from which estimates are considered; covariance would cost 3 times as much",
        ),
        (
            [(EXACT, "", 3e11), (ESTIMATING, "", 1e9)],
            "it estimates variances, in 1e+09 flops for one conditioning; covariance, the "
            "cheapest exact engine, would take 3e+11, above the limit of 2e+11 for exact engines",
        ),
        (
            [(EXACT, "", 3e11), (ESTIMATING, "", 4e11)],
            "the cheapest engine, 3e+11 flops for one conditioning: above the limit of 2e+11 from "
            "which estimates are considered, but these cost no less",
        ),
        (
            [(EXACT, "no", math.inf), (ESTIMATING, "", 1e3)],
            "no engine computes variances exactly; it takes 1e+03 flops for one conditioning",
        ),
    ],
)
def test_the_reason_names_the_flops_that_decided(
    options: list[tuple[Entry, str, float]], wanted: str
) -> None:
    why = reason(regression(6, 4), [Option(*o, None) for o in options])
    chosen = preferred([Option(*o, None) for o in options])
    assert chosen is not None and why.endswith(wanted)
    assert why.startswith(f"{chosen.name} engine for 6 predictor rows and 4 latents: ")


def test_an_engine_that_was_requested_and_none_at_all() -> None:
    linear, able = regression(6, 4), [Option(EXACT, "", 1e6, None)]
    assert reason(linear, able, Terms.of("covariance")).endswith("latents: it was requested")
    assert reason(linear, [Option(EXACT, "no", math.inf, None)]) == ""
