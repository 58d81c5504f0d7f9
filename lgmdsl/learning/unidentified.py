"""Directions of the hyperparameters along which evidence + log prior says nothing at the maximum.

    dL = L A, A skew-symmetric    loadings of factors whose prior knows no direction from another
    dx_j                          a coordinate at the edge of its range

What moves along one of them has no standard error. In the others the Hessian is regular, and

    cov(x) = Q (-Q'HQ)^-1 Q',   Q an orthonormal basis of the rest

is the observed information's inverse: sds of all that a rotation leaves as it is (Lawley and
Maxwell 1971, chapter 7, for what is identified).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.canonical.queries.loadings import linear_hypers
from lgmdsl.learning.coordinates.standardised import Standardised, standardised
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.starts.factor_axes import loadings

# The curvature along a rotation that counts as none, as a share of the loadings' own.
NONE = 1e-3


class Curvature(Protocol):
    """The Hessian H at the maximum, as far as it is asked for."""

    def along(self, v: Array) -> float:
        """v'Hv."""

    def typical(self, which: IntArray) -> float:
        """The median size of the second derivatives in coordinates `which`."""


@dataclass(frozen=True, eq=False)
class DenseHessian:
    """All of H, (d, d)."""

    hessian: Array

    def along(self, v: Array) -> float:
        return float(v @ self.hessian @ v)

    def typical(self, which: IntArray) -> float:
        return float(np.median(np.abs(np.diag(self.hessian)[which])))


def unidentified(
    objective: Objective, at: Evaluation, curvature: Curvature, edges: Collection[int]
) -> Array:
    """(d, r) an orthonormal basis of these directions; the curvature tells whether the prior leaves
    loadings their rotations."""
    directions = [_unit(len(at.x), j) for j in sorted(edges)]
    canonical = objective.planned.canonical
    names = linear_hypers(canonical, at.theta, objective.pinned).loadings
    for group in loadings(canonical, names).values():
        values = [np.asarray(at.theta[o.hyper]) for o in group]
        slices = [objective.coordinates.slices[o.hyper] for o in group]
        columns = [o.columns(v) for o, v in zip(group, values, strict=True)]
        turned = []
        for a, b in zip(*np.triu_indices(columns[0].shape[1], k=1), strict=True):
            tangent = np.zeros(len(at.x))
            for o, value, at_, table in zip(group, values, slices, columns, strict=True):
                rotated = np.zeros_like(table)
                rotated[:, a], rotated[:, b] = table[:, b], -table[:, a]
                tangent[at_] = o.array(rotated, value).reshape(-1)
            turned.append(tangent)
        where = np.concatenate([np.arange(s.start, s.stop) for s in slices])
        least = NONE * curvature.typical(where)
        turns = _orthonormal(turned, len(at.x)).T
        directions += [t for t in turns if abs(curvature.along(t)) <= least]
    return _orthonormal(directions, len(at.x))


def _unit(size: int, j: int) -> Array:
    out = np.zeros(size)
    out[j] = 1.0
    return out


def _orthonormal(columns: Sequence[Array], size: int) -> Array:
    if not columns:
        return np.zeros((size, 0))
    left, values, _ = np.linalg.svd(np.array(columns).T, full_matrices=False)
    return np.asarray(left[:, values > 1e-8 * max(values[0], 1e-300)])


def frame_of(mode: Array, hessian: Array, unknown: Array, scaled: BoolArray) -> Standardised:
    """The principal axes of the curvature in the directions that are identified; those that are
    not have axes of length 0. `scaled`: (d,) coordinates that are logs or logits."""
    if not unknown.shape[1]:
        return standardised(mode, hessian, scaled)
    if unknown.shape[1] == len(mode):
        return Standardised(mode, np.zeros_like(unknown), np.zeros(len(mode), dtype=bool), unknown)
    inside = np.flatnonzero(~unknown.any(axis=1))
    if len(inside) == len(mode) - unknown.shape[1]:  # edges alone: the rest keeps its coordinates
        rest = np.eye(len(mode))[:, inside]
        inner = standardised(mode[inside], hessian[np.ix_(inside, inside)], scaled[inside])
    else:
        rest = np.linalg.svd(unknown, full_matrices=True)[0][:, unknown.shape[1] :]
        inner = standardised(np.zeros(rest.shape[1]), rest.T @ hessian @ rest)
    axes = np.hstack([rest @ inner.axes, np.zeros_like(unknown)])
    flat = np.r_[inner.flat, np.zeros(unknown.shape[1], dtype=bool)]
    return Standardised(mode, axes, flat, unknown)
