"""The whole of a posterior with several modes, by importance sampling from all of them.

The proposal is an equal mixture of Student densities: with Laplace's moments at each mode, with
q's, three times as wide for heavy tails, and with the prior's, for what the data leave open.
Weights are exact, so overlapping modes, and those that q covers, are no special case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from lgmdsl.accuracy.limits import FEW_LATENTS
from lgmdsl.accuracy.weighted import Weighted, WeightedPosterior
from lgmdsl.arrays import Array
from lgmdsl.assess.estimator import Drawing, Estimator, ExactDraws, MixturePoint
from lgmdsl.assess.importance.draws import DF
from lgmdsl.assess.modes.search import SITE, Modes, modes_or_scales
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.site import log_concave

DRAWS, FEWEST = 3000, 1200
ALLOWANCE = 2e8  # floating-point operations of an evidence
ENOUGH = 800.0  # effective draws, from which the moments are good to 0.035 sd
PROPOSED = 4  # draws of a proposal for each that is kept
MOST, LEAST = 8, 1e-4  # modes that are drawn from, and the share of one that is
AROUND = (1.0, 3.0)  # times q's sds
BY_WEIGHTS = "importance sampling"


def affordable(linear: LinearGaussian, allowance: float, draws: int = DRAWS) -> int:
    """How many draws so many floating-point operations allow, up to `draws`."""
    return int(min(draws, allowance / each_draw(linear)))


def each_draw(linear: LinearGaussian) -> float:
    """Floating-point operations of a draw, about."""
    return max(linear.rows * (SITE + 2.0 * linear.size) + 2.0 * MOST * linear.size**2, 1.0)


def weighed(
    modes: Modes, linear: LinearGaussian, draws: int = DRAWS, seed: int = 0
) -> WeightedPosterior:
    """Weighted draws of the posterior whose modes are known; the same arguments give the same."""
    land, size = modes.landscape, modes.landscape.size
    chosen = np.flatnonzero(modes.share >= LEAST)[:MOST]
    centres = [*modes.u[chosen], *np.zeros((len(AROUND), size))]
    roots = [*modes.root[chosen], *(width * np.eye(size) for width in AROUND)]
    if land.prior is not None:
        centres, roots = [*centres, land.prior[0]], [*roots, land.prior[1]]
    rng = np.random.default_rng([seed, size, draws])
    u = _students(rng, centres, roots, -(-draws // len(centres)))
    with np.errstate(all="ignore"):
        squares, proposal = _density(u, centres, roots)
        log_weight = land.level(u) - proposal
    log_weight = np.where(np.isfinite(log_weight), log_weight, -np.inf)
    of = Weighted(u, log_weight, -0.5 * (u * u).sum(axis=1) - proposal)
    nearest = chosen[np.argmin(squares[: len(chosen)], axis=0)]
    share = np.bincount(nearest, of.weights, len(modes)).astype(np.float64)
    # Quantiles of q tell how far off those of the draws are, as far as both have draws in common.
    common = min(float(of.weights @ of.own) / float(of.own @ of.own), 1.0)
    return WeightedPosterior(of, linear, land.mean, land.root, common=common, share=share)


def _students(
    rng: np.random.Generator, centres: Sequence[Array], roots: Sequence[Array], each: int
) -> Array:
    """Draws of Student densities, `each` from every one."""
    out = []
    for centre, root in zip(centres, roots, strict=True):
        stretch = np.sqrt((DF - 2.0) / rng.chisquare(DF, each))
        out.append(centre + (rng.standard_normal((each, len(centre))) * stretch[:, None]) @ root.T)
    return np.concatenate(out)


def _density(u: Array, centres: Sequence[Array], roots: Sequence[Array]) -> tuple[Array, Array]:
    """The squared distance from each centre, (k, draws), and the log of the mixture, (draws,)."""
    size = u.shape[1]
    constant = special.gammaln(0.5 * (DF + size)) - special.gammaln(0.5 * DF)
    constant -= 0.5 * size * math.log((DF - 2.0) * math.pi) + math.log(len(centres))
    squares, logs = [], []
    for centre, root in zip(centres, roots, strict=True):
        square = (np.linalg.solve(root, (u - centre).T) ** 2).sum(axis=0)
        tail = -0.5 * (DF + size) * np.log1p(square / (DF - 2.0))
        squares.append(square)
        logs.append(tail - np.linalg.slogdet(root)[1])
    return np.array(squares), np.asarray(constant + special.logsumexp(logs, axis=0))


class FromModes(Estimator):
    """Importance sampling from all modes of a small posterior. `begin`, (k, n): modes nearby, from
    which those of each point are climbed to; `several`: where sites are not log-concave alone."""

    def __init__(self, seed: int = 0, begin: Array | None = None, several: bool = True) -> None:
        super().__init__(seed)
        self.begin, self.several = begin, several

    def applies(self, point: MixturePoint) -> bool:
        small = point.linear.size <= FEW_LATENTS
        return small and not (self.several and log_concave(point.sites))

    def log_evidence(self, point: MixturePoint) -> float:
        """All modes included; NaN where weights are worth too little, or `ALLOWANCE` does not
        reach."""
        draws = affordable(point.linear, ALLOWANCE)
        if draws < FEWEST:
            return math.nan
        known = modes_or_scales(_problem(point), point.q, ALLOWANCE, self.seed)
        if known is None:
            return math.nan
        whole = weighed(known, point.linear, draws, self.seed)
        return whole.log_evidence if whole.ess >= ENOUGH else math.nan

    def at(self, point: MixturePoint, drawing: Drawing) -> ExactDraws | None:
        """Resampled from weighted ones; None too where a point has no modes that way."""
        problem, count, seed = _problem(point), drawing.count, self.seed + drawing.number
        linear, wanted = problem.engine.linear, max(PROPOSED * count, FEWEST)
        allowed = drawing.budget / np.count_nonzero(drawing.counts)
        if affordable(linear, allowed, wanted) < wanted:
            return None
        known = modes_or_scales(problem, point.q, seed=seed, begin=self.begin)
        if known is None:
            return None
        whole = weighed(known, linear, wanted, seed)
        z = whole.resampled(count, np.random.default_rng([seed, 603]))
        ess = 1.0 / (1.0 / max(whole.ess, 1.0) + 1.0 / count)
        none, spent = np.zeros(count, dtype=np.int64), wanted * each_draw(linear)
        made = "by importance sampling from its modes"
        return ExactDraws(z, none, 1, ess, 1.0, spent, BY_WEIGHTS, made, whole.log_evidence)


def _problem(point: MixturePoint) -> Problem:
    assert point.problem is not None, "modes are searched for on an engine"
    return point.problem()
