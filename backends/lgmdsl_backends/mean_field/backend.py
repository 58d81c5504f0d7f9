"""Mean field between blocks of latents that the user names (Qi and Jaakkola 2007, section 2).

The confinement of q is `blocks`; under it the ELBO is climbed as that of all Gaussians is.
The mean of all blocks moves at once, at the variances that they have: it is the expansion of the
paper, a translation of every block by parameters over which the bound is maximised, which are then
taken back into q. Plain variational Bayes (`expand=false`) updates block after block, and its means
converge at the rate of block Gauss-Seidel on the precision of z.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.backend import BackendSpec, check_least, option
from lgmdsl.contract.engine import Conditioned, Confinement, Engine, Failed, MakeEngine, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.objectives.elbo import ElboPoint, elbo_at, expected, lifted, target_of
from lgmdsl.contract.objectives.natural_ascent import NaturalAscent, NaturalState
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import Diagnostic, MethodError, listed, suggestion
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import also
from lgmdsl_backends.mean_field.engine import BlockConditioned, BlockEngine


@dataclass(frozen=True)
class SweptState(NaturalState):
    """Where sweeps stand; `point`: the best q so far whose blocks have the same sites."""

    factors: Factors | None = None

    @property
    def objective(self) -> float:
        return -math.inf if self.factors is None else self.factors.elbo


@dataclass(frozen=True)
class MeanField(NaturalAscent):
    """Mean field between `blocks` of latents.

    `expand`: whether all blocks' means move together; without, plain variational Bayes.
    """

    blocks: str = option(
        "",
        "latents that stay together, `a, b; c`; latents that are not named are blocks of their own",
    )
    expand: bool = option(True, "whether all means move together; without, one block at a time")
    memory: int = option(6, "how many past steps Anderson's candidate combines, at least 1")
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="mean-field",
        needs=Expected,
        confined=True,
        guarantee=Guarantee.LOWER,
        monotone=True,
        max_steps=20_000,
        paper="Qi and Jaakkola 2007",
        summary="mean field: independent blocks of latents; a lower bound with too small sds",
        notes=Notes(
            formula="maximise E_q[log p(y, z)] - E_q[log q(z)] over q(z) = q(z_1) q(z_2) ..., each "
            "a Gaussian; expanded by a translation of all blocks",
            support="every site that natural-gradient takes; constraints within a block",
            advice="for comparison with published variational Bayes; sds are those given the other "
            "blocks, and too small; means are exact where sites are Gaussian",
            example='lgm fit model.lgm data.npz --method mean-field --option blocks="level; u"',
            see_also=("natural-gradient", "px-vb", "lower"),
            also_called=(*also("Stan, PyMC", "advi variational meanfield"),),
        ),
    )

    def __post_init__(self) -> None:
        check_least("memory", self.memory, 1)
        parsed(self.blocks)

    def confinement(self, linear: LinearGaussian) -> Confinement | None:
        return blocks_of(parsed(self.blocks), linear, self.spec.name)

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> NaturalState:
        engine = problem.engine
        if self.expand or not isinstance(engine, BlockEngine):
            return super().start(problem, warm)
        factors = beginning(problem, engine)
        if isinstance(factors, Failed):
            return SweptState(None, failed=Status.numerical_error, reason=factors)
        return _standing(problem, factors)

    def step(self, problem: Problem, state: NaturalState) -> NaturalState:
        if not isinstance(state, SweptState):
            return super().step(problem, state)
        engine, factors = problem.engine, state.factors
        assert isinstance(engine, BlockEngine) and factors is not None
        following = swept(problem, engine, factors)
        if following is None:
            return replace(state, failed=Status.stalled, reason="no sweep raises the bound")
        return _standing(problem, following, state.point)


def _standing(problem: Problem, factors: Factors, best: ElboPoint | None = None) -> SweptState:
    """The state of sweeps, with the better of `best` and of all blocks on the sites that the sweeps
    lead to: for Gaussian sites their limit."""
    point = elbo_at(problem, *factors.target)
    left = move(factors, point.conditioned) if isinstance(point, ElboPoint) else math.inf
    if isinstance(point, ElboPoint) and (best is None or point.elbo >= best.elbo):
        best = point
    if best is None:
        why = point if isinstance(point, Failed) else "the bound is not finite"
        return SweptState(None, failed=Status.numerical_error, reason=why)
    return SweptState(best, left, factors=factors)


# ---- blocks ------------------------------------------------------------------------------------
# Gaussians with independent blocks of latents, q(z) = prod_k q_k(z_k), as a confinement of q.
#
# Priors of latent blocks are independent, so that with s_k = B_k z_k, s = sum_k s_k + c,
#
#     KL(q || p) = sum_k KL(q_k || p_k),   E_q[s] = c + sum_k E[s_k],   Var_q[s] = sum_k Var[s_k]
#
# For sites (W, b) the best q_k is p_k(z_k) exp(-1/2 s_k'W s_k + b_k's_k) with b_k = b - W (m -
# m_k), m = E_q[s] and m_k = E[s_k]: the same weights for every block, and the shift that the means
# of the others leave. These equations of the means are those of the Gaussian p(z) exp(-1/2 s'Ws +
# b's) itself: so m is its exact mean, found at once, and the precision of q_k a diagonal block of
# its own.


Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Blocks(Confinement):
    """`groups`: the names of the prior blocks in each block of q; `names`: those of the latents."""

    groups: Groups
    names: Groups

    @property
    def note(self) -> str:
        blocks = "; ".join(", ".join(names) for names in self.names)
        return f"q keeps blocks of latents independent ({blocks}): sds are too small"

    def engine(self, whole: Engine, make: MakeEngine) -> Engine:
        parts = tuple(make(whole.linear.alone(group)) for group in self.groups)
        return BlockEngine(whole, parts, self.groups, self)


def parsed(text: str) -> Groups:
    """The latents of each block in `a; b, c`. Raises ValueError for what is no name, or one that
    stands in it twice."""
    if not text.strip():
        return ()
    groups = tuple(tuple(name.strip() for name in block.split(",")) for block in text.split(";"))
    names = [name for group in groups for name in group]
    if not all(name.isidentifier() for name in names):
        raise ValueError("blocks are separated by `;` and the latents of a block by `,`")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{listed(twice)} stands in it more than once")
    return groups


def blocks_of(asked: Groups, linear: LinearGaussian, method: str) -> Blocks | None:
    """The blocks of a model; None where there is one. Latents that are in none have their own.

    Raises MethodError E104 for a name that is no latent, E501 where a constraint joins two blocks.
    """
    of_latent: dict[str, list[str]] = {}
    for block in linear.blocks:  # a latent may be several: `u` is `u.structured` and `u.free`
        of_latent.setdefault(block.name.partition(".")[0], []).append(block.name)
    unknown = [name for group in asked for name in group if name not in of_latent]
    if unknown:
        message = f"option `blocks` of method `{method}` names `{unknown[0]}`, which is no latent"
        latents = f"latents: {', '.join(of_latent)}"
        help = suggestion(unknown[0], of_latent, latents)
        raise MethodError(Diagnostic("E104", message, help=help))
    named = {name for group in asked for name in group}
    names = (*asked, *((name,) for name in of_latent if name not in named))
    if len(names) < 2:
        return None
    groups = tuple(tuple(b for name in group for b in of_latent[name]) for group in names)
    _check_constraints(groups, names, linear, method)
    return Blocks(groups, names)


def _check_constraints(groups: Groups, names: Groups, linear: LinearGaussian, method: str) -> None:
    if linear.constraints is None:
        return
    touched = [_touched(group, linear.constraints.columns) for group in groups]
    for k, one in enumerate(touched):
        for later, other in enumerate(touched[k + 1 :], k + 1):
            if one.any() and other.any() and bool((one & other).any()):
                joined = ", ".join((*names[k], *names[later]))
                message = (
                    f"method `{method}` cannot keep latents independent that a constraint joins"
                )
                help = f'put them into one block: the option blocks="{joined}"'
                raise MethodError(Diagnostic("E501", message, help=help))


def _touched(group: tuple[str, ...], columns: Mapping[str, object]) -> np.ndarray:
    """Which constraints a block of q enters."""
    rows = [abs(columns[n].dense()).sum(axis=1) > 0.0 for n in group if n in columns]  # type: ignore[attr-defined]
    return np.logical_or.reduce(rows) if rows else np.zeros(0, dtype=bool)


# ---- sweep -------------------------------------------------------------------------------------
# Plain variational Bayes: one block's q after the other, the others as they are.
#
# With (m, v) the moments of s under all q_k, block k moves to the sites W = -2 f_v(m, v),
# b_k = f_m(m, v) + W m_k: its exact optimum where sites are Gaussian, else a natural-gradient step.
# Each q_k then has sites of its own, and
#
#     ELBO = sum f(m, v) + sum_k [centred_k + 1/2 tr W_k Var(s_k)]


ROUNDING = 1e-12  # of the bound, which a sweep may seem to lose
FIXED = 1e-16  # of the largest variance of a block: what a constraint leaves of it is rounding
SHORTEST = 1e-6  # share of a sweep that is tried


@dataclass(frozen=True, eq=False)
class Factors:
    """q_k with the sites that it was conditioned on, the moments of s, answers, the bound."""

    parts: tuple[Conditioned, ...]
    mean: Rows
    variance: Rows
    answers: tuple[ExpectedAnswer, ...]
    elbo: float

    @property
    def target(self) -> tuple[Rows, Rows]:
        """(-2 f_v, f_m - 2 f_v m), on which all blocks together would be conditioned."""
        return target_of(self.answers, self.mean)


def beginning(problem: Problem, engine: BlockEngine) -> Factors | Failed:
    """Every block at its prior mean, with weights for variances of 1 there."""
    ones = tuple(_unit(m) for m in engine.prior_mean)
    answers = expected(problem, engine.prior_mean, ones)
    weight = lifted(tuple(-2.0 * a.d_variance for a in answers))
    parts = []
    for part in engine.parts:
        still = tuple(rows.times(w, m) for w, m in zip(weight, part.prior_mean, strict=True))
        q = part.condition(weight, still)
        if isinstance(q, Failed):
            return q
        parts.append(q)
    return _of(problem, engine, parts)


def swept(problem: Problem, engine: BlockEngine, now: Factors) -> Factors | None:
    """After one sweep, or the largest half, quarter, ... of it that does not lower the bound."""
    least = now.elbo - ROUNDING * max(1.0, abs(now.elbo))
    following = _sweep(problem, engine, now)
    if isinstance(following, Failed):
        return None
    if following.elbo >= least:
        return following
    r = 0.5
    while r > SHORTEST:
        parts = [
            part.condition(
                rows.interpolate(old.weight, new.weight, r),
                rows.interpolate(old.shift, new.shift, r),
            )
            for part, old, new in zip(engine.parts, now.parts, following.parts, strict=True)
        ]
        sound = [q for q in parts if not isinstance(q, Failed)]
        tried = _of(problem, engine, sound) if len(sound) == len(parts) else None
        if tried is not None and tried.elbo >= least:
            return tried
        r *= 0.5
    return None


def move(factors: Factors, limit: Conditioned) -> float:
    """How far latents are from where all blocks together would be: the largest difference of a mean
    in sds, or of a log sd. (Predictors do not tell: their sums may be right where no block is.)"""
    if not isinstance(limit, BlockConditioned):
        return math.inf
    worst = 0.0
    for now, then in zip(factors.parts, limit.parts, strict=True):
        least = FIXED * float(then.latent_variance.max(initial=0.0)) or 1.0
        variance = np.maximum(then.latent_variance, least)
        gaps = np.abs(now.latent_mean - then.latent_mean) / np.sqrt(variance)
        widths = np.abs(np.log(np.maximum(now.latent_variance, least) / variance))
        worst = max(worst, float(gaps.max(initial=0.0)), 0.5 * float(widths.max(initial=0.0)))
    return worst


def _sweep(problem: Problem, engine: BlockEngine, now: Factors) -> Factors | Failed:
    parts = list(now.parts)
    mean, variance, answers = now.mean, now.variance, now.answers
    for k, part in enumerate(engine.parts):
        weight = tuple(-2.0 * a.d_variance for a in answers)
        slope = tuple(a.d_mean for a in answers)
        q = part.condition(weight, rows.shift_of(slope, weight, parts[k].mean))
        if isinstance(q, Failed):
            return q
        parts[k] = q
        mean, variance = _moments(engine, parts)
        answers = expected(problem, mean, variance)
    return Factors(tuple(parts), mean, variance, answers, _elbo(parts, answers))


def _of(problem: Problem, engine: BlockEngine, parts: Sequence[Conditioned]) -> Factors:
    mean, variance = _moments(engine, parts)
    answers = expected(problem, mean, variance)
    return Factors(tuple(parts), mean, variance, answers, _elbo(parts, answers))


def _moments(engine: BlockEngine, parts: Sequence[Conditioned]) -> tuple[Rows, Rows]:
    """Means and variances of s: sums over the blocks, and the offset in the means."""
    means = [engine.offset, *(q.mean for q in parts)]
    return _sums(means), _sums([q.variance for q in parts])


def _sums(several: Sequence[Rows]) -> Rows:
    return tuple(np.asarray(np.sum(arrays, axis=0)) for arrays in zip(*several, strict=True))


def _elbo(parts: Sequence[Conditioned], answers: Sequence[ExpectedAnswer]) -> float:
    value = sum(float(np.sum(a.value)) for a in answers)
    for q in parts:
        traces = zip(q.weight, q.variance, strict=True)
        value += q.centred + 0.5 * rows.total(tuple(rows.trace(w, v) for w, v in traces))
    return value if math.isfinite(value) else -math.inf


def _unit(mean: Array) -> Array:
    if mean.ndim == 1:
        return np.ones_like(mean)
    return np.broadcast_to(np.eye(mean.shape[1]), (*mean.shape, mean.shape[1])).copy()
