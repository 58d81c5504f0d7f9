"""The minimum of the dual over the box: projected Newton, or the paper's L-BFGS."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import scipy  # its optimize is imported when first used

from lgmdsl.arrays import Array
from lgmdsl.numerics.optimisation.newton import newton_in_box
from lgmdsl_backends.lcl.dual import Dual, DualPoint


def by_newton(dual: Dual, start: DualPoint, aim: float) -> DualPoint:
    """Newton until the constraints hold to `aim`, in posterior sds, or no step lowers D."""
    return newton_in_box(
        dual.evaluate, start, dual.box, lambda point, bound: point.gap(bound) <= aim
    )


def by_lbfgs(
    dual: Dual, start: DualPoint, aim: float, memory: int, evaluations: int, scaled: bool
) -> DualPoint:
    """L-BFGS-B until `aim` or for `evaluations`; `scaled` gives it coordinates in which the
    diagonal of the curvature at the start is about 1. The best point seen."""
    scale = _scale(dual, start) if scaled else np.ones_like(start.x)
    best = start

    def objective(x: Array) -> tuple[float, Array]:
        nonlocal best
        point = dual.evaluate(dual.box.clip(x * scale))
        if point is None:
            # Outside the domain: a steep bowl around the best point sends the search back.
            away = x - best.x / scale
            wall = 1.0 + 10.0 * abs(best.value)
            return best.value + wall, 2.0 * wall * away / max(float(away @ away), 1e-300)
        close = point.gap(dual.box.held(point.x, point.gradient)) <= aim
        if close or point.value < best.value:
            best = point
        if close:
            raise _Close
        return point.value, point.gradient * scale

    with suppress(_Close):
        scipy.optimize.minimize(
            objective, start.x / scale, jac=True, method="L-BFGS-B",
            bounds=scipy.optimize.Bounds(dual.box.low / scale, dual.box.high / scale),
            options={"maxcor": memory, "maxfun": evaluations, "maxiter": evaluations,
                     "gtol": 1e-12, "ftol": 1e-15},
        )  # fmt: skip
    return best


def _scale(dual: Dual, start: DualPoint) -> Array:
    square = dual.sigma0**2
    curved_a = dual.setting.variance + 1.0 / start.pairs.hh
    curved_w = 0.5 * square**2 + square / start.pairs.ss
    return np.asarray(1.0 / np.sqrt(np.maximum(np.concatenate([curved_a, curved_w]), 1e-300)))


class _Close(Exception):
    """The constraints hold closely enough for this linearisation."""
