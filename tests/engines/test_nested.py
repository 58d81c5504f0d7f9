"""`nested` against brute force and the sparse engine: groups, pairs of latents, two levels, crossed
factors, walks, vector sites, constraints, on a dense border and on a pattern."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.random import Generator

import lgmdsl as lgm
from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Conditioned, Engine, Failed, Failure
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.nested import border, nest
from lgmdsl.engines.nested.engine import NestedEngine, nested
from lgmdsl.engines.nested.nest import Nest
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Sparse
from lgmdsl.structures.catalogue import structure
from lgmdsl.testing.engine_checks import (
    check_adjoints,
    check_answers,
    check_distances,
    check_draws,
    check_failure,
    check_offset_adjoint,
    check_prior_alone,
    tilted,
)
from lgmdsl.testing.engine_models import Case, brute

GROUPS, ROWS = 9, 30


def picks(index: IntArray, size: int, value: Array | None = None) -> Sparse:
    rows = len(index)
    entries = np.ones(rows) if value is None else value
    return Sparse(sp.csr_array((entries, (np.arange(rows), index)), shape=(rows, size)))


def with_slopes(index: IntArray, x: Array) -> Sparse:
    """Rows of an intercept and a slope, side by side in one block."""
    rows = len(index)
    places = np.stack([2 * index, 2 * index + 1], axis=1).reshape(-1)
    values = np.stack([np.ones(rows), x], axis=1).reshape(-1)
    csr = sp.csr_array((values, places, 2 * np.arange(rows + 1)), shape=(rows, 2 * GROUPS))
    return Sparse(csr)


def normal(rng: Generator, name: str, size: int) -> PriorBlock:
    mean, sd = rng.normal(size=size), np.exp(0.3 * rng.normal(size=size))
    return PriorBlock(name, (structure("normal", size, mean=mean, sd=sd),), mean)


def case(seed: int, options: str) -> Case:
    """A model with some of: `f` flat level, `s` slopes in the block, `b` another block of the same
    groups, `c` crossed factor, `w` a walk, `v` vector sites, `n` negative weights, `t` a tie."""
    rng = np.random.default_rng(seed)
    every = np.concatenate([np.arange(GROUPS), rng.integers(0, GROUPS, ROWS - GROUPS)])
    blocks, columns = [], dict[str, Operator]()
    flat = PriorBlock("level", (structure("flat", 1),), np.zeros(1))
    blocks.append(flat if "f" in options else normal(rng, "level", 1))
    columns["level"] = picks(np.zeros(ROWS, dtype=np.int64), 1)
    size = 2 * GROUPS if "s" in options else GROUPS
    blocks.append(normal(rng, "u", size))

    def inner(index: IntArray) -> Sparse:
        x = rng.normal(size=len(index))
        return with_slopes(index, x) if "s" in options else picks(index, GROUPS)

    columns["u"] = inner(every)
    if "b" in options:
        blocks.append(normal(rng, "more", GROUPS))
        columns["more"] = picks(every, GROUPS, rng.normal(size=ROWS))
    blocks.append(normal(rng, "w", 2))
    columns["w"] = Dense(rng.normal(size=(ROWS, 2)))
    if "c" in options:
        blocks.append(normal(rng, "v", 5))
        columns["v"] = picks(rng.integers(0, 5, ROWS), 5)
    if "w" in options:
        blocks.append(PriorBlock("r", (structure("rw1", 6, sd=0.7),), np.zeros(6)))
        steps = np.concatenate([np.arange(6), rng.integers(0, 6, ROWS - 6)])
        columns["r"] = picks(steps, 6)
    predictors = [Predictor(columns, rng.normal(size=ROWS))]
    if "v" in options:
        by_site = np.repeat(np.arange(ROWS // 3) % GROUPS, 3)
        vector = dict(columns)
        vector["u"] = inner(by_site)
        if "b" in options:
            vector["more"] = picks(by_site, GROUPS, rng.normal(size=ROWS))
        predictors.insert(0, Predictor(vector, rng.normal(size=ROWS), 3))
    outside: dict[str, Operator] = {"w": Dense(rng.normal(size=(4, 2)))}
    if "c" in options:
        outside["v"] = picks(np.arange(4), 5)
    predictors.append(Predictor(outside, rng.normal(size=4)))  # rows of the border alone
    tie = Constraints({"w": Dense(np.ones((1, 2)))}, np.array([0.5])) if "t" in options else None
    weight, shift = [], []
    for p in predictors:
        if p.event:
            root = rng.normal(size=(p.rows // 3, 3, 3))
            weight.append(root @ root.transpose(0, 2, 1))
            shift.append(rng.normal(size=(p.rows // 3, 3)))
        else:
            w = rng.gamma(2.0, 1.0, p.rows)
            w[::7] *= -0.01 if "n" in options else 1.0
            weight.append(w)
            shift.append(rng.normal(size=p.rows))
    linear = LinearGaussian(tuple(blocks), tuple(predictors), tie)
    return Case(f"{seed} {options}", linear, tuple(weight), tuple(shift))


def every_case() -> Iterator[Case]:
    letters = "fsbcwvnt"
    for seed, chosen in enumerate(itertools.product([False, True], repeat=len(letters))):
        yield case(seed, "".join(c for c, there in zip(letters, chosen, strict=True) if there))


CASES = list(every_case())
SOME = CASES[:: len(CASES) // 12]


@pytest.fixture(params=["dense", "on a pattern"])
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the border is held, whatever its size."""
    if request.param != "dense":
        monkeypatch.setattr(border, "SMALL", 0)
        monkeypatch.setattr(border, "DENSER", np.inf)
    border._latest.clear()
    return str(request.param)


