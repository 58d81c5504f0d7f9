"""Plain variational Bayes: one block's q after the other, the others as they are.

With (m, v) the moments of s under all q_k, block k moves to the sites W = -2 f_v(m, v),
b_k = f_m(m, v) + W m_k: its exact optimum where sites are Gaussian, else a natural-gradient step.
Each q_k then has sites of its own, and

    ELBO = sum f(m, v) + sum_k [centred_k + 1/2 tr W_k Var(s_k)]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.objectives.elbo import expected, lifted, target_of
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import ExpectedAnswer
from lgmdsl_backends.mean_field.engine import BlockConditioned, BlockEngine

ROUNDING = 1e-12  # of the bound, which a sweep may seem to lose
FIXED = 1e-16  # of the largest variance of a block: what a constraint leaves of it is rounding
SHORTEST = 1e-6  # share of a sweep that is tried


@dataclass(frozen=True, eq=False)
class Factors:
    """q_k with the sites that it was conditioned on, the moments of s, answers, the bound."""

    parts: tuple[Conditioned, ...]
    mean: Rows
    variance: Rows
    answers: tuple[ExpectedAnswer, ...]
    elbo: float

    @property
    def target(self) -> tuple[Rows, Rows]:
        """(-2 f_v, f_m - 2 f_v m), on which all blocks together would be conditioned."""
        return target_of(self.answers, self.mean)


def beginning(problem: Problem, engine: BlockEngine) -> Factors | Failed:
    """Every block at its prior mean, with weights for variances of 1 there."""
    ones = tuple(_unit(m) for m in engine.prior_mean)
    answers = expected(problem, engine.prior_mean, ones)
    weight = lifted(tuple(-2.0 * a.d_variance for a in answers))
    parts = []
    for part in engine.parts:
        still = tuple(rows.times(w, m) for w, m in zip(weight, part.prior_mean, strict=True))
        q = part.condition(weight, still)
        if isinstance(q, Failed):
            return q
        parts.append(q)
    return _of(problem, engine, parts)


def swept(problem: Problem, engine: BlockEngine, now: Factors) -> Factors | None:
    """After one sweep, or the largest half, quarter, ... of it that does not lower the bound."""
    least = now.elbo - ROUNDING * max(1.0, abs(now.elbo))
    following = _sweep(problem, engine, now)
    if isinstance(following, Failed):
        return None
    if following.elbo >= least:
        return following
    r = 0.5
    while r > SHORTEST:
        parts = [
            part.condition(
                rows.interpolate(old.weight, new.weight, r),
                rows.interpolate(old.shift, new.shift, r),
            )
            for part, old, new in zip(engine.parts, now.parts, following.parts, strict=True)
        ]
        sound = [q for q in parts if not isinstance(q, Failed)]
        tried = _of(problem, engine, sound) if len(sound) == len(parts) else None
        if tried is not None and tried.elbo >= least:
            return tried
        r *= 0.5
    return None


def move(factors: Factors, limit: Conditioned) -> float:
    """How far latents are from where all blocks together would be: the largest difference of a mean
    in sds, or of a log sd. (Predictors do not tell: their sums may be right where no block is.)"""
    if not isinstance(limit, BlockConditioned):
        return math.inf
    worst = 0.0
    for now, then in zip(factors.parts, limit.parts, strict=True):
        least = FIXED * float(then.latent_variance.max(initial=0.0)) or 1.0
        variance = np.maximum(then.latent_variance, least)
        gaps = np.abs(now.latent_mean - then.latent_mean) / np.sqrt(variance)
        widths = np.abs(np.log(np.maximum(now.latent_variance, least) / variance))
        worst = max(worst, float(gaps.max(initial=0.0)), 0.5 * float(widths.max(initial=0.0)))
    return worst


def _sweep(problem: Problem, engine: BlockEngine, now: Factors) -> Factors | Failed:
    parts = list(now.parts)
    mean, variance, answers = now.mean, now.variance, now.answers
    for k, part in enumerate(engine.parts):
        weight = tuple(-2.0 * a.d_variance for a in answers)
        slope = tuple(a.d_mean for a in answers)
        q = part.condition(weight, rows.shift_of(slope, weight, parts[k].mean))
        if isinstance(q, Failed):
            return q
        parts[k] = q
        mean, variance = _moments(engine, parts)
        answers = expected(problem, mean, variance)
    return Factors(tuple(parts), mean, variance, answers, _elbo(parts, answers))


def _of(problem: Problem, engine: BlockEngine, parts: Sequence[Conditioned]) -> Factors:
    mean, variance = _moments(engine, parts)
    answers = expected(problem, mean, variance)
    return Factors(tuple(parts), mean, variance, answers, _elbo(parts, answers))


def _moments(engine: BlockEngine, parts: Sequence[Conditioned]) -> tuple[Rows, Rows]:
    """Means and variances of s: sums over the blocks, and the offset in the means."""
    means = [engine.offset, *(q.mean for q in parts)]
    return _sums(means), _sums([q.variance for q in parts])


def _sums(several: Sequence[Rows]) -> Rows:
    return tuple(np.asarray(np.sum(arrays, axis=0)) for arrays in zip(*several, strict=True))


def _elbo(parts: Sequence[Conditioned], answers: Sequence[ExpectedAnswer]) -> float:
    value = sum(float(np.sum(a.value)) for a in answers)
    for q in parts:
        traces = zip(q.weight, q.variance, strict=True)
        value += q.centred + 0.5 * rows.total(tuple(rows.trace(w, v) for w, v in traces))
    return value if math.isfinite(value) else -math.inf


def _unit(mean: Array) -> Array:
    if mean.ndim == 1:
        return np.ones_like(mean)
    return np.broadcast_to(np.eye(mean.shape[1]), (*mean.shape, mean.shape[1])).copy()
