"""Stochastic variational learning: natural gradients from batches of rows, their variance reduced.

A step passes over the rows in batches (below) and then over all of them at once: bound and
residual are those of natural-gradient, of all rows. A pass that does not raise the bound is halved,
and in the last resort replaced by a step of natural-gradient.

The fixed point is that of all rows, whatever the batches, their order and the seed; a step never
lowers the bound; `converged` is said after a pass over all rows. Sites that one pass has visited
are those of an incremental Newton method: close to the optimum each pass squares the error, up to a
factor. Hyperparameters are fixed within a fit; searches over them start from the sites before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract import rows
from lgmdsl.contract.backend import BackendSpec, check_least, option
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.joint import latent_root, some_rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.objectives.elbo import (
    FALLEN,
    LEGIBLE,
    ElboPoint,
    begin,
    blur,
    elbo_at,
    resolved,
)
from lgmdsl.contract.objectives.natural_ascent import NaturalAscent, NaturalState, better
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.stacked import StackedPredictors, split
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import Diagnostic, MethodError, NumericalError
from lgmdsl.numerics.cholesky import Cholesky, cholesky
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import also

# Shares of a pass that are tried: each costs a pass over all rows.
SHARES = (1.0, 0.5, 0.25)
# Rows of the sample that a fit begins with, for each latent: fewer determine none of them.
SAMPLED = 4


@dataclass(frozen=True)
class StochasticState(NaturalState):
    """A point on the ELBO of all rows; `passes`: over the rows in batches, so far."""

    batches: Batches | None = None
    passes: int = 0


@dataclass(frozen=True)
class StochasticGradient(NaturalAscent):
    """Natural-gradient steps on the ELBO from `minibatch` rows at a time.

    `passes`: over the rows in batches, before the bound of all rows is computed again.
    """

    minibatch: int = option(1000, "rows of a batch, at least 1")
    passes: int = option(1, "over the rows in batches before each evaluation of the whole bound")
    order: int = option(0, "a seed of the batches and of their order, at least 0")
    largest: int = option(2000, "latents at most; more are refused")
    memory: int = option(6, "how many past steps Anderson's candidate combines, at least 1")
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="stochastic",
        needs=Expected,
        additive=True,
        row_by_row=True,
        guarantee=Guarantee.LOWER,
        monotone=True,
        max_steps=100,
        paper="Khan 2012, section 6.4.3; Roux, Schmidt and Bach 2012; Defazio et al. 2014",
        summary="variational Gaussian by natural gradients from batches of rows, variance reduced",
        notes=Notes(
            formula="maximise E_q[log p(y, z)] - E_q[log q(z)] over all Gaussians q = N(m, V): the "
            "(W, b) of a batch's rows move to (-2 f_v, f_m - 2 f_v m), those of others stay, and q "
            "follows batch by batch; then bound and residual of all rows",
            support="every site that natural-gradient takes; at most `largest` latents, which many "
            "rows share",
            advice="the optimum of natural-gradient in fewer passes over many rows; converged is "
            "said of all rows, never of a batch",
            example="lgm fit logit.lgm data.npz --method stochastic --option minibatch=1000",
            see_also=("natural-gradient", "cholesky", "lower"),
            also_called=(*also("GPflow", "SVGP NaturalGradient minibatch"),),
        ),
    )

    def __post_init__(self) -> None:
        check_least("minibatch", self.minibatch, 1)
        check_least("passes", self.passes, 1)
        check_least("order", self.order, 0)
        check_least("largest", self.largest, 0)
        check_least("memory", self.memory, 1)

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> NaturalState:
        self._check(problem)
        batches = Batches(problem, self.minibatch, self.order)
        if warm is not None or batches.count == 1:
            return _with(super().start(problem, warm), batches, 0)
        point = _first(problem, batches)
        if point is None:
            return _with(super().start(problem), batches, 1)
        return _with(self._at(problem, point), batches, 1)

    def step(self, problem: Problem, state: NaturalState) -> NaturalState:
        assert isinstance(state, StochasticState) and state.point is not None
        batches, point = state.batches, state.point
        assert batches is not None
        if batches.count == 1:
            return _with(super().step(problem, state), batches, state.passes)
        made = state.passes + self.passes
        try:
            visits = Visits(point.conditioned, point.weight, point.shift, batches)
        except NumericalError:  # its covariance has no root
            return _with(super().step(problem, state), batches, made)
        for number in range(state.passes, made):
            for k in batches.order(number):
                visits.visit(batches.batch(int(k)))
        for share in SHARES:
            weight = rows.interpolate(point.weight, visits.weight, share)
            shift = rows.interpolate(point.shift, visits.shift, share)
            tried = elbo_at(problem, weight, shift)
            if isinstance(tried, ElboPoint) and better(problem, tried, point):
                return _with(self._at(problem, tried), batches, made)
        return _with(super().step(problem, state), batches, made)

    def _check(self, problem: Problem) -> None:
        """Raises MethodError E501 for many latents, and for an engine whose answers are
        estimates."""
        size, engine = problem.engine.linear.size, problem.engine
        if size > self.largest:
            why = f"it has {size} latents, and every batch conditions all of them together"
            help = f"use natural-gradient, or raise the option `largest` (now {self.largest})"
        elif not engine.exact:
            why = f"the {engine.name} engine estimates, and batches change what it would estimate"
            help = "use natural-gradient, or another engine"
        else:
            return
        message = f"method `{self.spec.name}` cannot run this model"
        raise MethodError(Diagnostic("E501", message, details=(why,), help=help))


@dataclass(frozen=True)
class _Scaled(Expected):
    """The answers of a batch's rows, each standing for `factor` rows."""

    batch: Batch
    block: int
    factor: float

    def expected(
        self, mean: np.ndarray, variance: np.ndarray, second: bool = False
    ) -> ExpectedAnswer:
        a = self.batch.asked(self.block, second)(mean, variance)
        more = (a.d_mean_variance, a.d_variance2, a.d_mean2)
        return ExpectedAnswer(
            self.factor * a.value,
            self.factor * a.d_mean,
            self.factor * a.d_variance,
            *(None if x is None else self.factor * x for x in more),
        )


