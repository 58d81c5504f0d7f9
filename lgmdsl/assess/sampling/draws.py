"""Exact draws of the posterior at hyperparameter points: what no Gaussian is near enough to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.sampling.diagnostics import effective_sizes, worst_r_hat
from lgmdsl.assess.sampling.dynamics import Dynamics, State
from lgmdsl.assess.sampling.products import reference
from lgmdsl.assess.sampling.residual import Residual
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.site import Site

# Chains moved at once, and the entries of latents and predictors that all of them may have.
CHAINS, FEWEST_CHAINS, TOGETHER = 64, 8, 1 << 18
# Trajectories of a block of the warm-up; a warm-up ends with so many blocks of which each accepts
# so much. One that accepts less doubles the kicks, up to a limit.
BLOCK, BLOCKS, ACCEPTED, MOST_KICKS = 6, 4, 0.7, 64
# Draws are thinned, doubling from round to round, until they are worth this share of their number
# and chains agree; rounds before the last are warm-up.
WORTH, ROUNDS = 0.25, 5
# Without a budget: so many slopes for each draw (easy posteriors take 2 to 15, 0 of 47 up to 60),
# of at least so many draws.
SLOPES, LEAST = 400.0, 500
# Functionals whose mixing is judged: so many latents and so many predictors.
JUDGED = 400
# The length of chains at least, and where the budget does not reach: shorter ones cannot be judged.
USUAL, FEWEST = 24, 8


@dataclass(frozen=True, eq=False)
class ExactDraws:
    """Draws of p(z | y), (draws, n), chain by chain in turn. `point`: the hyperparameter point of
    each, (draws,). `ess`: effective sample size, the smallest over the means, variances and 5 and
    95 % points of latents, predictors (400 of each in large models) and the log density. `r_hat`:
    the largest over the same, above about 1.05 where chains disagree and nothing should be made of
    the draws. `accepted`: share of trajectories; `gradients`: slopes evaluated, those of the
    warm-up and of all chains included; `operations`: these times the latents and predictor rows."""

    z: Array
    point: IntArray
    chains: int
    ess: float
    r_hat: float
    accepted: float
    gradients: int
    operations: float


def usual(linear: LinearGaussian, draws: int) -> float:
    """The operations that may be spent where nobody says how many."""
    return SLOPES * max(draws, LEAST) * max(linear.size + linear.rows, 1)


class MixturePoint(NamedTuple):
    """A hyperparameter point: its weight, and the posterior of z there."""

    weight: float
    sites: Sequence[Site]
    linear: LinearGaussian
    q: Conditioned


def exact_draws(
    sites: Sequence[Site],
    linear: LinearGaussian,
    q: Conditioned,
    draws: int = 4000,
    seed: int = 0,
    budget: float | None = None,
) -> ExactDraws | None:
    """Draws of the posterior of `linear` with these `sites`, by Hamiltonian chains around q.

    Chains start at draws of q and at stretched ones; a warm-up finds the number of kicks and is
    discarded. `budget`: the most operations, counted as evaluations of the slope times latents and
    predictor rows (by default those of 400 evaluations a draw); where it does not allow `draws`
    there are fewer of them, and None where not even short chains are to be had. The same arguments
    give the same draws.
    """
    run = Run(sites, linear, q, seed, usual(linear, draws) if budget is None else budget)
    return run.drawn(draws) if run.warmed() else None


def mixture_draws(
    points: Iterable[MixturePoint],
    draws: int = 4000,
    seed: int = 0,
    budget: float | None = None,
    weights: Sequence[float] | None = None,
) -> ExactDraws | None:
    """Draws of sum_k weight_k p(z | y, theta_k), the weights adding up to 1: of each point a share
    of `draws` in proportion to its weight, point after point; none of points with less than half a
    draw. `ess` is that of the stratified mean, 1 / sum (weight_k^2 / ess_k), and `r_hat` that of
    all chains together, r_hat^2 = sum weight_k r_hat_k^2. None where `budget` does not reach: of
    what is left of it every point has half by its weight, and half in equal parts.
    """
    parts: list[ExactDraws] = []
    kicks, inverse, squares = 1, 0.0, 0.0
    if weights is None:
        points = tuple(points)
        weights = [p.weight for p in points]
    counts = shared_out(weights, draws)
    left = [float(w) if n else 0.0 for w, n in zip(weights, counts, strict=True)]
    whole, spent = sum(left), 0.0
    for number, point in enumerate(points):
        count = counts[number]
        if not count:
            continue
        share = usual(point.linear, count)
        if budget is not None:
            if not parts and budget < 2.0 * _least(point.linear, counts):
                return None  # before anything is spent
            rest = left[number:]
            equal = 1.0 / np.count_nonzero(rest)
            share = (budget - spent) * 0.5 * (point.weight / sum(rest) + equal)
        run = Run(point.sites, point.linear, point.q, seed + number, share, kicks)
        if not run.warmed():
            return None
        part = run.drawn(count)
        kicks = max(run.kicks // 2, 1)
        spent += part.operations
        inverse += point.weight**2 / max(min(part.ess, len(part.z)), 1e-300)
        squares += point.weight * part.r_hat**2
        parts.append(replace(part, point=np.full(len(part.z), number)))
    if not parts:
        return None
    sizes = np.array([len(p.z) for p in parts], dtype=np.float64)
    return ExactDraws(
        z=np.concatenate([p.z for p in parts]),
        point=np.concatenate([p.point for p in parts]),
        chains=parts[0].chains,
        ess=1.0 / inverse,
        r_hat=float(np.sqrt(squares / whole)),
        accepted=float(np.average([p.accepted for p in parts], weights=sizes)),
        gradients=sum(p.gradients for p in parts),
        operations=sum(p.operations for p in parts),
    )


def shared_out(weights: Sequence[float], draws: int) -> list[int]:
    """Draws of each point, in proportion to its weight: whole numbers that add up."""
    ends = [round(w * draws) for w in np.cumsum([0.0, *weights])]
    return [b - a for a, b in pairwise(ends)]


def _chains(linear: LinearGaussian) -> int:
    return int(np.clip(TOGETHER // _gradient_cost(linear), FEWEST_CHAINS, CHAINS))


def _gradient_cost(linear: LinearGaussian) -> float:
    return float(max(linear.size + linear.rows, 1))


def _least(linear: LinearGaussian, counts: Sequence[int]) -> float:
    """Operations of the shortest chains at every point, in steps of one kick."""
    chains = _chains(linear)
    steps = (BLOCK * BLOCKS + max(-(-n // chains), FEWEST) for n in counts if n)
    return _gradient_cost(linear) * chains * sum(steps)


class Run:
    """The chains of one posterior."""

    def __init__(
        self,
        sites: Sequence[Site],
        linear: LinearGaussian,
        q: Conditioned,
        seed: int,
        budget: float,
        kicks: int = 1,
    ) -> None:
        self.linear, self.q, self.budget, self.kicks = linear, q, budget, kicks
        self.gradient_cost, self.chains = _gradient_cost(linear), _chains(linear)
        self.dynamics = Dynamics(Residual(sites, linear, q), reference(q))
        self.rng = np.random.default_rng([seed, self.chains])
        self.judged = _judged(linear)

    @property
    def operations(self) -> float:
        """Counted so far."""
        return self.dynamics.gradients * self.gradient_cost

    def affordable(self) -> int:
        """Trajectories of all chains that are left in the budget."""
        left = (self.budget - self.operations) / (self.gradient_cost * self.chains * self.kicks)
        return int(min(max(left, 0.0), 1e9))

    def warmed(self) -> bool:
        """Find the kicks of a trajectory; whether the budget leaves some draws."""
        if self.affordable() < BLOCK * BLOCKS + FEWEST:
            return False
        self.state = self.dynamics.start(self.rng, self.chains)
        good = 0
        while good < BLOCKS and self.affordable() >= BLOCK:
            accepted = np.mean([self.moved() for _ in range(BLOCK)])
            if accepted < ACCEPTED and self.kicks < MOST_KICKS:
                self.kicks, good = 2 * self.kicks, 0
            else:
                good += 1
        return self.affordable() >= FEWEST

    def moved(self) -> float:
        """One trajectory of all chains; the share accepted."""
        self.state, probability = self.dynamics.step(self.state, self.kicks, self.rng)
        return float(probability.mean())

    def drawn(self, draws: int) -> ExactDraws:
        """`draws` of them, thinned until they are worth a quarter of independent ones, or the
        budget or the rounds are spent."""
        length = max(-(-draws // self.chains), USUAL)
        best, thin = self._round(min(length, self.affordable()), 1), 1
        for _ in range(ROUNDS):
            if best.ess >= WORTH * len(best.z) and best.r_hat <= agreed(length, self.chains):
                break
            thin = 2 * thin
            if len(best.z) < length * self.chains or self.affordable() < length * thin:
                break
            best = self._round(length, thin)
        spent = self.dynamics.gradients
        return replace(_spaced(best, draws), gradients=spent, operations=self.operations)

    def _round(self, length: int, thin: int) -> ExactDraws:
        x, values, accepted = [], [], []
        for _ in range(length):
            accepted += [self.moved() for _ in range(thin)]
            x.append(self.state.x)
            values.append(self._functionals(self.state))
        ess, r_hat = mixing(np.stack(values))
        z = self.q.latent_mean + np.concatenate(x)
        point, share = np.zeros(len(z), dtype=np.int64), float(np.mean(accepted))
        gradients = self.dynamics.gradients
        return ExactDraws(z, point, self.chains, ess, r_hat, share, gradients, self.operations)

    def _functionals(self, state: State) -> Array:
        """(chains, k) what mixing is judged by: latents, predictors, the log density."""
        latents, rows = self.judged
        s = self.dynamics.residual.products.moves(state.x)
        picked = [p[:, r] for p, r in zip(s, rows, strict=True)]
        return np.concatenate([state.x[:, latents], *picked, state.level[:, None]], axis=1)


def agreed(length: int, chains: int) -> float:
    """The R-hat that independent draws, in halved chains, would hardly pass."""
    return 1.015 + 5.0 / (max(length // 2, 1) * float(np.sqrt(4.0 * chains)))


def mixing(values: Array) -> tuple[float, float]:
    """The smallest effective size and the largest R-hat of functionals, (length, chains, k); sizes
    are those of their means, of their squared distances from these and of the shares below their 5
    and 95 % points."""
    if not np.isfinite(values).all():
        return 0.0, np.inf
    squares = (values - values.mean(axis=(0, 1))) ** 2
    low, high = np.quantile(values, [0.05, 0.95], axis=(0, 1))
    tails = ((values <= low).astype(np.float64), (values <= high).astype(np.float64))
    sizes = [effective_sizes(v) for v in (values, squares, *tails)]
    return float(np.min(sizes)), worst_r_hat(values)


def _judged(linear: LinearGaussian) -> tuple[IntArray, list[IntArray]]:
    """Latents and rows of each site block, evenly spaced where there are many."""

    def spaced(size: int, most: int) -> IntArray:
        return np.unique(np.linspace(0, size - 1, min(size, most)).astype(np.int64))

    each = max(JUDGED // max(len(linear.predictors), 1), 1)
    return spaced(linear.size, JUDGED), [spaced(p.rows, each) for p in linear.predictors]


def _spaced(drawn: ExactDraws, draws: int) -> ExactDraws:
    """So many of the draws, evenly spaced, where there are more."""
    if len(drawn.z) <= draws:
        return drawn
    where = np.linspace(0, len(drawn.z) - 1, draws).astype(np.int64)
    return replace(drawn, z=drawn.z[where], point=drawn.point[where])
