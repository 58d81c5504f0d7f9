"""A problem at fixed hyperparameters: sites that answer questions, and an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Adjoints, Conditioned, Engine, Rows
from lgmdsl.contract.questions import Expected, Pointwise, PointwiseAnswer, Tilted
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.status import Guarantee


@dataclass(frozen=True)
class Problem:
    """Site blocks in the order of the engine's predictors.

    `sites[k]` is the bound family; `answers[k]` the object that answers the back end's question
    for it: the site itself, or a bound's lift of it (routes decide). `lift` answers further
    questions, for options that ask one (Laplace's mean correction). `remade` is the problem of
    other sites of the same families on another engine; `stronger` an engine for the same model
    whose digits do not depend on how wide priors are, where there is one and it may be taken.
    `flops`: of one conditioning, 0 where nobody estimated them.
    """

    sites: tuple[Site, ...]
    answers: tuple[object, ...]
    engine: Engine
    lift: Callable[[type], tuple[object, ...]] | None = None
    remade: Callable[[tuple[Site, ...], Engine], Problem] | None = None
    stronger: Callable[[Engine], Engine] | None = None
    flops: float = 0.0

    def pointwise(self, s: Rows) -> tuple[PointwiseAnswer, ...]:
        """The Pointwise answers of all blocks."""
        return tuple(cast(Pointwise, a).pointwise(x) for a, x in zip(self.answers, s, strict=True))

    def log_density(self, s: Rows) -> tuple[Array, ...]:
        """l(s) of all blocks, each (N,)."""
        return tuple(site.log_density(x) for site, x in zip(self.sites, s, strict=True))

    def expecting(self) -> tuple[Expected, ...]:
        """The answers as Expected (a back end that needs them declared it)."""
        return cast("tuple[Expected, ...]", self.answers)

    @property
    def gaussian(self) -> bool:
        """Whether every site is Gaussian, so that any method's answer is exact."""
        return all(Property.GAUSSIAN in site.spec.properties for site in self.sites)

    def asking(self, question: type) -> tuple[object, ...]:
        """The answers to another question; raises TypeError where nobody can give them."""
        if all(isinstance(a, question) for a in self.answers):
            return self.answers
        if self.lift is None:
            raise TypeError(f"these sites do not answer {question.__name__}")
        return self.lift(question)

    def tilting(self) -> tuple[Tilted, ...]:
        """The answers as Tilted."""
        return cast("tuple[Tilted, ...]", self.answers)


# ---- posterior ---------------------------------------------------------------------------------
# What a back end hands back: a Gaussian in canonical form and the evidence it claims.


@dataclass(frozen=True)
class GaussianPosterior:
    """q(z) proportional to p(z) exp(-1/2 s'Ws + b's): everything follows from (weight, shift).

    `log_evidence` = log_normaliser + the sum of the sites' corrections. `slopes`, where a back end
    gives them: dlog_evidence/dparameter of each site block, one value a site; they and the adjoints
    make the gradient in the hyperparameters. `adjoints`: those of log_evidence, where (W, b) are
    not such that its slope in them is zero; None: conditioned.adjoints().
    """

    weight: Rows
    shift: Rows
    conditioned: Conditioned
    log_evidence: float
    guarantee: Guarantee
    notes: tuple[str, ...] = ()
    slopes: Callable[[], tuple[Mapping[str, Array], ...]] | None = None
    adjoints: Callable[[], Adjoints] | None = None
