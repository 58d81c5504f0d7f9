"""What is too large for the iterative engine is refused before it begins, unless it was asked for;
hopeless fill is seen early."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import lgmdsl as lgm
from lgmdsl.api.fit.hyper_ways import expected_fits
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.iterative import patience
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.iterative.patience import (
    FETCHED,
    FLOPS_A_MINUTE,
    LOGS,
    SCATTER,
    TOUCHED,
    TOUCHED_ROWS,
    TRAFFIC,
    Patience,
    step_cost,
)
from lgmdsl.engines.iterative.prior import dominant_root
from lgmdsl.engines.sparse import layout
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.errors import MethodError, TooLong
from lgmdsl.inference.plan import plan
from lgmdsl.memory import TooLarge
from lgmdsl.numerics.sparse import supernodal
from lgmdsl.numerics.sparse.analyse import analyse
from lgmdsl.numerics.sparse.base import Pattern, Symbolic, distinct, located
from lgmdsl.numerics.sparse.ordering import SLACK, Elimination, Graph, minimum_degree
from lgmdsl.numerics.sparse.supernodes import inverse
from lgmdsl.operators.explicit import Sparse
from lgmdsl.structures.independent import Normal
from tests.compiled import canonical_form


def random_rows(n: int) -> LinearGaussian:
    rng = np.random.default_rng(0)
    where = (np.repeat(np.arange(n), 3), rng.integers(0, n, 3 * n))
    x = sp.csr_array((rng.normal(size=3 * n), where), shape=(n, n))
    x.sum_duplicates()
    block = PriorBlock("w", (Normal(n, 0.0, 1.0),), np.zeros(n))
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


@pytest.mark.thorough
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


def counts(n: int, seed: int = 0) -> tuple[LinearGaussian, Array]:
    linear = random_rows(n)
    rng = np.random.default_rng(seed)
    s = linear.predictors[0].columns["w"].matvec(rng.normal(size=n))
    return linear, rng.poisson(np.exp(np.clip(s, -5.0, 5.0))).astype(float)


def test_variances_do_not_depend_on_what_was_solved_before() -> None:
    """Else fixed points in them move from step to step, and no method on them converges."""
    n = 1500
    linear, y = counts(n)
    shift = (np.zeros(n),)
    assert Patience(linear, 0.1, 5000, math.inf).accuracy(SCATTER) > 0.1
    engine = IterativeEngine(linear, most=20)
    first = engine.condition((1.0 + y,), shift)
    assert not isinstance(first, Failed)
    wanted = first.variance[0]
    for weight in (0.5 + y, 3.0 * (1.0 + y)):
        other = engine.condition((weight,), shift)
        assert not isinstance(other, Failed) and other.variance[0].min() > 0.0
    again = engine.condition((1.0 + y,), shift)
    assert not isinstance(again, Failed)
    np.testing.assert_array_equal(again.variance[0], wanted)


def test_prices_in_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that are fetched count from a size on; iterations by the condition number; further
    fits start next to their end; time does not matter where there is no limit."""
    linear = random_rows(500)
    operators = [op for p in linear.predictors for op in p.columns.values()]
    small = step_cost(linear)
    wanted = 2.0 * sum(op.cost for op in operators)
    wanted += TRAFFIC * (TOUCHED * linear.size + TOUCHED_ROWS * linear.rows)
    assert small == pytest.approx(wanted)
    monkeypatch.setattr(patience, "CACHED", 499.0)
    fetched = sum(op.entries for op in operators if op.is_sparse)
    assert step_cost(linear) == pytest.approx(small + 2.0 * FETCHED * fetched)

    price = Patience(linear, 0.1, 5000, 1e12)
    assert price.accuracy(0.5 / np.sqrt(500.0)) == pytest.approx(0.5) and price.accuracy(0.0) == 0.1
    price.condition = 400.0
    assert price.iterations(1e-3) == pytest.approx(10.0 * np.log(2000.0))
    for steps, fits, ahead in ((12.0, 1.0, 12.0), (12.0, 30.0, 99.0), (2.0, 30.0, 60.0)):
        price.steps, price.fits = steps, fits
        assert price.conditionings == ahead
    price.steps = price.fits = 1.0
    each = price.price(20)
    price.endless = 1.001 * each
    assert price.lasts(20) and not price.lasts(21)
    monkeypatch.setattr(patience, "QUICK", 1.001 * each)
    assert price.quick(20) and not price.quick(21)
    price.endless = math.inf
    assert price.quick(10_000)
    price.endless, price.spent = 10.0 * price.work, 4.0 * price.work
    assert price.affordable(1) == 6 and price.affordable(3) == 2
    price.spent = 20.0 * price.work
    assert price.affordable(1) == 0
    price.spent = 90.0 * FLOPS_A_MINUTE
    assert "90 minutes or more" in price.refused(20).diagnostics[0].message


