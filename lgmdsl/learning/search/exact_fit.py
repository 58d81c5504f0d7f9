"""Responses that a model fits exactly: their density has no maximum as the noise goes to 0.

A constant response, the points of a line, more coefficients than rows: all residuals may be 0, and
n rows with k free directions have a density like sd^-(n - k). Once the sd of the noise is below
the rounding of the responses, residuals are rounding too, and no search says any more; nor does one
from another start, as none could end higher. Other searches fail before that: where one has, and
the noise is small beside what the responses vary by, and the density still rises as it shrinks, so
that residuals are smaller than it, that is the reason. The noise is whatever y varies by where the
predictor is known: an sd, 1 / shape of a Weibull, the root of 1 / shape of a gamma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.problem import Problem
from lgmdsl.errors import MethodError
from lgmdsl.inference.landmarks import has_unit, landmark_of
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.remedies import narrow_prior, pin

# Of the largest response: noise below it is lost to the rounding of sums and products.
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
# Of what the responses vary by, or of their size where they do not: noise of a failed search that
# tells of an exact fit. Lognormal responses end at 1e-7 of it, Weibull and gamma at 1e-6 and 1e-5.
NEARLY = 1e-4
STEP = 1e-2  # of a coordinate, over which the noise's power is taken
USUAL = 1e-2  # of the size of the responses: the noise of an example


@dataclass(frozen=True)
class ExactFit:
    """`name`: the coordinate that sets the noise of data that are fitted exactly, of a `value`, and
    `grows` where noise vanishes; `noise`: what is left of it, of the size of the responses, a
    `power` of the value. `rows`: how many say so; `positive`: whether it is one of these."""

    name: str
    value: float
    grows: bool
    noise: float
    power: float
    rows: float
    positive: bool

    @property
    def cause(self) -> str:
        """Cause of a search without an end, as part of a sentence."""
        end = "grows" if self.grows else "goes to 0"
        return f"the model fits the data exactly, and their density rises as `{self.name}` {end}"

    @property
    def end(self) -> str:
        """Where the search ended."""
        return (
            f"it ended at `{self.name}` = {self.value:.2g}, where noise is {self.noise:.1g} of the "
            "size of the responses"
        )

    @property
    def remedy(self) -> str:
        """A way on: a prior that decides, as the data do not."""
        usual = self.value * (USUAL / self.noise) ** (1.0 / self.power)
        such = ""
        if self.positive:
            such = f", such as {narrow_prior(usual, self.rows)} for noise of 1 % of their size"
        return (
            f"say how precise the data are, as they do not: pin `{self.name}` "
            f"({pin(self.name)}), or give it a narrow prior{such}"
        )


def below_rounding(objective: Objective, at: Evaluation, gradient: Array) -> ExactFit | None:
    """The exact fit at a noise below the rounding of its responses, by the `gradient` (d,) of what
    is searched; None where there is none."""
    problem = at.problem
    predictors, means = problem.engine.linear.predictors, problem.engine.prior_mean
    for k, (p, mean) in enumerate(zip(predictors, means, strict=True)):
        if not has_unit(problem.sites[k]):
            continue
        noise, responses = _noise(problem, k, mean)
        level = max(_largest(x) for x in (responses, p.offset, mean))
        if noise <= ROUNDING * level:
            found = _set_by(objective, at, gradient, k, level)
            if found is not None:
                return found
    return None


def nearly_exact(objective: Objective, at: Evaluation, gradient: Array) -> ExactFit | None:
    """The exact fit that a search ended on its way to, by the `gradient` (d,) of what was searched;
    None where that is not the reason of its end."""
    for k, mean in enumerate(at.posterior.conditioned.mean):
        noise, responses = _noise(at.problem, k, mean)
        size = _largest(responses)
        spread = float(np.std(responses)) if responses.size else 0.0
        level = spread if spread > ROUNDING * size else size
        if noise <= NEARLY * level:
            found = _set_by(objective, at, gradient, k, level)
            if found is not None:
                return found
    return None


def _set_by(
    objective: Objective, at: Evaluation, gradient: Array, block: int, level: float
) -> ExactFit | None:
    """What sets the noise of a block and shrinks it uphill: of several, the steepest."""
    coordinates, canonical = objective.coordinates, objective.planned.canonical
    mean = at.posterior.conditioned.mean[block]
    noise = _noise(at.problem, block, mean)[0]
    for j in np.argsort(-np.abs(gradient)):
        x = at.x.copy()
        x[j] += STEP * np.sign(gradient[j])
        try:
            moved = objective.planned.at(coordinates.unpack(x), seed=objective.seed)
        except MethodError:
            continue
        ahead = _noise(moved, block, mean)[0]
        name = coordinates.names[j]
        values = [objective.entry(place, int(j)) for place in (at.x, x)]
        if not (0.0 < ahead < noise and min(values) > 0.0 and values[0] != values[1]):
            continue
        power = math.log(ahead / noise) / math.log(values[1] / values[0])
        return ExactFit(
            name,
            values[0],
            values[1] > values[0],
            noise / level,
            power,
            canonical.total_weight,
            coordinates.type_of(int(j)) == "positive",
        )
    return None


def _noise(problem: Problem, block: int, mean: Array) -> tuple[float, Array]:
    """The most that a response of a block varies by where its predictor is known, and the
    responses; inf where nothing says so."""
    site = problem.sites[block]
    unknown = math.inf, np.zeros(0)
    if has_unit(site):
        landmark = landmark_of(site, problem.engine.linear.predictors[block].event)
        if landmark is None:
            return unknown
        centre, distance = landmark
        return _largest(distance[np.isfinite(distance)]), centre
    if site.spec.potential or site.spec.discrete:
        return unknown
    try:
        with np.errstate(all="ignore"):
            variance, responses = site.conditional_variance(mean), site.conditional_mean(mean)
    except TypeError:  # a family without moments
        return unknown
    if not len(responses) or not (np.isfinite(variance).all() and np.isfinite(responses).all()):
        return unknown
    return math.sqrt(_largest(variance)), responses


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0.0))
