"""Drawing from the prior: its Gaussian, and the models whose prior cannot be drawn from.

An intrinsic prior has density 1 along some directions, F: the level of a walk that need not sum to
zero, the line of an `rw2`, the periodic patterns of `seasonal`. Those that no constraint fixes are
taken as zero, F'z = 0, and the rest is drawn from its own distribution, which does not depend on
them. A flat latent has no such rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sla

from lgmdsl.arrays import Array
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.linear import Constraints, LinearGaussian
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.choose import choose
from lgmdsl.engines.shared.design import dense_rows
from lgmdsl.engines.shared.prior import BlockPrior, is_flat
from lgmdsl.errors import Diagnostic, ModelError, NumericalError
from lgmdsl.memory import check
from lgmdsl.operators.explicit import Dense

# Of a direction of length one, what counts as zero.
NEGLIGIBLE = 1e-9


class SimulationWarning(UserWarning):
    """A draw that lacks a part of what the model says: W402."""


@dataclass(frozen=True, eq=False)
class DrawnPrior:
    """The Gaussian that draws come from, and of each latent how many directions it leaves out,
    along which the prior has density 1 and the draws are zero."""

    gaussian: Conditioned
    left_out: dict[str, int]


def prior_to_draw(canonical: CanonicalModel, linear: LinearGaussian) -> DrawnPrior:
    """z under its prior, within the constraints, at zero along the directions of density 1. Raises
    ModelError E402 for flat latents, NumericalError E601 where it cannot be drawn from."""
    free = _free_directions(canonical, linear)
    if not free.shape[1]:
        return DrawnPrior(prior_gaussian(linear), {})
    counts: dict[str, int] = {}
    columns = {}
    for name, where in linear.slices.items():
        part = free[where]
        if np.abs(part).max(initial=0.0) > NEGLIGIBLE:
            columns[name] = Dense(np.ascontiguousarray(part.T))
            latent = owner(name)
            seen = int(np.sum(np.abs(part).max(axis=0) > NEGLIGIBLE))
            counts[latent] = max(counts.get(latent, 0), seen)
    return DrawnPrior(prior_gaussian(_held(linear, columns, free.shape[1])), counts)


def prior_gaussian(linear: LinearGaussian) -> Conditioned:
    """z under its prior, within the constraints: an engine that is given no sites. Raises
    NumericalError E601 where it cannot be drawn from."""
    engine, why = choose(LinearGaussian(linear.blocks, (), linear.constraints))
    outcome = Failed(why) if engine is None else engine.condition((), ())
    if isinstance(outcome, Failed):
        raise NumericalError.of("E601", f"the prior cannot be drawn from: {outcome.reason}")
    return outcome


def left_out_warning(canonical: CanonicalModel, left_out: dict[str, int]) -> Diagnostic | None:
    """W402: which latents were drawn without their directions of density 1."""
    if not left_out:
        return None
    each = [
        f"`{name}` {count} direction{'s' if count > 1 else ''}" for name, count in left_out.items()
    ]
    first = canonical.grounded.model.symbols[next(iter(left_out))]
    plural = len(left_out) > 1
    return Diagnostic(
        "W402",
        f"{' and '.join(f'`{name}`' for name in left_out)} "
        f"{'are' if plural else 'is'} drawn without the directions in which the prior is flat",
        first.statement.span,
        f"{', '.join(each)}: zero in each draw",
        severity="warning",
        help="nothing to do if the level, line or pattern may be zero; otherwise add it as a "
        "latent with a proper prior",
    )


def _free_directions(canonical: CanonicalModel, linear: LinearGaussian) -> Array:
    """(n, f) orthonormal basis of the directions of density 1 that no constraint fixes. Raises
    ModelError E402 for those of flat latents."""
    priors = [
        BlockPrior(b, linear.starts[b.name]) for b in linear.blocks if Shape.IMPROPER in b.shape
    ]
    if not priors:
        return np.zeros((linear.size, 0))
    tied = set() if linear.constraints is None else set(linear.constraints.columns)
    # A latent that is flat in some of its blocks alone has the others to be drawn from.
    partly = {owner(b.name) for b in linear.blocks if not is_flat(b)}
    flat = [p for p in priors if p.flat and owner(p.name) not in partly]
    _refuse([p for p in flat if p.name not in tied], canonical)
    for p in priors:
        span = canonical.grounded.model.symbols[owner(p.name)].statement.span
        shape = f"{p.size:,} entries, {p.nullity:,} directions"
        check(f"the flat directions of `{owner(p.name)}`", shape, 8.0 * p.size * p.nullity, span)
    total = sum(p.free_space.shape[1] for p in priors)
    free, first = np.zeros((linear.size, total)), 0
    for p in priors:
        free[p.where, first : first + p.free_space.shape[1]] = p.free_space
        first += p.free_space.shape[1]
    if linear.constraints is not None and total:
        rows = dense_rows(linear.constraints.columns, linear.slices, linear.size)
        size = np.abs(rows).max(axis=1, keepdims=True)
        seen = (rows / np.where(size > 0.0, size, 1.0)) @ free
        free = free @ sla.null_space(seen, rcond=NEGLIGIBLE)
    loose = [p for p in flat if np.abs(free[p.where]).max(initial=0.0) > NEGLIGIBLE]
    _refuse(loose, canonical)
    return free


def _held(linear: LinearGaussian, columns: dict[str, Dense], count: int) -> LinearGaussian:
    """The prior with F'z = 0 among its constraints."""
    asked = linear.constraints
    if asked is None:
        return replace(linear, constraints=Constraints(columns, np.zeros(count)))
    both = {}
    for block in linear.blocks:
        if block.name in columns or block.name in asked.columns:
            shape = len(asked.values), block.size
            own = asked.columns.get(block.name)
            above = np.zeros(shape) if own is None else own.dense()
            held = columns.get(block.name)
            below = np.zeros((count, block.size)) if held is None else held.dense()
            both[block.name] = Dense(np.vstack([above, below]))
    values = np.concatenate([asked.values, np.zeros(count)])
    return replace(linear, constraints=Constraints(both, values))


def refuse_potentials(canonical: CanonicalModel) -> None:
    """A potential reshapes the prior, and no exact draw of such a prior exists in general."""
    for block in canonical.blocks:
        if block.family.spec.potential:
            raise ModelError.of(
                "E501",
                "a model with a potential cannot be simulated",
                block.span,
                "makes the prior non-Gaussian",
                help="leave it out, and give its latents a prior, e.g. normal(sd = 1)",
            )


def _refuse(priors: list[BlockPrior], canonical: CanonicalModel) -> None:
    """Raise ModelError E402 for flat latents, which have nothing to be drawn from."""
    diagnostics = []
    for name in dict.fromkeys(owner(p.name) for p in priors):
        symbol = canonical.grounded.model.symbols[name]
        dims = f"[{', '.join(symbol.dims)}]" if symbol.dims else ""
        diagnostics.append(
            Diagnostic(
                "E402",
                f"`{symbol.name}` has a flat prior, which cannot be drawn from",
                symbol.statement.span,
                "has density 1 everywhere",
                help=f"give it a proper one: latent {symbol.name}{dims} ~ normal(sd = 1)",
            )
        )
    if diagnostics:
        raise ModelError(diagnostics)
