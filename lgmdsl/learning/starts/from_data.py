"""Where a search starts: sds on both sides of what the data say, whatever their priors.

A prior in which sds of next to nothing are likely (a gamma on precisions) has a mode there, and
vague ones have their middle anywhere. So sizes come from the data: s, the residual sd of a fit in
which the latents that hypers set the size of are small, on the scale of the predictor. Each such
size is then high or low, in all combinations:

    high = s e^(1/2),   low = s e^(-5/2), or where the prior has its mode if that is lower,
    noise sds s e^(-0.7)

Where the density rises from a low place to the high one there is no mode at the low one.

A covariance of groups is always high: the inverse of the mean square of its covariates, of such a
size that its part of the predictor has an sd of s e^(1/2). So it does not matter in which units
covariates are, nor from where they are counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.queries.loadings import linear_hypers, of_latents, roots
from lgmdsl.canonical.queries.scales import CovarianceSize, Size, covariance_sizes, sizes
from lgmdsl.contract.joint import SumsOfRows
from lgmdsl.errors import LgmError
from lgmdsl.learning.coordinates.vector import transform
from lgmdsl.learning.em.complete_data import CompleteData
from lgmdsl.learning.objective.information import information
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.maximise import Maximiser
from lgmdsl.learning.starts.working_response import residual_sd, working_residuals

# Logs relative to s; SMALL is where residuals are taken.
HIGH, LOW, NOISE, SMALL = 0.5, -2.5, -0.7, -4.0
LOWEST = 16.0  # logs below s: where the mode of a prior is looked for, to LEVEL nats
LEVEL, EDGE = 0.05, 1e-3
INDEFINITE = 1e-12  # eigenvalues of a mean square that are rounding: covariates that are collinear
# All corners of up to so many hypers; of more all high, all low, and each alone high or low; of
# more than MOST all high and all low. Not those of several low ones from each of which alone the
# density rises.
CORNERS, MOST = 3, 8
SETTLED = 1.5  # residual sds within a factor of e^1.5 of the last are good enough
ROUNDS = 4
RISES, FLAT = 0.5, 1e-6  # slopes per log from which the density rises


@dataclass(frozen=True, eq=False)
class Corner:
    """A start; `open`: whether there is no mode near it that others would not lead to, since the
    density rises from one of its low sizes to the high one."""

    at: Evaluation
    low: tuple[str, ...]
    open: bool


@dataclass(frozen=True, eq=False)
class ScaledStart:
    """`sizes` that hypers set, and `covariances`; `log_sd`: s of each site block, in logs."""

    objective: Objective
    theta: Theta
    sizes: tuple[Size, ...]
    covariances: tuple[CovarianceSize, ...]
    log_sd: Array

    @property
    def names(self) -> tuple[str, ...]:
        """The hypers that set the size of a latent's part."""
        order = self.objective.coordinates.blocks
        used = {n for size in self.sizes if size.latent for n in size.powers}
        return tuple(b.name for b in order if b.name in used)

    def at(
        self, relative: Mapping[str, float], noise: float, covariances: float = HIGH
    ) -> dict[str, Array]:
        """The hypers at which the sizes that each hyper of `relative` sets are so many logs above
        s, noise sds `noise` and those of `covariances` so many: by least squares where one hyper
        sets several sizes. Within the bounds of priors."""
        every = sorted({n for size in self.sizes for n in size.powers})
        rows, wanted = [], []
        for size in self.sizes:
            level = min((relative[n] for n in size.powers if n in relative), default=noise)
            if size.latent and not any(n in relative for n in size.powers):
                continue
            rows.append([size.powers.get(n, 0.0) for n in every])
            wanted.append(self.log_sd[size.block] + level - size.log)
        theta = {**self.theta, **self._covariances(covariances)}
        if not rows:
            return theta
        moves = np.linalg.lstsq(np.array(rows), np.array(wanted), rcond=1e-8)[0]
        for name, move in zip(every, moves, strict=True):
            theta[name] = self._inside(name, np.exp(move) * np.asarray(theta[name]))
        return theta

    def _covariances(self, level: float) -> dict[str, Array]:
        """Each covariance at which its part of the predictors is `level` logs above s; members that
        no row has keep their variances."""
        out = {}
        for name in dict.fromkeys(c.name for c in self.covariances):
            own = [c for c in self.covariances if c.name == name]
            gram = np.mean([c.gram * np.exp(-2.0 * self.log_sd[c.block]) for c in own], axis=0)
            seen = np.flatnonzero(np.diag(gram) > 0.0)
            value = np.diag(np.diag(np.asarray(self.theta[name])))
            lengths = np.sqrt(np.diag(gram)[seen])
            values, vectors = np.linalg.eigh(gram[np.ix_(seen, seen)] / np.outer(lengths, lengths))
            sds = np.where(values > INDEFINITE, values, 1.0) ** -0.5
            root = np.exp(level) * (vectors * sds) / (lengths[:, None] * np.sqrt(max(len(seen), 1)))
            value[np.ix_(seen, seen)] = root @ root.T
            out[name] = value
        return out

    def _inside(self, name: str, value: Array) -> Array:
        block = self.objective.planned.canonical.hypers.block(name)
        assert block is not None and block.prior is not None
        low, high = block.prior.at(self.theta).bounds
        if not np.isfinite(high).all():
            return np.where(value > low, value, (1.0 + EDGE) * low)
        margin = EDGE * (high - low)
        return np.clip(value, low + EDGE * np.minimum(np.abs(low), high - low), high - margin)

    def exponent(self, name: str) -> float:
        return next(s.powers[name] for s in self.sizes if s.latent and name in s.powers)


