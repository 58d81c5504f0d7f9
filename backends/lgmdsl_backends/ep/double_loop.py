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
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.joint import row_covariance
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.stacked import flatten, split
from lgmdsl.numerics.cholesky import cholesky
from lgmdsl.numerics.optimisation.anderson import Anderson
from lgmdsl_backends.ep.matching import FLATTEST, Matched, against, condition, own

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


# ---- inner -------------------------------------------------------------------------------------
# The inner problem of EP's double loop: convex in the site parameters, solved by Newton.
#
# With the marginals' part of EP's free energy held at `reference` (natural parameters g), and
# A_q = log_normaliser, A_i the log mass of t^e exp(lambda . phi), phi = (s, -s^2/2), minimise over
# the sites theta = (nu, tau)
#
#     A_q(theta) + 1/e sum A_i(g_i - e theta_i)          (up to constants: `Matched.value`)
#
# whose gradient is the difference of q's and the tilted moments, and whose Hessian is
# Cov_q(phi) + e Cov_tilted(phi). In coordinates (slope at m, tau) q's part is block diagonal, V and
# 1/2 V o V; the tilted part needs third and fourth moments, which follow from the tilted moments at
# one more cavity. (Opper and Winther 2005; Heskes and Zoeter 2002; Seeger and Nickisch 2011.)


Reference = tuple[Array, Array]  # mean and variance of each row

STEPS = 40
# Newton's decrement squared (in nats) at which the minimum is reached, and below which, in the
# value's own scale, the errors of the site masses (1e-9) can hide the descent from a line search.
REACHED, ROUNDED = 1e-15, 1e-7
# Armijo's constant and the shortest step.
SUFFICIENT, SHORTEST = 1e-4, 1e-8
# The share of a tilted precision by which the cavity's is raised to difference the moments.
NUDGE = 1e-4


def minimise(
    problem: Problem, weight: Array, shift: Array, reference: Reference, power: float
) -> Matched | None:
    """The minimum, from (tau, nu) where the value is finite; None where it is not found."""
    point = _point_at(problem, weight, shift, reference, power)
    if point is None:
        return None
    step = _newton(_model(problem, point))
    for _ in range(STEPS):
        if step is None:
            return None
        if -step.slope <= REACHED:
            return point
        following = _search(problem, point, step)
        if following is None:
            hidden = -step.slope <= ROUNDED * (1.0 + abs(point.value))
            return _polished(problem, point, step) if hidden else None
        point, step = following, _newton(_model(problem, following))
    return None


def _polished(problem: Problem, point: Matched, step: _Step) -> Matched:
    """The last digits, which the value does not show: full steps while the decrement halves."""
    while -step.slope > REACHED:
        following = _stepped(problem, point, step, 1.0)
        shorter = None if following is None else _newton(_model(problem, following))
        if following is None or shorter is None or -shorter.slope > 0.25 * -step.slope:
            break
        point, step = following, shorter
    return point


def _point_at(
    problem: Problem, weight: Array, shift: Array, reference: Reference, power: float
) -> Matched | None:
    q = condition(problem, weight, shift)
    if isinstance(q, Failed):
        return None
    point = against(problem, q, reference, power)
    return None if isinstance(point, Failed) else point


@dataclass(frozen=True, eq=False)
class _Step:
    """Changes of the slopes at m and of tau, and the value's derivative along them."""

    slope: float
    d_slope: Array
    d_weight: Array


@dataclass(frozen=True, eq=False)
class _Model:
    """Gradient and Hessian in (slope at m, tau): q's part and the tilted blocks."""

    covariance: Array
    gradient: Array
    spread: Array
    cross: Array
    fourth: Array
    fixed: BoolArray


def _search(problem: Problem, point: Matched, step: _Step) -> Matched | None:
    """Armijo along the path of `_stepped`."""
    slack = 1e-12 * (1.0 + abs(point.value))
    t = 1.0
    while t > SHORTEST:
        tried = _stepped(problem, point, step, t)
        if tried is not None and tried.value <= point.value + SUFFICIENT * t * step.slope + slack:
            return tried
        t *= 0.5
    return None


