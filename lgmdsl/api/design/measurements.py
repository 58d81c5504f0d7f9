"""Which measurements to make next: lines of them, by the information that they promise.

Seeger, Nickisch, Pohmann and Schoelkopf (2009) choose lines of k-space for a scanner in this way:
from the posterior of what is measured, each line's information gain; the best is measured, the
posterior re-fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.acquisition.measuring import MEASURING_SCORES, Refitted, measure
from lgmdsl.api.design import page
from lgmdsl.api.design.cases import METHOD
from lgmdsl.api.design.measurable import (
    check_covariance,
    lines_of,
    measurable,
    measured_response,
    tester,
    values_of,
)
from lgmdsl.api.design.steps import check_counts, check_score, check_steps
from lgmdsl.api.fit.compiled import fit_compiled
from lgmdsl.api.settings import check_fixed, check_numbers, check_options
from lgmdsl.arrays import AnyArray, Array, BoolArray
from lgmdsl.compile import compile_model
from lgmdsl.contract.status import Status
from lgmdsl.dataset import Keys, read
from lgmdsl.html import Page, Paged
from lgmdsl.inference.plan import plan
from lgmdsl.inference.registry import load_entry_points
from lgmdsl.inference.settings import FitSettings
from lgmdsl.language.load import AnyModel, as_model
from lgmdsl.sites import catalogue as sites
from lgmdsl.state import made_by


@dataclass(frozen=True)
class LineChoice:
    """Choice `number` (from 1): the line's label, how many values it measures, the information that
    these promised, in nats (None at random), and for how many lines it was computed."""

    number: int
    line: str | int
    values: int
    score: float | None
    computed: int


@dataclass(frozen=True)
class MeasurementPoint:
    """After `included` lines, `measured` values in all: the log evidence of these, the root mean
    square error at the test values (None without any), and how the fit ended."""

    included: int
    measured: int
    log_evidence: float
    test_error: float | None
    status: Status


@made_by("lgm.design_measurements")
@dataclass(frozen=True, eq=False)
class MeasurementDesign(Paged):
    """The lines in their order, and the course of the posterior.

    `response` is the datum that is measured, `by` what the lines are called, `lines` the labels of
    those that could be chosen. `course`: a point at the start and after each block. `measured`:
    which entries of the response are measured at the end, in its shape. `wanted` lines were asked
    for; `interrupted`: whether it was cut off before.
    """

    response: str
    by: str
    score: str
    method: str
    lines: AnyArray
    choices: tuple[LineChoice, ...]
    course: tuple[MeasurementPoint, ...]
    measured: BoolArray
    asked: bool
    wanted: int
    interrupted: bool

    def __str__(self) -> str:
        return self.table

    def __repr__(self) -> str:
        made = f"{len(self.choices):,} of {self.wanted:,} lines"
        return f"MeasurementDesign({self.response!r}: {made} by {self.by!r})"

    @property
    def table(self) -> str:
        """A page of 80 columns."""
        return Page(page.measurements_table(self))

    def as_json(self) -> dict[str, object]:
        """A JSON object: the lines, and the course of the posterior."""
        return page.measurements_json(self)

    def picture(self, format: str = "png") -> bytes:
        """Test error against measured values, as a png, svg or pdf.

        Raises MethodError E501 without matplotlib, or where there is no test error.
        """
        return page.measurements_picture(self, format)


def design_measurements(
    model: AnyModel,
    data: object,
    by: str,
    candidates: object = None,
    score: str = "information",
    steps: int = 1,
    block: int = 1,
    oracle: object = None,
    test: object = None,
    fixed: Mapping[str, object] | None = None,
    seed: int = 0,
    *,
    method: str = METHOD,
    options: Mapping[str, object] | None = None,
    outer: int | None = None,
    mapping: Keys | None = None,
    on_choice: Callable[[int, int], None] | None = None,
) -> MeasurementDesign:
    """Choose `steps` lines of measurements by a score: information, or at random.

    The model has one observation with Gaussian noise, `observe y ~ normal(mean = eta, sd = s)`, any
    priors and potentials that the `method` takes. What is missing in `y` can be measured (declare
    it `real?`). A line is a group of entries that are measured together: `by` is an index of `y`,
    whose members are the lines, or the key of an array in `candidates` of the shape of `y`, with
    the label of each entry's line (missing where it belongs to none). Entries that the data have
    are not measured again.

    A line's score is the information that its values have about the latents, in nats,

        1/2 log|1 + P^1/2 V P^1/2|

    with V the posterior covariance of its predictors and P the precisions of its noise. `oracle`
    has the values of `y`: chosen lines join with them, and after every `block` lines the model is
    fitted again from where it was, to convergence or by `outer` steps of the method. `test` has
    values of `y` (noise-free ones, if there are any) of which the posterior mean's root mean square
    error is taken after each block.

    Without an oracle the lines are ranked: each narrows the posterior for those that follow, whose
    other sites keep their weights.

    By an engine that iterates, scores are computed for the lines only that may be best by an upper
    bound, sum log(1 + P V) / 2 over entries, whose variances are estimated from 32 draws; a line is
    passed over if its bound is 3 standard errors too low.

    `on_choice` is called with the number of lines there are and of those wanted. An interrupt
    (Ctrl-C) ends it with the lines there are. `seed`: of `random`, draws, estimates.

        lgm.design_measurements(model, data, "row", steps=4)
        lgm.design_measurements(model, data, "spoke", {"spoke": labels}, oracle={"y": all_of_y})

    Raises what `fit` raises; MethodError E501 for another model, E103 for an unknown score, E108
    for invalid numbers or more steps than lines, E505 for lines larger than the memory budget;
    DataError E301 to E305 for candidates and values that do not fit.
    """
    model = as_model(model, "design_measurements")
    load_entry_points()
    check_score(score, MEASURING_SCORES)
    counts = {"steps": steps, "block": block} | ({} if outer is None else {"outer": outer})
    check_counts(counts)
    check_numbers(seed)
    settings = FitSettings(
        method, "fixed", check_fixed(fixed), None, check_options(options), seed, None, outer
    )
    canonical = compile_model(model.checked, read(data, mapping), sites.find_site)
    response = measured_response(canonical)
    observed = canonical.blocks[response]
    pool = None if candidates is None else read(candidates, mapping)
    lines = lines_of(canonical, response, by, pool)
    check_steps(steps, len(lines.rows), "line")
    values = None
    if oracle is not None:
        wanted = np.concatenate(lines.rows)
        values, _ = values_of(canonical, response, read(oracle, mapping), "oracle", wanted)
    truth = None
    if test is not None:
        truth = values_of(canonical, response, read(test, mapping), "test data", None)
    planned = plan(canonical, method, None, settings.options)
    check_covariance(planned)
    settings = replace(settings, method=planned.method)
    fit = fit_compiled(model, canonical, settings)
    theta = fit.theta
    measuring = measurable(planned, settings, response, lines, theta)
    error = None if truth is None else tester(canonical, response, *truth, theta)

    def point(included: int, measured: int, evidence: float, z: Array, status: Status) -> None:
        off = None if error is None else error(z)
        course.append(MeasurementPoint(included, measured, evidence, off, status))

    choices: list[LineChoice] = []
    chosen: list[int] = []
    course: list[MeasurementPoint] = []
    begun = fit.posterior
    assert observed.y is not None
    point(0, len(observed.rows), fit.log_evidence, begun.conditioned.latent_mean, fit.status)
    events = measure(measuring, begun, observed.rows, observed.y, score, steps, block, seed, values)
    cut = False
    try:
        for event in events:
            if isinstance(event, Refitted):
                q = event.posterior
                z = q.conditioned.latent_mean
                point(event.included, len(event.rows), q.log_evidence, z, event.status)
                continue
            label = lines.labels[event.group].item()
            size = len(lines.rows[event.group])
            choices.append(LineChoice(event.number, label, size, event.score, event.computed))
            chosen.append(event.group)
            if on_choice is not None:
                on_choice(len(choices), steps)
    except KeyboardInterrupt:
        if not choices:
            raise
        cut = True
    measured = np.zeros(int(np.prod(observed.shape, dtype=np.int64)), dtype=bool)
    measured[observed.rows] = True
    for group in chosen:
        measured[lines.rows[group]] = True
    return MeasurementDesign(
        observed.name,
        by,
        score,
        fit.method,
        lines.labels,
        tuple(choices),
        tuple(course),
        measured.reshape(observed.shape),
        oracle is not None,
        steps,
        cut,
    )
