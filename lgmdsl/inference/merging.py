"""Plans for models whose rows that are alike are merged, where the method allows for it."""

from __future__ import annotations

from dataclasses import replace

from lgmdsl.canonical.merged import MergedModel, merged
from lgmdsl.inference.plan import Plan, verdict

# Ways to learn hyperparameters that know sites by their sums alone; the closed-form steps of the
# others, and their mini-batches, are sums over rows.
WAYS = ("fixed", "map", "integrate")


def merged_plan(planned: Plan, way: str, bound: str | None) -> Plan | None:
    """The plan for the merged model; None where nothing is to be merged, and where the answer would
    be another: EP has an approximation for each row, and a site with a weight may be answered by
    another bound."""
    if not planned.backend.spec.additive or way not in WAYS:
        return None
    model = merged(planned.canonical)
    if model is None:
        return None
    judged = verdict(model.blocks, type(planned.backend), bound)
    names = ([r.bound and r.bound.spec.name for r in p.routes] for p in (judged, planned))
    if not judged.runs or len(set(map(tuple, names))) > 1:
        return None
    return replace(planned, canonical=model, routes=judged.routes)


def merged_model(planned: Plan) -> MergedModel | None:
    """The merged model of a plan that has one."""
    return planned.canonical if isinstance(planned.canonical, MergedModel) else None
