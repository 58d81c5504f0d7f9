"""Choosing by what sizes say: the same engine as the whole table's, without building the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import lgmdsl as lgm
from lgmdsl.arrays import IntArray
from lgmdsl.compile import compile_model
from lgmdsl.contract.engine import Estimate
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.structure import Structure
from lgmdsl.dataset import read
from lgmdsl.engines import costs, least_costs
from lgmdsl.engines.choose import (
    ENGINES,
    PATIENCE,
    Entry,
    Known,
    Terms,
    choose,
    considered,
    preferred,
    required,
    table,
)
from lgmdsl.engines.grouped import batched
from lgmdsl.engines.grouped.plates import rows_join
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.inference.plan import plan
from lgmdsl.operators.base import Operator
from lgmdsl.operators.convolution import Convolution
from lgmdsl.operators.explicit import Dense, Identity, Sparse
from lgmdsl.sites.catalogue import find_site
from lgmdsl.structures.catalogue import structure
from tests.compiled import canonical_form

RNG = np.random.default_rng(3)
ROOT = Path(__file__).resolve().parents[2]
MODELS = sorted(p.parent.name for p in (ROOT / "models").glob("*/model.lgm"))


def model(
    rows: int, *parts: tuple[tuple[Structure, ...], Operator], event: int = 0
) -> LinearGaussian:
    blocks, columns = [], {}
    for k, (factors, operator) in enumerate(parts):
        size = operator.shape[1]
        blocks.append(PriorBlock(f"z{k}", factors, np.zeros(size)))
        columns[f"z{k}"] = operator
    return LinearGaussian(tuple(blocks), (Predictor(columns, np.zeros(rows), event),))


def normal(size: int) -> tuple[Structure, ...]:
    return (structure("normal", size, sd=1.0),)


def picks(rows: int, size: int, index: IntArray | None = None) -> Sparse:
    which = RNG.integers(size, size=rows) if index is None else index
    return Sparse(sp.csr_array((np.ones(rows), (np.arange(rows), which)), shape=(rows, size)))


def level(rows: int) -> tuple[tuple[Structure, ...], Operator]:
    return normal(1), picks(rows, 1, np.zeros(rows, dtype=np.int64))


def groups(rows: int, count: int) -> LinearGaussian:
    return model(rows, level(rows), level(rows), (normal(count), picks(rows, count)))


def crossed(rows: int, first: int, second: int) -> LinearGaussian:
    return model(rows, (normal(first), picks(rows, first)), (normal(second), picks(rows, second)))


def wide_design(rows: int, count: int) -> LinearGaussian:
    x = Dense(RNG.normal(size=(rows, 12)))
    return model(rows, (normal(12), x), (normal(count), picks(rows, count)))


def chain(n: int) -> LinearGaussian:
    return model(n, ((structure("ar1", n, sd=1.0, rho=0.8),), Identity(n)))


def walk(n: int) -> LinearGaussian:
    return model(n, level(n), ((structure("rw2", n, sd=1.0),), Identity(n)))


def factors(persons: int, items: int, count: int) -> LinearGaussian:
    loadings = sp.kron(sp.eye_array(persons), RNG.normal(size=(items, count)), format="csr")
    operator = Sparse(sp.csr_array(loadings))
    return model(persons * items, (normal(persons * count), operator))


def vectors(count: int, length: int, seen: int) -> LinearGaussian:
    whole = (structure("iid", count), structure("dense", length, cov=np.eye(length)))
    rows = count * seen
    index = np.repeat(np.arange(count) * length, seen) + RNG.integers(length, size=rows)
    return model(rows, (whole, picks(rows, count * length, index)))


def joint_sites(rows: int, count: int) -> LinearGaussian:
    return model(rows, level(rows), (normal(count), picks(rows, count)), event=2)


def image(size: int) -> LinearGaussian:
    blur = Convolution((size, size), np.full((9, 9), 1.0 / 81.0), "circular")
    return model(size * size, ((structure("flat", size * size),), blur))


CASES: dict[str, Callable[[], LinearGaussian]] = {
    "few groups": lambda: groups(400, 40),
    "groups": lambda: groups(2000, 200),
    "many rows, few groups": lambda: groups(60_000, 130),
    "many groups": lambda: groups(3000, 1500),
    "groups without a level": lambda: model(900, (normal(300), picks(900, 300))),
    "crossed": lambda: crossed(2000, 300, 40),
    "few crossed": lambda: crossed(500, 90, 60),
    "dense columns": lambda: wide_design(6000, 200),
    "dense columns, few groups": lambda: wide_design(4000, 118),
    "ar1": lambda: chain(2000),
    "short ar1": lambda: chain(150),
    "rw2": lambda: walk(700),
    "factors": lambda: factors(150, 12, 3),
    "few persons": lambda: factors(20, 5, 2),
    "vectors": lambda: vectors(30, 80, 4),
    "vectors of which all is seen": lambda: vectors(40, 12, 30),
    "two predictors a site": lambda: joint_sites(800, 160),
    "image": lambda: image(12),
    "more latents than rows": lambda: model(60, (normal(500), Dense(RNG.normal(size=(60, 500))))),
}


def check_choice(linear: LinearGaussian) -> None:
    """As the whole table has it; no cost is below the least that was said of it."""
    whole, terms = table(linear), Terms.of()
    best, wanted = preferred(considered(linear, terms)), preferred(whole)
    assert best is not None and wanted is not None
    assert (best.name, best.flops, best.least) == (wanted.name, wanted.flops, False)
    for option in whole:
        if option.entry.least is None:
            continue
        least = option.entry.least(linear)
        assert option.refusal or not least.refusal, f"{option.name} takes it"
        if not option.refusal:
            cost = option.entry.cost(linear)
            assert least.flops <= cost.flops and least.doubles <= cost.doubles, option.name


@pytest.mark.parametrize("case", CASES)
def test_the_choice_is_that_of_the_whole_table(case: str) -> None:
    check_choice(CASES[case]())


@pytest.mark.parametrize("name", MODELS)
def test_the_choice_for_the_models_of_the_repository(name: str) -> None:
    folder = ROOT / "models" / name
    loaded, data = lgm.load(folder / "model.lgm"), read(folder / "data.npz", None)
    canonical = compile_model(loaded.checked, data, find_site)
    check_choice(canonical.linear(canonical.hypers.start({})))


def test_every_engine_is_chosen_by_some_case() -> None:
    chosen = {engine.name for make in CASES.values() if (engine := choose(make())[0]) is not None}
    assert chosen >= {e.engine.name for e in ENGINES if e.engine.exact}


def forbidden(*_: object) -> None:
    raise AssertionError("sizes say enough")


@pytest.mark.parametrize("case", ["many rows, few groups", "groups", "dense columns", "ar1"])
def test_an_engine_that_sizes_rule_out_forms_no_pattern(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plates need B and Q; the sparse engine a table of pairs: neither is made for a loser."""
    linear = CASES[case]()
    name = next(o.name for o in [preferred(table(linear))] if o is not None)
    monkeypatch.setattr(batched, "plates_of", forbidden)
    if name != "sparse":
        monkeypatch.setattr(SparseEngine, "__init__", forbidden)
    fresh = LinearGaussian(linear.blocks, linear.predictors)
    engine, _ = choose(fresh)
    assert engine is not None and engine.name == name


