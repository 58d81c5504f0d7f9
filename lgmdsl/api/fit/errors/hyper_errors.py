"""What the gap of the evidence does to the posterior of the hyperparameters.

delta(theta) = corrected less reported log evidence changes their density by the factor exp(delta).
Over the points of a mixture it changes the weights; about a mode, a slope g of delta along an axis
one sd long moves the mode by g sds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from lgmdsl.accuracy.better import Better
from lgmdsl.accuracy.errors import Errors, beyond
from lgmdsl.api.solve.solved import Solved
from lgmdsl.arrays import Array
from lgmdsl.assess import ladder
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.problem import Problem
from lgmdsl.errors import LgmError
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan
from lgmdsl.learning.coordinates.hyper_marginals import OneHyper
from lgmdsl.learning.integration.asymptotic import Asymptotic
from lgmdsl.learning.integration.hyper_posterior import HyperPosterior
from lgmdsl.learning.integration.tilted import CorrectedPosterior, farthest, tilted
from lgmdsl.learning.integration.visited import Fitted

COVERED = 0.95  # of the points that are looked at, those of which the gap is known
# Points that are looked at beyond a quadratic's, fewer of models of more rows than are SMALL, about
# whose modes gaps have slopes and no curvature that shows; the least share of
# the heaviest's that they have.
MORE, FEWER, SMALL, BULK = 8, 2, 2000, 1e-4
MATERIAL = 1e-2  # of the heaviest's share: of fits that are looked at first
NEAR = 0.5  # of what is tolerated: near to it, for estimates are up to a third off
NOTHING = 0.05  # nats: differences of the evidence's gap that move no hyperparameter
ROUGH = 0.5  # nats that the gaps may be off their curve
# Nats from which on more fits are made, at most so often and so many at a time.
LOOSE, ROUNDS, FITS = 0.03, 3, 4
LEVELS = (0.05, 0.95)
LEAST_AWAY = 1e-12  # squared distance between two points
FEW = 6  # coordinates about a mode
# Of what a correction changed, what may still be wrong: the second-order evidence's error went down
# to 5 % where 294 groups add up, and to 7 to 29 % of it in models of one to three latents.
LEFT = 0.07
BEYOND = 1.5  # half-axes by which the curve between them is followed beyond the last
CURVED = 0.03  # of what exact ones changed, what the curve between them may leave

# Corrected less reported log evidence of q, of a problem at theta; NaN where it is not known.
Gap: TypeAlias = Callable[[Problem, Theta, Conditioned, float], float]


@dataclass(frozen=True, eq=False)
class HyperErrors:
    """`errors` of every learned hyperparameter by name; `gap` of the whole log evidence, in nats;
    what they are nearer to: `corrected`, and the points' `shares` there, where they were
    integrated; `x`, the coordinates of the mode, where they were maximised over. `gap_of`: what the
    gaps were computed by, of which a share may be `left`."""

    errors: Mapping[str, Errors]
    gap: float
    gap_of: Gap
    left: float = LEFT
    corrected: HyperPosterior | None = None
    shares: Array | None = None
    x: Array | None = None

    def beyond(self, times: float) -> tuple[str, ...]:
        """The hyperparameters whose errors are beyond so many times what is tolerated."""
        return tuple(n for n, e in self.errors.items() if (beyond(e) > times).any())


class OfTheta(ABC):
    """A gap that asks for no fit of all rows."""

    @abstractmethod
    def at(self, theta: Theta) -> float:
        """At hyperparameters; NaN where it cannot be had."""

    def __call__(self, problem: Problem, theta: Theta, q: Conditioned, reported: float) -> float:
        return self.at(theta)


@dataclass
class Looked:
    """What was computed at fits of a mixture before, by their places among its points: their
    posteriors once more, and the gaps that came with them. `mode`: hyperparameters, and what is
    known there."""

    mode: tuple[Theta, Better] | None = None
    posteriors: dict[int, Conditioned] = field(default_factory=dict)
    gaps: dict[int, float] = field(default_factory=dict)

    @property
    def variational(self) -> Conditioned | None:
        """The variational Gaussian at the mode, where the fit's own is another."""
        if self.mode is None or self.mode[1].base is self.mode[1].q:
            return None
        return self.mode[1].base


def same_theta(a: Theta, b: Theta) -> bool:
    """Whether two sets of hyperparameters are equal."""
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def second_order_gap(planned: Plan, seed: int, near: Conditioned | None = None) -> Gap:
    """By weighted draws from all modes, where sites are not log-concave and these reach the
    posterior; else by the third derivatives of the sites, of which a variational Gaussian `near`
    is known."""
    from lgmdsl.assess.modes.weighed import FromModes

    return ladder.Gap((FromModes(seed),), planned, seed, near)