def thin(linear: LinearGaussian) -> Engine:
    """The checks turn sparse operators into dense ones, which would not be inner."""

    def sparse(name: str, operator: Operator) -> Operator:
        dense = isinstance(operator, Dense) and name != "w"
        return Sparse(sp.csr_array(operator.dense())) if dense else operator

    predictors = tuple(
        replace(p, columns={n: sparse(n, o) for n, o in p.columns.items()})
        for p in linear.predictors
    )
    return NestedEngine(replace(linear, predictors=predictors))


@pytest.mark.thorough
def test_answers_are_those_of_brute_force(held: str) -> None:
    for c in CASES:
        assert NestedEngine.refuses(c.linear) == "", c.name
        check_answers(NestedEngine, c)
        nest = nested(c.linear)
        assert isinstance(nest, Nest) and border.is_dense(nest) == (held == "dense")


@pytest.mark.thorough
def test_slopes_distances_and_the_prior_alone(held: str) -> None:
    for c in SOME:
        check_distances(thin, c)
        check_prior_alone(thin, c)
        for tilt in (None, tilted(c)):
            check_offset_adjoint(thin, c, tilt=tilt)
            if "w" not in c.name:  # slopes in a walk's precision are paired otherwise
                check_adjoints(thin, c, tilt=tilt)


@pytest.mark.few(1)
def test_adjoints_are_those_of_the_sparse_engine(held: str) -> None:
    def array(x: object) -> Array:
        return x.toarray() if sp.issparse(x) else np.asarray(x)  # type: ignore[attr-defined]

    for c in CASES[::5]:
        found = _conditioned(NestedEngine(c.linear), c)
        known = _conditioned(SparseEngine(c.linear), c)
        for tilt in (None, tilted(c)):
            a, b = found.adjoints(tilt), known.adjoints(tilt)
            pairs = [*zip(a.offset, b.offset, strict=True)]
            pairs += [(a.mean[n], b.mean[n]) for n in b.mean]
            assert set(a.precision) == set(b.precision)
            pairs += [(array(a.precision[n]), array(b.precision[n])) for n in b.precision]
            for p, q in zip(a.operator, b.operator, strict=True):
                pairs += [(array(p[n]), array(q[n])) for n in q]
            for x, y in pairs:
                np.testing.assert_allclose(x, y, atol=1e-11 * max(1.0, np.abs(y).max()))


def test_draws(held: str) -> None:
    for options in ("fsbcv", "ct", "bwn"):
        check_draws(NestedEngine, case(3, options))


def test_failures() -> None:
    check_failure(NestedEngine)
    c = case(1, "f")
    low = tuple(np.full_like(w, -3.0) for w in c.weight)
    failed = NestedEngine(c.linear).condition(low, c.shift)
    assert isinstance(failed, Failed) and failed.kind is Failure.NEGATIVE_WEIGHTS


@pytest.mark.parametrize("options", ["f", ""])
def test_a_level_that_wide_groups_hide_is_named(options: str) -> None:
    """sd 1e10 of the groups next to a flat level, or one as wide: nothing but rounding is left."""
    c = case(2, options)
    blocks = tuple(
        PriorBlock(b.name, (structure("normal", b.size, sd=1e10),), np.zeros(b.size))
        if b.name in ("u", "w") or (b.name == "level" and not options)
        else b
        for b in c.linear.blocks
    )
    linear = replace(c.linear, blocks=blocks, predictors=c.linear.predictors[:1])
    failed = NestedEngine(linear).condition(c.weight[:1], c.shift[:1])
    assert isinstance(failed, Failed) and "level" in failed.reason, failed


