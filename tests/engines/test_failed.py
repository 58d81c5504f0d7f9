"""Failures are values: a kind, the latents it is about, and a sentence made of them."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.contract.engine import Direction, Failed, Failure, Term
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.operators.explicit import Dense
from lgmdsl.structures.independent import Flat


def test_a_reason_alone_is_a_failure() -> None:
    """What authors of engines write, in the order of the fields."""
    assert Failed("no").reason == Failed("no").worded(lambda name, _: name) == "no"
    assert Failed("no", True).rounding and not Failed("no").rounding
    assert Failed("no").kind is None and Failed("no").latents == ()


@pytest.mark.parametrize("kind", Failure)
def test_every_kind_has_a_sentence(kind: Failure) -> None:
    direction = Direction((Term("b", 2),))
    failed = Failed(kind=kind, direction=direction, number=7.0)
    assert failed.reason and "{" not in failed.reason
    assert ("b[2]" in failed.reason) == (kind in (Failure.UNDETERMINED, Failure.HIDDEN))
    assert failed.worded(lambda name, entry: f"{name} of {entry}").count("b[2]") == 0
    assert failed.rounding is kind.rounding


@pytest.mark.parametrize(
    ("direction", "text"),
    [
        (Direction((Term("b", 0, -3.0),)), "b[0]"),
        (Direction((Term("b", 0),), more=True), "a direction of b[0]"),
        (Direction((Term("b", 0, -1.0), Term("u", 3, 0.5))), "the direction b[0] - 0.5 u[3]"),
        (
            Direction((Term("b", 0), Term("u", 3, 0.25), Term("u", 1, -1.0)), more=True),
            "the direction b[0] + 0.25 u[3] - u[1] + ...",
        ),
    ],
)
def test_directions_are_spelled(direction: Direction, text: str) -> None:
    assert direction.worded(lambda name, entry: f"{name}[{entry}]") == text


@pytest.mark.parametrize("engine", [CovarianceEngine, PrecisionEngine, SparseEngine])
def test_the_direction_is_the_null_space(engine: type) -> None:
    """Two columns of which one is twice the other leave f[0] - f[1] / 2 free."""
    block = PriorBlock("f", (Flat(2),), np.zeros(2))
    predictor = Predictor({"f": Dense(np.array([[1.0, 2.0], [3.0, 6.0]]))}, np.zeros(2))
    lost = engine(LinearGaussian((block,), (predictor,))).condition((np.ones(2),), (np.ones(2),))
    assert isinstance(lost, Failed) and lost.kind is Failure.UNDETERMINED
    assert lost.direction is not None and lost.latents == ("f",) and not lost.direction.more
    z = np.zeros(2)
    for term in lost.direction.terms:
        z[term.entry] = term.coefficient
    np.testing.assert_allclose(z / z[0], [1.0, -0.5], atol=1e-6)


def test_the_iterative_engine_names_a_latent() -> None:
    block = PriorBlock("f", (Flat(2),), np.zeros(2))
    predictor = Predictor({"f": Dense(np.array([[1.0, 2.0], [3.0, 6.0]]))}, np.zeros(2))
    engine = IterativeEngine(LinearGaussian((block,), (predictor,)))
    lost = engine.condition((np.ones(2),), (np.ones(2),))
    assert isinstance(lost, Failed) and lost.kind is Failure.UNDETERMINED
    assert lost.latents == ("f",) and lost.direction is not None and lost.direction.more