def _first(problem: Problem, batches: Batches) -> ElboPoint | None:
    """After one pass that begins at the q of a sample, whose rows stand for all; None where no
    start can be made of it."""
    order = [int(k) for k in batches.order(0)]
    share = sum(batches.sizes) / batches.count
    few = min(len(order), math.ceil(SAMPLED * problem.engine.linear.size / share) or 1)
    sample = batches.batch(*order[:few])
    factors = [n / max(len(rows), 1) for n, rows in zip(batches.sizes, sample.rows, strict=True)]
    answers = tuple(_Scaled(sample, k, f) for k, f in enumerate(factors))
    begun = begin(Problem(problem.sites, answers, problem.engine.remade(sample.linear)))
    if not isinstance(begun, ElboPoint):
        return None
    weight = tuple(np.zeros((*m.shape, *m.shape[1:])) for m in problem.engine.prior_mean)
    shift = tuple(np.zeros_like(m) for m in problem.engine.prior_mean)
    try:
        visits = Visits(begun.conditioned, weight, shift, batches, sample)
    except NumericalError:
        return None
    visits.visit(sample)
    for k in order[few:]:
        visits.visit(batches.batch(k))
    point = elbo_at(problem, visits.weight, visits.shift)
    if isinstance(point, Failed) or point.elbo < begun.elbo - FALLEN * sum(batches.sizes):
        return None
    return point if resolved(point) or blur(point) < LEGIBLE else None


def _with(state: NaturalState, batches: Batches, passes: int) -> StochasticState:
    known = {f.name: getattr(state, f.name) for f in fields(NaturalState)}
    return StochasticState(**known, batches=batches, passes=passes)