def hyper_errors(
    planned: Plan,
    solved: Solved,
    gap: float,
    seed: int,
    gap_of: Gap,
    exact: bool = False,
    looked: Looked | None = None,
) -> HyperErrors | None:
    """None where they are not known. `gap`: that at the mode; `gap_of`: what others are computed
    by, `exact` or not; `looked`: those that are known."""
    learned = solved.learned
    assert learned is not None
    hypers, out = learned.marginals(), None
    if isinstance(hypers, HyperPosterior):
        out = _of_mixture(planned, solved, hypers, seed, gap_of, looked or Looked())
    elif abs(gap) <= NOTHING:
        out = HyperErrors({}, gap, gap_of)
    elif isinstance(hypers, Asymptotic) and hypers.frame.unknown is None:
        out = _about_mode(planned, solved, hypers, gap, seed, gap_of)
    return None if out is None else replace(out, left=CURVED if exact else LEFT)


def gaps_wanted(solved: Solved, rows: int) -> int:
    """How many gaps `hyper_errors` asks for, at most, of a model of so many rows."""
    learned = solved.learned
    assert learned is not None
    hypers = learned.marginals()
    if isinstance(hypers, HyperPosterior):
        return min(_count(hypers, rows), len(learned.points))
    if not isinstance(hypers, Asymptotic):
        return 0
    return (2 if rows <= SMALL else 1) * hypers.frame.size


def _count(hypers: HyperPosterior, rows: int) -> int:
    size = hypers.frame.size
    return (MORE if rows <= SMALL else FEWER) + (1 + size) * (2 + size) // 2


def _of_mixture(
    planned: Plan,
    solved: Solved,
    hypers: HyperPosterior,
    seed: int,
    gap_of: Gap,
    looked: Looked,
) -> HyperErrors | None:
    learned = solved.learned
    assert learned is not None
    points = learned.points
    shares = np.array([share for _, share in points])
    places = hypers.places([f.theta for f, _ in points])
    rows = planned.canonical.linear(solved.theta).rows
    gaps = np.full(len(points), np.nan)
    ends = _ends(places, shares)
    for k in ends:
        known_gap = looked.gaps.get(k)
        if known_gap is None:
            q = looked.posteriors.get(k)
            known_gap = _gap_of(planned, points[k][0], seed, gap_of, q)
        gaps[k] = known_gap
    if float(np.ptp(gaps[ends])) <= NOTHING:
        return HyperErrors({}, float(gaps[ends[0]]), gap_of)
    chosen = _spread(places, shares, _count(hypers, rows), ends)
    for k in chosen:
        if k not in ends:
            gaps[k] = _gap_of(planned, points[k][0], seed, gap_of)
    known = np.isfinite(gaps)
    if known.sum() < hypers.frame.size + 2 or shares[known].sum() < COVERED * shares[chosen].sum():
        return None
    thetas = [f.theta for f, _ in points]
    better_ones = _tilted(planned, solved, hypers, seed, gap_of, thetas, shares, gaps, rows)
    if better_ones.rough > ROUGH:
        return None
    after = better_ones.posterior
    errors = {}
    for block in planned.canonical.hypers.blocks:
        of = OneHyper(block.name)
        if (after.sd(of) > 0.0).any():
            errors[block.name] = _between(hypers, after, of)
    return HyperErrors(errors, better_ones.gain, gap_of, corrected=after, shares=better_ones.shares)


def _tilted(
    planned: Plan,
    solved: Solved,
    hypers: HyperPosterior,
    seed: int,
    gap_of: Gap,
    thetas: Sequence[Theta],
    shares: Array,
    gaps: Array,
    rows: int,
) -> CorrectedPosterior:
    """With more fits than the mixture's where these leave the curve open and rows are few."""
    finite = np.flatnonzero(np.isfinite(gaps))
    known, values = [thetas[int(k)] for k in finite], [float(gaps[k]) for k in finite]
    for left in reversed(range(ROUNDS + 1)):
        out = tilted(hypers, thetas, shares, known, np.array(values), BEYOND)
        if not left or rows > SMALL or out.rough <= LOOSE:
            break
        nodes, made = out.posterior, hypers.places(known)
        for k in farthest(nodes.z, nodes.weights, made, FITS):
            theta = nodes.thetas[k]
            value = _gap_at(planned, solved, theta, seed, gap_of)
            if math.isfinite(value):
                known.append(theta)
                values.append(value)
    return out


def _between(before: HyperPosterior, after: HyperPosterior, of: Callable[[Theta], Array]) -> Errors:
    """Errors of what is reported `before`, in sds of `after`."""
    sd = after.sd(of).reshape(-1)
    unit = np.where(sd > 0.0, sd, np.inf)
    ends = np.array(LEVELS)
    shift = (before.mean(of) - after.mean(of)).reshape(-1) / unit
    ratio = np.where(sd > 0.0, before.sd(of).reshape(-1) / np.where(sd > 0.0, sd, 1.0), 1.0)
    away = (before.quantile(of, ends) - after.quantile(of, ends)).reshape(len(ends), -1) / unit
    return Errors(shift, ratio - 1.0, np.abs(away).max(axis=0))


