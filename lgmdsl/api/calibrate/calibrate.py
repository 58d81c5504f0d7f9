"""Simulation-based calibration of a method on a model.

Draw latents and data from the model, fit the data, and ask where the truth lies in the posterior:
if what it reports were exact, P(X < truth) would be uniform over runs (Cook, Gelman and Rubin 2006;
Talts et al. 2018), hyperparameters included. What the fits claim of their own errors is held
against what is found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np

from lgmdsl.api.calibrate.claims import Claims, contradiction
from lgmdsl.api.calibrate.page import page
from lgmdsl.api.calibrate.placed import is_reported
from lgmdsl.api.calibrate.run import (
    CalibrationRecord,
    CalibrationTask,
    RunOutcome,
    run_once,
    shared_runs,
)
from lgmdsl.api.jobs import workers_for
from lgmdsl.api.page import counted, several
from lgmdsl.api.settings import check_fixed, check_numbers, check_options
from lgmdsl.arrays import Array
from lgmdsl.assess.uniformity import Uniformity, band, ecdf, uniformity
from lgmdsl.dataset import Keys
from lgmdsl.errors import MethodError
from lgmdsl.html import Page
from lgmdsl.inference.registry import load_entry_points
from lgmdsl.inference.settings import FitSettings, MethodName
from lgmdsl.language.load import AnyModel, as_model
from lgmdsl.remedies import either
from lgmdsl.state import made_by
from lgmdsl.workers.opened import check_jobs
from lgmdsl.workers.task import Jobs

NO_SIZES: Mapping[str, int] = MappingProxyType({})
# The chance that any quantity of an exact posterior leaves its band.
ALPHA = 0.05
# Fewer values say nothing; a quantity may be missing from runs in which it is known exactly.
FEWEST = 20


@made_by("lgm.calibrate")
@dataclass(frozen=True)
class Calibration:
    """The outcomes of a calibration, in the order of their numbers; `wanted` runs were asked for
    (more than there are where it was interrupted)."""

    task: CalibrationTask
    outcomes: tuple[RunOutcome, ...]
    wanted: int

    def __repr__(self) -> str:
        faults = several(tuple(self.faults)) or "nothing at fault"
        runs = f"{len(self.outcomes):,} of {self.wanted:,} runs"
        size = counted(len(self.values), "quantity", "quantities")
        return f"Calibration({self.method!r}, {runs}, {size}: {faults})"

    def _repr_html_(self) -> str:
        from lgmdsl.api.calibrate.page import card

        return card(self)

    @cached_property
    def values(self) -> Mapping[str, Array]:
        """P(X < truth) of each quantity over the runs that ended in a posterior."""
        values: dict[str, list[float]] = {}
        for outcome in self.outcomes:
            for name, value in outcome.values.items():
                values.setdefault(name, []).append(value)
        return {name: np.array(v) for name, v in values.items() if len(v) >= FEWEST}

    @cached_property
    def tests(self) -> Mapping[str, Uniformity]:
        """Each quantity's test; `p` is not adjusted for the number of quantities."""
        return {name: uniformity(v) for name, v in self.values.items()}

    @property
    def method(self) -> str:
        """The method that ran (what `auto` chose)."""
        return next((o.method for o in self.outcomes if o.method), self.task.settings.method)

    @property
    def interrupted(self) -> bool:
        return len(self.outcomes) < self.wanted

    @property
    def failed(self) -> tuple[RunOutcome, ...]:
        """Runs without a posterior."""
        return tuple(o for o in self.outcomes if o.failure)

    @property
    def unfinished(self) -> int:
        """Runs whose fit did not converge; their posteriors count."""
        return sum(not o.converged and not o.failure for o in self.outcomes)

    @property
    def level(self) -> float:
        """The p-value below which one of the quantities is at fault."""
        return ALPHA / max(len(self.values), 1)

    @property
    def faults(self) -> Mapping[str, str]:
        """The quantities outside their bands, and what that says."""
        return {n: t.fault() for n, t in self.tests.items() if t.p < self.level}

    @property
    def notes(self) -> tuple[str, ...]:
        """How the data were drawn, where that is not what the model says alone."""
        return tuple(dict.fromkeys(note for o in self.outcomes for note in o.notes))

    @cached_property
    def claims(self) -> Claims:
        """What the fits of the runs with a posterior claimed of their errors."""
        return Claims.of([o.claim for o in self.outcomes if not o.failure])

    @cached_property
    def contradictions(self) -> Mapping[str, str]:
        """The latents, lets and hyperparameters that are off by more than the fits claimed, where
        they claimed anything, and how. (Averages and the likelihood are no part of a claim.)"""
        values: dict[str, list[float]] = {n: [] for n in self.tests if is_reported(n)}
        for outcome in self.outcomes:
            for name in values.keys() & outcome.values.keys():
                if outcome.claim.known:
                    values[name].append(outcome.values[name])
        found = {
            n: contradiction(self.claims, np.array(v), len(values))
            for n, v in values.items()
            if len(v) >= FEWEST
        }
        return {n: words for n, words in found.items() if words}

    @property
    def worst_first(self) -> tuple[str, ...]:
        """The quantities, those that are least uniform first."""
        tests = self.tests

        def key(name: str) -> tuple[float, float]:
            t = tests[name]
            off = max(abs(t.bias) / t.bias_error, abs(t.sd_off) / t.sd_error)
            return t.p, -off

        return tuple(sorted(tests, key=key))

    @property
    def calibrated(self) -> bool:
        """Whether there is something to judge, nothing at fault, and nothing that contradicts the
        claims of the fits."""
        return bool(self.tests) and self.agrees

    @property
    def agrees(self) -> bool:
        """Whether nothing is at fault, as far as can be judged."""
        return not (self.faults or self.contradictions or self.failed)

    @property
    def verdict(self) -> str:
        """One sentence."""
        runs = counted(len(self.outcomes) - len(self.failed), "run")
        if not self.tests:
            return f"undecided: {runs}, too few to judge (at least {FEWEST})"
        against = next((n for n in self.worst_first if n in self.contradictions), "")
        if self.faults:
            worst = next(n for n in self.worst_first if n in self.faults)
            others = len(self.faults) - 1
            more = f" (and {counted(others, 'more quantity', 'more quantities')})" if others else ""
            text = f"not calibrated: {worst}: {self.faults[worst]}{more}"
            if against:
                claim = f"{against}: {self.contradictions[against]}"
                return f"{text}; this contradicts what the fits claim: {claim}"
            return f"{text}; {self._excused}"
        if against:
            return f"the fits' claims are contradicted: {against}: {self.contradictions[against]}"
        if self.failed:
            return f"undecided: {counted(len(self.failed), 'run')} ended without a posterior"
        return f"calibrated: in {runs} nothing leaves its {1 - ALPHA:.0%} band"

    @property
    def _excused(self) -> str:
        """What claims say of faults that do not contradict them."""
        if not self.claims.known:
            return "the fits do not know their errors"
        return "no larger than what the fits claim, or no part of it"

    @property
    def table(self) -> str:
        """A page of 80 columns."""
        return Page(page(self))

    def as_json(self) -> dict[str, object]:
        """A JSON object: the verdict, what the fits claimed, and each quantity with its values, the
        worst first."""
        return {
            "method": self.method, "seed": self.task.settings.seed, "runs": len(self.outcomes),
            "wanted": self.wanted, "failed": len(self.failed), "not_converged": self.unfinished,
            "calibrated": self.calibrated, "verdict": self.verdict, "level": self.level,
            "notes": list(self.notes),
            "claimed": self.claims.as_json(), "contradictions": dict(self.contradictions),
            "quantities": {n: self._quantity(n) for n in self.worst_first},
        }  # fmt: skip

    def _quantity(self, name: str) -> dict[str, object]:
        t = self.tests[name]
        return {
            "runs": t.count, "bias": t.bias, "bias_error": t.bias_error,
            "spread": t.spread, "sd": t.sd_off, "sd_error": t.sd_error,
            "inside_50": t.inside_50, "inside_90": t.inside_90,
            "inside_errors": list(t.inside_errors), "p": t.p,
            "values": self.values[name].tolist(),
        }  # fmt: skip

    def picture(self, format: str = "png") -> bytes:
        """The ECDFs with their band, as a png, svg or pdf. Raises MethodError E501 without
        matplotlib."""
        from lgmdsl.plot.canvas import check_matplotlib
        from lgmdsl.plot.pit import EcdfPanel, ecdf_picture

        check_matplotlib()
        panels = []
        for name, values in self.values.items():
            z, low, high = band(len(values), self.level)
            panels.append(EcdfPanel(name, z, ecdf(values, z), low, high, name in self.faults))
        return ecdf_picture(f"Calibration of {self.method}", panels, format)


