"""Index sets over whose members latents are independent in the posterior, given others that the
members share: groups bordered by shared latents.

Read off the names of the canonical form, never off sparsity: each row of a site depends on one
member of such an index, by the index itself or through a map, and the prior is a product over its
members.
Rows can fall into groups beyond that (a design matrix with blocks of zeros); engines look for
those in the pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lgmdsl.arrays import IntArray
from lgmdsl.canonical.blocks.latents import LatentBlock
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.affine import Term
from lgmdsl.canonical.expressions.named import Axis, Pick, Slot
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.linear import LinearGaussian, PriorBlock
from lgmdsl.contract.structure import Shape

Slots: TypeAlias = dict[int, Slot]


@dataclass(frozen=True)
class Plate:
    """Over the members of `index` the latents `inside` are independent of one another, given the
    latents `shared`, with which they meet in rows."""

    index: str
    inside: tuple[str, ...]
    shared: tuple[str, ...]


def members_of(latent: LatentBlock, index: str, entries: IntArray | None = None) -> IntArray:
    """The members of an index set that entries of a latent belong to: all of them by default."""
    entries = np.arange(latent.size) if entries is None else entries
    places = np.unravel_index(entries, latent.sizes)[latent.dims.index(index)]
    return np.asarray(places, dtype=np.int64)


def plates(canonical: CanonicalModel, linear: LinearGaussian) -> tuple[Plate, ...]:
    """The plates of the posterior, in the order of the index sets; `linear` is the model at any
    hyperparameters."""
    priors = {block.name: block for block in linear.blocks}
    constrained = {name for e in canonical.equations for name in e.form.latents}
    free = [block for block in canonical.latents if block.name not in constrained]
    result = []
    for index, members in canonical.grounded.indices.items():
        inside, slots = set[str](), Slots()
        for latent in sorted(free, key=lambda block: -block.size):
            if index not in latent.dims or not _product(latent, priors[latent.name], index):
                continue
            its = _slots(canonical, latent, latent.dims.index(index), slots)
            if its is not None:
                inside.add(latent.name)
                slots |= its
        others = {name for k in slots for name in canonical.blocks[k].form.latents} - inside
        if slots and members.size > 1:
            result.append(Plate(index, _named(canonical, inside), _named(canonical, others)))
    return tuple(result)


def _product(latent: LatentBlock, prior: PriorBlock, index: str) -> bool:
    """Whether a prior is a product over the members of one of its indices."""
    pairs = zip(latent.factors, prior.factors, strict=True)
    return all(Shape.DIAGONAL in built.shape for spec, built in pairs if index in spec.dims)


def _slots(canonical: CanonicalModel, latent: LatentBlock, axis: int, known: Slots) -> Slots | None:
    """For each site block that a latent enters, the map from rows to members; None where rows
    depend on several members, or on others than the `known` map of the block has."""
    out = Slots()
    for k, block in enumerate(canonical.blocks):
        for term in block.form.terms:
            if term.latent != latent.name:
                continue
            slot = _member(term, axis, block)
            before = out.get(k, known.get(k))
            if slot is None or (before is not None and not _same(slot, before)):
                return None
            out[k] = slot
    return out


def _member(term: Term, axis: int, block: SiteBlock) -> Slot | None:
    """The map from rows to the members of an axis; None where a row depends on several, or all rows
    on the same one."""
    slot = term.slots[axis]
    if term.applied is not None or isinstance(slot, Pick):
        return None
    dims = (slot.dim,) if isinstance(slot, Axis) else slot.dims
    return slot if dims and set(dims) <= set(block.dims) else None


def _same(one: Slot, other: Slot) -> bool:
    if isinstance(one, Axis | Pick) or isinstance(other, Axis | Pick):
        return one == other
    return one.dims == other.dims and np.array_equal(one.positions, other.positions)


def _named(canonical: CanonicalModel, blocks: set[str]) -> tuple[str, ...]:
    """Blocks by the latents that the user declared, in order."""
    names = {owner(block) for block in blocks}
    return tuple(name for name in canonical.latent_names if name in names)
