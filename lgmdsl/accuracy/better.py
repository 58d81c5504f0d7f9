"""A posterior that is nearer to the exact one than a fit's q, and how far q is from it.

Variational Gaussians and EP are at the optimum about which `second_order` expands. From every other
q (Laplace's, bounds of sites) the variational optimum is sought in a few steps, by a method that
asks for expectations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from lgmdsl.accuracy.bound import row_bounds, rows_of
from lgmdsl.accuracy.derivatives import Derivatives
from lgmdsl.accuracy.errors import (
    Errors,
    MeanVariance,
    errors_of,
    errors_within,
    moments_of,
    widened,
)
from lgmdsl.accuracy.expansion import Expansion, Unanswered, alone, expansion
from lgmdsl.accuracy.second_order import LOW, second_order
from lgmdsl.accuracy.terms import SecondOrder, Spread
from lgmdsl.accuracy.weighed import weighed
from lgmdsl.accuracy.weighted import WeightedPosterior
from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.objectives.elbo import weight_mismatch
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.questions import Tilted
from lgmdsl.contract.rows import cavity, slope_of, total, trace
from lgmdsl.contract.site import Property, Site, log_concave
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import MethodError
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.inference.routes import answering

SETTLED = 0.02  # what may be left to the optimum: of any mean, in sds; of any variance, relative
MOVED = 0.25 * SETTLED  # the same where all variances have changed alike, and what is left adds up
MATCHED = 0.002  # what tilted variances may be off, relative
VARIATIONAL = "natural-gradient"
NEAR, STEPS = 0.01, 40  # tolerances, and steps, of the way to the optimum
AFFORDABLE = 2e9  # flops of one conditioning on that way
CANDIDATES = 8  # scalars that are looked at more closely where estimates are made of draws
TILT = 1e-2  # step of differences of a tilted variance, in sds of the cavity


class Unknown(Exception):
    """The error of a q cannot be estimated: why, in words."""


@dataclass(frozen=True, eq=False)
class Better:
    """`base`: the Gaussian about which `change` expands; `log_evidence`: its corrected evidence;
    `weighed`: in place of both, where latents are few."""

    q: Conditioned
    base: Conditioned
    change: SecondOrder
    log_evidence: float
    weighed: WeightedPosterior | None = None

    @cached_property
    def terms(self) -> SecondOrder:
        """The terms themselves, by draws where bounds of them are too high for a functional."""
        return self.change if self.change.draw is None else self.change.draw()

    @classmethod
    def by_draws(cls, q: Conditioned, known: WeightedPosterior) -> Better:
        """By weighted draws alone."""
        return cls(q, q, _nothing(known.linear), known.log_evidence, known)

    @property
    def width(self) -> int:
        """Numbers that a functional is made of."""
        return self.change.width if self.weighed is None else self.weighed.width

    @property
    def bounded(self) -> bool:
        """Whether bounds were low enough for all that was asked."""
        return self.change.bounds is not None and "terms" not in self.__dict__

    @property
    def basis(self) -> str:
        """How the errors are known."""
        if self.weighed is not None:
            return "importance sampling"
        if self.bounded:
            return "bound of the second-order correction"
        return "second-order correction" + ", by draws" * self.sampled

    @property
    def sampled(self) -> bool:
        """Whether the estimate is made of draws."""
        return not self.change.exact

    @np.errstate(all="ignore")
    def errors(self, functional: Predictor | None = None) -> Errors:
        """Errors of every latent, or of the rows of a functional, under q."""
        if self.weighed is not None:
            return self.weighed.errors(self.q, functional)
        reported = moments_of(self.q, functional)
        base = reported if self.base is self.q else moments_of(self.base, functional)
        moved = self.change.means(functional)
        if moved is None:
            return self._against(reported, base, functional)
        unit = np.sqrt(np.where(base[1] > 0.0, base[1], np.inf))
        errors = self._against(reported, (base[0] + moved[0], base[1]), functional)
        return widened(errors, moved[1] / unit)

    def _against(
        self, reported: MeanVariance, base: MeanVariance, functional: Predictor | None
    ) -> Errors:
        """Errors of reported moments, by those of a Gaussian and what its second order changes."""
        if self.change.bounds is not None:
            known = self.change.bounds.errors(functional, base[1])
            if known is not None:
                return errors_within(reported, base, *known)
        moments, terms = (reported, base), self.terms
        change, again = terms.variances(functional), terms.again
        if again is None:
            return errors_of(*moments, change, terms.cumulants(functional))
        # The largest of many estimates by draws: again by others, which bound the rest.
        spread = np.maximum(moments[1][1], 1e-300)
        chosen = np.sort(np.argsort(-np.abs(change) / spread, kind="stable")[:CANDIDATES])
        rows = rows_of(terms.linear, functional, chosen)
        variance, cumulants = again.variances_and_cumulants(rows)
        relative = variance / spread[chosen]
        most, least = max(relative.max(initial=0.0), 0.0), min(relative.min(initial=0.0), 0.0)
        change = np.clip(change, least * spread, most * spread)
        change[chosen] = variance
        skew = np.zeros(len(change))
        skew[chosen] = cumulants
        return errors_of(*moments, change, skew)


def better(
    planned: Plan,
    theta: Theta,
    q: Conditioned,
    log_evidence: float,
    seed: int = 0,
    evidence_alone: bool = False,
    near: Conditioned | None = None,
) -> Better | None:
    """What is nearer to p(z | y, theta) than q, by which a plan's method reports `log_evidence`;
    None where q is exact. `evidence_alone`: where nothing else is asked; `near`: a variational
    Gaussian at other hyperparameters close by. Raises Unknown."""
    canonical = planned.canonical
    sites, linear = canonical.sites(theta), canonical.linear(theta)
    if q.confinement is not None:
        return _beyond_confinement(planned, theta, q, seed, evidence_alone)
    if all(Property.GAUSSIAN in s.spec.properties for s in sites):
        return None
    if q.errors is not None:
        raise Unknown("the engine's own answers are estimates")
    try:
        known = _expanded_about(planned, theta, q, log_evidence, seed, evidence_alone, near)
    except Unknown:
        weights = weighed(sites, linear, q, seed, evidence_alone=evidence_alone)
        if weights is None:
            raise
        return Better.by_draws(q, weights)
    return _finite(_closer(known, sites, seed, evidence_alone))


def _beyond_confinement(
    planned: Plan, theta: Theta, q: Conditioned, seed: int, evidence_alone: bool
) -> Better:
    """Better posterior for a confined q: what is nearer than the best of all Gaussians."""
    base = _variational(planned, theta, q.unconfined, seed)
    other = replace(plan(planned.canonical, VARIATIONAL), terms=planned.terms)
    known = better(other, theta, base, math.nan, seed, evidence_alone)
    if known is None:  # the best of all is exact
        sites, linear = planned.canonical.sites(theta), planned.canonical.linear(theta)
        known = Better(base, base, _nothing(linear), _bound(base, _expanded(sites, base)))
    return replace(known, q=q)


def _nothing(linear: LinearGaussian) -> SecondOrder:
    """The terms of a Gaussian that is exact."""
    none = np.zeros((linear.size, 0))
    return SecondOrder(0.0, (Spread(none, none),), None, Derivatives((), ()), True, linear)


def _bound(base: Conditioned, at: Expansion) -> float:
    """The variational bound at a Gaussian."""
    parts = zip(at.value, base.weight, base.variance, strict=True)
    return base.centred + total(tuple(f + 0.5 * trace(w, v) for f, w, v in parts))


def _expanded_about(
    planned: Plan,
    theta: Theta,
    q: Conditioned,
    log_evidence: float,
    seed: int,
    evidence_alone: bool,
    near: Conditioned | None,
) -> Better:
    """By a series about q, or about the variational Gaussian that is sought from it."""
    sites, linear = planned.canonical.sites(theta), planned.canonical.linear(theta)

    def condition(weight: Rows, shift: Rows) -> Conditioned | Failed:
        return planned.at(theta, seed=seed).engine.condition(weight, shift)

    # What a vector site's own moments have of the terms is not taken off theirs: held against a
    # variational Gaussian, as other methods.
    if planned.backend.spec.needs is Tilted and all(m.ndim == 1 for m in q.mean):
        tilts = tuple(map(_tilted, sites, q.mean, q.variance, q.weight, q.shift))
        if _matched(linear, q, tilts):
            derivatives = Derivatives.of([t.third for t in tilts], [t.fourth for t in tilts], q)
            change = second_order(linear, q, derivatives, seed, True, evidence_alone, condition)
            return Better(q, q, change, log_evidence + change.evidence)
    base, least = q, SETTLED
    moved = None if near is None else condition(near.weight, near.shift)
    if isinstance(moved, Conditioned):
        base, least = moved, MOVED
    at = _expanded(sites, base)
    if not _settled(linear, base, at, least):
        base = _variational(planned, theta, base, seed)
        at = _expanded(sites, base)
    sums = (base.mean, base.variance, base.weight, base.shift, at.value, at.third)
    own = tuple(map(alone, sites, *sums))
    derivatives = Derivatives.of(at.third, at.fourth, base, own)
    change = second_order(linear, base, derivatives, seed, False, evidence_alone, condition)
    return Better(q, base, change, _bound(base, at) + change.evidence)


def _closer(known: Better, sites: tuple[Site, ...], seed: int, evidence_alone: bool) -> Better:
    """By importance sampling, where latents are few and the series may not do."""
    change, base = known.change, known.base
    if change.whitened is None or _near(change, base, sites):
        return known
    answer = weighed(sites, change.linear, base, seed, change.whitened[0], evidence_alone)
    if answer is None:
        return known
    return replace(known, weighed=answer, log_evidence=answer.log_evidence)


def _near(change: SecondOrder, base: Conditioned, sites: tuple[Site, ...]) -> bool:
    """Whether q is so near that its series may be trusted: log-concave sites of low bounds."""
    if not log_concave(sites):
        return False
    bounds = row_bounds(base, change.derivatives)
    return bounds is not None and bounds.quantile <= LOW


def _variational(planned: Plan, theta: Theta, q: Conditioned, seed: int) -> Conditioned:
    """A variational Gaussian near its optimum, from q, else from its own start."""
    try:
        other = plan(planned.canonical, VARIATIONAL)
        problem = replace(other, terms=planned.terms).at(theta, seed=seed)
    except MethodError:
        raise Unknown(f"`{VARIATIONAL}` cannot run this model") from None
    if problem.flops > AFFORDABLE:
        raise Unknown("a variational Gaussian to hold it against would take longer than the fit")
    warm = GaussianPosterior(q.weight, q.shift, q, 0.0, Guarantee.APPROXIMATE)
    usable = (Status.converged, Status.iteration_limit)
    for start in (warm, None):
        result = run(other.backend, problem, Tolerances(NEAR, NEAR), STEPS, start)
        if result.posterior is not None and result.status in usable:
            return result.posterior.conditioned
    raise Unknown(f"`{VARIATIONAL}` does not converge on this model")


def _expanded(sites: tuple[Site, ...], q: Conditioned) -> Expansion:
    try:
        found = expansion(sites, q.mean, q.variance)
    except Unanswered as family:
        raise Unknown(f"{family} gives no expectations") from None
    if not found.finite:
        raise Unknown("an expectation of its sites is not finite")
    return found


def _settled(linear: LinearGaussian, q: Conditioned, at: Expansion, least: float) -> bool:
    """Whether q has no slope and no curvature of the variational bound left, or at most `least`.

    Rows that share latents add up: 5,000 slopes of a hundredth of an sd each move a level by many
    sds. So the slopes are measured by how far Newton's step would move any mean at most, and the
    curvatures by how much any variance would change at most.
    """
    off = slope_of(q.shift, q.weight, q.mean)
    gaps = tuple(g - h for g, h in zip(at.slope, off, strict=True))
    if q.squared_length(StackedPredictors(linear).pulled(gaps)) > least**2:
        return False
    target = tuple(-c for c in at.curvature)
    return weight_mismatch(q.weight, target, q.variance) <= least


@dataclass(frozen=True, eq=False)
class _Tilt:
    """The tilted distributions of scalar sites, by numbers of (N,) each: third and fourth cumulants
    over v^3 and v^4; means less q's, over v; variances over v."""

    third: Array
    fourth: Array
    slope: Array
    ratio: Array


