"""Sites with a kink, rounded off by a variance z for each row: how wide, which rows the kink holds,
and whether it is strong enough to hold them.
"""

from __future__ import annotations

import math

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Pointwise, SuperGaussian
from lgmdsl.contract.site import Property, Site

# sqrt(z) is never less than this part of a predictor's prior mean, or its slope is rounding.
ROUNDING = 1e-10
# Rows within so many sqrt(z) of a kink are held by it.
HELD = 1e3
Widths = tuple[float, ...]  # sqrt(z) of each block, in units of the scales of its sites


def kinked(site: Site) -> bool:
    """Whether its log density has a kink."""
    return Property.KINKED in site.spec.properties


def rounds(site: Site) -> bool:
    """Whether it has a g by which the kink can be rounded off."""
    return isinstance(site, SuperGaussian)


def squared_width(problem: Problem, width: Widths) -> Rows:
    """z of each site of kinked blocks, (N,), zeros elsewhere."""
    squares = []
    for site, s0, part in zip(problem.sites, problem.engine.prior_mean, width, strict=True):
        declared = site.landmark() if kinked(site) else None
        scale = np.ones(len(s0)) if declared is None else declared[1] + np.zeros(len(s0))
        root = np.maximum(part * scale, ROUNDING * _length(s0))
        squares.append(root**2 if kinked(site) else np.zeros(len(s0)))
    return tuple(squares)


def _length(s: Array) -> Array:
    """|s| of each site, (N,), of vector sites the norm."""
    return np.abs(s) if s.ndim == 1 else np.sqrt(rows.inner(s, s))


def held(x: Array, square: Array) -> Array:
    """Which sites of a block at x, (N,) or (N, K), a kink rounded off by z = `square` holds."""
    return np.asarray(rows.inner(x, x) <= HELD**2 * square)


def optimality(problem: Problem, q: Conditioned, s: Rows, width: Widths) -> Widths:
    """How far the sites of each block with a kink are from optimal at q, of means m, slopes alpha,
    relative: in one fixed at the kink, |alpha - beta| is at most the site's own slope next to 0,
    and m is 0; else alpha is the site's slope at m. Of vector sites these are norms."""
    residuals = []
    z = squared_width(problem, width)
    pairs = zip(q.mean, rows.slope_of(q.shift, q.weight, q.mean), strict=True)
    for site, answer, x, square, (m, alpha) in zip(
        problem.sites, problem.answers, s, z, pairs, strict=True
    ):
        if not kinked(site) or not m.size:
            residuals.append(0.0)
            continue
        assert isinstance(answer, Pointwise) and isinstance(site, SuperGaussian)
        root, beta = np.sqrt(square), rows.per_site(site.beta, m)
        along = rows.per_site(root, m) * np.eye(1, m[0].size).reshape(m.shape[1:])
        sides = [answer.pointwise(r * along).slope - beta for r in (HELD, 1.0, -1.0, -HELD)]
        limit = np.max([_length(side) for side in sides], axis=0)
        over = np.maximum(_length(alpha - beta) / limit - 1.0, _length(m) / root)
        off = _length(answer.pointwise(m).slope - alpha) / limit
        worst = float(np.max(np.where(held(x, square), over, off)))
        residuals.append(worst if math.isfinite(worst) else math.inf)
    return tuple(residuals)