def _stepped(problem: Problem, point: Matched, step: _Step, t: float) -> Matched | None:
    """A share t of the step, but a cavity's precision falls exponentially, never below zero."""
    cavity = np.where(point.known, 1.0, 1.0 / np.maximum(point.cavity_variance, 1e-300))
    fall = np.maximum(point.power * t * step.d_weight / cavity, 0.0)
    change = np.where(fall > 0.0, -np.expm1(-fall) * cavity / point.power, t * step.d_weight)
    return _point_at(
        problem,
        point.weight + change,
        point.shift + t * step.d_slope + change * point.mean,
        point.reference,
        point.power,
    )


def _newton(model: _Model) -> _Step | None:
    """Newton's step; None where the Hessian has no factor."""
    n = len(model.spread)
    h = np.zeros((2 * n, 2 * n))
    h[:n, :n] = model.covariance
    h[n:, n:] = 0.5 * model.covariance**2
    i = np.arange(n)
    h[i, i] += model.spread
    h[n + i, n + i] += model.fourth
    h[i, n + i] = h[n + i, i] = model.cross
    h[model.fixed] = 0.0
    h[:, model.fixed] = 0.0
    diagonal = h.diagonal().copy()
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    h *= scale
    h *= scale[:, None]
    for ridge in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):
        damped = h.copy()
        damped[np.diag_indices(2 * n)] = 1.0 + ridge
        factor = cholesky(damped)
        if factor is not None:
            step = -scale * factor.solve(scale * model.gradient)
            return _Step(float(model.gradient @ step), step[:n], step[n:])
    return None


def _model(problem: Problem, point: Matched) -> _Model:
    v, away = point.tilted_variance, point.tilted_mean - point.mean
    third, square = _higher_moments(problem, point)
    gradient = np.concatenate([-away, -0.5 * (point.variance - v - away**2)])
    # A cavity without precision left can lose no more: its tau waits there (the minimum may lie on
    # that border while the reference is wider than any tilted density).
    flat = point.cavity_variance * (2.0 * FLATTEST) >= point.reference[1]
    flat &= gradient[len(v) :] < 0.0
    fixed = np.concatenate([point.known, point.known | flat])
    gradient[fixed] = 0.0
    return _Model(
        covariance=row_covariance(point.conditioned, problem.engine.linear),
        gradient=gradient,
        spread=point.power * v,
        cross=-0.5 * point.power * (third + 2.0 * away * v),
        fourth=0.25 * point.power * (square + 4.0 * away * third + 4.0 * away**2 * v),
        fixed=fixed,
    )


def _higher_moments(problem: Problem, point: Matched) -> tuple[Array, Array]:
    """E[r^3] and Var(r^2) of r = s - m^ under each tilted density.

    Raising the cavity's precision by h about the tilted mean m^ changes the tilted mean by
    -h E[r^3] / 2 and the tilted variance by -h Var(r^2) / 2.
    """
    v = point.tilted_variance
    known = point.known | ~(v > 0.0)
    h = NUDGE / np.where(known, 1.0, v)
    precision = 1.0 / np.where(known, 1.0, point.cavity_variance)
    raised = np.where(known, 0.0, 1.0 / (precision + h))
    centre = point.cavity_mean + raised * h * (point.tilted_mean - point.cavity_mean)
    predictors = problem.engine.linear.predictors
    pairs = zip(
        problem.tilting(), split(centre, predictors), split(raised, predictors), strict=True
    )
    answers = [site.tilted(x, y, point.power) for site, x, y in pairs]
    third = -2.0 / h * (flatten(tuple(a.mean for a in answers)) - point.tilted_mean)
    square = -2.0 / h * (flatten(tuple(a.variance for a in answers)) - v)
    third = np.where(known | ~np.isfinite(third), 0.0, third)
    square = np.where(known | ~np.isfinite(square), 0.0, square)
    # A covariance matrix has no negative determinant, whatever the differences say.
    return third, np.maximum(square, 1.02 * third**2 / np.where(known, 1.0, v))
