"""Which latents are inner, and in which group: blocks whose latents each row touches in one group.

The block with the most groups, and those whose latents each lie in one of these groups too. What
joins groups is the border: fixed effects, a second crossed factor, the upper level of two.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import IntArray, SparseMatrix
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.shared.by_precision import precision_refusal
from lgmdsl.engines.shared.partition import Partition, components
from lgmdsl.engines.shared.prior import is_tied
from lgmdsl.operators.base import Operator
from lgmdsl.vocabulary.signature import Trait

FEWEST = 2  # groups
WIDEST = 32  # inner latents of a group
DENSEST = 128  # columns of the border that are held dense


def plain_refusal(linear: LinearGaussian) -> str:
    """Why a model is refused, as far as sizes and declarations say."""
    if reason := precision_refusal(linear):
        return reason
    inner = candidates(linear)
    if not inner:
        return "no latents are independent from group to group"
    if len(linear.blocks) == 1:
        return "a single block leaves no border"
    for p in linear.predictors:
        for name, o in p.columns.items():
            if not o.in_memory:
                return f"the operator of `{name}` is not in memory"
            if name in inner and not o.is_sparse:
                continue
            if not o.is_sparse and o.shape[1] > DENSEST:
                return f"`{name}` has more than {DENSEST} dense columns"
            if o.entries >= 2**31:
                return "a table has more entries than 32-bit numbers count"
    return ""


def candidates(linear: LinearGaussian) -> dict[str, IntArray]:
    """Blocks that may be inner, with the group of each latent: what the prior joins."""
    tied = set(linear.constraints.columns) if linear.constraints is not None else set()
    dense = {n for p in linear.predictors for n, o in p.columns.items() if not o.is_sparse}
    out = {}
    for b in linear.blocks:
        groups = _prior_groups(b)
        if groups is not None and b.name not in tied | dense and len(groups) >= FEWEST:
            out[b.name] = groups
    return out


def _prior_groups(block: PriorBlock) -> IntArray | None:
    """The group of each latent; None where the prior joins too many, or is improper."""
    if Shape.IMPROPER in block.shape or any(is_tied(f) for f in block.factors):
        return None
    if Shape.DIAGONAL in block.shape:
        return np.arange(block.size)
    apart = [Trait.IDENTITY in f.traits() for f in block.factors]
    sizes = [f.size for f in block.factors]
    width = int(np.prod([s for s, free in zip(sizes, apart, strict=True) if not free]))
    if not any(apart) or width > WIDEST:
        return None
    places = np.unravel_index(np.arange(block.size), sizes)
    group = np.zeros(block.size, dtype=np.int64)
    for place, size, free in zip(places, sizes, apart, strict=True):
        if free:
            group = group * size + place
    return group


def declared(linear: LinearGaussian) -> tuple[object, ...]:
    """What a nest follows from besides operators and sizes: kinds of priors, and what is tied."""
    kinds = tuple(
        (b.shape, tuple((f.size, f.traits(), is_tied(f)) for f in b.factors)) for b in linear.blocks
    )
    return kinds, () if linear.constraints is None else tuple(linear.constraints.columns)


def grouped(linear: LinearGaussian) -> tuple[Partition, Partition] | str:
    """Latents, and sites, by groups: inner are the block with the most groups, and those whose
    latents each lie in one of these; the others belong to no group."""
    known = {n: _joined(linear, n, g) for n, g in candidates(linear).items()}
    known = {n: g for n, g in known.items() if int(g.max()) + 1 >= FEWEST}
    for name in sorted(known, key=lambda n: -int(known[n].max())):
        sites = _site_groups(linear, name, known[name])
        if sites is None:
            continue
        inner, count = {name: known[name]}, int(known[name].max()) + 1
        for other in known:
            attached = None
            if other != name:
                attached, sites = _attached(linear, other, known[other], sites, count)
            if attached is not None:
                inner[other], count = attached, max(count, int(attached.max()) + 1)
        group = [inner.get(b.name, np.full(b.size, -1)) for b in linear.blocks]
        count = max(int(g.max()) for g in inner.values()) + 1
        return Partition(np.concatenate(group), count), Partition(sites, count)
    return "a row joins several groups of latents"


def _joined(linear: LinearGaussian, name: str, groups: IntArray) -> IntArray:
    """The groups of a block after those that a row joins have become one (independent intercepts
    and slopes of one block, say)."""
    if _site_groups(linear, name, groups) is not None:
        return groups
    first, second = [], []
    for p in linear.predictors:
        if name in p.columns:
            csr = rows_of(p.columns[name])
            sites = np.repeat(np.arange(p.rows) // max(p.event, 1), np.diff(csr.indptr))
            entry, new = groups[csr.indices], np.flatnonzero(np.diff(sites, prepend=-1))
            lead = np.repeat(entry[new], np.diff(new, append=len(entry)))
            first.append(lead[lead != entry])
            second.append(entry[lead != entry])
    ends = np.concatenate(first), np.concatenate(second)
    return components(ends, int(groups.max()) + 1)[groups]


def _site_groups(linear: LinearGaussian, name: str, groups: IntArray) -> IntArray | None:
    """(T,) the group of each site by one block; None where a site has several."""
    parts = []
    for p in linear.predictors:
        part = _row_groups(p, name, groups)
        if part is None:
            return None
        parts.append(part)
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _row_groups(p: Predictor, name: str, groups: IntArray) -> IntArray | None:
    event = max(p.event, 1)
    out = np.full(p.rows, -1, dtype=np.int64)
    if name in p.columns:
        csr = rows_of(p.columns[name])
        entry = groups[csr.indices]
        counts = np.diff(csr.indptr)
        if len(entry) == p.rows and (counts == 1).all():
            out = entry
        else:
            some = counts > 0
            out[some] = entry[csr.indptr[:-1][some]]
            if not np.array_equal(np.repeat(out, counts), entry):
                return None
    if event == 1:
        return out
    by_site = out.reshape(-1, event)
    site = by_site.max(axis=1)
    return site if ((by_site == site[:, None]) | (by_site < 0)).all() else None


def _attached(
    linear: LinearGaussian, name: str, groups: IntArray, sites: IntArray, known: int
) -> tuple[IntArray | None, IntArray]:
    """The group of each latent of another block, where each of its own groups lies in one of the
    `known`; None where not."""
    own = _site_groups(linear, name, groups)
    if own is None:
        return None, sites
    some = (own >= 0) & (sites >= 0)
    target = np.full(int(groups.max()) + 1, -1, dtype=np.int64)
    target[own[some]] = sites[some]
    if not np.array_equal(target[own[some]], sites[some]):
        return None, sites
    unseen = np.flatnonzero(target < 0)  # by rows of the others: groups of their own
    target[unseen] = known + np.arange(len(unseen))
    return target[groups], np.where((own >= 0) & (sites < 0), target[own], sites)


def rows_of(operator: Operator) -> SparseMatrix:
    """Entries of an operator, csr without duplicates."""
    csr = sp.csr_array(operator.sparse())
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr
