"""The groups of a shard at their best q(u | beta), q(beta) = N(m, V) being given.

    F(m, V) = max over q(u | beta) of E_q[sum l] - E over q(beta) of KL(q(u | beta) || p(u))

At the maximum the rows' weights are -2 f_v, f(m_i, v_i) = E l at the mean and variance of their
predictors under q(beta) q(u | beta), and by the envelope theorem, with D, C and W as for a mode
(`eliminate`) but W made of these weights,

    F_m = X'f_m,   -2 F_V = X'WX - C'D^-1 C

so that a shard is a vector site of beta with the expectation F, and the bound of the whole model is

    sum of all F - KL(q(beta) || p(beta)).

(Derived, and checked against differences and fits with all rows in memory in `tests/shards`;
the weights are those of Opper and Archambeau 2009.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Gradient
from lgmdsl.canonical.reverse import pull
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.objectives.elbo import ElboPoint, elbo_of
from lgmdsl.contract.objectives.super_gaussian import Penalty
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Expected, ExpectedAnswer, PointwiseAnswer, Tilted
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Run, Tolerances, run
from lgmdsl.inference.routes import Route
from lgmdsl.shards.averages.at_shared import AtShared
from lgmdsl.shards.averages.settling import settle
from lgmdsl.shards.eliminate import Eliminated, Groups, Mode, NoMode
from lgmdsl.streams.collective import Places

# Weights and means within SMALL, relative and in sds (`settle`), after LIMIT passes at most, from a
# start that is ROUGH.
SMALL, LIMIT, ROUGH = 1e-9, 120, Tolerances(evidence=1e-2, mean=0.3)
# Where that fails, the back end's own steps, at most STEPS, must come so near.
REACHED, ROUNDING, STEPS = 1e-6, 1e-12, 200
# Of moments that are matched.
MATCHED = Tolerances(evidence=ROUNDING, mean=1e-9)
FEW = 6  # passes over the rows that a search from a near point takes, about


@dataclass(eq=False)
class Counted(Expected):
    """An answer of the places, and how often they were asked."""

    answer: Expected
    passes: int = 0

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        self.passes += 1
        return self.answer.expected(mean, variance, second)


@dataclass(frozen=True, eq=False)
class Average(Mode):
    """z and the answer at the best q(u | beta): those of `Mode` with E s, (G, K), f, f_m and 2 f_v
    in the place of s, l, l' and l''; of methods that match moments, with the slopes of the rows'
    Gaussian sites and their weights' negative. `bound`: F; `slopes`: in the rows' parameters, where
    they were computed with it."""

    bound: float
    slopes: Mapping[str, Array] | None = None

    @property
    def shift(self) -> Array:
        """(G, K) b, f_m + W z."""
        return self.answer.slope + rows.times(self.weight, self.z)


@dataclass(frozen=True, eq=False)
class Averaging:
    """How groups are averaged over: the `route` of the rows' sites to `backend`, which climbs to
    the best q(u | beta) where their own steps do not end there."""

    route: Route
    backend: Backend[Any]

    @property
    def question(self) -> type:
        """What the rows answer."""
        return self.backend.spec.needs

    def averaged(
        self, groups: Groups, mean: Array, covariance: Array, near: Mode | None = None
    ) -> Averaged:
        """The groups at q(beta) = N(mean, covariance), found from where they are at another theta
        or q(beta). Raises NoMode."""
        places = groups.places.by(self.route.answer)
        engine = AtShared(groups, mean, covariance)
        if self.question is Tilted:
            found = self._matched(places, engine, near)
        else:
            found = self._averaged(places, groups, engine, mean, near)
        return self.at(groups, mean, covariance, found)

    def _averaged(
        self, places: Places, groups: Groups, engine: AtShared, mean: Array, near: Mode | None
    ) -> Average:
        counted = Counted(places if self.question is Expected else Penalty(places, majorised=True))
        problem = Problem((places,), (counted,), engine)
        climbing = Problem((places,), (places,), engine)
        found, more = None, 0
        if isinstance(near, Average):
            found = self._settled(problem, near.weight, near.shift)
        if found is None:
            weight, shift, more = _first(problem, groups, mean)
            found = self._settled(problem, weight, shift)
        if found is None:
            rough = self._run(climbing, ROUGH).posterior
            if rough is None:
                raise NoMode("the averages over the groups have no start")
            found = self._settled(problem, rough.weight[0], rough.shift[0])
        if found is None:
            found = self._climbed(problem, climbing)
        (a,), (m,) = found.answers, found.mean
        return Average(
            m,
            _as_modes(a.value, a.d_mean, 2.0 * a.d_variance),
            more + counted.passes,
            found.elbo,
        )

    def _matched(self, places: Places, engine: AtShared, near: Mode | None) -> Average:
        """The average at which the rows' moments match those of their tilted densities."""
        problem = Problem((places,), (places,), engine)
        warm = None
        if isinstance(near, Average):
            q = engine.condition((near.weight,), (near.shift,))
            if not isinstance(q, Failed):
                claim = self.backend.spec.guarantee
                warm = GaussianPosterior(q.weight, q.shift, q, near.bound, claim)
        found = self._run(problem, MATCHED, warm)
        posterior = found.posterior
        if posterior is None or posterior.slopes is None:
            raise NoMode(found.reason or found.status.value)
        if not min(e.residual for e in found.trace) <= REACHED:
            raise NoMode("the moments of the groups' rows do not match")
        (weight,), (shift,), (m,) = posterior.weight, posterior.shift, posterior.conditioned.mean
        answer = _as_modes(np.zeros(len(m)), shift - rows.times(weight, m), -weight)
        (slopes,) = posterior.slopes()
        return Average(m, answer, 2 + len(found.trace), posterior.log_evidence, slopes)

    def _run(
        self, problem: Problem, tolerances: Tolerances, warm: GaussianPosterior | None = None
    ) -> Run:
        found = run(self.backend, problem, tolerances, STEPS, warm)
        if found.status is Status.interrupted:
            raise KeyboardInterrupt
        return found

    def _settled(self, problem: Problem, weight: Array, shift: Array) -> ElboPoint | None:
        engine = problem.engine
        assert isinstance(engine, AtShared)
        return settle(problem, engine, weight, shift, SMALL, LIMIT)

    def _climbed(self, problem: Problem, climbing: Problem) -> ElboPoint:
        """The point that the back end reaches alone, whose steps raise the bound. Raises NoMode."""
        found = self._run(climbing, Tolerances(evidence=ROUNDING, mean=SMALL))
        if found.posterior is None:
            raise NoMode(found.reason or found.status.value)
        left = found.trace[-1].residual
        if not left <= REACHED:
            raise NoMode("the averages over the groups did not settle")
        point = elbo_of(problem, found.posterior.conditioned)
        if isinstance(point, Failed):
            raise NoMode(point.reason)
        return point

    def at(self, groups: Groups, mean: Array, covariance: Array, known: Average) -> Averaged:
        """The groups where their averages are known. Raises NoMode."""
        plain = groups.at_mode(known)
        return Averaged(
            groups,
            plain.z,
            plain.answer,
            plain.weight,
            plain.q,
            known.passes,
            averaging=self,
            known=known,
            covariance=covariance,
        )


def _as_modes(value: Array, slope: Array, curvature: Array) -> PointwiseAnswer:
    return PointwiseAnswer(value, slope, curvature, np.full_like(slope, math.nan))


def _first(problem: Problem, groups: Groups, mean: Array) -> tuple[Array, Array, int]:
    """Sites to begin at: those of the groups' mode at beta = m, with the passes that it took, or
    where sites have a kink what rows ask for next to groups that have their prior means."""
    if Property.KINKED not in groups.places.rows.family.spec.properties:
        try:
            mode = groups.eliminated(mean)
        except NoMode:
            pass
        else:
            shift = mode.answer.slope + rows.times(mode.weight, mode.z)
            return mode.weight, shift, mode.passes
    engine, (asked,) = problem.engine, problem.expecting()
    assert isinstance(engine, AtShared), "a problem of groups next to shared latents"
    (prior,) = engine.prior_mean
    answer = asked.expected(prior, engine.shared_variance)
    weight = -2.0 * answer.d_variance
    return weight, answer.d_mean + rows.times(weight, prior), 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Averaged(Eliminated):
    """The groups at their best q(u | beta): `answer` and `weight` are those of `Average`; `q` is
    that of the groups' latents given beta = m."""

    averaging: Averaging
    known: Average
    covariance: Array

    @property
    def mode(self) -> Average:
        return self.known

    @property
    def value(self) -> tuple[float, float]:
        """F; nothing is left for the evidence to have in addition."""
        return self.known.bound, 0.0

    @property
    def bound_slopes(self) -> Gradient:
        """dF/dhyper at fixed m and V, of every hyper that the rows' sites and the groups' priors
        depend on: by the envelope theorem those at fixed q."""
        places = self.places.by(self.averaging.route.answer)
        model, slopes = self.groups.canonical, self.known.slopes or {}
        if places.rows.own and self.known.slopes is None:
            variance = self.variance(self.covariance)
            slopes = places.averaged_slopes(self.averaging.question, self.z, variance)
        elif not places.rows.own and not self.groups.learned:
            return {}
        out = pull(model, self.q.adjoints(), (slopes,), self.groups.theta)
        if self.groups.learned:
            self._spreads(self.covariance, out)
        return out
