"""One run of a calibration: draw data from the model, fit them, place the truth in the fit, and
keep what the fit says of its own errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lgmdsl.api.calibrate.claims import NO_CLAIM, Claim
from lgmdsl.api.calibrate.placed import Truth, placed
from lgmdsl.api.fit.fitting import fit_data
from lgmdsl.api.simulate.simulate import simulated
from lgmdsl.dataset import Keys
from lgmdsl.errors import LgmError
from lgmdsl.inference.settings import FitSettings
from lgmdsl.language.builder import Model


@dataclass(frozen=True)
class CalibrationTask:
    """What all runs share. `text` and `name` are the model's; `data` its given covariates."""

    text: str
    name: str
    data: Any = None
    mapping: Keys | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    settings: FitSettings = field(default_factory=FitSettings)


@dataclass(frozen=True)
class RunOutcome:
    """Run `number`: values in [0, 1] by quantity, uniform over runs where the posterior is exact;
    what the fit claims of its errors; `failure` where there was no posterior (or no data); `notes`
    on how the data were drawn."""

    number: int
    values: Mapping[str, float]
    converged: bool = True
    method: str = ""
    failure: str = ""
    claim: Claim = NO_CLAIM
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {
            "run": self.number, "values": dict(self.values), "converged": self.converged,
            "method": self.method, "failure": self.failure, "claim": self.claim.as_json(),
            "notes": list(self.notes),
        }  # fmt: skip

    @classmethod
    def of_json(cls, row: Mapping[str, Any]) -> RunOutcome:
        return cls(
            int(row["run"]),
            {str(k): float(v) for k, v in row["values"].items()},
            bool(row["converged"]),
            str(row["method"]),
            str(row["failure"]),
            Claim.of_json(row["claim"]),
            tuple(map(str, row.get("notes", ()))),
        )


def run_once(model: Model, task: CalibrationTask, number: int) -> RunOutcome:
    """One run. Its digits depend on the task and the number alone.

    An error in a fit of drawn data is the run's outcome; one that the first draw meets already (no
    size for an index, a hyper without a value) is the model's and raised by run 0.
    """
    rng = np.random.default_rng([task.settings.seed, number])
    seed = int(rng.integers(2**62))
    try:
        drawn = simulated(
            model, task.data, task.sizes, task.settings.fixed, seed, mapping=task.mapping
        )
        data, notes = drawn.data, tuple(f"{w.code}: {w.message}" for w in drawn.warnings)
        fit = fit_data(model, data, replace(task.settings, seed=seed))
    except LgmError as error:
        if number == 0:
            raise
        return RunOutcome(number, {}, False, "", str(error).splitlines()[0])
    values = dict(placed(fit, Truth.of(fit, data, task.settings.fixed), rng))
    return RunOutcome(number, values, fit.converged, fit.method, "", Claim.of(fit), notes)
