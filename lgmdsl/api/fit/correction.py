"""Exact draws in place of a Gaussian posterior that is too far off, where they are affordable.

`auto` takes them where the estimated error of a latent or a let passes what is tolerated; a method
that the user names stays as it is, unless `correction=on`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.accuracy.errors import Errors, errors_of_draws
from lgmdsl.api.fit.errors.estimated import (
    BY_WEIGHTS,
    Estimated,
    errors_by_name,
    summed_up,
)
from lgmdsl.api.settings import one_of
from lgmdsl.assess.modes.search import Modes
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.site import log_concave
from lgmdsl.inference.plan import Plan

if TYPE_CHECKING:
    from lgmdsl.assess.grouped.draws import GroupedDraws
    from lgmdsl.assess.sampling.draws import ExactDraws, MixturePoint
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
# Chains that are not to be trusted: Vehtari et al. 2021 ask for 400 draws' worth and 1.01 of far
# longer ones.
ESS, R_HAT = 400.0, 1.05
# Draws that are worth less of their number are made by the other way too, if there is one.
WORTH = 0.25
# Rounds of chains double: one that does not fit the rest of the budget leaves up to two thirds of
# it, and those of small points more.
SPENT = 0.1
SAMPLER = "exact sampler"
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
        sample, known_errors, way = _exact(
            fit, planned, errors, problem, allowance, effort, several
        )
        drawn = errors.with_latents(planned.canonical, known_errors)
        return Correction(drawn, sample, _why(latents, sample, effort, way))
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
) -> tuple[JointSample, Estimated, str]:
    """Exact draws of the latents, within operations (`allowance`), their errors, and how they were
    made."""
    from lgmdsl.assess.grouped.draws import GroupedDraws
    from lgmdsl.assess.modes.draws import draws_from_modes
    from lgmdsl.assess.sampling.draws import mixture_draws
    from lgmdsl.posterior.drawn import JointSample

    size, latents = fit.canonical.size, errors.of_latents
    budget = allowance / _cost(problem) * _counted(problem)  # as the sampler counts
    if fit.posterior.conditioned.errors is not None:
        raise NotDrawn("the engine's solutions are estimates")
    if KEPT // size < FEWEST:
        raise NotDrawn(f"of {size:,} latents too few can be kept")
    known: GroupedDraws | ExactDraws | None = None
    weights: ExactDraws | None = None
    if allowance:
        shares = [p.share for p in fit.points]
        with np.errstate(all="ignore"):
            draws = min(MANY if size <= SMALL else DRAWS, KEPT // size)
            if several is None:
                known = _by_groups(fit, problem, draws, allowance)
            else:
                weights = known = draws_from_modes(
                    _problems(fit, planned), shares, several.z, draws, fit.seed, allowance
                )
            if known is None or known.ess < WORTH * len(known.z):
                chains = mixture_draws(_points(fit), draws, fit.seed, budget, shares)
                if known is None or (chains is not None and chains.ess > known.ess):
                    known = chains
    if known is None or len(known.z) < FEWEST:
        reason = f"they take more operations than effort={effort} allows"
        raise NotDrawn(reason, effort != "high")
    if not (known.ess >= ESS and known.r_hat <= R_HAT):
        worth = f"R-hat {known.r_hat:.2f}, worth {known.ess:.0f} draws"
        short = effort != "high" and known.operations > SPENT * budget
        within = f" within what effort={effort} allows" if short else ""
        raise NotDrawn(f"their chains do not agree{within} ({worth})", short)
    sample = JointSample.of(known.z, known.point, known.chains, known.ess, known.r_hat)
    way = SAMPLER if weights is None or known is not weights else BY_WEIGHTS
    if not isinstance(known, GroupedDraws):
        return sample, _of_draws(fit, latents, known, way), way
    known_errors = _of_draws(fit, latents, known, f"exact by {known.way}")
    if fit.learning is None:
        known_errors = _of_evidence(known_errors, fit.log_evidence, known.log_evidences[0])
    return sample, known_errors, known.way


def _by_groups(
    fit: FitRecord, problem: Problem, draws: int, allowance: float
) -> GroupedDraws | None:
    """Exact draws group by group, where the model has groups and that can be afforded."""
    from lgmdsl.assess.grouped.draws import grouped_draws
    from lgmdsl.assess.grouped.split import NoGroups

    if not log_concave(problem.sites):  # other modes are beyond a lattice
        return None
    try:
        shares = [p.share for p in fit.points]
        known = grouped_draws(_points(fit), draws, fit.seed, allowance, shares)
    except (NoGroups, np.linalg.LinAlgError):
        return None
    good = known is not None and known.ess >= ESS and known.r_hat <= R_HAT
    return known if good else None


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


def _why(latents: Estimated, sample: JointSample, effort: str, way: str) -> str:
    worth = f"worth {sample.ess:,.0f}, R-hat {sample.r_hat:.3f}"
    if way == BY_WEIGHTS:
        worth = f"by importance sampling from its modes, worth {sample.ess:,.0f}"
    elif way != SAMPLER:
        worth = f"{way}, {worth}"
    return f"{len(sample):,} exact draws ({worth}), since {_reason(latents, effort)}"


def _reason(latents: Estimated, effort: str) -> str:
    if latents.off:
        label, words = latents.off[0]
        return f"the Gaussian `{label}` is off: {words}"
    return f"the errors of a Gaussian passed what effort={effort} tolerates"


def _of_evidence(errors: Estimated, reported: float, exact: float) -> Estimated:
    """With the exact log evidence at given hyperparameters."""
    accuracy = replace(errors.accuracy, evidence=exact - reported)
    return replace(errors, accuracy=accuracy, log_evidence=exact)


def _of_draws(
    fit: FitRecord, latents: Estimated, known: ExactDraws | GroupedDraws, basis: str
) -> Estimated:
    """Monte Carlo errors."""
    linear, worth = fit.canonical.linear(fit.theta), min(known.ess, float(len(known.z)))

    def errors(functional: Predictor | None) -> Errors:
        values = known.z
        if functional is not None:
            values = functional.values(known.z.T, linear.slices).T
        return errors_of_draws(values, worth)

    named = list(errors_by_name(fit.canonical, fit.theta, errors, len(known.z)))
    how = f"{basis} ({len(known.z):,} draws)"
    gap = latents.accuracy.evidence
    return summed_up(fit.canonical, named, gap, latents.log_evidence, how)


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


def _points(fit: FitRecord) -> Iterator[MixturePoint]:
    """The posterior at each hyperparameter point, the heaviest first."""
    from lgmdsl.assess.sampling.draws import MixturePoint

    canonical = fit.canonical
    for point in fit.points:
        sites, linear = canonical.sites(point.theta), canonical.linear(point.theta)
        yield MixturePoint(point.share, sites, linear, point.condition())


def _problems(fit: FitRecord, planned: Plan) -> Iterator[tuple[Problem, Conditioned]]:
    """The problem and its Gaussian at each hyperparameter point."""
    for point in fit.points:
        yield planned.at(point.theta, seed=fit.seed), point.condition()
