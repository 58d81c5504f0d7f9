"""Mean field between blocks of latents that the user names (Qi and Jaakkola 2007, section 2).

The confinement of q is `blocks`; under it the ELBO is climbed as that of all Gaussians is.
The mean of all blocks moves at once, at the variances that they have: it is the expansion of the
paper, a translation of every block by parameters over which the bound is maximised, which are then
taken back into q. Plain variational Bayes (`expand=false`) updates block after block, and its means
converge at the rate of block Gauss-Seidel on the precision of z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from lgmdsl.contract.backend import BackendSpec, check_least, option
from lgmdsl.contract.engine import Confinement, Failed
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.objectives.elbo import ElboPoint, elbo_at
from lgmdsl.contract.objectives.natural_ascent import NaturalAscent, NaturalState
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import also
from lgmdsl_backends.mean_field.blocks import blocks_of, parsed
from lgmdsl_backends.mean_field.engine import BlockEngine
from lgmdsl_backends.mean_field.sweep import Factors, beginning, move, swept


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
