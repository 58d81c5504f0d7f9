"""Exact draws of the posterior at hyperparameter points: what no Gaussian is near enough to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from lgmdsl.accuracy.limits import WORTH
from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.estimator import Drawing, Estimator, ExactDraws, MixturePoint
from lgmdsl.assess.sampling.dynamics import Dynamics, Residual, State
from lgmdsl.assess.sampling.products import reference
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.site import Site

# Chains moved at once, and the entries of latents and predictors that all of them may have.
CHAINS, FEWEST_CHAINS, TOGETHER = 64, 8, 1 << 18
# Trajectories of a block of the warm-up; a warm-up ends with so many blocks of which each accepts
# so much. One that accepts less doubles the kicks, up to a limit.
BLOCK, BLOCKS, ACCEPTED, MOST_KICKS = 6, 4, 0.7, 64
# Draws are thinned, doubling from round to round, until they are worth WORTH of their number and
# chains agree; rounds before the last are warm-up.
ROUNDS = 5
# Without a budget: so many slopes for each draw (easy posteriors take 2 to 15, 0 of 47 up to 60),
# of at least so many draws.
SLOPES, LEAST = 400.0, 500
# Functionals whose mixing is judged: so many latents and so many predictors.
JUDGED = 400
# The length of chains at least, and where the budget does not reach: shorter ones cannot be judged.
USUAL, FEWEST = 24, 8
SAMPLER = "exact sampler"


def usual(linear: LinearGaussian, draws: int) -> float:
    """The operations that may be spent where nobody says how many."""
    return SLOPES * max(draws, LEAST) * max(linear.size + linear.rows, 1)


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


class Chains(Estimator):
    """Hamiltonian chains around the Gaussians: of any posterior whose Gaussian the engine gives.
    `price`: operations of what a budget counts, a latent or predictor row of a slope."""

    def __init__(self, seed: int = 0, price: float = 1.0) -> None:
        super().__init__(seed)
        self.price, self.kicks = price, 1

    def applies(self, point: MixturePoint) -> bool:
        return True

    def at(self, point: MixturePoint, drawing: Drawing) -> ExactDraws | None:
        """Chains at one point, which has half of the budget that is left by its share, and half in
        equal parts."""
        share = usual(point.linear, drawing.count)
        if math.isfinite(drawing.budget):
            counts = drawing.counts.tolist()
            if drawing.first and drawing.budget < 2.0 * _least(point.linear, counts) * self.price:
                return None  # before anything is spent
            rest = drawing.shares_left
            part = 0.5 * (rest[0] / float(sum(rest)) + 1.0 / np.count_nonzero(rest))
            share = (drawing.budget - drawing.spent) / self.price * part
        seed = self.seed + drawing.number
        run = Run(point.sites, point.linear, point.q, seed, share, self.kicks)
        if not run.warmed():
            return None
        out = run.drawn(drawing.count)
        self.kicks = max(run.kicks // 2, 1)
        return replace(out, operations=out.operations * self.price)


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
        return replace(_spaced(best, draws), operations=self.operations)

    def _round(self, length: int, thin: int) -> ExactDraws:
        x, values = [], []
        for _ in range(length):
            for _ in range(thin):
                self.moved()
            x.append(self.state.x)
            values.append(self._functionals(self.state))
        ess, r_hat = mixing(np.stack(values))
        z = self.q.latent_mean + np.concatenate(x)
        point = np.zeros(len(z), dtype=np.int64)
        return ExactDraws(z, point, self.chains, ess, r_hat, self.operations, SAMPLER)

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


def effective_sizes(values: Array) -> Array:
    """(k,) effective sizes of means over (length, chains, k), by the chains' pooled
    autocorrelations, summed while pairs of them are positive and do not rise (Geyer 1992). What
    does not vary has the size of the draws."""
    length, chains = values.shape[:2]
    draws = float(length * chains)
    if length < 4:
        return np.full(values.shape[2], np.nan)
    centred = values - values.mean(axis=0)
    padded = 2 ** int(np.ceil(np.log2(2 * length)))
    spectrum = np.abs(np.fft.rfft(centred, padded, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum.mean(axis=1), padded, axis=0)[:length] / length
    within = covariance[0] * length / (length - 1.0)
    between = values.mean(axis=0).var(axis=0, ddof=1) if chains > 1 else 0.0
    total = within * (length - 1.0) / length + between
    varies = total > 1e-24 * np.maximum((values**2).max(axis=(0, 1)), 1e-300)
    rho = 1.0 - (within - covariance) / np.where(varies, total, 1.0)
    rho[0] = 1.0
    even = length - length % 2
    pairs = rho[0:even:2] + rho[1:even:2]
    positive = np.cumprod(pairs > 0.0, axis=0)
    falling = np.minimum.accumulate(np.where(positive > 0, pairs, 0.0), axis=0)
    time = -1.0 + 2.0 * (falling * positive).sum(axis=0)
    time = np.maximum(time, 1.0 / np.log10(max(draws, 10.0)))
    return np.where(varies, draws / time, draws)


def worst_r_hat(values: Array) -> float:
    """The largest R-hat of (length, chains, k): of halved chains, of ranks as normal scores, of the
    values and of their distances from the median. 1 where chains agree; nan for too few draws."""
    length, _, count = values.shape
    half = length // 2
    if half < 2 or not count:
        return np.nan if count else 1.0
    split = np.concatenate([values[:half], values[length - half :]], axis=1)
    folded = np.abs(split - np.median(split, axis=(0, 1)))
    return float(max(_r_hats(split).max(), _r_hats(folded).max()))


def _r_hats(values: Array) -> Array:
    length, chains, count = values.shape
    flat = values.reshape(length * chains, count)
    scores = special.ndtri((_ranks(flat) - 0.375) / (len(flat) + 0.25)).reshape(values.shape)
    within = scores.var(axis=0, ddof=1).mean(axis=0)
    between = scores.mean(axis=0).var(axis=0, ddof=1)
    varies = np.ptp(flat, axis=0) > 0.0
    stuck = np.where(between > 0.0, np.inf, 1.0)
    ratio = np.where(within > 0.0, between / np.where(within > 0.0, within, 1.0), stuck)
    return np.where(varies, np.sqrt((length - 1.0) / length + ratio), 1.0)


def _ranks(flat: Array) -> Array:
    """Ranks from 1 in each column, those of equal values averaged."""
    from scipy import stats

    return np.asarray(stats.rankdata(flat, axis=0))
