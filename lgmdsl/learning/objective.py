"""The log posterior of the hyperparameters: evidence + log prior, with its gradient.

    value(x) = log p(y | theta(x)) + log p(theta(x))         what `map` maximises
    density(x) = value(x) + log |dtheta/dx|                  what `integrate` integrates

x are unconstrained coordinates (log, logit, ...). The density of theta lives on its natural scale,
so the Jacobian enters only where x is integrated over (LANGUAGE.md, Conventions of the numbers).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.coefficient import Theta
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.errors import LgmError
from lgmdsl.inference.driver import Run, Tolerances, run
from lgmdsl.inference.plan import Plan
from lgmdsl.learning.coordinates import Coordinates
from lgmdsl.learning.gradient import evidence_gradient


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One fit at theta. `gradient`: (d,) of `value` in x; `jacobian_gradient`: (d,) of `jacobian`,
    log |dtheta/dx|."""

    x: Array
    theta: Theta
    run: Run
    log_prior: float
    gradient: Array
    jacobian: float
    jacobian_gradient: Array

    @property
    def posterior(self) -> GaussianPosterior:
        assert self.run.posterior is not None
        return self.run.posterior

    @property
    def value(self) -> float:
        return self.posterior.log_evidence + self.log_prior

    @property
    def density(self) -> float:
        return self.value + self.jacobian

    @property
    def density_gradient(self) -> Array:
        return self.gradient + self.jacobian_gradient


@dataclass
class Objective:
    """Fits a plan's model at hyperparameters. `calls` counts the fits, `steps` their iterations;
    `seconds` is the time of all, with gradients."""

    planned: Plan
    coordinates: Coordinates
    pinned: Mapping[str, object]
    tolerances: Tolerances
    max_steps: int | None = None
    calls: int = field(default=0, init=False)
    steps: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)

    def at(self, x: Array, warm: GaussianPosterior | None = None) -> Evaluation | None:
        """Evidence, prior and gradients at x, (d,); None where there is no fit: the prior or the
        posterior does not factorise there, or numbers overflow."""
        self.calls += 1
        began = time.perf_counter()
        with np.errstate(all="ignore"):  # what is not finite is None
            try:
                return self._at(np.array(x), warm)
            except (LgmError, np.linalg.LinAlgError, FloatingPointError):
                return None
            finally:
                self.seconds += time.perf_counter() - began

    def _at(self, x: Array, warm: GaussianPosterior | None) -> Evaluation | None:
        theta = self.coordinates.unpack(x)
        problem = self.planned.at(theta)
        found = run(self.planned.backend, problem, self.tolerances, self.max_steps, warm)
        self.steps += found.steps
        if found.posterior is None or not math.isfinite(found.posterior.log_evidence):
            return None
        space = self.planned.canonical.hypers
        log_prior, gradient = space.log_prior(theta, self.pinned.keys())
        for name, slope in evidence_gradient(
            self.planned, found.posterior, theta, self.pinned
        ).items():
            gradient[name] = gradient[name] + slope if name in gradient else slope
        jacobian, jacobian_gradient = self.coordinates.log_jacobian(x)
        out = Evaluation(
            x, theta, found, log_prior, self.coordinates.pull(gradient, x), jacobian,
            jacobian_gradient,
        )  # fmt: skip
        return out if math.isfinite(out.density) and np.isfinite(out.gradient).all() else None
