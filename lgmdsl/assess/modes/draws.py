"""Draws of a mixture over hyperparameter points, at each from all modes of the posterior there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.assess.modes.search import modes_or_scales
from lgmdsl.assess.modes.weighed import FEWEST, affordable, weighed
from lgmdsl.assess.sampling.draws import ExactDraws, shared_out
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.problem import Problem

PROPOSED = 4  # draws of a proposal for each that is kept


def draws_from_modes(
    points: Iterable[tuple[Problem, Conditioned]],
    shares: Sequence[float],
    begin: Array,
    draws: int,
    seed: int,
    allowance: float,
) -> ExactDraws | None:
    """Equally weighted draws, of each point in proportion to its share, resampled from weighted
    ones. `begin`, (k, n): modes nearby, from which those of each point are climbed to. None where
    `allowance`, in floating-point operations, does not reach, or a point has no modes that way."""
    parts: list[ExactDraws] = []
    inverse = 0.0
    counts = shared_out(shares, draws)
    for number, (problem, q) in enumerate(points):
        count = counts[number]
        if not count:
            continue
        allowed = allowance / max(sum(n > 0 for n in counts), 1)
        part = weighted_draws(problem, q, count, seed + number, begin, allowed)
        if part is None:
            return None
        parts.append(replace(part, point=np.full(count, number)))
        inverse += shares[number] ** 2 / part.ess
    if not parts:
        return None
    z, point = (np.concatenate([getattr(p, name) for p in parts]) for name in ("z", "point"))
    return ExactDraws(z, point, 1, 1.0 / inverse, 1.0, 1.0, 0, allowance)


def weighted_draws(
    problem: Problem,
    q: Conditioned,
    count: int,
    seed: int,
    begin: Array | None = None,
    allowance: float = math.inf,
) -> ExactDraws | None:
    """Equally weighted draws of one posterior; None where `allowance` does not reach, or it has no
    modes that way."""
    linear, wanted = problem.engine.linear, max(PROPOSED * count, FEWEST)
    if affordable(linear, allowance, wanted) < wanted:
        return None
    known = modes_or_scales(problem, q, seed=seed, begin=begin)
    if known is None:
        return None
    whole = weighed(known, linear, wanted, seed)
    z = whole.resampled(count, np.random.default_rng([seed, 603]))
    ess = 1.0 / (1.0 / max(whole.ess, 1.0) + 1.0 / count)
    return ExactDraws(z, np.zeros(count, dtype=np.int64), 1, ess, 1.0, 1.0, 0, allowance)
