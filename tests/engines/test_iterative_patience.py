"""What is too large for the iterative engine is refused before it begins, unless it was asked for;
hopeless fill is seen early."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.contract.engine import Failed
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.iterative.patience import LOGS, SCATTER, Patience, step_cost
from lgmdsl.errors import MethodError
from lgmdsl.numerics.keys import distinct, located
from lgmdsl.numerics.sparse.base import Pattern
from lgmdsl.numerics.sparse.elimination import inverse
from lgmdsl.numerics.sparse.minimum_degree import minimum_degree
from lgmdsl.numerics.sparse.ordering import SLACK, Elimination, Graph
from lgmdsl.operators.explicit import Sparse
from lgmdsl.structures.independent import Normal


def random_rows(n: int) -> LinearGaussian:
    rng = np.random.default_rng(0)
    where = (np.repeat(np.arange(n), 3), rng.integers(0, n, 3 * n))
    x = sp.csr_array((rng.normal(size=3 * n), where), shape=(n, n))
    x.sum_duplicates()
    block = PriorBlock("w", (Normal(n),), np.zeros(n))
    return LinearGaussian((block,), (Predictor({"w": Sparse(x)}, np.zeros(n)),))


def test_a_solve_that_would_not_end_is_refused_by_name_and_size() -> None:
    linear = random_rows(2000)
    weight, shift = (np.full(2000, 1e4),), (np.zeros(2000),)
    short = IterativeEngine(linear, endless=20 * 10 * step_cost(linear))
    with pytest.raises(MethodError, match=r"`w` \(2,000 entries\) would take too long") as caught:
        short.condition(weight, shift)
    assert caught.value.codes == ("E501",)
    assert "engine=iterative" in caught.value.diagnostics[0].help
    assert short.products < 2000  # one vector was looked at, where 20 and 16 would be solved for
    patient = short.patient().condition(weight, shift)
    assert not isinstance(patient, Failed) and np.isfinite(patient.latent_mean).all()


def test_accuracy_is_a_share_of_the_length_of_what_is_solved_for() -> None:
    small, large = Patience(random_rows(100), 0.1, 50, math.inf), random_rows(40_000)
    assert small.accuracy(SCATTER) == 0.1
    assert Patience(large, 0.1, 50, math.inf).accuracy(LOGS) == pytest.approx(3.0)
    few = Patience(large, 0.1, 5000, 100.0 * step_cost(large))
    assert few.affordable(20) == 5 and few.affordable(1) == 100


def graph(linear: LinearGaussian) -> Graph:
    x = linear.predictors[0].columns["w"].sparse()
    return Graph.of(Pattern.of(sp.csr_array(x.T @ x)))


def test_hopeless_fill_is_given_up_and_what_fits_is_not() -> None:
    g = graph(random_rows(20_000))
    order = minimum_degree(g.starts, g.neighbours)
    fill = float(Elimination.of(g, order).fill)
    assert (inverse(order) >= 0).all()
    assert len(minimum_degree(g.starts, g.neighbours, -1, SLACK * fill)) == 20_000
    assert len(minimum_degree(g.starts, g.neighbours, -1, 0.3 * fill)) == 0


def test_keys_by_sorting_are_numpys() -> None:
    keys = np.random.default_rng(1).integers(0, 500, 1000)
    line = distinct(keys)
    np.testing.assert_array_equal(line, np.unique(keys))
    np.testing.assert_array_equal(located(line, keys), np.searchsorted(line, keys))
    assert len(distinct(keys[:0])) == 0
