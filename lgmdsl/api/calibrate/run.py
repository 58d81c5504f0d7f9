"""One run of a calibration: draw data from the model, fit them, and place the truth in the fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from lgmdsl.api.fit.fitting import fit_data
from lgmdsl.api.simulate.simulate import TRUTH, simulate
from lgmdsl.arrays import Array
from lgmdsl.errors import LgmError
from lgmdsl.inference.settings import FitSettings
from lgmdsl.language.builder import Model

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit

# The rank of the log likelihood among so many draws.
DRAWS = 199
# Joint draws that a let's entry is placed among, where the posterior is made of draws.
RANKED = 999
LIKELIHOOD = "log likelihood"
# An average of less variance, relative to that of independent entries, is one that a prior holds
# fixed (a sum to zero): what is left of it is rounding.
KNOWN = 1e-10


@dataclass(frozen=True)
class CalibrationTask:
    """What all runs share. `text` and `name` are the model's; `data` its given covariates."""

    text: str
    name: str
    data: Any = None
    mapping: Mapping[str, str] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    settings: FitSettings = field(default_factory=FitSettings)


@dataclass(frozen=True)
class RunOutcome:
    """Run `number`: values in [0, 1] by quantity, uniform over runs where the posterior is exact;
    `failure` where there was no posterior (or no data)."""

    number: int
    values: Mapping[str, float]
    converged: bool = True
    method: str = ""
    failure: str = ""

    def as_json(self) -> dict[str, object]:
        return {
            "run": self.number, "values": dict(self.values), "converged": self.converged,
            "method": self.method, "failure": self.failure,
        }  # fmt: skip

    @classmethod
    def of_json(cls, row: Mapping[str, Any]) -> RunOutcome:
        return cls(
            int(row["run"]),
            {str(k): float(v) for k, v in row["values"].items()},
            bool(row["converged"]),
            str(row["method"]),
            str(row["failure"]),
        )


def run_once(model: Model, task: CalibrationTask, number: int) -> RunOutcome:
    """One run. Its digits depend on the task and the number alone.

    An error in a fit of drawn data is the run's outcome; one that the first draw meets already (no
    size for an index, a hyper without a value) is the model's and raised by run 0.
    """
    rng = np.random.default_rng([task.settings.seed, number])
    seed = int(rng.integers(2**62))
    try:
        data = simulate(
            model, task.data, task.sizes, task.settings.fixed, seed, mapping=task.mapping
        )
        fit = fit_data(model, data, replace(task.settings, seed=seed))
    except LgmError as error:
        if number == 0:
            raise
        return RunOutcome(number, {}, False, "", str(error).splitlines()[0])
    values = dict(_placed(fit, data, rng))
    return RunOutcome(number, values, fit.converged, fit.method)


def _placed(
    fit: Fit, data: Mapping[str, Any], rng: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """Where the truth lies in the posterior: P(q < truth) of one random entry of each latent and
    let, and of each latent's average, or their ranks where the posterior is made of draws; the
    likelihood's rank among draws (Modrak et al. 2023: a quantity that depends on the data finds
    posteriors that are the prior)."""
    layout, q = fit.canonical.layout, fit.posterior.conditioned
    z = np.zeros(len(q.latent_mean))
    exact = None if fit.drawn is None else fit.drawn.z(slice(None))
    for block in fit.canonical.latents:
        where = layout.latent(block.name)
        z[where] = np.asarray(data[TRUTH + block.name], dtype=float).reshape(-1)
        k = where.start + int(rng.integers(block.size))
        entry = block.name if block.size == 1 else f"{block.name}[.]"
        if exact is None:
            yield from _place(entry, z[k], q.latent_mean[k], q.latent_variance[k])
        else:
            yield from _ranked(entry, z[k], exact[:, k])
        if block.size > 1 and exact is not None:
            yield from _ranked(f"mean({block.name})", z[where].mean(), exact[:, where].mean(axis=1))
        elif block.size > 1:
            c = np.zeros(len(z))
            c[where] = 1.0 / block.size
            mean, variance = float(c @ q.latent_mean), float(c @ q.solve(c))
            if variance > KNOWN * float(c**2 @ q.latent_variance):
                yield from _place(f"mean({block.name})", float(c @ z), mean, variance)
    for name in fit.canonical.named:
        entries = fit.conditional.evaluate(name, z[None, :]).reshape(-1)
        moments = fit.quantity(name)
        if name in fit.conditional.affine and entries.size:
            k = int(rng.integers(entries.size))
            mean, sd = moments.mean.reshape(-1)[k], moments.sd.reshape(-1)[k]
            entry = f"{name}[.]" if entries.size > 1 else name
            if exact is None:
                yield from _place(entry, entries[k], mean, sd**2)
            else:
                values = fit.sample(RANKED, names=[name])[name].values.reshape(RANKED, -1)
                yield from _ranked(entry, entries[k], values[:, k])
    drawn = q.sample(rng, DRAWS) if exact is None else exact[rng.permutation(len(exact))[:DRAWS]]
    draws = np.vstack([z, drawn])
    level = log_likelihood(fit, draws)
    below = np.count_nonzero(level[1:] < level[0]) + rng.random()
    yield LIKELIHOOD, float(below / (DRAWS + 1))


def _place(name: str, truth: float, mean: float, variance: float) -> Iterator[tuple[str, float]]:
    """P(q < truth); nothing for a quantity that is known (a constrained direction)."""
    if variance > 1e-20 * max(1.0, mean * mean):
        yield name, float(special.ndtr((truth - mean) / np.sqrt(variance)))


def _ranked(name: str, truth: float, values: Array) -> Iterator[tuple[str, float]]:
    """The rank of the truth among draws, as `_place`."""
    scale = max(1.0, float(np.abs(values).max()))
    if np.std(values) > np.sqrt(KNOWN) * 1e-1 * scale:  # constraints hold to single precision
        yield name, float((np.count_nonzero(values < truth) + 0.5) / (len(values) + 1))


def log_likelihood(fit: Fit, z: Array) -> Array:
    """sum log t(s) of all sites at draws z, (size, n)."""
    linear, total = fit.canonical.linear(fit.theta), np.zeros(len(z))
    for site, predictor in zip(fit.canonical.sites(fit.theta), linear.predictors, strict=True):
        s = predictor.values(z.T, linear.slices)
        for k in range(len(z)):
            predictor_values = (
                s[:, k] if not predictor.event else s[:, k].reshape(-1, predictor.event)
            )
            total[k] += float(np.sum(site.log_density(predictor_values)))
    return total
