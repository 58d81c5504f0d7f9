"""What an audit corrects: everything that a fit reports, as functionals of draws of q."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lgmdsl.accuracy.limits import LEVELS
from lgmdsl.api.assess.components import conditioned_once
from lgmdsl.api.page import counted
from lgmdsl.arrays import Array
from lgmdsl.assess.estimator import ExactDraws, MixturePoint, allotted
from lgmdsl.assess.importance.bench import Bench, Sampler
from lgmdsl.assess.importance.draws import DrawChunks, displacement
from lgmdsl.assess.importance.moments import Functional, Reported
from lgmdsl.assess.sampling.draws import exact_draws
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.derived import Leaf
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.posterior.marginals import Marginals
from lgmdsl.posterior.mixture import CACHED, Mixture
from lgmdsl.workers.task import Bundle, Task
from lgmdsl.workers.workers import Workers

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord


@dataclass(frozen=True, eq=False)
class AuditedFit:
    """A fit as `n` draws from `seed` see it. `canonical`: its model with its responses."""

    fit: FitRecord
    canonical: CanonicalModel
    n: int
    seed: int

    @cached_property
    def points(self) -> tuple[HyperPoint, ...]:
        """Hyperparameter points of the mixture, or the one that the posterior is given."""
        return self.fit.points

    @cached_property
    def parts(self) -> tuple[MixturePoint, ...]:
        """The problem at each point."""
        small = sum(b.size for b in self.canonical.latents) <= CACHED
        return tuple(
            MixturePoint(
                p.share,
                self.canonical.sites(p.theta),
                self.canonical.linear(p.theta),
                conditioned_once(p) if small else p.condition,
                p.log_evidence - self.fit.log_evidence if self.fit.mixed else 0.0,
            )
            for p in self.points
        )

    @property
    def moments(self) -> Mixture | Marginals:
        """The moments under q: of the mixture, or given the hyperparameters."""
        return self.fit.gaussian_marginals if self._mixed else self.fit.conditional

    @property
    def _mixed(self) -> bool:
        return bool(self.fit.mixed) or self.fit.learning is None

    def dims(self, name: str) -> tuple[str, ...]:
        """The declared indices of a name."""
        return self.fit.gaussian_marginals.quantity_dims(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Every latent, let and report, and under a mixture every hyperparameter that varies."""
        hypers = (b.name for b in self.canonical.hypers.blocks) if self.fit.mixed else ()
        varying = (name for name in hypers if self.fit.quantity(name).sd.any())
        canonical = self.canonical
        return tuple(dict.fromkeys((*canonical.shown_names, *canonical.named, *varying)))

    def functionals(self) -> Iterator[Functional]:
        """Functionals of all names; what is no latent, let or hyperparameter is not judged."""
        judged = {s.name for s in self.canonical.grounded.model.of_kind("let")}
        judged |= {*self.canonical.layout.starts, *(b.name for b in self.canonical.hypers.blocks)}
        for name in self.names:
            yield self._functional(name, name in judged)

    def moving(self, name: str, mean: Array) -> Functional:
        """A functional of a `mean` under q that moves with the draws, of which nothing else is
        known."""
        maps = self._maps(name, mean)
        several = maps if len(maps) > 1 else ()
        drawn = self._drawn(name, mean)
        return Functional(name, mean, mean, maps[0], of_part=several, drawn=drawn)

    def _functional(self, name: str, judged: bool) -> Functional:
        quantity = self.moments.quantity(name)
        mean, sd = quantity.mean.reshape(-1), quantity.sd.reshape(-1)
        levels = np.array(LEVELS)
        quantiles = self.moments.quantile(name, levels)[1].reshape(len(levels), -1)
        said = None
        if self._mixed or self.fit.drawn is not None:
            said = self._reported(name)
        moving = self.moving(name, mean)
        return replace(moving, sd=sd, judged=judged, quantiles=quantiles, reported=said)

    def _reported(self, name: str) -> Reported:
        quantity = self.fit.quantity(name)
        _, points = self.fit.marginals.quantile(name, np.array(LEVELS))
        return Reported(
            quantity.mean.reshape(-1), quantity.sd.reshape(-1), points.reshape(len(LEVELS), -1)
        )

    def _drawn(self, name: str, mean: Array) -> Array | None:
        """(n, size) deviations of what depends on hyperparameters alone: those of the draws' parts
        of the hyperparameters' posterior, and not at the points."""
        of = self.fit.gaussian_marginals.of_hypers(name) if self.fit.mixed else None
        if of is None:
            return None
        values: Array = np.array([of(theta) for theta in self._thetas]).reshape(self.n, -1)
        return values - mean

    @cached_property
    def _thetas(self) -> tuple[Theta, ...]:
        """The hyperparameters of each draw."""
        counts = allotted([p.share for p in self.points], self.n)
        chosen = np.repeat(np.arange(len(counts)), counts)
        drawn = self.fit.gaussian_marginals.drawn(self.seed, False)
        return drawn.at(chosen, np.arange(self.n))

    def _maps(self, name: str, mean: Array) -> tuple[Callable[[Array], Array], ...]:
        """Moves x of z to deviations from `mean`, at each part."""
        return tuple(self._map(name, mean, k) for k in range(len(self.parts)))

    def _map(self, name: str, mean: Array, k: int) -> Callable[[Array], Array]:
        theta, linear, single = self.points[k].theta, self.parts[k].linear, len(self.parts) == 1
        if name in self.canonical.layout.starts:
            where = linear.slices[name]

            def of_latent(x: Array) -> Array:
                shift = 0.0 if single else self._centre(k)[where] - mean
                return np.asarray(x[:, where] + shift)

            return of_latent
        if name in self.canonical.named:
            dims, tree = self.canonical.named[name]
            if isinstance(tree, Leaf):
                predictor = self.canonical.predictor(tree.form, dims, theta)

                def of_let(x: Array) -> Array:
                    shift: Array | float = 0.0
                    if not single:
                        shift = predictor.values(self._centre(k), linear.slices) - mean
                    return np.asarray(displacement(linear, predictor, x) + shift)

                return of_let
        return partial(self._evaluated, name, mean, k)

    def _evaluated(self, name: str, mean: Array, k: int, x: Array) -> Array:
        values = self._marginals(k).evaluate(name, self._centre(k) + x)
        return np.asarray(values.reshape(len(x), -1) - mean)

    def _marginals(self, k: int) -> Marginals:
        """Gaussian marginals at point k; draws come point by point, and the last one is kept."""
        kept: tuple[int, Marginals] | None = self.__dict__.get("_kept")
        if kept is None or kept[0] != k:
            kept = self.__dict__["_kept"] = k, self.fit.gaussian_marginals.part(k)
        return kept[1]

    def _centre(self, k: int) -> Array:
        """(n,) E_q z at a point."""
        known: dict[int, Array] = self.__dict__.setdefault("_known", {})
        if k not in known:
            known[k] = self.parts[k].condition().latent_mean
        return known[k]


# ---- audit shared ------------------------------------------------------------------------------


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


def exact_points(part: MixturePoint, q: Conditioned, count: int, seed: int) -> ExactDraws | None:
    """Exact draws at a hyperparameter point; None where chains are not to be had. They are others
    than those that a fit reports by the same seed, which would agree with themselves."""
    apart = int(np.random.default_rng([seed, OTHERS]).integers(2**62))
    return exact_draws(part.sites, part.linear, q, count, apart)


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
