"""The expansion: all auxiliaries that can be are stretched by one rho, q(z) at its best for each.

Qi and Jaakkola 2007 scale z and the auxiliaries together and find c^2 = 1 / rho^2 by (13). Here
the auxiliaries alone are scaled and q(z) is optimised jointly (their section 3: then the map need
change one factor only), which holds for every Gaussian prior, offset and constraint: the shifts
move along d = pull, and log_normaliser is quadratic in them,

    bound(rho) = constant + count log rho + tilt rho - 1/2 size rho^2,
    tilt = d's_0 - slope,   size = square - d'Cov(s) d,

s_0 being the mean of s at rho = 0, and sums over sites understood. For probit sites, a prior of
mean 0 and no offsets the maximum is at rho^2 = N / size, as in PX-EM (Liu, Rubin and Wu 1998); (13)
is (size + M) / (N + M) where they say N, since they scale Cov(z) too, and its M goes with that part
of the numerator for a flat prior as well. The bound has slope 0 at rho = 1 wherever plain
variational Bayes is stationary, so the expansion is stationary there too.
"""

from __future__ import annotations

import math

import numpy as np

from lgmdsl.contract import rows
from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.questions import AugmentedAnswer
from lgmdsl_backends.px_vb.bound import Gaussian


def pulls(answers: tuple[AugmentedAnswer, ...]) -> Rows | None:
    """d, zero for sites that cannot be stretched; None where none can be."""
    if all(a.stretch is None for a in answers):
        return None
    return tuple(np.zeros_like(a.shift) if a.stretch is None else a.stretch.pull for a in answers)


def expanded(
    answers: tuple[AugmentedAnswer, ...], pull: Rows, q: Gaussian, anchor: Gaussian
) -> Gaussian | None:
    """q(z) at the best rho; None where there is none. `q`: at rho = 1; `anchor`: at rho = 0."""
    stretches = [a.stretch for a in answers if a.stretch is not None]
    count = sum(float(t.count.sum()) for t in stretches)
    slope = sum(float(t.slope.sum()) for t in stretches)
    square = sum(float(t.square.sum()) for t in stretches)
    along = tuple(m - a for m, a in zip(q.mean, anchor.mean, strict=True))  # Cov(s) d
    start, spread = _dot(pull, anchor.mean), _dot(pull, along)
    rho = best(count, start - slope, square - spread)
    if rho is None:
        return None
    shift = rows.interpolate(anchor.shift, q.shift, rho)
    mean = rows.interpolate(anchor.mean, q.mean, rho)
    rise = (rho - 1.0) * (start + 0.5 * (rho + 1.0) * spread)
    return Gaussian(q.family, q.variance, shift, mean, q.log_normaliser + rise)


def best(count: float, tilt: float, size: float) -> float | None:
    """The maximum over rho > 0 of count log rho + tilt rho - 1/2 size rho^2; None if there is none.

    The positive root of size rho^2 - tilt rho - count, without a difference of near equals.
    """
    if not (count > 0.0 and size > 0.0 and math.isfinite(count + tilt + size)):
        return None
    root = math.hypot(tilt, 2.0 * math.sqrt(count * size))
    return (tilt + root) / (2.0 * size) if tilt > 0.0 else 2.0 * count / (root - tilt)


def anchored(q: Gaussian, pull: Rows, known: Gaussian | None) -> Gaussian | Failed:
    """q(z) with its shifts at rho = 0; `known` where it is the same one."""
    shift = tuple(b - d for b, d in zip(q.shift, pull, strict=True))
    if known is not None and known.family is q.family and _same(known.shift, shift):
        return known
    return q.shifted(shift)


def _same(one: Rows, two: Rows) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def _dot(one: Rows, two: Rows) -> float:
    return float(sum(a @ b for a, b in zip(one, two, strict=True)))
