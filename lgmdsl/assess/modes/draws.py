"""Draws of a mixture over hyperparameter points, at each from all modes of the posterior there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    parts, where, inverse = [], [], 0.0
    rng = np.random.default_rng([seed, 603])
    counts = shared_out(shares, draws)
    for number, (problem, q) in enumerate(points):
        count = counts[number]
        if not count:
            continue
        linear = problem.engine.linear
        wanted = max(PROPOSED * count, FEWEST)
        allowed = allowance / max(sum(n > 0 for n in counts), 1)
        known = modes_or_scales(problem, q, seed=seed, begin=begin)
        if known is None or affordable(linear, allowed, wanted) < wanted:
            return None
        whole = weighed(known, linear, wanted, seed + number)
        parts.append(whole.resampled(count, rng))
        where.append(np.full(count, number))
        inverse += shares[number] ** 2 * (1.0 / max(whole.ess, 1.0) + 1.0 / count)
    if not parts:
        return None
    z, spent = np.concatenate(parts), allowance
    point = np.concatenate(where)
    return ExactDraws(z, point, 1, 1.0 / inverse, 1.0, 1.0, 0, spent)