def calibrate(
    model: AnyModel,
    data: object = None,
    sizes: Mapping[str, int] = NO_SIZES,
    runs: int = 200,
    method: MethodName | str = "auto",
    fixed: Mapping[str, object] | None = None,
    bound: str | None = None,
    options: Mapping[str, object] | None = None,
    seed: int = 0,
    tol: float | None = None,
    max_steps: int | None = None,
    *,
    mapping: Keys | None = None,
    jobs: Jobs = None,
    record: str | os.PathLike[str] | None = None,
    on_run: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Draw `runs` data sets from the model, fit each, and test where the truths lie.

    `data`, `sizes` as in `simulate`; method, fixed, bound, options, tol, max_steps as in `fit`.
    `jobs` shares the runs: a number of processes (default: one for each core; 1 stays in this
    process, which a part needs that was registered from a script or a notebook), the address of a
    Dask scheduler, a Dask Client, or any executor, as in `fit`; the digits do not depend on it.
    `record` is a file to which each run is appended; runs that it already holds are not repeated.
    `on_run` is called with the number of finished runs and of those wanted. After an interrupt
    (Ctrl-C) the finished runs are returned.

    Raises what `simulate` and `fit` raise for the model and settings, DataError E306 for a
    `record` that belongs to another calibration, MethodError E108 for an invalid number,
    WorkerError (E7xx) where workers die, are lost or lack something.
    """
    model = as_model(model, "calibrate")
    load_entry_points()
    check_numbers(seed, tol, max_steps)
    settings = FitSettings(
        method,
        fixed=check_fixed(fixed),
        bound=bound,
        options=check_options(options),
        seed=seed,
        tol=tol,
        max_steps=max_steps,
    )
    wanted = jobs if jobs is not None else os.cpu_count() or 1
    check_jobs(wanted)
    if not isinstance(runs, int | np.integer) or isinstance(runs, bool) or runs < 1:
        message = "`runs` must be a whole number from 1"
        raise MethodError.of(
            "E108", message, details=(f"got {runs!r}",), help=either("--runs 200", "runs=200")
        )
    task = CalibrationTask(
        model.to_lgm(), model.checked.source.name, data, mapping, dict(sizes), settings
    )
    outcomes = CalibrationRecord(record, task)
    remaining = [k for k in range(runs) if k not in outcomes.done]

    def add(outcome: RunOutcome) -> None:
        outcomes.add(outcome)
        if on_run is not None:
            on_run(sum(k < runs for k in outcomes.done), runs)

    try:
        # Run 0 in this process, so that errors of the model are raised as they are.
        if remaining[:1] == [0]:
            add(run_once(model, task, remaining.pop(0)))
        with workers_for(wanted if len(remaining) > 1 else None, model.tree) as workers:
            if workers is None:
                for number in remaining:
                    add(run_once(model, task, number))
            else:
                for outcome in shared_runs(workers, task, remaining):
                    add(outcome)
    except KeyboardInterrupt:
        if not outcomes.done:
            raise
    return Calibration(
        task, tuple(outcomes.done[k] for k in sorted(outcomes.done) if k < runs), runs
    )