# ---- visits ------------------------------------------------------------------------------------
# Natural gradients from batches, with the last site of every row kept.
#
# q(z) is p(z) exp(sum_i -1/2 w_i s_i^2 + b_i s_i) with one Gaussian site a row, so its natural
# parameters are lambda = lambda_0 + sum_i T_i. A batch S has the targets T*_i = (-2 f_v,
# f_m - 2 f_v m) at the present q, and estimates the natural gradient of the ELBO without bias by
#
#     lambda_0 + sum_i T_i - lambda + (N / |S|) sum over S of (T*_i - T_i)
#
# whose variance vanishes with T* - T (SAGA; the last slopes are kept as in SAG, Roux et al. 2012,
# and here curvatures too, as in the incremental Newton method of Rodomanov and Kropotov 2016). A
# step of |S| / N along it is to put T*_i in the place of T_i, so lambda stays lambda_0 + sum_i T_i.
#
# All is computed in u, z = mean + R u, with u ~ N(0, I) at the q where the visits begin.


# Shares of a step that are tried where its natural parameters have no Gaussian.


class Visits:
    """From q with the sites `weight` and `shift`, one a row, which are changed as rows are visited.

    `sample`, where it is given, is what q has for sites instead: those of a batch, each standing
    for as many rows as it takes. Then the rows are yet to be visited, and until they have been the
    sums over those that were stand for all (Roux et al. 2012, section 4.1).

    Raises NumericalError where the covariance of q has no root.
    """

    def __init__(
        self,
        q: Conditioned,
        weight: Rows,
        shift: Rows,
        batches: Batches,
        sample: Batch | None = None,
    ) -> None:
        self.batches = batches
        self.weight, self.shift = (tuple(np.array(x) for x in given) for given in (weight, shift))
        self.mean = q.latent_mean
        self.root = latent_root(q, len(self.mean))
        rank = self.root.shape[1]
        # Natural parameters of q in u: (I, 0) at first.
        self.base = (np.eye(rank), np.zeros(rank))
        self.sums = [(np.zeros((rank, rank)), np.zeros(rank)) for _ in weight]
        self.seen = [np.full(n, sample is None) for n in batches.sizes]
        self.counts = [int(seen.sum()) for seen in self.seen]
        self.now = (np.zeros(rank), _factor(self.base[0]))
        if sample is not None:
            own = _added(sample.moved(self.root), q.weight, q.shift, sample.values(self.mean))
            for precision, linear in own:
                self.base = (self.base[0] - precision, self.base[1] - linear)

    def visit(self, batch: Batch) -> bool:
        """Move to the targets of these rows; False, and nothing has changed, where that is no
        Gaussian or some target is not a number."""
        u, factor = self.now
        half = batch.moved(self.root)
        origin = batch.values(self.mean)
        mean, variance = [], []
        for h, s in zip(half, origin, strict=True):
            m = s + (h @ u).reshape(s.shape)
            mean.append(m)
            variance.append(rows.gram(factor.forward(h.T).T, m))
        answers = batch.expected(tuple(mean), tuple(variance))
        weight = tuple(-2.0 * a.d_variance for a in answers)
        shift = rows.shift_of(tuple(a.d_mean for a in answers), weight, tuple(mean))
        if not all(np.isfinite(x).all() for x in (*weight, *shift)):
            return False
        old_weight = tuple(w[few] for w, few in zip(self.weight, batch.rows, strict=True))
        old_shift = tuple(b[few] for b, few in zip(self.shift, batch.rows, strict=True))
        change_weight = tuple(w - old for w, old in zip(weight, old_weight, strict=True))
        change_shift = tuple(b - old for b, old in zip(shift, old_shift, strict=True))
        change = _added(half, change_weight, change_shift, origin)
        counts = self._counted(batch)
        for share in SHARES:
            sums = [
                (a + share * da, h + share * dh)
                for (a, h), (da, dh) in zip(self.sums, change, strict=True)
            ]
            precision, linear = self._total(sums, counts)
            found = cholesky(precision)
            if found is None:
                continue
            self.sums, self.now, self.counts = sums, (found.solve(linear), found), counts
            for k, few in enumerate(batch.rows):
                self.weight[k][few] += share * change_weight[k]
                self.shift[k][few] += share * change_shift[k]
                self.seen[k][few] = True
            return True
        return False

    def _counted(self, batch: Batch) -> list[int]:
        """How many rows of each site block have been visited, with these."""
        new = (int((~seen[few]).sum()) for seen, few in zip(self.seen, batch.rows, strict=True))
        return [count + more for count, more in zip(self.counts, new, strict=True)]

    def _total(
        self, sums: Sequence[tuple[Array, Array]], counts: Sequence[int]
    ) -> tuple[Array, Array]:
        precision, linear = self.base[0].copy(), self.base[1].copy()
        for (a, h), size, count in zip(sums, self.batches.sizes, counts, strict=True):
            scale = size / count if count else 0.0
            precision += scale * a
            linear += scale * h
        return precision, linear


