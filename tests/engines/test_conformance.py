"""Both engines against brute force on the standard cases, adjoints by differences, exact draws."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.contract.engine import Engine
from lgmdsl.engines.covariance import CovarianceEngine
from lgmdsl.engines.precision import PrecisionEngine
from lgmdsl.testing.engine_checks import check_draws, check_engine, standard_cases
from lgmdsl.testing.engine_models import Case, random_case

ENGINES = [CovarianceEngine, PrecisionEngine]


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
