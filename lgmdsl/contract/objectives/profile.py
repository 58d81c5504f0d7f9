"""Maximise the ELBO over the mean at fixed variances: Newton with Armijo, a few factorisations.

    max over m of  sum f(m, v) - 1/2 (z - mu)'Q(z - mu),   m = B z + c

Each step conditions on w = -f_mm(m, v), b = f_m + w m. Points
are pairs (m, alpha) with z = mu + K B'alpha, so no prior covariance is inverted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.contract import rows
from lgmdsl.contract.engine import Engine, Failed, Leftover, Rows
from lgmdsl.contract.questions import Expected, ExpectedAnswer

SUFFICIENT = 1e-4
SHORTEST = 1e-20
SLACK = 1e-13  # of the energy, which a step that gains nothing may seem to lose
# Steps shorter than this, so often in a row, lead nowhere: variances at which f overflows.
CRAWL, CRAWLS = 1e-6, 3
# Share of its residual that an engine which iterates may leave of a Newton step, at first.
LOOSE = 0.1


@dataclass(frozen=True)
class Profile:
    """The maximising mean with its alpha, and the sites' answers at (m, v)."""

    mean: Rows
    alpha: Rows
    answers: tuple[ExpectedAnswer, ...]
    energy: float
    leftover: Leftover | None = None


def maximise_mean(
    engine: Engine,
    sites: Sequence[Expected],
    variance: Rows,
    mean: Rows,
    alpha: Rows,
    tolerance: float = 1e-7,
    limit: int = 50,
    leftover: Leftover | None = None,
) -> Profile | Failed:
    """Start from (mean, alpha), with what an iterative solution lacks there; stop where Newton's
    decrement, which bounds the distance left in posterior sds, is below `tolerance`, or will be: it
    is squared by a full step near the end."""

    def answers_at(m: Rows) -> tuple[ExpectedAnswer, ...]:
        return tuple(s.expected(x, v) for s, x, v in zip(sites, m, variance, strict=True))

    def energy_of(
        answers: Sequence[ExpectedAnswer], m: Rows, a: Rows, left: Leftover | None
    ) -> float:
        fit = sum(float(np.sum(x.value)) for x in answers)
        prior = sum(
            float(np.sum((x - x0) * y)) for x, x0, y in zip(m, engine.prior_mean, a, strict=True)
        )
        if left is not None:
            prior -= float(left.delta @ left.residual)
        value = fit - 0.5 * prior
        return value if math.isfinite(value) else -math.inf

    answers = answers_at(mean)
    energy = energy_of(answers, mean, alpha, leftover)
    shorter, crawled, share = 0.5, 0, LOOSE
    for _ in range(limit):
        weight = tuple(-a.curvature for a in answers)
        slope = tuple(a.d_mean for a in answers)
        shift = rows.shift_of(slope, weight, mean)
        q = engine.approach(weight, shift, leftover, share)
        if isinstance(q, Failed):
            weight = tuple(rows.absolute(w) for w in weight)
            shift = rows.shift_of(slope, weight, mean)
            q = engine.approach(weight, shift, leftover, share)
        if isinstance(q, Failed):
            return q
        target, target_left = q.mean, q.leftover
        target_alpha = rows.slope_of(shift, weight, target)
        squared = sum(
            float(np.sum((t - m) * (a.d_mean - y)))
            for t, m, a, y in zip(target, mean, answers, alpha, strict=True)
        )
        if leftover is not None and target_left is not None:
            squared += float((target_left.delta - leftover.delta) @ leftover.residual)
        if abs(squared) <= tolerance**2:
            break
        # Counts of a million leave fewer digits of the energy than its size says: steps are not
        # halved seventy times for what is rounding.
        slack, step = max(SLACK * (1.0 + abs(energy)), q.lost), 1.0
        while step >= SHORTEST:
            candidate = rows.interpolate(mean, target, step)
            candidate_alpha = rows.interpolate(alpha, target_alpha, step)
            candidate_left = target_left
            if leftover is not None and target_left is not None:
                candidate_left = leftover.towards(target_left, step)
            tried = answers_at(candidate)
            reached = energy_of(tried, candidate, candidate_alpha, candidate_left)
            if reached >= energy + SUFFICIENT * step * squared - slack:
                break
            # The whole step is always tried, the next is a few times the last that was taken.
            step = shorter if step == 1.0 else 0.5 * step
        else:
            break
        mean, alpha, answers, energy = candidate, candidate_alpha, tried, reached
        leftover, share = candidate_left, LOOSE * min(1.0, max(math.sqrt(abs(squared)), 1e-4))
        shorter = min(0.5, 8.0 * step)
        crawled = crawled + 1 if step < CRAWL else 0
        if crawled == CRAWLS:
            break
        if step == 1.0 and squared <= tolerance:
            break
    return Profile(mean, alpha, answers, energy, leftover)
