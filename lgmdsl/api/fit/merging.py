"""Fits whose rows are folded, those that are alike or of a place as one, Gaussian ones as their
sums: when, and how they are translated to the user's rows and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from lgmdsl.api.settings import one_of
from lgmdsl.api.solve.recondition import Recondition
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.merged import Merged, merged
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.rotated import fewer_sites
from lgmdsl.contract import row_source
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.engines.choose import AUTO as ANY_ENGINE
from lgmdsl.inference.plan import Plan, verdict
from lgmdsl.posterior.unfolded import Expanded

MERGE = ("on", "off")
# Ways to learn hyperparameters that know sites by their sums alone; the closed-form steps of the
# others, and their mini-batches, are sums over rows.
WAYS = ("fixed", "map", "integrate")


def merge_option(options: Mapping[str, object]) -> tuple[bool, dict[str, object]]:
    """The option `merge`, and those left. Raises MethodError E104 for a value that it cannot be."""
    rest = dict(options)
    return one_of(rest, "merge", MERGE) == "on", rest


def folded_plan(
    planned: Plan, way: str, bound: str | None, merge: bool, places: bool
) -> Plan | None:
    """The plan for a model of fewer sites: `merge`, of rows that are alike as one or Gaussian
    ones as their sums, or `places`, of rows of a place as one. None where nothing is to be folded,
    and where the answer would be another: EP has an approximation for each row, and a site with a
    weight may be answered by another bound."""
    spec, canonical = planned.backend.spec, planned.canonical
    if not (spec.additive and way in WAYS and canonical.rows.kept):
        return None
    model = fewer_sites(canonical) if merge else None
    if model is not None:
        judged = verdict(model.blocks, type(planned.backend), bound)
        names = ([r.bound and r.bound.spec.name for r in p.routes] for p in (judged, planned))
        if not judged.runs or len(set(map(tuple, names))) > 1:
            return None
        return replace(planned, canonical=model, routes=judged.routes)
    terms = planned.terms
    many = max((len(b.rows) for b in canonical.blocks), default=0) >= row_source.LEAST
    if not (places and many) or {terms.engine, terms.variances} != {ANY_ENGINE}:
        return None
    from lgmdsl.streams.folded import folded

    summed = folded(canonical, spec)
    return None if summed is None else replace(planned, canonical=summed)


def contracted(
    earlier: GaussianPosterior, planned: Plan, theta: Theta, seed: int
) -> GaussianPosterior | None:
    """A posterior of the user's rows, to start from at theta, as one of a folded model's sites; as
    it is where it has other rows than the model, which is refused elsewhere; None where it is no
    Gaussian at theta."""
    fold = planned.canonical.rows.folding
    if fold is None:
        return earlier
    shapes = [b.predictor_shape for b in fold.whole.blocks]
    if [b.shape for b in earlier.shift] != shapes:
        return earlier
    weight, shift = fold.summed(theta, earlier.weight, earlier.shift)
    q = planned.at(theta, seed=seed).engine.condition(weight, shift)
    if isinstance(q, Failed):
        return None
    return replace(earlier, weight=weight, shift=shift, conditioned=q)


def reconditioning(
    canonical: CanonicalModel,
    theta: Theta,
    weight: Rows,
    shift: Rows,
    seed: int,
    provenance: Mapping[str, str],
    folded: CanonicalModel | None = None,
) -> Callable[[], Conditioned]:
    """How the posterior of stored sites is conditioned again when it is asked for: at merged rows
    where the fit had such, as its engine may not take all of them."""
    if Merged.entry in provenance and folded is None:
        folded = merged(canonical, predictors_only=True)
    fold = None if folded is None else folded.rows.folding
    if folded is None or fold is None:
        return Recondition(canonical, theta, weight, shift, seed, provenance)
    sums = fold.summed(theta, weight, shift)
    again = Recondition(folded, theta, *sums, seed, provenance)
    return Expanded(folded, theta, again, weight, shift)