@pytest.mark.parametrize("rows", [40, 512, 1100])
def test_one_inner_latent_a_row(rows: int) -> None:
    """The passes along rows, chunk by chunk; a level, slopes, groups with a value each."""
    rng = np.random.default_rng(rows)
    blocks = tuple(normal(rng, n, k) for n, k in (("level", 1), ("w", 3), ("u", GROUPS)))
    columns: dict[str, Operator] = {
        "level": picks(np.zeros(rows, dtype=np.int64), 1),
        "w": Dense(rng.normal(size=(rows, 3))),
        "u": picks(rng.integers(0, GROUPS, rows), GROUPS, rng.normal(size=rows)),
    }
    linear = LinearGaussian(blocks, (Predictor(columns, rng.normal(size=rows)),))
    nest = nested(linear)
    assert isinstance(nest, Nest) and nest.plain
    weight = rng.gamma(2.0, 1.0, rows)
    weight[::9] = 0.0
    check_answers(NestedEngine, Case(f"{rows} rows", linear, (weight,), (rng.normal(size=rows),)))


def test_other_priors_and_constraints_of_the_same_operators() -> None:
    """What is kept for operators is not that of a model whose prior joins what it left apart."""
    c = case(4, "")
    assert NestedEngine.refuses(c.linear) == ""
    chain = PriorBlock("u", (structure("ar1", GROUPS, sd=1.0, rho=0.5),), np.zeros(GROUPS))
    blocks = tuple(chain if b.name == "u" else b for b in c.linear.blocks)
    joined = nested(replace(c.linear, blocks=blocks))
    assert isinstance(joined, str) or joined.inner_blocks != ("u",)
    tie = Constraints({"u": Dense(np.ones((1, GROUPS)))}, np.zeros(1))
    tied = nested(replace(c.linear, constraints=tie))
    assert isinstance(tied, str) or tied.inner_blocks != ("u",)
    again = nested(c.linear)
    assert isinstance(again, Nest) and again.inner_blocks == ("u",)


@pytest.mark.few(1)
def test_a_prior_that_stores_zeros(held: str) -> None:
    """An ar1 without correlation, and slopes without one, next to groups that join few of them."""
    rows, rng = 120, np.random.default_rng(0)
    walk = PriorBlock("day", (structure("ar1", 40, sd=1.0, rho=0.0),), np.zeros(40))
    blocks = (normal(rng, "level", 1), walk, normal(rng, "u", 60))
    columns: dict[str, Operator] = {
        "level": picks(np.zeros(rows, dtype=np.int64), 1),
        "day": picks(rng.integers(0, 40, rows), 40),
        "u": picks(rng.integers(0, 60, rows), 60),
    }
    linear = LinearGaussian(blocks, (Predictor(columns, np.zeros(rows)),))
    c = Case("zeros", linear, (rng.gamma(2.0, 1.0, rows),), (rng.normal(size=rows),))
    check_answers(NestedEngine, c)
    wide = Predictor({"u": Dense(np.ones((2, 60))), "day": picks(np.arange(2), 40)}, np.zeros(2))
    variance = _conditioned(NestedEngine(linear), c).project(wide)[1]
    known = _conditioned(SparseEngine(linear), c).project(wide)[1]
    np.testing.assert_allclose(variance, known, rtol=1e-11)


@pytest.mark.thorough
def test_a_border_of_flat_latents_that_are_tied(held: str) -> None:
    c = case(7, "f")
    flat = PriorBlock("w", (structure("flat", 2),), np.zeros(2))
    blocks = tuple(flat if b.name == "w" else b for b in c.linear.blocks)
    tie = Constraints({"w": Dense(np.ones((1, 2)))}, np.array([0.5]))
    linear = replace(c.linear, blocks=blocks, constraints=tie)
    check_answers(NestedEngine, replace(c, linear=linear))