def _ends(places: Array, shares: Array) -> list[int]:
    """The heaviest fit, and those farthest out along each coordinate among those of weight."""
    eligible = np.flatnonzero(shares > MATERIAL * shares.max())
    out = [int(shares.argmax())]
    for column in places[eligible].T:
        out += [int(eligible[column.argmin()]), int(eligible[column.argmax()])]
    return list(dict.fromkeys(out))


def _spread(places: Array, shares: Array, count: int, first: list[int]) -> list[int]:
    """Fits that cover the mixture: `first`, the heaviest half of `count`, then one after the other
    what is farthest from those before, lighter ones less so."""
    order = np.argsort(-shares, kind="stable")
    chosen = list(dict.fromkeys([*first, *(int(k) for k in order[: (count + 1) // 2])]))
    eligible = np.where(shares > BULK * shares.max(), shares, 0.0)
    return chosen + farthest(places, eligible, places[chosen], count - len(chosen))


def _gap_of(
    planned: Plan, fitted: Fitted, seed: int, gap_of: Gap, q: Conditioned | None = None
) -> float:
    """Corrected less reported log evidence of a fit that was made; `q`: its posterior, if known."""
    if isinstance(gap_of, OfTheta):
        return gap_of.at(fitted.theta)
    try:
        problem = planned.at(fitted.theta, seed=seed)
        q = conditioned(problem, fitted) if q is None else q
    except LgmError:
        return math.nan
    return math.nan if q is None else gap_of(problem, fitted.theta, q, fitted.log_evidence)


def conditioned(problem: Problem, fitted: Fitted) -> Conditioned | None:
    """The posterior of a fit that was made, once more; None where it is not to be had."""
    try:
        q = problem.engine.condition(fitted.weight, fitted.shift)
    except (LgmError, np.linalg.LinAlgError):
        return None
    return None if isinstance(q, Failed) else q


def outermost(solved: Solved) -> list[tuple[int, Fitted, float]]:
    """The heaviest fit of a mixture and those farthest out, each with its place among the points
    and the share of all points that is near to it; none without a mixture."""
    learned = solved.learned
    hypers = None if learned is None else learned.marginals()
    if learned is None or not isinstance(hypers, HyperPosterior):
        return []
    fits = [f for f, _ in learned.points]
    shares = np.array([share for _, share in learned.points])
    places = hypers.places([f.theta for f in fits])
    ends = _ends(places, shares)
    away = np.array([np.square(places - places[k]).sum(axis=1) for k in ends])
    # Points of a lattice are as near to one as to another: to the last digit neither is nearest.
    near = (np.maximum(away.min(axis=0), LEAST_AWAY) / np.maximum(away, LEAST_AWAY)) ** 2
    each = (near / near.sum(axis=0)) @ shares
    return [(k, fits[k], float(share)) for k, share in zip(ends, each, strict=True)]


def _about_mode(
    planned: Plan, solved: Solved, hypers: Asymptotic, gap: float, seed: int, gap_of: Gap
) -> HyperErrors | None:
    frame, coordinates = hypers.frame, hypers.coordinates
    if frame.size > FEW or frame.flat.any():
        return None
    slopes, few = np.zeros(frame.size), planned.canonical.observations <= SMALL
    for j in range(frame.size):
        places = (frame.mode + frame.axes[:, j], frame.mode - frame.axes[:, j])[: 1 + few]
        ends = [_gap_at(planned, solved, coordinates.unpack(x), seed, gap_of) for x in places]
        if not np.isfinite(ends).all():
            return None
        slopes[j] = 0.5 * (ends[0] - ends[1]) if few else ends[0] - gap
    step = frame.axes @ slopes
    out = {}
    for block in planned.canonical.hypers.blocks:
        of = OneHyper(block.name)
        here, sd = hypers.mean(of).reshape(-1), hypers.sd(of).reshape(-1)
        if not (sd > 0.0).any():
            continue
        # Along the tangent: a whole step of a log would overstate what a large one does.
        small = 1e-3 * step
        away = (of(coordinates.unpack(frame.mode + small)).reshape(-1) - here) * 1e3
        shift = np.where(sd > 0.0, -away / np.where(sd > 0.0, sd, 1.0), 0.0)
        out[block.name] = Errors(shift, np.zeros(len(shift)), np.abs(shift))
    return HyperErrors(out, gap, gap_of, x=frame.mode + step)


def _gap_at(planned: Plan, solved: Solved, theta: Theta, seed: int, gap_of: Gap) -> float:
    """Corrected less reported log evidence at theta, fitted from the mode's posterior."""
    if isinstance(gap_of, OfTheta):
        return gap_of.at(theta)
    try:
        problem = planned.at(theta, seed=seed)
        found = run(planned.backend, problem, Tolerances(), None, solved.posterior).posterior
    except (LgmError, np.linalg.LinAlgError):
        return math.nan
    if found is None:
        return math.nan
    return gap_of(problem, theta, found.conditioned, found.log_evidence)
