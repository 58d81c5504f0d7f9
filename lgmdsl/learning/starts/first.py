"""The first place of a search: one that has a fit, and that is not absurd for the data.

The middle of a vague prior may be: a Weibull shape of 700, offsets 1e5 away from the data. Where
the density is so steep in the log of a hyper that no data can want it there, or the fit itself has
not converged, places down the slope are tried; offsets and coefficients start from one M-step
where it promises more than the model could gain by anything else. A start that is given is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import leaf, linear_hypers
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.status import Status
from lgmdsl.errors import NumericalError
from lgmdsl.learning.em.closed_steps import covariances
from lgmdsl.learning.em.complete_data import CompleteData
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.starts.factor_axes import from_components, idle_loadings, scattered
from lgmdsl.learning.starts.from_data import alike
from lgmdsl.remedies import pin

# Starts that are tried where the first has no fit: all coordinates moved by this much, or to this
# part of them, in the end scales of 1, correlations and offsets of 0.
MOVES = (-1.0, 1.0, -2.5, 2.5)
PARTS = (0.5, 0.2, 0.0)
# Nats per datum, of a slope per log or of a promised gain, that only an absurd place has; and the
# least that counts.
STEEP, LEAST = 20.0, 1e3
# Moves down such slopes, in logs, how often, and the steps of a fit at such a place.
AWAY, ROUNDS, TRIAL = (1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 11.0), 3, 15
OFFSETS = 12  # M-steps of offsets at most: each leaves a hundredth


def first_start(objective: Objective, warm: GaussianPosterior | None) -> Evaluation:
    """A start that has a fit, and where loadings have a slope.

    Raises NumericalError E601 where there is no fit at the start nor near it; what the
    method said, a MethodError, where it does not take the model there.
    """
    canonical = objective.planned.canonical
    start = canonical.hypers.start(objective.pinned, objective.begin)
    theta = with_distinct_topics(canonical, start, objective.pinned)
    idle = idle_loadings(objective, theta)
    x = objective.coordinates.pack(scattered(theta, idle))
    other = objective.coordinates.pack(alike(objective, theta))  # covariates of any size
    for place in (x, other, *(x + move for move in MOVES), *(part * x for part in PARTS)):
        found = objective.at(place, warm)
        if found is None:
            continue
        if not objective.begin:
            found = _with_offsets(objective, found)
            begun, found = found, _down_slopes(objective, found)
            objective.centre(found.x, found.x != begun.x)
        if idle:
            begin = objective.coordinates.pack(from_components(objective, found, idle))
            found = objective.at(begin, found.posterior) or found
        return from_the_widest(objective, found)
    if objective.refused is not None:
        raise objective.refused
    names = ", ".join(objective.coordinates.names[:6])
    raise NumericalError.of(
        "E601",
        f"method `{objective.planned.method}` found no usable state at any start of {names}",
        help=f"pin the hyperparameters ({pin('NAME')}) to see where it can start",
    )


def _most(objective: Objective) -> float:
    return max(STEEP * objective.planned.canonical.total_weight, LEAST)


def _down_slopes(objective: Objective, first: Evaluation) -> Evaluation:
    """The highest of places down slopes that are steeper than data can make them."""
    best = first
    for _ in range(ROUNDS):
        steep = _steep(objective, best)
        if not steep.any():
            break
        way = np.where(steep, np.sign(best.gradient), 0.0)
        begin, begun = best.x, best
        for length in AWAY:
            at = objective.at(begin + length * way, most=TRIAL)
            if at is not None and _better(at, best):
                best = at
            elif best is not begun:
                break
        if best is begun:
            break
    return best


def _better(at: Evaluation, best: Evaluation) -> bool:
    """Higher, or a fit in place of none: values of fits that did not converge say little."""
    fitted, before = (e.run.status is Status.converged for e in (at, best))
    return fitted and not before if fitted is not before else at.value > best.value


def _steep(objective: Objective, at: Evaluation) -> Array:
    """(d,) the logs in which the objective is too steep."""
    slopes = np.where(objective.coordinates.alone, np.abs(at.gradient), 0.0)
    return np.asarray(slopes > _most(objective))


def _with_offsets(objective: Objective, first: Evaluation) -> Evaluation:
    """After M-steps of offsets and coefficients, while each gains more than is to be had near the
    data."""
    canonical, coordinates = objective.planned.canonical, objective.coordinates
    linear = linear_hypers(canonical, first.theta, objective.pinned)
    names = linear.coefficients
    best = first
    complete = CompleteData.of(canonical, coordinates, names, first.theta) if names else None
    for _ in range(OFFSETS if complete is not None else 0):
        assert complete is not None
        slope = best.gradient[complete.x]
        step = complete.step(best.posterior, best.theta, slope)
        if step is None or not 0.5 * float(slope @ step) > _most(objective):
            break
        x = best.x.copy()
        x[complete.x] += step
        at = objective.at(x, best.posterior)
        if at is None or at.value < best.value:
            break
        best = at
    return best


# ---- inverse wishart ---------------------------------------------------------------------------
# Where covariances under an inverse Wishart prior start: not in its own peak, if data outweigh it.
#
# At scale / df, which is where the prior is high, S may be so small that data say nothing of it:
# the prior has a peak there, of height |scale|^(-(k + 1)/2), which is a maximum of evidence + log
# prior however far below another one. A search that starts higher than that peak never ends in it.


RUNGS, FACTOR = 12, 10.0  # multiples of the start that are tried, each so many times the last
FALLEN = 10.0  # nats of evidence below the best so far: data want no larger ones


def from_the_widest(objective: Objective, first: Evaluation) -> Evaluation:
    """The highest of the start and of multiples of its covariances, as far as evidence carries."""
    canonical, coordinates = objective.planned.canonical, objective.coordinates
    names = [
        c.name
        for c in covariances(canonical, coordinates)
        if c.block.prior is not None and c.block.prior.at(first.theta).scatter is not None
    ]
    best, top = first, first.posterior.log_evidence
    if not names:
        return best
    for rung in range(1, RUNGS + 1):
        theta = dict(first.theta)
        for name in names:
            theta[name] = FACTOR**rung * np.asarray(first.theta[name])
        found = objective.at(coordinates.pack(theta), first.posterior)
        if found is None or found.posterior.log_evidence < top - FALLEN:
            break
        top = max(top, found.posterior.log_evidence)
        best = found if found.value > best.value else best
    return best


# ---- topics ------------------------------------------------------------------------------------
# Where the topics of an admixture start.
#
# Topics that are all alike (the middle of their prior) are a stationary point of the evidence: no
# row tells one from another. Where they begin decides which of very many maxima EM climbs to,
# hundreds of nats apart. So many beginnings are compared on what costs little, latent Dirichlet
# allocation:
#
#     log p(y) >= E_q[log p(y, x, share)] - E_q[log q],   share ~ Dirichlet(EVEN) of each row
#
# for q(share) = Dirichlet(g), by steps of variational EM (Blei, Ng and Jordan 2003)
#
#     g_k = EVEN + sum_w y_w phi_wk,   phi_wk ~ t_k p_kw,   t_k = exp E[log share_k],
#     p_kw ~ SMOOTH + sum over rows of y_w phi_wk
#
# at first with phi ~ (t_k p_kw)^heat, which leaves words undecided for as long as that is little
# (deterministic annealing: Ueda and Nakano 1998): of ten beginnings the median ends 200 nats higher
# in 25,000 words of ten topics, and the best one as well.
#
# A beginning is groups of rows: each begins with one row, every other row joins the nearest, and a
# topic is its group's frequencies, mixed with those of all rows so that no word is impossible. The
# highest of the beginnings go on, and the topics that the highest of all ends with are the start.


SHARED = 0.2  # the part of every topic that is the frequencies in all rows
EVEN, SMOOTH = 0.3, 0.1  # Dirichlet parameter of the shares; words of each kind added to a topic
# Beginnings; the heat of their steps; and how many of the highest take how many steps more. (After
# ten steps the bound does not yet tell which ends highest.)
BEGUN, HEAT, RACE = 12, (*np.linspace(0.7, 1.0, 40), *np.ones(10)), ((4, 30), (1, 30))
# Of the last one: how many steps more, so many at a time, until these gain so little of the bound.
MOST, STEPS, GAIN = 200, 10, 1e-6
ENTRIES = 200_000  # counts of a sample of the rows that the race is run with
ENTRIES_PER_PASS = 1 << 20


def with_distinct_topics(canonical: CanonicalModel, theta: Theta, pinned: Collection[str]) -> Theta:
    """The start with free topics that are all alike replaced."""
    moved = dict(theta)
    for block in canonical.blocks:
        for name in block.family.spec.shared:
            hyper = leaf(block.parameters[name])
            if hyper is None or hyper.name in pinned or block.y is None:
                continue
            value = theta[hyper.name]
            if len(value) > 1 and np.ptp(value, axis=0).max() == 0.0:
                moved[hyper.name] = allocated(sp.csr_array(block.y), len(value))
    return moved


def allocated(counts: sp.csr_array, topics: int) -> Array:
    """(K, W) the topics of the highest allocation of counts (N, W)."""
    held = sp.csr_array(counts[np.flatnonzero(counts.sum(axis=1) > 0.0)])
    if not held.shape[0]:
        return np.full((topics, counts.shape[1]), 1.0 / counts.shape[1])
    every = -(-held.nnz // ENTRIES)
    some = sp.csr_array(held[::every])
    rng, roots = np.random.default_rng(0), _roots(some)
    begun = [_far_apart(some, roots, topics)]
    begun += [rng.integers(some.shape[0], size=topics) for _ in range(BEGUN - 1)]
    starts = (Allocation.of(some, _grouped(some, roots, rows)) for rows in begun)
    running = [start.after(some, HEAT) for start in starts]
    for count, steps in RACE:
        running = [a.after(some, (1.0,) * steps) for a in _highest(running, count)]
    best = _highest(running, 1)[0]
    best = Allocation.of(held, best.topics) if every > 1 else best
    for _ in range(MOST // STEPS):
        following = best.after(held, (1.0,) * STEPS)
        gained, best = following.bound - best.bound, following
        if gained <= GAIN * abs(best.bound):
            break
    return best.topics


@dataclass(frozen=True, eq=False)
class Allocation:
    """`topics`, (K, W); `weight`, (N, K), the g of each row; `bound`, without constants, where the
    last step began."""

    topics: Array
    weight: Array
    bound: float = -np.inf

    @classmethod
    def of(cls, counts: sp.csr_array, topics: Array) -> Allocation:
        """At topics, the shares of all rows even."""
        return cls(topics, np.ones((counts.shape[0], len(topics))))

    def after(self, counts: sp.csr_array, heat: Sequence[float]) -> Allocation:
        """Steps of these heats on: phi at its best, then g and topics, which it makes
        independent."""
        topics, weight, bound = self.topics, self.weight, self.bound
        row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        word = counts.indices.astype(np.int64)
        for power in heat:
            log_share = special.psi(weight) - special.psi(weight.sum(axis=1, keepdims=True))
            share, likely = np.exp(power * log_share), np.ascontiguousarray(topics.T) ** power
            mass = _mixed(share, likely, row, word)
            bound = float(counts.data @ np.log(mass)) + SMOOTH * float(np.log(topics).sum())
            bound += float(((EVEN - weight) * log_share + special.gammaln(weight)).sum())
            bound -= float(special.gammaln(weight.sum(axis=1)).sum())
            pull = sp.csr_array((counts.data / mass, counts.indices, counts.indptr), counts.shape)
            weight = EVEN + share * (pull @ likely)
            topics = (likely * (pull.T @ share)).T + SMOOTH
            topics /= topics.sum(axis=1, keepdims=True)
        return Allocation(topics, weight, bound)


def _mixed(share: Array, likely: Array, row: IntArray, word: IntArray) -> Array:
    """sum_k share_rk likely_wk of each count, (P,), in pieces."""
    out = np.empty(len(row))
    size = max(1, ENTRIES_PER_PASS // share.shape[1])
    for first in range(0, len(row), size):
        some = slice(first, first + size)
        out[some] = np.einsum("pk,pk->p", share[row[some]], likely[word[some]])
    return out


def _highest(allocations: list[Allocation], count: int) -> list[Allocation]:
    return sorted(allocations, key=lambda a: -a.bound)[:count]


def _roots(counts: sp.csr_array) -> sp.csr_array:
    """Roots of the words' frequencies in each row: their products are 1 less half the squared
    Hellinger distance."""
    return sp.csr_array(counts.multiply(1.0 / counts.sum(axis=1)[:, None])).sqrt()


def _far_apart(counts: sp.csr_array, roots: sp.csr_array, topics: int) -> IntArray:
    """The longest row, then always the one that is farthest from those before it."""
    begun = [int(counts.sum(axis=1).argmax())]
    near = np.zeros(counts.shape[0])
    for _ in range(topics - 1):
        near = np.maximum(near, (roots @ roots[[begun[-1]]].T).toarray()[:, 0])
        begun.append(int(near.argmin()))
    return np.array(begun)


def _grouped(counts: sp.csr_array, roots: sp.csr_array, begun: IntArray) -> Array:
    """(K, W) the frequencies in the groups that these rows begin."""
    group = (roots @ roots[begun].T).toarray().argmax(axis=1)
    total = counts.sum(axis=0) + 1.0
    found = np.stack([counts[np.flatnonzero(group == k)].sum(axis=0) for k in range(len(begun))])
    found = found + SHARED * total * (found.sum(axis=1, keepdims=True) + 1.0) / total.sum()
    return np.asarray(found / found.sum(axis=1, keepdims=True))