def test_what_rows_join_is_never_split() -> None:
    """Small groups that the rows leave are not said to be joined, large ones are."""
    assert rows_join(CASES["groups"]()) and rows_join(CASES["dense columns"]())
    assert rows_join(CASES["crossed"]()) and not rows_join(CASES["factors"]())
    assert not rows_join(CASES["groups without a level"]())


@pytest.mark.thorough
def test_many_rows_are_no_reason_against_the_sparse_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million rows of crossed effects have a table of pairs above what is taken without asking;
    the dense cost that they were given refused the model."""
    for module in (costs, least_costs):
        monkeypatch.setattr(module, "COPY_LIMIT", 1000.0)
    engine, _ = choose(crossed(3000, 900, 40))
    assert engine is not None and engine.name in ("nested", "sparse")
    check_choice(crossed(3000, 900, 40))


@pytest.mark.parametrize("name", ["poisson_glmm", "disease_map", "space_time", "discrete_choice"])
def test_the_engine_of_another_theta_is_the_one_that_would_be_chosen(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken without a look at costs, and where it refuses, or is slow, costs are looked
    at."""
    folder = ROOT / "models" / name
    model = canonical_form(lgm.load(folder / "model.lgm"), folder / "data.npz")
    looked: list[str] = []

    def noted(entry: Entry) -> Entry:
        def cost(linear: LinearGaussian) -> Estimate:
            looked.append(entry.engine.name)
            return entry.cost(linear)

        return replace(entry, cost=cost)

    entries = [noted(e) for e in ENGINES]
    monkeypatch.setattr("lgmdsl.engines.choose.ENGINES", entries)
    planned = plan(model, "laplace")
    rng = np.random.default_rng(0)
    first = planned.at(model.hypers.sample(rng)).engine.name
    for _ in range(5):
        theta = model.hypers.sample(rng)
        looked.clear()
        assert planned.at(theta).engine.name == first
        assert looked == []
        chosen = choose(model.linear(theta))[0]
        assert chosen is not None and chosen.name == first
    linear = model.linear(theta)
    for other in ("batched", "iterative"):
        assert required(linear, Terms.of(), known=Known(other, 1.0))[0].name == first
    slow = Known("covariance", 2.0 * PATIENCE)
    assert required(linear, Terms.of(), known=slow)[0].name == first
