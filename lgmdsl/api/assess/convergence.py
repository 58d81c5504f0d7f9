"""fit.convergence(): how fast a method converged, and how fast its map contracts at the limit."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lgmdsl.api.page import counted
from lgmdsl.api.response_data import with_responses
from lgmdsl.assess.convergence import observed_rate, spectral_radius
from lgmdsl.contract.backend import Iterated
from lgmdsl.dataset import Keys
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.html import Paged
from lgmdsl.inference.plan import plan
from lgmdsl.remedies import number

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

# Sites beyond which differences of a round in each of them take too long.
MOST = 500


@dataclass(frozen=True)
class Convergence(Paged):
    """How fast a fit converged.

    `rate`: the factor by which the distance from the limit fell with each step at the end of the
    run; nan for a run too short to measure it. `radii`: spectral radius of a round's derivative at
    the limit, by finite differences, for the method's own round and its variants; empty for methods
    whose rounds are no such map, nan where the model has more than `MOST` sites.
    """

    method: str
    steps: int
    rate: float
    radii: Mapping[str, float]

    def __str__(self) -> str:
        lines = [f"{self.method}: {counted(self.steps, 'step')}"]
        if math.isfinite(self.rate):
            lines.append(f"  observed rate    {self.rate:.6f} a step{_halving(self.rate)}")
        lines += [
            f"  spectral radius  {radius:.6f} ({name} round){_halving(radius)}"
            for name, radius in self.radii.items()
        ]
        return "\n".join(lines)


def convergence(fit: FitRecord, data: object, mapping: Keys | None) -> Convergence:
    """See `Fit.convergence`."""
    rate = observed_rate([e.residual for e in fit.trace if e.stage != "hyperparameters"])
    settings = json.loads(fit.provenance.get("settings", "{}"))
    options = json.loads(fit.provenance.get("options", "{}"))
    planned = plan(fit.canonical, fit.method, settings.get("bound"), options)
    radii: dict[str, float] = {}
    if isinstance(planned.backend, Iterated):
        if not fit.converged:
            raise MethodError(_unfinished(fit))
        rounds = planned.backend.rounds()
        if sum(len(b) for b in fit.shift) > MOST:
            return Convergence(fit.method, fit.steps, rate, dict.fromkeys(rounds, math.nan))
        canonical = with_responses(
            fit, data, mapping, "the rate of convergence", "fit.convergence(data=...)"
        )
        problem = plan(canonical, fit.method, settings.get("bound"), options).at(fit.theta)
        radii = {
            name: spectral_radius(problem, turn, fit.weight, fit.shift)
            for name, turn in rounds.items()
        }
    return Convergence(fit.method, fit.steps, rate, radii)


def _halving(rate: float) -> str:
    if not 0.0 < rate < 1.0:
        return ""
    return f", a digit in {counted(max(1, round(math.log(0.1) / math.log(rate))), 'step')}"


def _unfinished(fit: FitRecord) -> Diagnostic:
    return Diagnostic(
        "E501",
        f"a rate is measured at the limit, and this fit has not reached it: {fit.status}",
        help=f"fit again with {number('max-steps', 1000)}",
    )