def alike(objective: Objective, theta: Theta) -> Theta:
    """With covariances at which their parts of the predictors have an sd of 1."""
    canonical = objective.planned.canonical
    covariances = covariance_sizes(canonical, theta, set(objective.pinned))
    ones = np.zeros(len(canonical.declared.blocks))
    return ScaledStart(objective, theta, (), covariances, ones).at({}, 0.0, 0.0)


def scaled(objective: Objective, first: Evaluation) -> tuple[ScaledStart, Evaluation] | None:
    """The sizes that hypers set and s, from the fit `first` and one or two with small latents, the
    last of which is returned as well; None where no free hyper sets one."""
    canonical = objective.planned.canonical
    pinned = set(objective.pinned)
    every = sizes(canonical, first.theta, pinned)
    covariances = covariance_sizes(canonical, first.theta, pinned)
    if not every and not covariances:
        return None
    now = ScaledStart(objective, first.theta, every, covariances, _response_log_sd(first))
    last = first
    for _ in range(ROUNDS):
        theta = now.at(dict.fromkeys(now.names, SMALL), 0.0, SMALL)
        found = fit_at(objective, theta, last)
        if found is None:
            break
        seen = np.minimum(now.log_sd, _residual_log_sd(found))
        settled = bool((now.log_sd - seen < SETTLED).all())
        now, last = replace(now, log_sd=seen), found
        if settled or not (now.names or covariances):
            break
    return now, last


def highest_start(search: Maximiser, first: Evaluation, starts: list[Corner]) -> Evaluation:
    """The highest of `first` and the starts, which come highest first; one of these is taken out of
    them."""
    if starts and search.value(starts[0].at) > search.value(first):
        return starts.pop(0).at
    return first


def corners(search: Maximiser, first: Evaluation) -> list[Corner]:
    """Starts on both sides, with their fits, the highest first; empty where no hyper sets a size.

    `first`: a fit anywhere, which is one of them where it is higher than all."""
    objective = search.objective
    found = scaled(objective, first)
    if found is None:
        highest = at_inputs(search, first)
        return [] if highest is first else [Corner(highest, (), False)]
    scale, small = found
    names = scale.names
    middle = fit_at(objective, scale.at(dict.fromkeys(names, HIGH), NOISE), small)
    moved = middle
    if middle is not None:
        objective.centre(middle.x, middle.x != first.x)
        moved = at_inputs(search, _with_coefficients(search, middle, scale))
        slices = objective.coordinates.slices
        other = {n for n, own in slices.items() if (moved.x[own] != middle.x[own]).any()}
        scale = replace(scale, theta={**scale.theta, **{n: moved.theta[n] for n in other}})
    spikes = {n: _spike(search, scale, n) for n in names}
    out, rising = list[Corner](), set[str]()
    for low in _choices(names):
        if len(low) > 1 and rising.issuperset(low):
            continue  # the density rises from each of them alone
        relative = {n: spikes[n] if n in low else HIGH for n in names}
        known = None if low or moved is not middle else middle
        at = known or fit_at(objective, scale.at(relative, NOISE), small)
        if at is not None:
            led = not names or _open(search, scale, at, low, spikes)
            rising.update(low if led and len(low) == 1 else ())
            out.append(Corner(at, low, led))
    return sorted(out, key=lambda c: -search.value(c.at))


