"""What new data may not change: the priors of the latents that the fit has conditioned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.canonical.ground import GroundedModel
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.graph.references import in_distribution, references
from lgmdsl.language import ast
from lgmdsl.language.checked import CheckedModel

# Structures that new members change for those that are there: their scale, and what sums to zero,
# are those of all members.
WHOLE = frozenset({"rw1", "rw2", "seasonal", "besag", "bym2", "car", "gmrf", "spde"})
# Values that went through float32 are still the same ones.
SAME = 1e-6


def check_prior_data(fitted: GroundedModel, new: GroundedModel) -> None:
    """Raise DataError E303 where a datum that a prior is built on differs from the fit's, for
    members of kept index sets. (New rows bring members of their own.)"""
    problems = []
    for name in dict.fromkeys(_in_priors(fitted.model)):
        before, now = fitted.values.get(name), new.values.get(name)
        symbol = fitted.model.symbols[name]
        if not isinstance(before, np.ndarray) or not isinstance(now, np.ndarray):
            continue
        if any(dim in new.replaced for dim in symbol.dims):
            continue
        kept = now[tuple(slice(n) for n in before.shape)]
        changed = _changed(before, kept)
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
                    help=f"leave `{name}` out, or give new members labels of their own",
                    layout="plain",
                )
            )
    if problems:
        raise DataError(problems)


def check_members(fitted: GroundedModel, new: GroundedModel) -> None:
    """Raise DataError E302 for new members of an axis whose structure is one of all its members."""
    problems = []
    for symbol in fitted.model.of_kind("latent"):
        statement = symbol.statement
        assert isinstance(statement, ast.Latent)
        for dim, factor in zip(symbol.dims, statement.factors, strict=False):
            if factor.name.id not in WHOLE or dim not in new.new_levels:
                continue
            labels = ", ".join(str(k) for k in new.new_levels[dim][:5])
            problems.append(
                Diagnostic(
                    "E302",
                    f"`{dim}` cannot take new members: `{factor.name.id}` is a prior of them all",
                    factor.span,
                    f"its scale and sums would change with {labels}",
                    help=f"fit again with them in the data, their responses missing (`?`), or "
                    f"declare the whole set, as in index {dim} = 1..366",
                )
            )
    if problems:
        raise DataError(problems)


def _changed(before: AnyArray, now: AnyArray) -> BoolArray:
    if before.dtype.kind == "f":
        return ~np.isclose(now, before, rtol=SAME, atol=0.0, equal_nan=True)
    return np.asarray(now != before)


def _in_priors(model: CheckedModel) -> Iterator[str]:
    """Data in the priors of latents, by way of lets too."""
    symbols = model.symbols
    latents = [s.statement for s in model.of_kind("latent") if isinstance(s.statement, ast.Latent)]
    waiting = [r.name for s in latents for f in s.factors for r in in_distribution(f, symbols)]
    while waiting:
        name = waiting.pop()
        statement = symbols[name].statement
        if symbols[name].kind == "data":
            yield name
        elif isinstance(statement, ast.Let):
            waiting += [r.name for r in references(statement.value, symbols)]
