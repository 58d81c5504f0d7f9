"""Models whose latents fall into small independent groups, given a border of a few that they share:
an intercept for each patient, given the fixed effects.

Read off the pattern of rows, prior and constraints: latents with many neighbours are the border,
what they leave connected is a group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from lgmdsl.arrays import IntArray, SparseMatrix
from lgmdsl.contract.linear import Constraints, LinearGaussian
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.engines.shared.partition import site_of_rows
from lgmdsl.engines.shared.prior import FULL, pattern

WIDEST, BORDER = 3, 20  # latents of a group, and of the border
SHARE = 2  # latents in groups for each one of the border, at least
# Entries of rows, and neighbours counted row by row, that are looked at.
ENTRIES, PAIRS = 3e6, 3e7


@dataclass(frozen=True, eq=False)
class Groups:
    """`border`: (p,) positions of shared latents; `members`: (G, D) those of each group, -1 where
    it has fewer; `site_group`: of each site block, (N,) the group of each site, -1 for one that
    sees the border alone."""

    border: IntArray
    members: IntArray
    site_group: tuple[IntArray, ...]

    @property
    def count(self) -> int:
        return len(self.members)

    @property
    def width(self) -> int:
        """D."""
        return int(self.members.shape[1])


def groups_of(linear: LinearGaussian) -> Groups | None:
    """The smallest border for the narrowest groups; none at all where few latents are one group.
    None where a model has no such groups."""
    size = linear.size
    joined = _joined(linear)
    if joined is None:
        return None
    sites, neighbours = joined
    degree = np.diff(neighbours.indptr)
    order = np.argsort(-degree, kind="stable")
    found: list[tuple[int, IntArray]] = []
    for width in range(1, WIDEST + 1):
        for k in range(min(BORDER, size - 1) + 1):
            # The next has at most k neighbours in the border and the others in its group.
            if degree[order[k]] > k + width:
                continue
            rest = np.sort(order[k:])
            labels: IntArray = np.asarray(
                connected_components(neighbours[rest][:, rest], directed=False)[1], dtype=np.int64
            )
            if np.bincount(labels).max() <= width and len(rest) >= SHARE * k:
                whole: IntArray = np.full(size, -1, dtype=np.int64)
                whole[rest] = labels
                found.append((k, whole))
                break
    if not found:
        return None
    k, labels = next((f for f in found if f[0] == 0), found[0])
    return _groups(linear, np.sort(order[:k]), labels, sites)


def _groups(
    linear: LinearGaussian, border: IntArray, labels: IntArray, sites: SparseMatrix
) -> Groups:
    inside = np.flatnonzero(labels >= 0)
    sizes = np.bincount(labels[inside])
    order = inside[np.argsort(labels[inside], kind="stable")]
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members = np.full((len(sizes), int(sizes.max())), -1)
    members[labels[order], place] = order
    line = np.repeat(np.arange(sites.shape[0]), np.diff(sites.indptr))
    group = np.full(sites.shape[0], -1)
    inner = labels[sites.indices] >= 0
    group[line[inner]] = labels[sites.indices[inner]]
    counts = [p.rows // max(p.event, 1) for p in linear.predictors]
    return Groups(border, members, tuple(np.split(group, np.cumsum(counts)[:-1])))


def _joined(linear: LinearGaussian) -> tuple[SparseMatrix, SparseMatrix] | None:
    """Which sites see which latents, (sites, n), and which latents meet, (n, n)."""
    entries = sum(float(op.entries) for p in linear.predictors for op in p.columns.values())
    parts = [pattern(block) for block in linear.blocks]
    if entries > ENTRIES or not linear.size or not linear.predictors:
        return None
    if any(not op.is_sparse and max(op.shape) > FULL**2 and not op.in_memory
           for p in linear.predictors for op in p.columns.values()):  # fmt: skip
        return None
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    rows = StackedPredictors(linear).sparse()
    rows.eliminate_zeros()
    site = site_of_rows(linear.predictors)
    line = site[np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))]
    columns = rows.indices.astype(np.int64)
    sites = _pattern(line, columns, (int(site.max(initial=-1)) + 1, linear.size))
    seen = [sites]
    if linear.constraints is not None:
        seen.append(_constrained(linear, linear.constraints))
    whole = sp.csr_array(sp.vstack(seen, format="csr"))
    if float((np.diff(whole.indptr).astype(np.float64) ** 2).sum()) > PAIRS:
        return None
    met = sp.csr_array(whole.T @ whole + sp.block_diag(known, format="csr"))
    return sites, sp.csr_array(met + sp.eye_array(linear.size, format="csr"))


def _pattern(rows: IntArray, columns: IntArray, shape: tuple[int, int]) -> SparseMatrix:
    out = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    out.data[:] = 1.0
    return out


def _constrained(linear: LinearGaussian, constraints: Constraints) -> SparseMatrix:
    """(k, n) the latents that each constraint joins."""
    out = np.zeros((len(constraints.values), linear.size))
    for name, op in constraints.columns.items():
        out[:, linear.slices[name]] = op.dense() != 0.0
    return sp.csr_array(out)
