"""Fits by another method: a cheaper one shows where the modes of hyperparameters may be, and one
that converges gives a start.

Far from the data's hyperparameters a variational fit takes tens of steps, Laplace's a few cheap
ones; where sites are log-concave, both evidences rise and fall in the same places.
"""

from __future__ import annotations

from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.site import Property
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.options import configured
from lgmdsl.inference.plan import Plan, verdict
from lgmdsl.inference.registry import BackendClass, backends


def replaced(planned: Plan, problem: Problem, method: str) -> Plan | None:
    """The plan for another method, by name; None where there is no such method or it cannot run the
    model, where all sites are Gaussian, or where some have kinks or several modes."""
    smooth = all(
        Property.LOG_CONCAVE in p and Property.KINKED not in p
        for p in (s.spec.properties for s in problem.sites)
    )
    if not method or problem.gaussian or not smooth:
        return None
    backend = backends().get(method)
    return None if backend is None else plan_by(planned, backend)


def plan_by(planned: Plan, backend: BackendClass) -> Plan | None:
    """The plan by another back end with its own options; None where it cannot run the model."""
    judged = verdict(planned.canonical.blocks, backend, None)
    if not judged.runs:
        return None
    return Plan(planned.canonical, configured(backend, {}), judged.routes, planned.terms)


def scout(planned: Plan, problem: Problem) -> Plan | None:
    """The plan by the method that the back end declares to show the modes; None where it declares
    none, or that cannot be had."""
    return replaced(planned, problem, planned.backend.spec.scout)


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