def _added(
    half: Sequence[Array], weight: Rows, shift: Rows, origin: Rows
) -> list[tuple[Array, Array]]:
    """What sites (W, b) add to the natural parameters, (H'WH, H'(b - W s0)), s = s0 + H u."""
    out = []
    for h, w, b, s in zip(half, weight, shift, origin, strict=True):
        alpha = b - rows.times(w, s)
        out.append((h.T @ rows.times_rows(w, h), h.T @ alpha.reshape(-1)))
    return out


def _factor(precision: Array) -> Cholesky:
    factor = cholesky(precision.copy())
    assert factor is not None  # of the identity
    return factor


# ---- batches -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of each site block, by position, with the model at them."""

    rows: tuple[IntArray, ...]
    linear: LinearGaussian
    expecting: tuple[Expected, ...]
    sizes: tuple[int, ...]

    @cached_property
    def designs(self) -> tuple[StackedPredictors, ...]:
        """B of each site block, explicit at these rows."""
        blocks = self.linear.blocks
        return tuple(
            StackedPredictors(LinearGaussian(blocks, (p,))) for p in self.linear.predictors
        )

    def moved(self, root: Array) -> tuple[Array, ...]:
        """B R for each site block, (P, r)."""
        return tuple(d.times(root) for d in self.designs)

    def values(self, z: Array) -> Rows:
        """s = B z + c."""
        flat = [d.times(z) + d.offset for d in self.designs]
        return split(np.concatenate([np.zeros(0), *flat]), self.linear.predictors)

    def expected(self, mean: Rows, variance: Rows) -> tuple[ExpectedAnswer, ...]:
        """The answers of its rows, without second derivatives."""
        moments = zip(mean, variance, strict=True)
        return tuple(self.asked(k, False)(m, v) for k, (m, v) in enumerate(moments))

    def asked(self, k: int, second: bool) -> Callable[[Array, Array], ExpectedAnswer]:
        """(mean, variance) -> the answer of its rows of site block k."""
        return some_rows(self.expecting[k], self.rows[k], self.sizes[k], second)


class Batches:
    """`count` batches of about `size` rows of `problem`. A site block with fewer rows than there
    are batches has one in each, again and again."""

    def __init__(self, problem: Problem, size: int, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self.sizes = tuple(len(m) for m in problem.engine.prior_mean)
        self.count = max(1, -(-sum(self.sizes) // size))
        rng = np.random.default_rng((seed, 0))
        self._shuffled = tuple(rng.permutation(n) for n in self.sizes)

    def order(self, number: int) -> IntArray:
        """The batches in the random order of a pass."""
        return np.random.default_rng((self.seed, 1, number)).permutation(self.count)

    def batch(self, *numbers: int) -> Batch:
        """Some batches together."""
        few = tuple(
            np.unique(np.concatenate([self._share(shuffled, k) for k in numbers]))
            for shuffled in self._shuffled
        )
        problem = self.problem
        return Batch(few, problem.engine.linear.of_rows(few), problem.expecting(), self.sizes)

    def _share(self, shuffled: IntArray, k: int) -> IntArray:
        size = len(shuffled)
        if 0 < size < self.count:
            return shuffled[k % size : k % size + 1]
        return shuffled[k * size // self.count : (k + 1) * size // self.count]
