"""What the tests on random models share: the methods, one fit by name, and how many examples."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, event, settings

from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.errors import MethodError, NumericalError
from lgmdsl.testing.random.model import RandomModel

STEPS = 150  # of any solver: L-BFGS may want thousands at extreme scales, and stops honestly
SOLVERS = ("natural-gradient", "opper-archambeau", "cholesky", "coordinate-ascent", "lcl")
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ("laplace", "ep", *SOLVERS)},
    "laplace, corrected": ("laplace", {"correct_mean": True}),
    "double-loop": ("double-loop", {}),
    "coordinate-descent": ("coordinate-descent", {}),
    "px-vb": ("px-vb", {}),
}
# More on Gaussian models: the mode and its curvature are the posterior there.
ON_GAUSSIANS: dict[str, tuple[str, dict[str, Any]]] = {
    **METHODS,
    "map": ("map", {}),
    "stochastic": ("stochastic", {"minibatch": 3}),
    "inducing": ("inducing", {}),
}


def few(examples: int) -> settings:
    """So many examples, whatever the profile: models cost more than numbers do. Under the profile
    `thorough` fifty times as many."""
    thorough = settings.default is not None and settings.default.max_examples >= 1000
    return settings(
        max_examples=examples * (50 if thorough else 1),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


def solved(
    case: RandomModel,
    method: str,
    tol: float = 1e-9,
    bound: str | None = None,
    extreme: bool = False,
) -> Fit | None:
    """The fit. None where the method refuses the model or, at `extreme` scales, finds no state to
    start from: hypothesis's statistics tell how often (--hypothesis-show-statistics)."""
    name, options = ON_GAUSSIANS[method]
    try:
        fit = case.fit(name, options=options, tol=tol, bound=bound, max_steps=STEPS)
    except MethodError:
        event(f"{method} refuses")
        return None
    except NumericalError:
        if not extreme:
            raise
        event(f"{method} finds no state")
        return None
    event(f"{method}: {fit.status}")
    return fit


def predictors(fit: Fit) -> tuple[Array, Array]:
    """(rows,) means and sds of eta."""
    return np.asarray(fit.mean("eta").values), np.asarray(fit.sd("eta").values)


def apart(one: tuple[Array, Array], two: tuple[Array, Array]) -> float:
    """How far two sets of moments are from each other: in sds, and in log sds. Rows that the prior
    knows exactly do not count."""
    (m1, s1), (m2, s2) = one, two
    known = np.maximum(s1, s2) <= 1e-7 * (1.0 + np.abs(m1))
    scale = np.where(known, 1.0, np.maximum(s1, s2))
    means = np.where(known, 0.0, np.abs(m1 - m2) / scale)
    spreads = np.where(known, 0.0, np.abs(s1 - s2) / scale)
    return float(max(means.max(initial=0.0), spreads.max(initial=0.0)))
