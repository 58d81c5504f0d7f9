"""What the sparse engine knows of a pattern serves other numbers at the same places."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import lgmdsl as lgm
from lgmdsl.arrays import SparseMatrix
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.engines.sparse.layout import Joined
from lgmdsl.engines.sparse.pair_table import PairTable
from lgmdsl.operators.explicit import Sparse

MAP = """lgm 1
index region
data y[region] : count
data edges[region, region] : graph
hyper s : positive ~ half_normal(sd = 1)
hyper mix : unit ~ uniform(lower = 0, upper = 1)
latent level ~ normal(sd = 5)
latent v[region] ~ bym2(graph = edges, sd = s, mix = mix)
let eta[region] = level + v
observe y ~ poisson(log_rate = eta)
"""


def matrix(seed: int, rows: int = 12, columns: int = 7) -> SparseMatrix:
    """Other numbers for each seed at the same places, a stored 0 among them."""
    places = np.random.default_rng(0).random((rows, columns)) < 0.4
    places[0] = False
    out = sp.csr_array(places.astype(np.float64))
    out.data = np.random.default_rng(seed).normal(size=out.nnz)
    out.data[3] = 0.0
    return out


@pytest.mark.parametrize("event", [0, 3])
def test_a_table_with_other_numbers_is_that_made_anew(event: int) -> None:
    b, other = matrix(1), matrix(2)
    sites = [Predictor({}, np.zeros(12), event)]
    prior = sp.csr_array(sp.eye_array(7, format="csr"))
    kept, anew = PairTable(b, sites, prior), PairTable(other, sites, prior)
    again = kept.refilled(other)
    np.testing.assert_array_equal(again.table.toarray(), anew.table.toarray())
    assert again.b is other and kept.b is b
    np.testing.assert_array_equal(again.refilled(b).table.toarray(), kept.table.toarray())


def test_products_with_a_covariance_at_the_places_of_a_design() -> None:
    b = matrix(3)
    table = PairTable(b, [Predictor({}, np.zeros(12))], sp.csr_array(sp.eye_array(7)))
    half = np.random.default_rng(4).normal(size=(7, 7))
    v = half @ half.T
    on_pattern = v[table.pattern.indices, table.pattern.columns]
    line = np.repeat(np.arange(12), np.diff(b.indptr))
    wanted = (b.toarray() @ v)[line, b.indices]
    assert table.product(on_pattern) == pytest.approx(wanted, rel=1e-12)


def canonical() -> CanonicalModel:
    """A map of 200 regions on a line, enough that the analysis of its pattern pays."""
    chain = np.stack([np.arange(199), np.arange(1, 200)], axis=1)
    y = np.random.default_rng(5).poisson(3.0, 200)
    return lgm.fit(lgm.loads(MAP), {"y": y, "edges": chain}, fixed={"s": 0.5, "mix": 0.5}).canonical


def test_hypers_in_the_operators_leave_pattern_and_adjoints_alone() -> None:
    """The pattern is analysed once; slopes in the operators are those of products of matrices."""
    model = canonical()
    thetas = [model.hypers.theta({"s": s, "mix": m}) for s, m in ((0.5, 0.5), (0.8, 0.3))]
    first, second = (SparseEngine(model.linear(t)) for t in thetas)
    assert first.symbolic is second.symbolic
    assert abs(first.b - second.b).max() > 0.1
    weight = (np.linspace(0.5, 2.0, 200),)
    shift = (np.random.default_rng(6).normal(size=200),)
    q = second.condition(weight, shift)
    by_table = q.adjoints().operator[0]
    again = second.condition(weight, shift)
    again.__dict__["_products"] = None  # what is there for vectors
    by_matrices = again.adjoints().operator[0]
    for name in ("v.iid", "v.besag"):
        slopes = by_table[name].toarray()
        assert slopes == pytest.approx(by_matrices[name].toarray(), rel=1e-9, abs=1e-12)
        assert np.abs(slopes).max() > 0.1


def test_operators_that_move_go_to_the_places_that_are_known() -> None:
    """From the third theta on B is not joined anew; a Q of the same blocks is the same."""
    model = canonical()
    pairs = ((0.5, 0.5), (0.8, 0.3), (1.3, 0.9))
    linears = [model.linear(model.hypers.theta({"s": s, "mix": m})) for s, m in pairs]
    engines = [SparseEngine(linear) for linear in linears]
    assert engines[0].prior is engines[2].prior
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StackedPredictors, "sparse", None)  # called, it is an error
        third = SparseEngine(linears[2])
    wanted = StackedPredictors(linears[2]).sparse().toarray()
    np.testing.assert_array_equal(third.b.toarray(), wanted)
    np.testing.assert_array_equal(third.bt.toarray(), wanted.T)
    anew = PairTable(sp.csr_array(wanted), linears[2].predictors, third.prior.precision)
    np.testing.assert_allclose(third.table.table.toarray(), anew.table.toarray(), rtol=1e-14)
    weight = (np.linspace(0.5, 2.0, 200),)
    np.testing.assert_allclose(third.table.weighted(weight), anew.weighted(weight), rtol=1e-14)


def test_operators_stored_elsewhere_are_joined_anew() -> None:
    """The same numbers in arrays of their own: their places have to be looked at."""
    model = canonical()
    linears = [model.linear(model.hypers.theta({"s": s, "mix": 0.5})) for s in (0.5, 0.8)]
    known = Joined.of(linears[0], StackedPredictors(linears[0]).sparse())
    assert known is not None
    operators = list(linears[1].predictors[0].columns.values())
    values = known.values(operators)
    assert values is not None
    np.testing.assert_array_equal(values, StackedPredictors(linears[1]).sparse().data)
    moved = next(k for k, o in enumerate(operators) if o is not known.parts[k][0])
    operators[moved] = Sparse(operators[moved].sparse().copy())
    assert known.values(operators) is None
