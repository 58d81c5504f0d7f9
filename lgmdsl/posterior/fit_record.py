"""The record of a fit: what was found, how, and the posterior that follows from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from lgmdsl.accuracy.accuracy import Accuracy
from lgmdsl.arrays import Array
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import Diagnostic
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.other_starts import Started
from lgmdsl.inference.stages import Ran
from lgmdsl.language.builder import Model
from lgmdsl.learning.coordinates.hyper_marginals import HyperMarginals
from lgmdsl.learning.integration.checkpoint import Checkpoint
from lgmdsl.learning.search.learning_record import Learning
from lgmdsl.posterior.frame import fitted_frame
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.posterior.marginals import Marginals, Quantity
from lgmdsl.posterior.mixture import Mixture, mixture
from lgmdsl.state import FieldState

if TYPE_CHECKING:
    from lgmdsl.posterior.drawn import JointSample

UNKNOWN = Accuracy.none("it was not estimated")


@dataclass(frozen=True, eq=False)
class FitRecord(FieldState):
    """What a fit found and the unlabelled posterior that follows from it, for everything in the
    library that is asked of a fit; users hold an `lgm.Fit`, which is a record with their questions
    as methods. `lgm.Fit` says what the fields mean."""

    model: Model
    method: str
    status: Status
    log_evidence: float
    guarantee: Guarantee
    weight: Rows = field(repr=False)
    shift: Rows = field(repr=False)
    trace: tuple[TraceEntry, ...]
    steps: int
    seconds: float
    seed: int
    canonical: CanonicalModel = field(repr=False)
    theta: Mapping[str, Array] = field(repr=False)
    condition: Callable[[], Conditioned] = field(repr=False)
    warnings: tuple[Diagnostic, ...] = ()
    starts: tuple[Started, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict, repr=False)
    stored: Mapping[str, Quantity] = field(default_factory=dict, repr=False)
    hyper: str = "fixed"
    hyper_marginals: HyperMarginals | None = field(default=None, repr=False)
    mixed: tuple[HyperPoint, ...] = field(default=(), repr=False)
    learning: Learning | None = field(default=None, repr=False)
    accuracy: Accuracy = UNKNOWN
    log_evidence_corrected: float = math.nan
    drawn: JointSample | None = field(default=None, repr=False)
    checkpoint: Checkpoint | None = field(default=None, repr=False)
    stages: tuple[Ran, ...] = field(default=(), repr=False)

    @property
    def converged(self) -> bool:
        return self.status is Status.converged

    @property
    def engine(self) -> str:
        """The engine that conditioned the Gaussian part; empty in files of earlier versions."""
        return self.provenance.get("engine", "")

    @property
    def memory_budget(self) -> int | None:
        """Bytes that the engine was chosen within; None in files of earlier versions."""
        budget = self.provenance.get("memory_budget")
        return None if budget is None else int(budget)

    @cached_property
    def posterior(self) -> GaussianPosterior:
        """q(z) proportional to p(z) exp(-1/2 s'Ws + b's), conditioned when first asked for: the
        Gaussian at `theta`, also where exact draws (`drawn`) are reported in its place."""
        return GaussianPosterior(
            self.weight, self.shift, self.condition(), self.log_evidence, self.guarantee
        )

    @property
    def points(self) -> tuple[HyperPoint, ...]:
        """The hyperparameter points that the posterior is a mixture of, the heaviest first."""
        mode = HyperPoint(
            self.theta,
            1.0,
            self.log_evidence,
            self.weight,
            self.shift,
            self._conditioned,
        )
        return self.mixed or (mode,)

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that can be asked for by name: latents, lets, reports, hyperparameters."""
        latents = self.canonical.latent_names
        others = (n for n in self.canonical.named if n not in latents)
        return (*latents, *others, *(b.name for b in self.canonical.hypers.blocks))

    @property
    def flops(self) -> float:
        """Operations of one conditioning, by which BLAS takes one thread or several; 0 in files of
        earlier versions."""
        return float(self.provenance.get("flops", 0.0))

    def _conditioned(self) -> Conditioned:
        return self.posterior.conditioned

    @cached_property
    def marginals(self) -> Mixture:
        """The unlabelled moments behind the methods below."""
        if self.drawn is not None:
            from lgmdsl.posterior.drawn import drawn_mixture

            at = partial(self.named_at, self.canonical)
            return drawn_mixture(
                self.canonical, self.points, at, self.hyper_marginals, self.seed, self.drawn
            )
        return self.gaussian_marginals

    @cached_property
    def gaussian_marginals(self) -> Mixture:
        """Marginals of the Gaussians, whether or not draws are reported in their place."""
        return mixture(self.canonical, self.points, self._at, self.hyper_marginals, self.seed)

    @cached_property
    def conditional(self) -> Marginals:
        """The unlabelled moments given the hyperparameters `theta`."""
        frame = fitted_frame(self.canonical, self.posterior.conditioned, self.theta)
        return Marginals(self.canonical, self.theta, frame, self.seed)

    def _at(self, point: HyperPoint) -> Marginals:
        if point.theta is self.theta:
            return self.conditional
        frame = fitted_frame(self.canonical, point.condition(), point.theta)
        return Marginals(self.canonical, point.theta, frame, self.seed)

    def named_at(self, canonical: CanonicalModel, point: HyperPoint) -> Marginals:
        """What the names of the model, or of new rows of it, are at draws of a point; its Gaussian
        is conditioned when asked for."""
        from lgmdsl.posterior.drawn import Postponed

        frame = fitted_frame(self.canonical, Postponed(point.condition))
        return Marginals(canonical, point.theta, frame, self.seed)

    def quantity(self, name: str) -> Quantity:
        """Unlabelled mean and sd; those of a loaded file are read, not computed again."""
        return self.stored[name] if name in self.stored else self.marginals.quantity(name)
