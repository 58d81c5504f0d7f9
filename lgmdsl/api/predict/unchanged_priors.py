"""What new data may not change: the priors of the latents that the fit has conditioned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.canonical.grounding.ground import GroundedModel
from lgmdsl.canonical.grounding.order import calls_in
from lgmdsl.canonical.grounding.usage import latent_axes
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.structure import Members
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.graph.references import expressions
from lgmdsl.language.tree import ast
from lgmdsl.posterior.joined_cases import runs_over
from lgmdsl.structures.catalogue import members_of

# Values that went through float32 count as unchanged.
SAME = 1e-6


def check_prior_data(fitted: GroundedModel, new: GroundedModel) -> None:
    """Raise DataError E303 where a datum that a prior is built on differs from the fit's, for
    members of kept index sets. (New rows bring new members.)"""
    problems = []
    graph = fitted.graph
    for name in graph.behind(node.id for node in graph.of_kind("latent")):
        if graph.by_id[name].kind != "data":
            continue
        before, now = fitted.values.get(name), new.values.get(name)
        symbol = fitted.model.symbols[name]
        if not isinstance(before, np.ndarray) or not isinstance(now, np.ndarray):
            continue
        if any(dim in new.replaced for dim in symbol.dims):
            continue
        current = now[tuple(slice(n) for n in before.shape)]
        changed = _changed(before, current)
        if changed.any():
            first = np.argwhere(changed)[0]
            pairs = zip(symbol.dims, first, strict=True)
            place = ", ".join(f"{d} {fitted.indices[d].labels[i]}" for d, i in pairs)
            problems.append(
                Diagnostic(
                    "E303",
                    f"`{name}` differs from the data of the fit, whose priors are built on it",
                    symbol.statement.span,
                    details=(f"first at {place or 'its only entry'}",),
                    help=f"leave `{name}` out, or give new members new labels",
                    layout="plain",
                )
            )
    if problems:
        raise DataError(problems)


def check_members(fitted: CanonicalModel, new: GroundedModel) -> None:
    """Raise DataError E302 for new members of an axis whose structure, or a hyperparameter over it,
    is of the fitted members alone, and for those of latents that potentials act on."""
    problems = []
    old, model = fitted.grounded, fitted.grounded.model
    for symbol in model.of_kind("latent"):
        statement = symbol.statement
        assert isinstance(statement, ast.Latent)
        for dim, factor in latent_axes(statement):
            if members_of(factor.name.id) is Members.FIXED and dim in new.new_levels:
                problems.append(
                    Diagnostic(
                        "E302",
                        f"`{dim}` cannot take new members: `{factor.name.id}` is a prior of the "
                        "fitted ones alone",
                        factor.span,
                        f"it says nothing of {_listed(new, dim)}",
                        help="fit again with them in the data, their responses missing (`?`), or "
                        f"declare the whole set, as in index {dim} = 1..366",
                    )
                )
    for symbol in model.of_kind("hyper"):
        for dim in symbol.dims:
            if dim in new.new_levels:
                problems.append(
                    Diagnostic(
                        "E302",
                        f"`{dim}` cannot take new members: hyper `{symbol.name}` has a value for "
                        "each fitted one",
                        symbol.statement.span,
                        f"it has none for {_listed(new, dim)}",
                        help=f"fit again with them in the data, or give `{symbol.name}` one value",
                    )
                )
    problems += _under_potentials(old, _with_new_members(old, new))
    problems += _across(old.graph, {*new.replaced, *new.new_levels})
    if problems:
        raise DataError(problems)


def _listed(new: GroundedModel, dim: str) -> str:
    return ", ".join(str(k) for k in new.new_levels[dim][:5])


def _with_new_members(old: GroundedModel, new: GroundedModel) -> set[str]:
    """Index sets that have members which the fit did not have."""
    known = {d for d in new.steps if (old.indices[d].positions(new.indices[d].labels) >= 0).all()}
    return ({*new.replaced} - known) | new.new_levels.keys()


def _under_potentials(old: GroundedModel, grown: set[str]) -> Iterator[Diagnostic]:
    """Potentials that new members would have entries in; one on fitted members alone (`u["a"]`) is
    in the posterior, and says of others what that says."""
    for node in old.graph.of_kind("potential"):
        assert node.statement is not None
        for dim in runs_over(node, old.graph, grown):
            yield Diagnostic(
                "E302",
                f"`{dim}` cannot take new members: a potential runs over it",
                node.statement.span,
                f"what it says of new members of `{dim}` is not Gaussian",
                help="fit again with them in the data, their responses missing (`?`)",
            )


def _across(graph: ModelGraph, changed: set[str]) -> Iterator[Diagnostic]:
    """Operators of predictors along an index set whose members new data change: a sum over the rows
    that are asked for is not the one that was fitted."""
    sites = graph.of_kind("observe")
    lets = graph.lets_of(*(site.id for site in sites))
    for value in (v for node in (*sites, *lets) for v in expressions(node.statement)):
        for call in calls_in(value):
            along = [
                v.id
                for v in (*call.positional, *(a.value for a in call.named))
                if isinstance(v, ast.Name) and v.id in changed
            ]
            if along:
                yield Diagnostic(
                    "E302",
                    f"`{along[0]}` cannot have other members: `{call.function.id}` in a predictor "
                    "runs over all fitted ones",
                    call.span,
                    "at new data it would run over others",
                    help=f"fit again with all members of `{along[0]}`, responses missing (`?`); or "
                    "give what it computes as data",
                )


def _changed(before: AnyArray, now: AnyArray) -> BoolArray:
    if before.dtype.kind == "f":
        return ~np.isclose(now, before, rtol=SAME, atol=0.0, equal_nan=True)
    return np.asarray(now != before)
