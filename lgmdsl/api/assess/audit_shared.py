"""An audit's draws on workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lgmdsl.api.assess.audit_functionals import AuditedFit
from lgmdsl.api.page import counted
from lgmdsl.assess.importance.bench import Bench, ExactPoint, Sampler
from lgmdsl.assess.importance.draws import DrawChunks, Part
from lgmdsl.assess.sampling.draws import exact_draws
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned
from lgmdsl.workers.task import Bundle, Task
from lgmdsl.workers.workers import Workers

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

OTHERS = 619  # sets the audit's draws apart from the fit's


class Drawing(NamedTuple):
    """So many draws from a seed; `exact`: by the exact sampler."""

    n: int
    seed: int
    exact: bool

    @property
    def sampler(self) -> Sampler | None:
        """What makes exact draws, if any are wanted."""
        return exact_points if self.exact else None


def exact_points(part: Part, q: Conditioned, count: int, seed: int) -> ExactPoint | None:
    """Exact draws at a hyperparameter point; None where chains are not to be had. They are others
    than those that a fit reports by the same seed, which would agree with themselves."""
    apart = int(np.random.default_rng([seed, OTHERS]).integers(2**62))
    drawn = exact_draws(part.sites, part.linear, q, count, apart)
    if drawn is None:
        return None
    ess = min(drawn.ess, float(len(drawn.z)))
    rows = np.arange(count) % len(drawn.z)  # a budget that was passed leaves fewer
    return ExactPoint((drawn.z - q.latent_mean)[rows], ess, drawn.r_hat)


@dataclass(frozen=True, eq=False)
class SharedAudit:
    """A fit with its responses, as it goes to workers, which keep what they draw from it."""

    fit: FitRecord
    canonical: CanonicalModel
    _made: list[tuple[Drawing, Bench]] = field(default_factory=list, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"fit": self.fit, "canonical": self.canonical, "_made": []}

    def bench(self, drawing: Drawing) -> Bench:
        """What the caller's audit computes with; the last one is kept."""
        made = next((b for d, b in self._made if d == drawing), None)
        if made is None:
            audited = AuditedFit(self.fit, self.canonical, drawing.n, drawing.seed)
            chunks = DrawChunks(audited.parts, drawing.n, drawing.seed)
            made = Bench(chunks, drawing.sampler, audited.moving)
            self._made[:] = [(drawing, made)]
        return made


@dataclass(frozen=True, eq=False)
class SharedDraws:
    """`Elsewhere` of an audit's bench."""

    workers: Workers
    shared: SharedAudit
    drawing: Drawing

    def __call__(
        self,
        call: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        common: tuple[Any, ...] = (),
    ) -> Iterator[Any]:
        bundles = self.workers.bundle(self.shared), Bundle.of(common)
        name = f"the audit by {counted(self.drawing.n, 'draw')}"
        tasks = [
            Task(f"{name}, part {k},", computed, (self.drawing, call, *some), bundles)
            for k, some in enumerate(arguments, 1)
        ]
        return self.workers.in_order(tasks)


def computed(
    shared: SharedAudit,
    common: tuple[Any, ...],
    drawing: Drawing,
    call: Callable[..., Any],
    *some: Any,
) -> Any:
    """In a worker: one part or chunk."""
    return call(shared.bench(drawing), *common, *some)
