"""The search for the best mean at fixed variances: it ends soon also where f overflows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.objectives.profile import Profile, maximise_mean
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from tests.backends.climbing import TWO, problem

COUNTS = TWO.partition("data x")[0].replace("y[obs] : binary", "y[obs] : count") + (
    "latent b[feat] ~ normal(sd = 2)\nlet eta[obs] = X @ b\nobserve y ~ poisson(log_rate = eta)\n"
)


@dataclass(frozen=True, eq=False)
class Counted(Expected):
    """An answer that counts how often it was asked."""

    inner: Expected
    calls: list[int] = field(default_factory=list)

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        self.calls.append(1)
        return self.inner.expected(mean, variance, second)


@pytest.mark.parametrize(("spread", "most"), [(1.0, 8), (30.0, 12), (2e3, 60)])
def test_a_search_that_gets_nowhere_ends(spread: float, most: int) -> None:
    """At a variance of 2000 E[e^s] is beyond all numbers, and every step is cut to nothing."""
    given = problem(COUNTS, "natural-gradient")
    (answer,) = given.expecting()
    counted = Counted(answer)
    start = given.engine.prior_mean
    still = (np.zeros_like(start[0]),)
    found = maximise_mean(given.engine, (counted,), (np.full_like(start[0], spread),), start, still)
    assert isinstance(found, Profile)
    assert len(counted.calls) <= most
    if spread < 2e3:
        slope = found.answers[0].d_mean - found.alpha[0]
        np.testing.assert_allclose(slope @ (found.mean[0] - start[0]), 0.0, atol=1e-5)