def _with_coefficients(search: Maximiser, at: Evaluation, scale: ScaledStart) -> Evaluation:
    """The coefficients at their best beside covariances, which have taken the place of those that
    they were chosen by: a step by the information."""
    objective = search.objective
    linear = linear_hypers(objective.planned.canonical, at.theta, objective.pinned)
    names = [n for n in linear.coefficients if n not in objective.begin]
    if not scale.covariances or not names:
        return at
    slices, known = objective.coordinates.slices, information(objective, at, search.jacobian)
    own = np.concatenate([np.arange(slices[n].start, slices[n].stop) for n in names])
    if known is None or not np.isfinite(known).all():
        return at
    block = known[np.ix_(own, own)]
    if not (np.diag(block) > 0.0).all():
        return at
    x, unit = at.x.copy(), np.diag(block) ** -0.5
    slope = unit * search.gradient(at)[own]
    x[own] += unit * np.linalg.lstsq(unit[:, None] * block * unit, slope, rcond=1e-12)[0]
    there = objective.at(x, at.posterior)
    return at if there is None or search.value(there) < search.value(at) else there


def fit_at(objective: Objective, theta: Theta, warm: Evaluation) -> Evaluation | None:
    """A fit where a search may start from now on; None where there is none."""
    try:
        x = objective.coordinates.pack(theta)
    except LgmError:
        return None
    objective.span(x)
    return objective.at(x, warm.posterior)


