"""The exact engines against brute force on the standard cases; adjoints by differences; draws."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.contract.engine import Engine
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.operators.explicit import Dense
from lgmdsl.structures.independent import Normal
from lgmdsl.testing.engine_checks import (
    check_distances,
    check_draws,
    check_engine,
    conditioned,
    standard_cases,
)
from lgmdsl.testing.engine_models import Case, random_case

ENGINES = [CovarianceEngine, PrecisionEngine, SparseEngine]


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_conformance(engine: type[Engine]) -> None:
    assert check_engine(engine, standard_cases(range(1))) >= 20


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("tie", ["", "proper", "flat"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("vector", [False, True])
def test_draws(engine: type[Engine], tie: str, signed: bool, vector: bool) -> None:
    gp = engine is CovarianceEngine
    check_draws(engine, random_case(11, gp, True, signed, vector, tie))


@pytest.mark.parametrize("signed", [False, True])
def test_distances_leave_out_what_is_fixed(signed: bool) -> None:
    """A latent of prior sd 0 does not move, and adds nothing to the rank."""
    block = PriorBlock("w", (Normal(3, 0.0, np.array([1.0, 0.0, 2.0])),), np.zeros(3))
    linear = LinearGaussian((block,), (Predictor({"w": Dense(np.eye(3))}, np.zeros(3)),))
    weight = (np.array([1.0, 2.0, -0.1 if signed else 0.5]),)
    case = Case("a fixed latent", linear, weight, (np.ones(3),))
    check_distances(CovarianceEngine, case)
    q = conditioned(CovarianceEngine, case)
    drawn = q.draw(np.random.default_rng(0), 20_000)
    assert drawn.rank == 2 and np.ptp(drawn.z[:, 1]) == 0.0
    assert drawn.radius.mean() == pytest.approx(2.0, abs=0.1)
    assert drawn.radius.var() == pytest.approx(4.0, abs=0.4)


def test_the_checks_can_fail() -> None:
    """A wrong engine (prior means ignored) does not pass."""

    class Wrong(PrecisionEngine):
        def __init__(self, linear) -> None:  # type: ignore[no-untyped-def]
            super().__init__(linear)
            self.start = self.start + 1e-6

    def case() -> Case:
        return random_case(0, gp=False)

    with pytest.raises(AssertionError, match="off by"):
        check_engine(Wrong, [case()])
    assert np.isfinite(PrecisionEngine(case().linear).start).all()
