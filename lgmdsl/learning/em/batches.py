"""Mini-batch EM: M-steps from some rows at a time, for models of very many.

At step t, B of N rows (an epoch sees each once) give the slope of their evidence, which N/B times
is that of all, without bias; the prior's is added. Hypers move along their M-step's direction at
that slope, by r_t = (t + 2)^-0.7 (Cappe and Moulines 2009):

    linear ones   r_t H^-1 g,  H the running mean of N/B times the batches' complete-data curvature
    noise sds     r_t g / (2 n) in their logarithms
    covariances   r_t (2/N) S G S

so that the mean direction is zero where the slope of all rows is. Hypers without an M-step stay
for the search that follows, which starts at the mean of the last half of the steps (Polyak and
Juditsky 1992).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.expressions.reductions import picks, reductions
from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import linear_hypers
from lgmdsl.compile import canonicalise
from lgmdsl.graph.model_graph import FACTORS
from lgmdsl.inference.plan import Plan
from lgmdsl.learning.coordinates.vector import Coordinates, sparse, transform
from lgmdsl.learning.em.closed_steps import covariances, noises
from lgmdsl.learning.em.complete_data import CompleteData, solved
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.priors.covariance import definite
from lgmdsl.sites.catalogue import find_site
from lgmdsl.vocabulary.signature import Trait

POWER, DELAY = 0.7, 2.0


@dataclass
class Batches:
    """`size` rows of `count` at a time along index `plate`, each once an epoch."""

    objective: Objective
    plate: str
    count: int
    size: int
    epochs: int
    curvature: Array | None = None

    @classmethod
    def of(cls, objective: Objective, size: int, epochs: int) -> Batches | None:
        """None where the model has no plate, or no more rows than a batch."""
        canonical = objective.planned.canonical
        plate = plate_of(canonical)
        count = canonical.grounded.indices[plate].size if plate else 0
        return cls(objective, plate, count, size, epochs) if count > size else None

    def part(self, rows: IntArray) -> Objective:
        """The objective of some rows."""
        planned: Plan = some_rows(self.objective.planned, self.plate, rows)
        whole = self.objective
        closed, apart = whole.coordinates.closed, whole.coordinates.apart
        coordinates = Coordinates(planned.canonical.hypers, whole.pinned, closed, apart)
        return Objective(
            planned,
            coordinates,
            whole.pinned,
            whole.tolerances,
            whole.max_steps,
            whole.seed,
            begin=whole.begin,
        )

    def parts(self) -> Iterator[Objective]:
        """All batches in the order of their steps, the same at every call."""
        rng = np.random.default_rng(self.objective.seed)
        for _ in range(self.epochs):
            order = rng.permutation(self.count)
            for at in range(0, self.count - self.size + 1, self.size):
                yield self.part(np.sort(order[at : at + self.size]))

    def run(self, x: Array) -> Array:
        """(d,) coordinates after all epochs, from x."""
        steps = self.epochs * (self.count // self.size)
        total: Array = np.zeros(len(x))
        averaged = 0
        for t, part in enumerate(self.parts()):
            evaluation = part.at(x)
            self.objective.calls += 1
            if evaluation is not None:
                x = self._moved(part, evaluation, (t + DELAY) ** -POWER)
            if 2 * (t + 1) > steps:
                total, averaged = total + x, averaged + 1
        return np.asarray(total / averaged)

    def _moved(self, part: Objective, at: Evaluation, share: float) -> Array:
        canonical, coordinates = part.planned.canonical, part.coordinates
        scale, x = self.count / self.size, at.x.copy()
        likelihood = coordinates.pull(at.slopes, at.x)
        gradient = at.gradient + (scale - 1.0) * likelihood
        names = linear_hypers(canonical, at.theta, part.pinned).names
        if names:
            complete = CompleteData.of(canonical, coordinates, names, at.theta)
            direction = self._linear(complete, at, gradient, scale, share)
            if direction is not None:
                x[complete.x] += share * direction
        for noise in noises(canonical, coordinates, at.theta):
            where = coordinates.slices[noise.name]
            rows = np.bincount(noise.places, minlength=where.stop - where.start)
            counts = scale * rows.astype(np.float64)
            x[where] += share * gradient[where] / (2.0 * np.maximum(counts, 1.0))
        _, prior = canonical.hypers.log_prior(at.theta, part.pinned)
        for one in covariances(canonical, coordinates):
            if sparse(one.block):
                continue
            s: Array = np.asarray(at.theta[one.name])
            n = scale * one.count
            slope = scale * at.slopes[one.name] + np.asarray(prior.get(one.name, 0.0))
            candidate = np.asarray(s + share * 2.0 / n * s @ slope @ s)
            if definite(candidate):
                form = transform(one.block, at.theta)
                x[coordinates.slices[one.name]] = form.coordinates(candidate)
        return x

    def _linear(
        self, complete: CompleteData, at: Evaluation, gradient: Array, scale: float, share: float
    ) -> Array | None:
        theta: Theta = at.theta
        seen = scale * complete.curvature(at.posterior).toarray()
        if self.curvature is None:
            self.curvature = seen
        self.curvature = (1.0 - share) * self.curvature + share * seen
        return solved(complete.with_prior(self.curvature, theta), gradient[complete.x])


# ---- some rows ---------------------------------------------------------------------------------
# Some rows of a model that falls apart over an index: the same model with fewer persons, say.


def plate_of(canonical: CanonicalModel) -> str:
    """The largest index over which the posterior is a product: every latent and every observation
    has it, independently, no hyper or map does, and no expression names one of its members or joins
    them. Empty where there is none."""
    model, grounded = canonical.grounded.model, canonical.grounded
    tied = {d for b in canonical.hypers.blocks for d in b.dims}
    tied |= {s.target for s in model.of_kind("data") if s.target is not None}
    graph = grounded.graph
    parts = graph.of_kind("latent", *FACTORS)
    lets = graph.lets_of(*(node.id for node in parts))
    for joined in reductions((*parts, *lets), graph, grounded.indices):
        tied.update(joined.along)
    tied |= picks(graph.nodes, graph)
    for latent in canonical.latents:
        for factor in latent.factors:
            if Trait.INDEPENDENT not in factor.declared.traits:
                tied |= set(factor.dims)
    plates = [
        name
        for name in grounded.indices
        if name not in tied
        and all(name in latent.dims for latent in canonical.latents)
        and all(name in block.dims for block in canonical.blocks)
        and all(grounded.dims(d).count(name) <= 1 for d in grounded.values)
    ]
    if canonical.equations or not canonical.latents:
        return ""
    return max(plates, key=lambda name: grounded.indices[name].size, default="")


def some_rows(planned: Plan, plate: str, rows: IntArray) -> Plan:
    """The plan for the model with some members of an index of `plate_of`."""
    canonical = canonicalise(_taken(planned.canonical.grounded, plate, rows), find_site)
    return Plan(canonical, planned.backend, planned.routes)


def _taken(grounded: GroundedModel, plate: str, rows: IntArray) -> GroundedModel:
    def taken(name: str, array: Any) -> Any:
        dims = grounded.dims(name)
        return array[tuple(rows if d == plate else slice(None) for d in dims)] if dims else array

    values = {n: taken(n, a) for n, a in grounded.values.items()}
    missing = {n: taken(n, a) for n, a in grounded.missing.items()}
    index = grounded.indices[plate]
    indices = {**grounded.indices, plate: replace(index, labels=index.labels[rows], added=None)}
    return replace(grounded, indices=indices, values=values, missing=missing)
