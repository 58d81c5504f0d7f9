"""Some rows of a model that falls apart over an index: the same model with fewer persons, say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lgmdsl.arrays import IntArray
from lgmdsl.canonical.expressions.reductions import picks, reductions
from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import canonicalise
from lgmdsl.graph.model_graph import FACTORS
from lgmdsl.inference.plan import Plan
from lgmdsl.sites.catalogue import find_site
from lgmdsl.vocabulary.signature import Trait


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