def _matched(linear: LinearGaussian, q: Conditioned, tilts: tuple[_Tilt, ...]) -> bool:
    """Whether q has the tilted means and variances, as EP at power 1 has and at others not; means
    all together, as in `_settled`."""
    slopes = tuple(t.slope for t in tilts)
    if q.squared_length(StackedPredictors(linear).pulled(slopes)) > SETTLED**2:
        return False
    return all(float(np.abs(t.ratio - 1.0).max(initial=0.0)) <= MATCHED for t in tilts)


def _tilted(site: Site, m: Array, v: Array, weight: Array, shift: Array) -> _Tilt:
    """By differences of the tilted variance in the cavity's natural mean; of scalar sites."""
    try:
        lift = answering(type(site), Tilted)
    except MethodError:
        raise Unknown(f"{site.spec.name} gives no tilted moments") from None
    third, fourth = np.zeros(len(m)), np.zeros(len(m))
    out = _Tilt(third, fourth, np.zeros(len(m)), np.ones(len(m)))
    with np.errstate(all="ignore"):
        without = cavity(m, v, weight, shift)
        able = without.sound & (v > 0.0)
        if not able.any():
            return out
        some, at, spread = site.take(able), without.mean[able], without.variance[able]
        answer = cast(Tilted, lift(some))
        step = TILT * np.sqrt(spread)
        below, same, above = (answer.tilted(at + s * step, spread) for s in (-1.0, 0.0, 1.0))
        low, here, high = below.variance, same.variance, above.variance
        unit = spread / (step * v[able])
        slope = 0.5 * (high - low) * unit / v[able] ** 2
        bend = (high - 2.0 * here + low) * unit**2 / v[able] ** 2
        out.slope[able], out.ratio[able] = (same.mean - m[able]) / v[able], here / v[able]
    third[able] = np.where(np.isfinite(slope), slope, 0.0)
    fourth[able] = np.where(np.isfinite(bend), bend, 0.0)
    return out


def _finite(found: Better) -> Better:
    if not np.isfinite(found.log_evidence):
        raise Unknown("its second-order correction is not finite")
    return found
