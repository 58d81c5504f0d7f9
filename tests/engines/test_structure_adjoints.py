"""Derivatives of log_normaliser in the structures' arguments, through the engines' adjoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian, PriorBlock
from lgmdsl.contract.structure import Structure
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.shared.prior import precision_adjoints
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.structures.catalogue import structure

from .subspace import case, graph

Kind = type[SparseEngine] | type[PrecisionEngine]
GRAPH = graph(np.random.default_rng(5), 6)
AT = np.array([0.0, 0.4, 1.7, 2.0, 3.1, 5.0])
ARGUMENTS: dict[str, dict[str, object]] = {
    "rw1": {"at": AT},
    "rw2": {},
    "rw2 free": {"sum_to_zero": False},
    "seasonal": {"period": 3},
    "ar1": {"rho": 0.4},
    "ar": {"pacf": np.array([0.5, -0.3])},
    "ou": {"rate": 0.8, "at": AT},
    "besag": {"graph": GRAPH},
    "car": {"graph": GRAPH, "alpha": 0.7},
}
CONTINUOUS = ("sd", "rho", "pacf", "rate", "alpha")


def build(name: str, moved: Mapping[str, Array]) -> Structure:
    given = {"sd": np.array(0.8), **ARGUMENTS[name], **moved}
    return structure(name.split()[0], 6, **given)


def value(engine: Kind, linear: LinearGaussian, parts: tuple[Structure, ...]) -> Conditioned:
    blocks = list(linear.blocks)
    blocks[1] = PriorBlock("f", parts, blocks[1].mean)
    made = engine(replace(linear, blocks=tuple(blocks)))
    rng = np.random.default_rng(3)
    rows = linear.rows
    q = made.condition((rng.exponential(size=rows),), (rng.normal(size=rows),))
    assert isinstance(q, Conditioned)
    return q


@pytest.mark.few(33)
@pytest.mark.parametrize("engine", [SparseEngine, PrecisionEngine])
@pytest.mark.parametrize("tie", ["", "point"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_slopes_in_every_argument(engine: Kind, name: str, tie: str) -> None:
    # A seed whose axis has six entries, and a proper intercept.
    linear = next(
        c.linear
        for c in (case(s, ("ar1",), tie) for s in range(99))
        if c.linear.blocks[1].size == 6 and c.linear.blocks[0].factors[0].name == "normal"
    )
    q = value(engine, linear, (build(name, {}),))
    slopes = build(name, {}).pullback_precision(q.adjoints().precision["f"])
    for argument in CONTINUOUS:
        given = {"sd": 0.8, **ARGUMENTS[name]}
        if argument not in given:
            continue
        at = np.asarray(given[argument], dtype=np.float64)
        turn = np.asarray(np.random.default_rng(7).normal(size=at.shape))

        def moved(t: float, argument: str = argument, at: Array = at, turn: Array = turn) -> float:
            part = build(name, {argument: np.asarray(at + t * turn)})
            return value(engine, linear, (part,)).log_normaliser

        h = 1e-4
        measured = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h)
        assert float(np.sum(slopes[argument] * turn)) == pytest.approx(measured, rel=1e-6, abs=1e-7)


def second(name: str, size: int, turn: float) -> Structure:
    """The second factor of a product, moved along its argument."""
    if name == "ar1":
        return structure("ar1", size, rho=np.array(0.5 + turn))
    moved = np.diag(np.arange(1.0, size + 1)) + 0.3 + turn * np.ones((size, size))
    return structure("dense", size, cov=moved)


@pytest.mark.parametrize(("name", "argument"), [("ar1", "rho"), ("dense", "cov")])
def test_slopes_of_a_product(name: str, argument: str) -> None:
    """Both factors of besag * ar1 and besag * dense, sparse adjoints against dense ones."""
    linear = case(3, ("besag", name), "").linear
    sizes = [f.size for f in linear.blocks[1].factors]
    besag = structure("besag", sizes[0], graph=graph(np.random.default_rng(1), sizes[0]), sd=0.7)
    parts = (besag, second(name, sizes[1], 0.0))
    found = []
    for engine in (SparseEngine, PrecisionEngine):
        q = value(engine, linear, parts)
        block = PriorBlock("f", parts, linear.blocks[1].mean)
        own = precision_adjoints(block, q.adjoints().precision["f"])
        found.append([p.pullback_precision(a) for p, a in zip(parts, own, strict=True)])
    for sparse, dense in zip(*found, strict=True):
        for key, slope in sparse.items():
            np.testing.assert_allclose(slope, dense[key], rtol=1e-8, atol=1e-9)

    def moved(t: float) -> float:
        return value(SparseEngine, linear, (besag, second(name, sizes[1], t))).log_normaliser

    measured = (8 * (moved(1e-4) - moved(-1e-4)) - (moved(2e-4) - moved(-2e-4))) / 12e-4
    assert float(found[0][1][argument].sum()) == pytest.approx(measured, rel=1e-6)
