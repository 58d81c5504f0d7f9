"""The convergent double loop of EP, the last resort: each step lowers EP's free energy.

The free energy is convex in the moments but for the marginals' term, which is concave: its tangent
at `reference` gives the inner problem (see `inner`), and the marginals at the inner optimum are
the next reference (Opper and Winther 2005; Heskes and Zoeter 2002). At its optimum, with marginals
N(m, v) and the reference N(m_g, v_g),

    -free energy = inner value + 1/e sum KL(N(m, v) || N(m_g, v_g))

rises at each step, to the log evidence of EP. Plain steps are slow where sites share directions,
so Anderson's candidate for (m, log v) is tried first, and kept only if the bound rises as well.
Dense in the rows: a step costs a few Newton steps on 2P unknowns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.problem import Problem
from lgmdsl.numerics.optimisation.anderson import Anderson
from lgmdsl_backends.ep.inner import Reference, minimise
from lgmdsl_backends.ep.matching import Matched, own

# Rows above which 2P x 2P arrays are too large for a last resort.
LARGEST = 4000
# Relative error of the bound: the site masses are good to 1e-9.
ROUNDING = 1e-9
# Logs that a variance of an extrapolated reference may be from the plain step's: bounds have no
# digits at variances of 1e300, which candidates have had.
FARTHEST = 20.0


@dataclass(frozen=True, eq=False)
class OuterPoint:
    """An inner optimum, its bound on the log evidence, the same q as a point of EP (None where its
    own cavities are improper), the references before it, the factor of the next stretched step."""

    inner: Matched
    bound: float
    point: Matched | None
    history: Anderson = field(default_factory=lambda: Anderson(8))
    stretch: float = 1.0

    @property
    def residual(self) -> float:
        """EP's residual, inf where q's own cavities are improper."""
        return math.inf if self.point is None else self.point.residual


def begin(problem: Problem, point: Matched) -> OuterPoint | None:
    """The first inner optimum, at the marginals of an EP point (whose cavities are proper)."""
    return _solved(problem, point, (point.mean, point.variance))


def advance(problem: Problem, outer: OuterPoint) -> OuterPoint | None:
    """The next inner optimum with a higher bound, or nearer to the fixed point where the bound
    holds to its rounding; None where there is none.

    Tried in turn: Anderson's candidate, the plain step stretched, the plain step.
    """
    inner = outer.inner
    now, image = _coordinates(*inner.reference), _coordinates(inner.mean, inner.variance)
    history = outer.history.seen(now, image)
    trials = [(image, 2.0)]
    if outer.stretch > 1.0:
        trials.insert(0, (now + outer.stretch * (image - now), 2.0 * outer.stretch))
    if len(history.points) > 1:
        trials.insert(0, (history.candidate(_measure(inner)), outer.stretch))
    slack = ROUNDING * (1.0 + abs(outer.bound))
    for place, stretch in trials:
        if np.abs(place - image)[len(inner.mean) :].max(initial=0.0) > FARTHEST:
            continue
        tried = _solved(problem, inner, _reference(place))
        if tried is None or tried.bound < outer.bound - slack:
            continue
        if tried.bound > outer.bound + slack or tried.residual < outer.residual:
            return replace(tried, history=history, stretch=stretch)
    return None


def _solved(problem: Problem, before: Matched, reference: Reference) -> OuterPoint | None:
    power = before.power
    for weight, shift in _starts(before, reference):
        minimum = minimise(problem, weight, shift, reference, power)
        if minimum is not None:
            gain = _divergence(minimum.mean, minimum.variance, reference, minimum.known) / power
            matched = own(problem, minimum.conditioned, power)
            return OuterPoint(
                minimum, minimum.value + gain, matched if isinstance(matched, Matched) else None
            )
    return None


def _starts(before: Matched, reference: Reference) -> list[tuple[Array, Array]]:
    """Sites to start from: the last ones with each cavity kept from collapsing; all of them
    scaled down until the cavities are proper."""
    variance = reference[1]
    power, slope = before.power, before.shift - before.weight * before.mean
    precision = 1.0 / np.where(before.known, 1.0, variance)
    old = 1.0 / np.where(before.known, 1.0, before.cavity_variance)
    most = np.where(
        before.known, before.weight, (precision - np.minimum(0.1 * old, 0.5 * precision)) / power
    )
    weight = np.minimum(before.weight, most)
    scaled = np.min(np.where(before.weight > 0.0, most / before.weight, 1.0), initial=1.0)
    return [
        (weight, slope + weight * before.mean),
        (scaled * before.weight, scaled * before.shift),
    ]


def _divergence(mean: Array, variance: Array, reference: Reference, known: BoolArray) -> float:
    """sum KL(N(mean, variance) || N(*reference))."""
    m, v = reference
    size = np.where(known, 1.0, v)
    ratio = np.where(known, 1.0, variance / size)
    gap = np.where(known, 0.0, (mean - m) ** 2 / size)
    return float(0.5 * np.sum(ratio - 1.0 - np.log(ratio) + gap))


def _coordinates(mean: Array, variance: Array) -> Array:
    return np.concatenate([mean, np.log(np.maximum(variance, 1e-300))])


def _reference(flat: Array) -> Reference:
    mean, log_variance = np.split(flat, 2)
    return mean, np.exp(np.clip(log_variance, -690.0, 690.0))


def _measure(point: Matched) -> Callable[[Array], Array]:
    """Moves of the means in posterior sds, and of log variances over root two."""
    scale = np.concatenate(
        [
            np.where(point.known, 0.0, 1.0 / np.sqrt(np.where(point.known, 1.0, point.variance))),
            np.where(point.known, 0.0, np.sqrt(0.5)),
        ]
    )
    return lambda change: scale * change if change.ndim == 1 else scale[:, None] * change
