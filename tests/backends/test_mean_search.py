"""The search for the best mean at fixed variances: it ends soon also where f overflows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.objectives.profile import Profile, maximise_mean
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl_backends.natural_gradient import NaturalGradient
from tests.backends.climbing import TWO, problem
from tests.compiled import problem_for

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


LARGE = """lgm 1
index obs
data y[obs] : count
hyper s : positive ~ exponential(rate = 1)
latent a ~ normal(sd = 20)
latent u[obs] ~ normal(sd = s)
observe y ~ poisson(log_rate = a + u)
"""


def large(s: float, level: float) -> Problem:
    """The problem of counts about e^level."""
    y = np.round(np.exp(level + np.random.default_rng(0).normal(size=20)))
    return problem_for("natural-gradient", LARGE, {"y": y}, {"s": s})


@pytest.mark.parametrize("level", [9.0, 12.0, 16.0])
def test_steps_below_the_rounding_of_large_counts_are_taken(level: float) -> None:
    """Counts of 1e7 leave the energy some 1e-8 nats, far more than its size says: no step is halved
    until it is nothing, from the best mean of nearly the same variances."""
    given = large(1.0, level)
    (answer,) = given.expecting()
    start = given.engine.prior_mean
    still = (np.zeros_like(start[0]),)
    for spread in (1e-9, 1e-5, 1e-4):
        variance = np.full_like(start[0], spread)
        best = maximise_mean(given.engine, (answer,), (variance,), start, still, 1e-9)
        assert isinstance(best, Profile)
        counted = Counted(answer)
        again = maximise_mean(
            given.engine, (counted,), (1.0001 * variance,), best.mean, best.alpha, 1e-9
        )
        assert isinstance(again, Profile) and len(counted.calls) <= 3


def test_an_earlier_posterior_that_does_not_suit_is_left() -> None:
    """Under a prior of sd 40 weights of next to nothing leave variances of 1600
    and E[e^s] is e^800: Newton comes down from there by e a step."""
    given, wide = large(0.01, -3.0), large(40.0, -3.0)
    whole = run(NaturalGradient(), given, Tolerances())
    assert whole.posterior is not None
    thin = replace(whole.posterior, weight=tuple(1e-6 * w for w in whole.posterior.weight))
    cold, warm = (run(NaturalGradient(), wide, Tolerances(), warm=w) for w in (None, thin))
    assert cold.status is warm.status is Status.converged
    assert warm.steps <= cold.steps + 3
    assert cold.posterior is not None and warm.posterior is not None
    assert warm.posterior.log_evidence == pytest.approx(cold.posterior.log_evidence, abs=1e-6)
