"""A start from another method's fit, for methods that diverge from their own where data are rough.

Parallel EP diverges on binary data in groups whose intercepts vary widely (toenail: 7 visits a
patient, sd 4); from the variational Gaussian it converges in a few steps.
"""

from __future__ import annotations

from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.scout import replaced

# A start need not be precise.
ROUGH, STEPS = Tolerances(evidence=1e-4, mean=1e-2), 20


def warm_start(planned: Plan, problem: Problem, theta: Theta) -> GaussianPosterior | None:
    """The fit by the method that the plan's back end wants to start from, on the same engine; None
    where it wants none, all sites are Gaussian, some have kinks or several modes (which the
    variational fit may settle on), or that method cannot run the model."""
    other = replaced(planned, problem, planned.backend.spec.warm)
    if other is None:
        return None
    return run(other.backend, other.at(theta, problem.engine), ROUGH, STEPS).posterior
