"""Skewed draws in place of a Gaussian posterior that is too far off, where exact ones are too
expensive: of moments that are right to second order, with what is left of the errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.accuracy.better import Unknown, better
from lgmdsl.accuracy.errors import Errors, largest_of
from lgmdsl.accuracy.expansion import Unanswered, expansion
from lgmdsl.accuracy.limits import MEAN
from lgmdsl.api.fit.errors.estimated import Estimated, entries_off
from lgmdsl.arrays import Array
from lgmdsl.assess.estimator import allotted
from lgmdsl.assess.sampling.dynamics import Residual
from lgmdsl.assess.sampling.products import reference
from lgmdsl.assess.skewed.transport import Judged, Mapped, Transport, errors_left, formable
from lgmdsl.canonical.lowering.derived import Leaf
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.questions import Expected, Tilted
from lgmdsl.posterior.drawn import JointSample
from lgmdsl.posterior.hyper_points import HyperPoint

if TYPE_CHECKING:
    from lgmdsl.inference.plan import Plan
    from lgmdsl.posterior.fit_record import FitRecord

DRAWS, FEWEST, KEPT = 4000, 500, 20_000_000  # of draws, and of values of all draws
# Draws that the identities are computed from, and their values.
JUDGED, FEWEST_JUDGED, HELD = 1000, 100, 4_000_000
# A let is judged by so many values of its rows under these draws; beyond, some of the rows are.
VALUES = 8_000_000
# Draws are shifted where the largest error of a mean, in sds, is so many times that of an sd: of
# maps of counts near 0, whose level a variational Gaussian has 0.3 sds too low, it is 3 to 12 times
# and the shift leaves 0.05; of binary groups it is once or twice, and a shift would do harm.
STANDS_OUT = 2.5
# What a draw costs in evaluations of the slope, which take the sites and two products with a root
# of the covariance: a draw and two products for two of them; or three draws.
FORMED, INDEPENDENT = 0.75, 1.0
FORMING = 0.2  # operations for each cube of the rows that products with C take, ten flops in one
# Errors by the identities, of a mean in sds and of an sd, beyond which second order is not enough.
# 30 probit weights of 60 answers, whose sds a Gaussian has 22 % too small and these draws 6 % too
# large, have 0.4 and 0.24; a Poisson count of 0 under a prior of sd 10 is beyond all bounds.
LARGEST_MEAN, LARGEST_SD = 1.0, 1.0
# Standard errors of an sd and of a 5 or 95 % point of n normal draws in pairs, in n^-1/2 sds.
SD_ERROR, QUANTILE_ERROR = 0.71, 1.9


class NotSkewed(Exception):
    """No such draws are to be had: why."""


@dataclass(frozen=True, eq=False)
class _At:
    """A point, and how many pairs of draws there are at it, the first `judged` of them judged."""

    point: HyperPoint
    number: int
    pairs: int
    judged: int


def skewed(
    fit: FitRecord, planned: Plan, latents: Estimated, affordable: float, slope: float
) -> tuple[JointSample, Estimated]:
    """Draws at the points of the fit, and the errors that are left. `affordable`: evaluations of
    the slope of log p(z | y) that may be spent, of so many operations each. Raises NotSkewed."""
    size, shares = fit.canonical.size, [p.share for p in fit.points]
    kept, judged = min(DRAWS, KEPT // size), min(JUDGED, HELD // size, int(affordable / 8.0))
    if kept < FEWEST:
        raise NotSkewed("")
    linear = fit.canonical.linear(fit.theta)
    forming = len(shares) * linear.rows * (1.0 + FORMING * linear.rows**2 / slope)
    left = affordable - 2.0 * judged
    formed = formable(linear) and FEWEST * FORMED + forming <= left
    draws = int((left - forming) / FORMED if formed else left / INDEPENDENT)
    draws = min(kept, draws)
    if draws < FEWEST or judged < FEWEST_JUDGED:
        raise NotSkewed("nor draws to second order")
    pairs, looked = (allotted(shares, n // 2).tolist() for n in (draws, judged))
    parts = [
        _At(p, k, n, min(m, n))
        for k, (p, n, m) in enumerate(zip(fit.points, pairs, looked, strict=True))
        if n
    ]
    z, seen, shifted = [], list[Judged](), None
    for part in parts:
        moved, judge, shifted = _drawn(fit, planned, part, formed, shifted)
        z.append(moved)
        seen += judge
    point = np.concatenate([np.full(2 * p.pairs, p.number) for p in parts])
    count = len(point)
    sample = JointSample.of(np.concatenate(z), point, count, float(count), 1.0)
    return sample, _estimated(fit, latents, seen, count)


def _drawn(
    fit: FitRecord, planned: Plan, part: _At, formed: bool, shifted: bool | None
) -> tuple[Array, list[Judged], bool]:
    """Draws at one point, (2 pairs, n), those of them that are judged, and whether all are shifted
    to the mean that the identities give: the first point decides."""
    canonical, theta = fit.canonical, part.point.theta
    sites, linear = canonical.sites(theta), canonical.linear(theta)
    q = _base(fit, planned, part.point)
    try:
        third = expansion(sites, q.mean, q.variance).third
    except Unanswered as family:
        raise NotSkewed(f"{family} gives no expectations") from None
    if not all(np.isfinite(t).all() for t in third):
        raise NotSkewed("an expectation of its sites is not finite")
    rng = np.random.default_rng([fit.seed, 7, part.number])
    z, some, missing = [], list[Mapped](), part.judged
    for piece in Transport(linear, q, third, formed).draws(rng, part.pairs):
        z.append(q.latent_mean + piece.moved)
        if missing:
            some.append(piece.first(missing))
            missing -= len(some[-1].x) // 2
    draws = np.concatenate(z)
    if not some:
        return draws, [], bool(shifted)
    residual, covariance = Residual(sites, linear, q), reference(q)

    def judged(away: Array) -> list[Judged]:
        out = []
        for m in some:
            moved = m.moved + away
            pull = covariance.solve(np.ascontiguousarray(residual.slope(moved).T)).T
            out.append(Judged(part.number, q.latent_mean, m.x, moved, pull))
        return out

    here = judged(np.zeros(canonical.size))
    if shifted is not None and not shifted:
        return draws, here, False
    away = np.concatenate([j.pull - j.moved for j in here]).mean(axis=0)
    if shifted:
        return draws + away, judged(away), True
    # What sds lack gives means errors by the identities that the draws do not have.
    errors = errors_left(here, linear.slices)
    mean = _most([errors.mean])
    if mean > max(0.5 * MEAN, STANDS_OUT * _most([errors.sd])):
        there = judged(away)
        if _most([errors_left(there, linear.slices).mean]) < mean:
            return draws + away, there, True
    return draws, here, False


def _base(fit: FitRecord, planned: Plan, point: HyperPoint) -> Conditioned:
    """The variational Gaussian at a point."""
    q = point.condition()
    if planned.backend.spec.needs is Expected:
        return q
    if planned.backend.spec.needs is Tilted:
        raise NotSkewed(f"`{planned.method}` has second order's own terms in its moments")
    try:
        known = better(planned, point.theta, q, point.log_evidence, fit.seed, evidence_alone=True)
    except (Unknown, np.linalg.LinAlgError) as why:
        raise NotSkewed(str(why)) from None
    return q if known is None else known.base


def _estimated(fit: FitRecord, latents: Estimated, seen: Sequence[Judged], draws: int) -> Estimated:
    """What is left, by the identities, and Monte Carlo errors."""
    canonical, count = fit.canonical, sum(len(j.x) for j in seen)
    slices = canonical.linear(fit.theta).slices
    whole = errors_left(seen, slices)
    named = []
    for block in canonical.latents:
        where = slices[block.name]
        errors = Errors(whole.mean[where], whole.sd[where], whole.quantile[where])
        named.append((block.name, np.arange(len(errors.mean)), errors))
    for name, (dims, tree) in canonical.named.items():
        if not isinstance(tree, Leaf) or not tree.form.latents:
            continue
        size = math.prod(canonical.layout.shape(dims))
        rows = np.unique(np.linspace(0, size - 1, min(size, VALUES // count)).astype(np.int64))
        at = {
            k: canonical.predictor(tree.form, dims, fit.points[k].theta, rows)
            for k in {j.point for j in seen}
        }
        named.append((name, rows, errors_left(seen, slices, at)))
    unit = largest_of(canonical.size) / math.sqrt(draws)
    every = [e for _, _, e in named]
    mean, sd = (_most([getattr(e, part) for e in every]) for part in ("mean", "sd"))
    if not (mean <= LARGEST_MEAN and sd <= LARGEST_SD):
        raise NotSkewed("second order is not enough")
    accuracy = replace(
        latents.accuracy,
        mean=mean,
        sd=math.hypot(sd, SD_ERROR * unit),
        quantile=math.hypot(_most([e.quantile for e in every]), QUANTILE_ERROR * unit),
        worst="",
        basis=f"skewed to second order ({draws:,} draws)",
    )
    off = entries_off(canonical, named)
    worst = off[0][0] if off else ""
    return replace(latents, accuracy=replace(accuracy, worst=worst), off=off)


def _most(errors: Sequence[Array]) -> float:
    """The largest of all; infinite where one is no number."""
    parts = np.abs(np.concatenate([*errors, np.zeros(1)]))
    return float(parts.max()) if np.isfinite(parts).all() else math.inf
