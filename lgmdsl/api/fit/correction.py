"""Exact draws in place of the Gaussian posterior, where that is too far off and they are affordable.

`auto` takes them where the estimated error of a latent or a let passes what is tolerated; a method
that the user names stays as it is, unless `correction=on`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.accuracy.accuracy import MEAN, QUANTILE, SD, Accuracy
from lgmdsl.api.fit.accuracy import Estimated
from lgmdsl.api.fit.solved import Solved
from lgmdsl.api.settings import one_of
from lgmdsl.assess.sampling.draws import ExactDraws, MixturePoint, mixture_draws
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.errors import LgmError
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.posterior.drawn import JointSample

# What is tolerated, in times of what W609 tolerates, and the allowance, in times of the normal one.
TOLERATED = {"normal": 1.0, "low": 2.0, "high": 0.5}
ALLOWANCE = {"normal": 1.0, "low": 0.0, "high": 30.0}
# The allowance in floating-point operations: about a second of one core, or as often what the fit
# itself took.
OPERATIONS, FITS = 3e9, 1.0
# Operations for a site at a draw (logs, exponentials and passes through memory, measured at 50 to
# 150 ns), and for each latent.
SITE, LATENT = 100.0, 30.0
DRAWS, FEWEST, KEPT = 4000, 1000, 20_000_000  # of draws, and of values of all draws
# Chains that are not to be trusted: Vehtari et al. 2021 ask for 400 draws' worth and 1.01 of far
# longer ones.
ESS, R_HAT = 400.0, 1.05


@dataclass(frozen=True)
class CorrectionOptions:
    """`correction`: auto (of the method `auto`), on or off; `marginals`: corrected or gaussian;
    `effort`: low, normal or high."""

    correction: str = "auto"
    marginals: str = "corrected"
    effort: str = "normal"

    def wanted(self, method: str) -> bool:
        """Whether the posterior of a method may be replaced."""
        asked = self.correction == "on" or (self.correction == "auto" and method == "auto")
        return asked and self.marginals == "corrected"


def correction_options(
    options: Mapping[str, object],
) -> tuple[CorrectionOptions, dict[str, object]]:
    """The options `correction`, `marginals` and `effort`, and those left for the method.

    Raises MethodError E104 for a value that does not exist.
    """
    rest = dict(options)
    correction = one_of(rest, "correction", ("auto", "on", "off"))
    marginals = one_of(rest, "marginals", ("corrected", "gaussian"))
    return CorrectionOptions(correction, marginals, one_of(rest, "effort", tuple(TOLERATED))), rest


@dataclass(frozen=True, eq=False)
class Corrected:
    """`errors` of what is reported, the draws, if any were taken, and what the page says of it."""

    errors: Estimated
    sample: JointSample | None = None
    note: str = ""
    unaffordable: bool = False


def corrected(
    planned: Plan,
    solved: Solved,
    errors: Estimated,
    options: CorrectionOptions,
    settings: FitSettings,
    way: str,
) -> Corrected:
    """The estimate as it is, or exact draws of the latents with their Monte Carlo errors."""
    as_it_is = Corrected(errors)
    latents = errors.of_latents
    if not options.wanted(settings.method) or not latents.known or way == "vb":
        return as_it_is
    if _within(latents, options.effort) or solved.posterior.conditioned.errors is not None:
        return as_it_is
    size = planned.canonical.size
    draws = min(DRAWS, KEPT // max(size, 1))
    allowance = _allowance(planned, solved, settings.seed) * ALLOWANCE[options.effort]
    if draws < FEWEST:
        note = f"Gaussian, and off: no exact draws of so many latents ({size:,}) are kept"
        return replace(as_it_is, note=note)
    known: ExactDraws | None = None
    if allowance:
        budget = allowance / _cost(planned, solved, settings.seed)
        points = _points(planned, solved, settings.seed)
        with np.errstate(all="ignore"):
            known = mixture_draws(points, draws, settings.seed, budget)
    if known is None or len(known.z) < FEWEST:
        note = f"Gaussian, and off: exact draws take more than effort={options.effort} allows"
        return replace(as_it_is, note=note, unaffordable=options.effort != "high")
    if not (known.ess >= ESS and known.r_hat <= R_HAT):
        note = (
            "Gaussian, and off: the chains of exact draws do not agree "
            f"(R-hat {known.r_hat:.2f}, worth {known.ess:.0f} draws)"
        )
        return replace(as_it_is, note=note)
    sample = JointSample.of(known.z, known.point, known.chains, known.ess, known.r_hat)
    return Corrected(_with_draws(planned, errors, sample), sample, _why(errors, sample, options))


def _within(errors: Accuracy, effort: str) -> bool:
    times = TOLERATED[effort]
    limits = ((errors.mean, MEAN), (errors.sd, SD), (errors.quantile, QUANTILE))
    return not any(error > times * limit for error, limit in limits)


def _why(errors: Estimated, sample: JointSample, options: CorrectionOptions) -> str:
    hypers = errors.of_hypers_off
    off = [(label, words) for label, words in errors.off if label not in hypers]
    reason = f"errors passed what effort={options.effort} tolerates"
    if off:
        label, words = off[0]
        reason = f"of `{label}` under a Gaussian {words}"
    return f"{len(sample):,} exact draws, since {reason} (worth {sample.ess:,.0f}, R-hat {sample.r_hat:.3f})"


def _with_draws(planned: Plan, errors: Estimated, sample: JointSample) -> Estimated:
    """Monte Carlo errors of the latents, of moments and of 5 and 95 % points; hyperparameters keep
    theirs."""
    unit = 1.0 / float(np.sqrt(sample.ess))
    mean, sd, quantile = (
        max(a, b)
        for a, b in zip((unit, np.sqrt(0.5) * unit, 2.11 * unit), errors.of_hypers, strict=True)
    )
    off = tuple((label, words) for label, words in errors.off if label in errors.of_hypers_off)
    worst = off[0][0] if off else ""
    basis = f"exact sampler ({len(sample):,} draws)"
    known = replace(
        errors.accuracy, mean=mean, sd=float(sd), quantile=quantile, worst=worst, basis=basis
    )
    return replace(errors, accuracy=known, off=off)


def _allowance(planned: Plan, solved: Solved, seed: int) -> float:
    """Operations that a second of one core makes, or the fit itself took."""
    flops = planned.at(solved.theta, seed=seed).flops
    learned = solved.learned
    steps = solved.run.steps if learned is None else learned.record().iterations
    return max(OPERATIONS, FITS * flops * steps)


def _cost(planned: Plan, solved: Solved, seed: int) -> float:
    """Operations for each that the sampler counts: the slope of one chain counts as the number of
    latents and predictor rows, and takes a pass over sites and operators and two products with a
    root of the covariance, which are to a factorisation as n^2 to n^3."""
    problem = planned.at(solved.theta, seed=seed)
    linear = problem.engine.linear
    entries = sum(op.nnz for p in linear.predictors for op in p.columns.values())
    root = min(float(linear.size) ** 2, problem.flops ** (2.0 / 3.0)) if problem.flops else 0.0
    whole = SITE * linear.rows + LATENT * linear.size + 4.0 * entries + 4.0 * root
    return whole / max(linear.size + linear.rows, 1)


def _points(planned: Plan, solved: Solved, seed: int) -> Iterator[MixturePoint]:
    """The posterior at each hyperparameter point, the heaviest first."""
    canonical, learned = planned.canonical, solved.learned
    if learned is None or not learned.points:
        linear = planned.at(solved.theta, seed=seed).engine.linear
        q = solved.posterior.conditioned
        yield MixturePoint(1.0, canonical.sites(solved.theta), linear, q)
        return
    for fitted, share in learned.points:
        engine = planned.at(fitted.theta, seed=seed).engine
        q = engine.condition(fitted.weight, fitted.shift)
        yield MixturePoint(share, canonical.sites(fitted.theta), engine.linear, q)