def _choices(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The hypers that are low: none first."""
    if len(names) <= CORNERS:
        for count in range(len(names) + 1):
            yield from itertools.combinations(names, count)
        return
    yield ()
    if len(names) <= MOST:
        yield from ((n,) for n in names)
        yield from (tuple(m for m in names if m != n) for n in names)
    yield names


def _spike(search: Maximiser, scale: ScaledStart, name: str) -> float:
    """LOW, or how many logs below s the size is where the prior's density has a mode, if that is
    lower: on the scale of the coordinates where that is the density that is climbed."""
    objective = search.objective
    block = objective.planned.canonical.hypers.block(name)
    assert block is not None and block.prior is not None
    levels = np.arange(LOW, -LOWEST, -0.25)
    heights = []
    for level in levels:
        value = scale.at({name: float(level)}, 0.0)[name]
        with np.errstate(all="ignore"):
            height = block.prior.at(scale.theta).log_density(value)
            if search.jacobian:
                form = transform(block, scale.theta)
                height += form.log_jacobian(form.coordinates(value))[0]
        heights.append(height)
    high = np.flatnonzero(np.array(heights) >= np.max(heights) - LEVEL)
    return float(levels[high[0]]) if np.isfinite(heights).any() else LOW


def _open(
    search: Maximiser,
    scale: ScaledStart,
    at: Evaluation,
    low: tuple[str, ...],
    spikes: Mapping[str, float],
) -> bool:
    gradient = search.gradient(at)
    for name in low:
        slope = float(gradient[search.objective.coordinates.slices[name]].sum())
        slope *= np.sign(scale.exponent(name))
        if slope > (RISES if search.jacobian or spikes[name] < LOW else FLAT):
            return True
    return False


def _response_log_sd(at: Evaluation) -> Array:
    """(blocks,) log sds of the working response about its mean, beyond what the prior says."""
    q, out = at.posterior, []
    means, priors = q.conditioned.mean, at.problem.engine.prior_mean
    parts = zip(at.problem.answers, q.weight, q.shift, means, priors, strict=True)
    for k, (site, weight, shift, mean, prior) in enumerate(parts):
        if isinstance(site, SumsOfRows):
            out.append(site.working_sd(mean, q.conditioned.variance[k], prior))
            continue
        residual, precision = working_residuals(weight, shift, mean, at.problem.gaussian)
        response = residual + mean - prior
        response = response - np.sum(precision * response, axis=0) / np.sum(precision, axis=0)
        out.append(residual_sd(response, precision))
    return _logs(out)


def _residual_log_sd(at: Evaluation) -> Array:
    """(blocks,) log sds of the working residuals."""
    q, out = at.posterior, []
    parts = zip(at.problem.answers, q.weight, q.shift, q.conditioned.mean, strict=True)
    for k, (site, weight, shift, mean) in enumerate(parts):
        if isinstance(site, SumsOfRows):
            out.append(site.working_sd(mean, q.conditioned.variance[k]))
        else:
            out.append(residual_sd(*working_residuals(weight, shift, mean, at.problem.gaussian)))
    return _logs(out)


def _logs(sds: list[float]) -> Array:
    """1 where the data are all alike."""
    return np.log([sd if sd > 0.0 else 1.0 for sd in sds])


# ---- inputs ------------------------------------------------------------------------------------
# Lengths, ranges and rates on the scale of the inputs.
#
# Where a kernel's length is far below the distances between inputs, or far above all of them, the
# evidence has no slope in it, and no search leaves. So where a positive hyper of a latent's prior
# that sets no size has little slope, and no maximum near, other values are tried, a few logs apart;
# those uphill, where it has a slope.


# A slope of the evidence, in nats per log, that is little; the logs by which values are moved, both
# ways: a curve through 20 inputs has lengths that matter over three logs or more; and the nats of a
# maximum above the places on its sides.
LITTLE, FALLS = 2.0, 1.0
MOVES = tuple(sign * 2.0 * k for k in range(1, 9) for sign in (1.0, -1.0))


def at_inputs(search: Maximiser, at: Evaluation) -> Evaluation:
    """The highest of the places at which such hypers have other values, one coordinate after
    another, which searches may begin at; `at` where none is higher."""
    objective, best = search.objective, at
    for j in _shapes(search, at):
        base, slope = best, _slope(search, best, j)
        flat, heights = abs(slope) <= LITTLE, list[float]()
        for move in MOVES:
            if not flat and move * slope < 0.0:
                continue
            if heights and not flat and heights[-1] < search.value(best) - FALLS:
                break  # beyond a maximum uphill
            if len(heights) == 2 and flat and max(heights) < search.value(base) - FALLS:
                break  # a maximum between two places is there
            x = base.x.copy()
            x[j] += move
            there = objective.at(x, at.posterior)
            heights.append(-np.inf if there is None else search.value(there))
            if there is not None and search.value(there) > search.value(best):
                best = there
    objective.centre(best.x, best.x != at.x)
    return best


def _shapes(search: Maximiser, at: Evaluation) -> IntArray:
    """The coordinates of positive hypers of latents' priors that set no size."""
    objective = search.objective
    canonical, coordinates = objective.planned.canonical, objective.coordinates
    used = {n for depends in of_latents(canonical) for n in roots(canonical, depends)}
    set_by = {n for size in sizes(canonical, at.theta, set(objective.pinned)) for n in size.powers}
    names = [
        b.name
        for b in coordinates.blocks
        if b.type == "positive" and b.name in used and b.name not in {*set_by, *objective.begin}
    ]
    own = [np.arange(s.start, s.stop) for s in (coordinates.slices[n] for n in names)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *own])


def _slope(search: Maximiser, at: Evaluation, j: int) -> float:
    """The slope of the evidence in coordinate j."""
    return float(search.objective.coordinates.pull(at.slopes, at.x)[j])


# ---- real units --------------------------------------------------------------------------------
# The unit of an offset or a coefficient: its sd given all else, 1 / sqrt(curvature).
#
# A hyper of type real has the unit of the user's data. Where a step of 1 is a millionth of its sd,
# no slope along it looks worth a step.


# Smaller units stay 1: a search learns them from its first steps, and what it expects of a step is
# too much rather than too little.
LARGE = 10.0


def real_units(objective: Objective, at: Evaluation, least: float = LARGE) -> Array:
    """(d,) by the curvature of the expected complete-data objective at a fit; 1 for those below
    `least`, and for all hypers that are neither offsets nor coefficients."""
    canonical, coordinates = objective.planned.canonical, objective.coordinates
    out = np.ones(coordinates.size)
    linear = linear_hypers(canonical, at.theta, objective.pinned)
    if names := linear.coefficients:
        complete = CompleteData.of(canonical, coordinates, names, at.theta)
        seen = complete.with_prior(complete.curvature(at.posterior), at.theta).diagonal()
        with np.errstate(all="ignore"):
            units = 1.0 / np.sqrt(seen)
        out[complete.x] = np.where(np.isfinite(units) & (units > least), units, 1.0)
    return out