@pytest.mark.thorough
def test_levels_stand_where_they_belong() -> None:
    """Of two nested levels the lower one is inner; of crossed factors that with more levels."""
    rows, rng = 200, np.random.default_rng(0)
    child = np.concatenate([np.arange(40), rng.integers(0, 40, rows - 40)])
    blocks = tuple(normal(rng, n, k) for n, k in (("school", 10), ("child", 40), ("day", 12)))
    columns: dict[str, Operator] = {
        "school": picks(child // 4, 10),
        "child": picks(child, 40),
        "day": picks(rng.integers(0, 12, rows), 12),
    }
    linear = LinearGaussian(blocks, (Predictor(columns, np.zeros(rows)),))
    nest = nested(linear)
    assert isinstance(nest, Nest)
    assert nest.inner_blocks == ("child",) and set(nest.border_blocks) == {"school", "day"}
    c = Case("two levels", linear, (rng.gamma(2.0, 1.0, rows),), (rng.normal(size=rows),))
    check_answers(NestedEngine, c)


def test_what_it_does_not_take() -> None:
    rng = np.random.default_rng(0)
    alone = LinearGaussian(
        (normal(rng, "u", 20),), (Predictor({"u": picks(np.arange(20), 20)}, np.zeros(20)),)
    )
    assert "no border" in NestedEngine.refuses(alone)
    chain = PriorBlock("u", (structure("ar1", 20, sd=1.0, rho=0.5),), np.zeros(20))
    walked = replace(alone, blocks=(chain,))
    assert "independent" in NestedEngine.refuses(walked)
    tied = case(0, "")
    tie = Constraints({"u": Dense(np.ones((1, GROUPS)))}, np.zeros(1))
    assert NestedEngine.refuses(replace(tied.linear, constraints=tie))


GROWTH = """lgm 1
index obs
index child
index term = {"level", "slope"}
data y[obs] : count
data x[obs] : real
data who[obs] : child
hyper S[term, term] : covariance ~ lkj_cov(eta = 2, u = 2, alpha = 0.05)
hyper s             : positive   ~ pc_sd(u = 1, alpha = 0.05)
latent a              ~ normal(sd = 3)
latent b              ~ normal(sd = 2)
latent d[child, term] ~ iid * dense(cov = S)
latent e[child]       ~ normal(sd = s)
let eta[obs] = a + b * x + d[who, "level"] + x * d[who, "slope"] + x^2 * e[who]
observe y ~ poisson(log_rate = eta)
"""


@pytest.mark.thorough
def test_fits_are_those_of_the_sparse_engine() -> None:
    rng = np.random.default_rng(4)
    rows, children = 600, 40
    who, x = rng.integers(0, children, rows), rng.normal(size=rows)
    u = rng.multivariate_normal([0.0, 0.0], [[0.3, 0.1], [0.1, 0.2]], children)
    y = rng.poisson(np.exp(0.5 + 0.3 * x + u[who, 0] + x * u[who, 1]))
    data = {"y": y, "x": x, "who": who}
    new = {"x": x[:6], "who": who[:6]}
    for method in ("laplace", "natural-gradient", "ep"):
        fits = [
            lgm.fit(lgm.loads(GROWTH), data, method=method, hyper="map", options={"engine": engine})
            for engine in ("nested", "sparse")
        ]
        ours, theirs = fits
        assert ours.engine == "nested" and ours.converged and theirs.converged
        assert ours.log_evidence == pytest.approx(theirs.log_evidence, abs=1e-6)
        for name in ("a", "b", "d", "e", "S"):
            np.testing.assert_allclose(ours.mean(name), theirs.mean(name), atol=1e-5)
            np.testing.assert_allclose(ours.sd(name), theirs.sd(name), rtol=1e-4)
        p, q = ours.predict(new), theirs.predict(new)
        np.testing.assert_allclose(p.mean("eta"), q.mean("eta"), atol=1e-5)


def _conditioned(engine: Engine, c: Case) -> Conditioned:
    q = engine.condition(c.weight, c.shift)
    assert not isinstance(q, Failed), c.name
    return q


@pytest.mark.thorough
def test_functionals_of_any_rows(held: str) -> None:
    """Rows that touch two groups, a column that a group has not, the border alone, nothing."""
    c = case(5, "fscbt")
    q, n = _conditioned(NestedEngine(c.linear), c), c.linear.size
    rng = np.random.default_rng(0)
    x = np.where(rng.random((60, n)) < 0.15, rng.normal(size=(60, n)), 0.0)
    x[:5] = 0.0
    x[1, c.linear.starts["u"]] = 2.0
    x[2, c.linear.starts["v"] + 3] = 1.0
    x[3, c.linear.starts["v"] : c.linear.starts["v"] + 2] = 1.0, -1.0
    columns = {
        b.name: Sparse(sp.csr_array(x[:, w]))
        for b in c.linear.blocks
        for w in [c.linear.slices[b.name]]
    }
    functional = Predictor(columns, np.zeros(60))
    mean, variance = q.project(functional)
    square = q.project(functional, full=True)[1]
    np.testing.assert_allclose(mean, x @ q.latent_mean, atol=1e-12)
    np.testing.assert_allclose(variance, square.diagonal(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(square, x @ q.solve(x.T), atol=1e-11)
    known = brute(c.linear, c.weight, c.shift)
    np.testing.assert_allclose(variance, np.diag(x @ known.covariance @ x.T), rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("options", ["c", "fscn"])
def test_many_rows_are_passed_over_group_by_group(
    options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = _conditioned(NestedEngine((c := case(3, options)).linear), c)
    monkeypatch.setattr(nest, "MANY", 1)
    other = _conditioned(made := NestedEngine((c := case(3, options)).linear), c)
    assert made.nest.by_group[1] is not None
    for mine, theirs in zip(
        (*one.mean, *one.variance), (*other.mean, *other.variance), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)
    assert one.log_normaliser == pytest.approx(other.log_normaliser, rel=1e-12)
