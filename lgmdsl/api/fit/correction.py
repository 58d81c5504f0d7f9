"""Exact draws in place of a Gaussian posterior that is too far off, where they are affordable.

`auto` takes them where the estimated error of a latent or a let passes what is tolerated; a method
that the user names stays as it is, unless `correction=on`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.accuracy.errors import Errors, errors_of_draws, largest_by_chance
from lgmdsl.accuracy.limits import ESS
from lgmdsl.api.fit.errors.estimated import Estimated, errors_by_name, summed_up
from lgmdsl.api.settings import one_of
from lgmdsl.assess.estimator import ExactDraws, MixturePoint
from lgmdsl.assess.ladder import drawn
from lgmdsl.assess.modes.search import Modes
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.problem import Problem
from lgmdsl.inference.plan import Plan

if TYPE_CHECKING:
    from lgmdsl.posterior.drawn import JointSample
    from lgmdsl.posterior.fit_record import FitRecord

WHEN_CORRECTED: tuple[str, ...] = ("auto", "on", "off")
MARGINALS: tuple[str, ...] = ("corrected", "gaussian")
# What is tolerated, in times of what W609 tolerates, and the allowance, in times of the normal one.
TOLERATED = {"normal": 1.0, "low": 2.0, "high": 0.5}
ALLOWANCE = {"normal": 1.0, "low": 0.0, "high": 10.0}
EFFORTS: tuple[str, ...] = tuple(TOLERATED)
# The allowance in floating-point operations: some three seconds of one core, or as often what the
# fit itself took.
OPERATIONS, FITS = 5e9, 1.0
# Operations for a site at a draw (logs, exponentials and passes through memory, measured at 50 to
# 150 ns), and for each latent.
SITE, LATENT = 100.0, 30.0
STEP = 3000.0  # and for each chain at each step of all (0.2 ms for 64 of them)
DRAWS, FEWEST, KEPT = 4000, 1000, 20_000_000  # of draws, and of values of all draws
# Of few latents, which a learned scale makes heavy-tailed: 4,000 leave a 5 % point uncertain by
# 0.07 sd where the density there is 0.05.
MANY, SMALL = 10_000, 20
# Rounds of chains double: one that does not fit the rest of the budget leaves up to two thirds of
# it, and those of small points more.
SPENT = 0.1
GAUSSIAN = "Gaussian, though off; no exact draws:"
SKEWED = "draws with the posterior's skewness and sds to second order, since"


@dataclass(frozen=True)
class CorrectionOptions:
    """`correction`: auto (of the method `auto`), on or off; `marginals`: corrected or gaussian;
    `effort`: low, normal or high."""

    correction: str = "auto"
    marginals: str = "corrected"
    effort: str = "normal"

    def wanted(self, method: str) -> bool:
        """Whether what a method reports may be corrected."""
        return self.correction == "on" or (self.correction == "auto" and method == "auto")


def correction_options(
    options: Mapping[str, object],
) -> tuple[CorrectionOptions, dict[str, object]]:
    """The options `correction`, `marginals` and `effort`, and those left for the method.

    Raises MethodError E104 for a value that does not exist.
    """
    rest = dict(options)
    correction = one_of(rest, "correction", WHEN_CORRECTED)
    marginals = one_of(rest, "marginals", MARGINALS)
    return CorrectionOptions(correction, marginals, one_of(rest, "effort", EFFORTS)), rest


@dataclass(frozen=True, eq=False)
class Correction:
    """`errors` of what is reported, the draws, if any were taken, and what the page says of them.
    `unaffordable`: whether more effort would allow them."""

    errors: Estimated
    sample: JointSample | None = None
    note: str = ""
    unaffordable: bool = False


class NotDrawn(Exception):
    """No exact draws are to be had: why. `unaffordable`: whether more effort would allow them."""

    def __init__(self, why: str, unaffordable: bool = False) -> None:
        super().__init__(why)
        self.unaffordable = unaffordable


def correction(
    fit: FitRecord,
    planned: Plan,
    errors: Estimated,
    options: CorrectionOptions,
    several: Modes | None = None,
) -> Correction:
    """The estimate as it is, or exact draws of the latents at the points of the fit, with their
    Monte Carlo errors: by chains around the Gaussians, or, where the posterior's modes are known
    (`several`), by importance sampling from these."""
    latents = errors.of_latents
    if not latents.accuracy.known or fit.hyper == "vb":
        return Correction(errors)
    effort = options.effort
    if latents.accuracy.within_times(TOLERATED[effort]):
        return Correction(errors)
    problem = planned.at(fit.theta, seed=fit.seed)
    allowance = ALLOWANCE[effort] * _allowance(fit, problem)
    try:
        known, left = _exact(fit, planned, errors, problem, allowance, effort, several)
        from lgmdsl.posterior.drawn import JointSample

        sample = JointSample.of(known.z, known.point, known.chains, known.ess, known.r_hat)
        both = errors.with_latents(planned.canonical, left)
        return Correction(both, sample, _why(latents, known, effort))
    except NotDrawn as why:
        # Skewed draws are around one mode, and take an engine's answers for exact.
        many = several is not None and len(several) > 1
        if many or fit.posterior.conditioned.errors is not None:
            return Correction(errors, None, f"{GAUSSIAN} {why}", why.unaffordable)
        return _second_order(fit, planned, errors, problem, allowance, effort, why)


def _exact(
    fit: FitRecord,
    planned: Plan,
    errors: Estimated,
    problem: Problem,
    allowance: float,
    effort: str,
    several: Modes | None,
) -> tuple[ExactDraws, Estimated]:
    """Exact draws of the latents, within operations (`allowance`), and their errors."""
    from lgmdsl.assess.grouped.draws import ByGroups
    from lgmdsl.assess.modes.weighed import FromModes
    from lgmdsl.assess.sampling.draws import Chains

    size, latents = fit.canonical.size, errors.of_latents
    if fit.posterior.conditioned.errors is not None:
        raise NotDrawn("the engine's solutions are estimates")
    if KEPT // size < FEWEST:
        raise NotDrawn(f"of {size:,} latents too few can be kept")
    chains = Chains(fit.seed, _cost(problem) / _counted(problem))
    modes = FromModes(fit.seed, None if several is None else several.z)
    ladder = (ByGroups(fit.seed), modes, chains)
    known: ExactDraws | None = None
    if allowance:
        with np.errstate(all="ignore"):
            draws = min(MANY if size <= SMALL else DRAWS, KEPT // size)
            shares = [p.share for p in fit.points]
            known = drawn(ladder, partial(_points, fit, planned), shares, draws, allowance, ESS)
    if known is None or len(known.z) < FEWEST:
        reason = f"they take more operations than effort={effort} allows"
        raise NotDrawn(reason, effort != "high")
    if not (known.ess >= ESS and known.agree):
        worth = f"R-hat {known.r_hat:.2f}, worth {known.ess:.0f} draws"
        short = effort != "high" and known.operations > SPENT * allowance
        within = f" within what effort={effort} allows" if short else ""
        raise NotDrawn(f"their chains do not agree{within} ({worth})", short)
    left = _of_draws(fit, latents, known)
    if fit.learning is None and math.isfinite(known.log_evidence):
        left = _of_evidence(left, fit.log_evidence, known.log_evidence)
    return known, left


def _second_order(
    fit: FitRecord,
    planned: Plan,
    errors: Estimated,
    problem: Problem,
    allowance: float,
    effort: str,
    why: NotDrawn,
) -> Correction:
    """Draws whose skewness and width are right to second order, where exact ones are not to be
    had."""
    from lgmdsl.api.fit.skewed import NotSkewed, skewed

    latents, cost = errors.of_latents, _cost(problem)
    try:
        with np.errstate(all="ignore"):
            sample, left = skewed(fit, planned, latents, allowance / cost, cost)
    except NotSkewed as unable:
        also = f"; {unable}" if str(unable) else ""
        return Correction(errors, None, f"{GAUSSIAN} {why}{also}", why.unaffordable)
    note = f"{len(sample):,} {SKEWED} {_reason(latents, effort)}; no exact draws: {why}"
    joined = errors.with_latents(planned.canonical, left)
    return Correction(joined, sample, note, why.unaffordable)


def _why(latents: Estimated, known: ExactDraws, effort: str) -> str:
    words = [known.made, f"worth {known.ess:,.0f}", f"R-hat {known.r_hat:.3f}" * (known.chains > 1)]
    how = ", ".join(w for w in words if w)
    return f"{len(known.z):,} exact draws ({how}), since {_reason(latents, effort)}"


def _reason(latents: Estimated, effort: str) -> str:
    if latents.off:
        label, words = latents.off[0]
        return f"the Gaussian `{label}` is off: {words}"
    return f"the errors of a Gaussian passed what effort={effort} tolerates"


def _of_evidence(errors: Estimated, reported: float, exact: float) -> Estimated:
    """With the exact log evidence at given hyperparameters."""
    accuracy = replace(errors.accuracy, evidence=exact - reported)
    return replace(errors, accuracy=accuracy, log_evidence=exact)


def _of_draws(fit: FitRecord, latents: Estimated, known: ExactDraws) -> Estimated:
    """Monte Carlo errors: standard ones of each entry, of all the largest that is to be expected.
    Draws of which each is worth one, evenly spread points, fall short of both."""
    linear, worth = fit.canonical.linear(fit.theta), min(known.ess, float(len(known.z)))

    def errors(functional: Predictor | None) -> Errors:
        values = known.z
        if functional is not None:
            values = functional.values(known.z.T, linear.slices).T
        return errors_of_draws(values, worth)

    named = list(errors_by_name(fit.canonical, fit.theta, errors, len(known.z)))
    how = f"{known.basis} ({len(known.z):,} draws)"
    gap = latents.accuracy.evidence
    left = summed_up(fit.canonical, named, gap, latents.log_evidence, how)
    if known.ess >= len(known.z):
        return left
    mean, sd, quantile = largest_by_chance([e for _, _, e in named], fit.canonical.size)
    return replace(left, accuracy=replace(left.accuracy, mean=mean, sd=sd, quantile=quantile))


def _allowance(fit: FitRecord, problem: Problem) -> float:
    """Operations that some three seconds of one core make, or the fit itself took."""
    steps = fit.steps if fit.learning is None else fit.learning.iterations
    return max(OPERATIONS, FITS * problem.flops * steps)


def _cost(problem: Problem) -> float:
    """Operations for the slope of one chain: a pass over sites and operators and two products with
    a root of the covariance, which are to a factorisation as n^2 to n^3."""
    linear = problem.engine.linear
    entries = sum(float(op.entries) for p in linear.predictors for op in p.columns.values())
    root = min(float(linear.size) ** 2, problem.flops ** (2.0 / 3.0)) if problem.flops else 0.0
    rows = max(linear.rows, sum(site.evaluations for site in problem.sites))
    return STEP + SITE * rows + LATENT * linear.size + 4.0 * entries + 4.0 * root


def _counted(problem: Problem) -> float:
    """What the sampler counts for it: latents and predictor rows."""
    return float(max(problem.engine.linear.size + problem.engine.linear.rows, 1))


def _points(fit: FitRecord, planned: Plan) -> Iterator[MixturePoint]:
    """The posterior at each hyperparameter point, the heaviest first."""
    canonical = fit.canonical
    for point in fit.points:
        sites, linear = canonical.sites(point.theta), canonical.linear(point.theta)
        problem = partial(planned.at, point.theta, seed=fit.seed)
        yield MixturePoint(point.share, sites, linear, point.condition, problem=problem)