def test_what_lies_ahead_counts() -> None:
    """One conditioning may be had where a fit of a dozen, or a search of fits, is refused."""
    linear = random_rows(2000)
    weight, shift = (np.full(2000, 4.0),), (np.zeros(2000),)
    probing = IterativeEngine(linear)
    assert not isinstance(probing.condition(weight, shift), Failed)
    price = probing.patience.price(probing.samples)

    def engine(steps: float, fits: float) -> IterativeEngine:
        made = IterativeEngine(linear, endless=8.0 * price)
        made.expect(steps, fits)
        return made

    assert not isinstance(engine(1.0, 1.0).condition(weight, shift), Failed)
    with pytest.raises(MethodError, match="about 12 steps, through"):
        engine(12.0, 1.0).condition(weight, shift)
    searching = engine(1.0, 30.0)
    with pytest.raises(MethodError, match="about 30 steps in about 30 fits") as caught:
        searching.condition(weight, shift)
    assert "hyperparameters that are fixed" in caught.value.diagnostics[0].help
    with pytest.raises(MethodError, match="30 fits"):
        searching.remade(linear).condition(weight, shift)


def test_a_fit_that_outlasts_its_price_is_stopped_and_draws_are_no_part_of_it() -> None:
    linear = random_rows(1500)
    shift = (np.zeros(1500),)
    probing = IterativeEngine(linear)
    assert not isinstance(probing.condition((np.full(1500, 4.0),), shift), Failed)
    engine = IterativeEngine(linear, endless=2.0 * probing.patience.price(20))
    first = engine.condition((np.full(1500, 4.0),), shift)
    assert not isinstance(first, Failed) and np.isfinite(first.log_normaliser)
    spent = engine.patience.spent
    assert 0.0 < spent < engine.patience.endless
    assert first.sample(np.random.default_rng(0), 300).shape == (300, 1500)
    assert engine.patience.spent == spent
    with pytest.raises(MethodError, match="would take too long"):
        for k in range(20):
            more = engine.condition((np.full(1500, 5.0 + k),), shift)
            assert not isinstance(more, Failed) and np.isfinite(more.log_normaliser)


def test_weights_that_condition_worse_than_the_first_are_refused_when_they_are_seen() -> None:
    """A fit begins with weights that are all alike, and data want others, at which a solve takes
    30 times as many iterations: it is given up in the first solve for a mean there."""
    linear, y = counts(2000)
    rng = np.random.default_rng(3)
    even, uneven = (np.full(2000, 0.01),), (np.exp(3.0 * rng.normal(size=2000)) + y,)
    shift = (rng.normal(size=2000),)
    probing = IterativeEngine(linear)
    for weight in (even, uneven):
        found = probing.condition(weight, shift)
        assert not isinstance(found, Failed)
        condition = probing.patience.condition
    assert condition > 100.0 * probing.patience.first
    price = probing.patience.price(20)
    engine = IterativeEngine(linear, endless=5.0 * price)
    engine.expect(12.0, 1.0)
    assert not isinstance(engine.condition(even, shift), Failed)
    with pytest.raises(MethodError, match=r"`w` .* would take too long"):
        engine.condition(uneven, shift)
    assert engine.patience.spent < 0.2 * price  # no sample was solved for
    patient = IterativeEngine(linear, endless=15.0 * price)
    patient.expect(12.0, 1.0)
    assert not isinstance(patient.condition(even, shift), Failed)
    assert not isinstance(patient.condition(uneven, shift), Failed)


def test_conditionings_that_are_done_do_not_lie_ahead() -> None:
    linear, y = counts(2000)
    weight, shift = (1.0 + y,), (np.zeros(2000),)
    engine = IterativeEngine(linear)
    engine.expect(3.0, 1.0)
    ahead = []
    for _ in range(5):
        found = engine.condition(weight, shift)
        assert not isinstance(found, Failed)
        found.with_shift(shift)
        ahead.append(engine.patience.ahead)
    assert ahead == [2.0, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.thorough
def test_all_runs_of_a_solve_are_paid_for() -> None:
    """A second run from where the first ended, or for quadrature from the beginning, costs as the
    first did."""
    linear, y = counts(900)
    engine = IterativeEngine(linear, endless=1e15)
    found = engine.condition((1e3 * (1e-3 + y),), (np.zeros(900),))
    assert not isinstance(found, Failed)
    before, spent = engine.products, engine.patience.spent
    assert np.isfinite(found.log_normaliser)
    made = engine.products - before
    paid = (engine.patience.spent - spent) / engine.patience.work
    assert 0.8 * made <= paid <= made


@pytest.mark.parametrize(("steps", "samples"), [(1.0, 80), (1e6, 20)])
def test_samples_are_doubled_only_where_that_is_quick(steps: float, samples: int) -> None:
    linear = random_rows(1500)
    engine = IterativeEngine(linear, endless=1e30)
    engine.expect(steps, 1.0)
    q = engine.condition((np.full(1500, 4.0),), (np.zeros(1500),))
    assert not isinstance(q, Failed) and q.errors is not None
    share = float(np.sqrt(np.mean((q.errors.variance[0] / q.variance[0]) ** 2)))
    assert engine.samples == samples
    assert share < 0.05 if samples == 80 else 0.05 < share < 0.12


@pytest.mark.thorough
def test_a_random_poisson_regression_converges_in_a_few_steps() -> None:
    linear, y = counts(1500)
    x = linear.predictors[0].columns["w"].sparse()
    text = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : count
latent w[feat] ~ normal(sd = 1)
let s[obs] = X @ w
observe y ~ poisson(log_rate = s)
"""
    data, given = {"X": x, "y": y}, {"engine": "iterative"}
    fit = lgm.fit(lgm.loads(text), data, "natural-gradient", options=given, max_steps=20)
    exact = lgm.fit(lgm.loads(text), data, "natural-gradient")
    assert fit.converged and fit.engine == "iterative" and exact.engine != "iterative"
    gap = (np.asarray(fit.mean("w")) - exact.mean("w")) / np.asarray(exact.sd("w"))
    assert np.sqrt(np.mean(gap**2)) < 0.1
    sds = np.asarray(fit.sd("w")) / np.asarray(exact.sd("w"))
    assert np.sqrt(np.mean((sds - 1.0) ** 2)) < 0.05


def test_search_counts_the_fits_of_hyperparameters() -> None:
    linear, y = counts(200)
    text = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : count
hyper t : positive ~ pc_sd(u = 1, alpha = 0.05)
latent w[feat] ~ normal(sd = t)
let s[obs] = X @ w
observe y ~ poisson(log_rate = s)
"""
    model = lgm.loads(text)
    x = linear.predictors[0].columns["w"].sparse()
    canonical = canonical_form(model, {"X": x, "y": y})
    ways = [expected_fits(canonical, None, w) for w in ("map", "integrate")]
    assert 1.0 < ways[0] < ways[1]
    assert expected_fits(canonical, {"t": 1.0}, "fixed") == 1.0
    planned = plan(canonical, "natural-gradient", options={"engine": "iterative"})
    terms = replace(planned.terms, fits=ways[1])
    engine = replace(planned, terms=terms).at({"t": np.asarray(1.0)}).engine
    assert isinstance(engine, IterativeEngine)
    assert engine.patience.fits == ways[1] and engine.patience.steps > 1.0


@pytest.mark.parametrize("kind", ["laplacian", "proper", "mixed"])
def test_noise_of_a_graph_takes_no_factor(kind: str) -> None:
    rng = np.random.default_rng(3)
    a = np.triu(rng.uniform(size=(30, 30)) < 0.2, 1) * rng.uniform(0.5, 2.0, (30, 30))
    a = a + a.T
    q = np.diag(a.sum(axis=1)) - a
    if kind == "proper":
        q += np.diag(rng.uniform(size=30))
    if kind == "mixed":
        signs = np.sign(rng.normal(size=(30, 30)))
        q = q * np.triu(signs, 1) + (q * np.triu(signs, 1)).T + np.diag(q.diagonal())
    root = dominant_root(sp.csr_array(q))
    assert root is not None
    np.testing.assert_allclose((root @ root.T).toarray(), q, atol=1e-13)
    if kind == "laplacian":
        assert np.count_nonzero(root.toarray().any(axis=0)) == np.count_nonzero(np.triu(a, 1))


def test_second_differences_have_no_root_of_pairs() -> None:
    d = np.diff(np.eye(9), 2, axis=0)
    assert dominant_root(sp.csr_array(d.T @ d)) is None


def test_a_search_that_would_not_end_is_refused_where_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not as a start without a fit (E601) after several of them."""
    linear, _ = counts(400)
    text = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real
hyper t : positive ~ pc_sd(u = 1, alpha = 0.05)
latent w[feat] ~ normal(sd = t)
let s[obs] = X @ w
observe y ~ normal(mean = s, sd = 0.5)
"""

    def hasty(engine: IterativeEngine) -> IterativeEngine:
        return IterativeEngine(engine.linear, *engine.settings, 3e7)

    monkeypatch.setattr(IterativeEngine, "patient", hasty)
    data = {"X": linear.predictors[0].columns["w"].sparse(), "y": np.zeros(400)}
    with pytest.raises(TooLong, match="fits for the hyperparameters") as caught:
        lgm.fit(lgm.loads(text), data, options={"engine": "iterative"})
    assert caught.value.codes == ("E501",)


@pytest.mark.thorough
def test_a_factor_that_was_too_large_is_not_ordered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    linear, made = random_rows(3000), []

    def counted(pattern: Pattern) -> Symbolic:
        made.append(pattern)
        return analyse(pattern)

    monkeypatch.setattr(layout, "analyse", counted)
    monkeypatch.setattr(layout, "budget", lambda: 2e6)
    monkeypatch.setattr(supernodal, "budget", lambda: 2e6)
    for _ in range(3):
        with pytest.raises(TooLarge):
            SparseEngine(linear)
    assert len(made) == 1
