"""Mass and stiffness matrices of linear finite elements in the plane, for `spde`.

C_ii = integral of psi_i (lumped mass), G_ij = integral of grad psi_i . grad psi_j, psi the hat
function of each node: Lindgren, Rue and Lindstrom (2011), appendix A.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from lgmdsl.arrays import AnyArray, Array, IntArray, SparseMatrix
from lgmdsl.errors import DataError
from lgmdsl.structures.shared.content import banded, diagonal

_SHOWN = 5


class MeshMatrices(NamedTuple):
    """`mass` (diagonal) and `stiffness` of n nodes, both (n, n) csr."""

    mass: SparseMatrix
    stiffness: SparseMatrix


def mesh_matrices(points: ArrayLike, triangles: ArrayLike) -> MeshMatrices:
    """Matrices of a triangulation: `points` (n, 2) coordinates, `triangles` (t, 3) node positions
    from 0, in any orientation.

    Raises DataError E301 for wrong shapes and E303 for a broken mesh: a position out of range, a
    triangle without area, an edge of three triangles, a node in no triangle.

    >>> mesh_matrices([[0, 0], [1, 0], [0, 1]], [[0, 1, 2]]).stiffness.toarray()
    array([[ 1. , -0.5, -0.5],
           [-0.5,  0.5,  0. ],
           [-0.5,  0. ,  0.5]])
    """
    where = _points(points)
    nodes = _triangles(triangles, len(where))
    corner = where[nodes]  # (t, 3, 2)
    # the edge opposite to each corner
    edge = corner[:, [2, 0, 1]] - corner[:, [1, 2, 0]]
    area = 0.5 * np.abs(edge[:, 0, 0] * edge[:, 1, 1] - edge[:, 0, 1] * edge[:, 1, 0])
    longest = (edge**2).sum(axis=2).max(axis=1)
    flat = np.flatnonzero(~(area > 1e-12 * longest))
    if flat.size:
        raise _broken(
            f"{_count(flat, 'triangle')} of the mesh {_have(flat)} no area",
            f"{_named(flat)}; the first joins nodes {', '.join(map(str, nodes[flat[0]]))}",
            "drop them, or move a node off the line of the other two",
        )
    _check_edges(nodes)
    n = len(where)
    lonely = np.setdiff1d(np.arange(n), nodes)
    if lonely.size:
        raise _broken(
            f"{_count(lonely, 'node')} of the mesh {_lie(lonely)} in no triangle",
            _named(lonely),
            "leave them out of `points`, and renumber `triangles`: "
            "keep, triangles = np.unique(triangles, return_inverse=True)",
        )
    shares = np.bincount(nodes.reshape(-1), np.repeat(area / 3.0, 3), minlength=n)
    mass = np.asarray(shares, dtype=np.float64)
    local = np.einsum("tia,tja->tij", edge, edge) / (4.0 * area)[:, None, None]
    rows = np.repeat(nodes, 3, axis=1).reshape(-1)
    columns = np.tile(nodes, (1, 3)).reshape(-1)
    stiffness = sp.csr_array((local.reshape(-1), (rows, columns)), shape=(n, n))
    stiffness.sum_duplicates()
    return MeshMatrices(diagonal(mass), stiffness)


def grid_matrices(
    shape: tuple[int, int], spacing: float | tuple[float, float] = 1.0
) -> MeshMatrices:
    """Matrices of a regular grid of `shape` = (rows, columns) nodes, numbered row by row, with
    `spacing` between rows and between columns: the five-point stencil, cells cut at the border.

    Raises DataError E303 unless there are two nodes or more each way and the spacings are positive.
    """
    steps = np.broadcast_to(np.asarray(spacing, dtype=np.float64), (2,))
    fine = len(shape) == 2 and all(int(k) == k and k >= 2 for k in shape)
    if not fine or not (np.isfinite(steps) & (steps > 0)).all():
        raise _broken(
            f"no grid of shape {tuple(shape)} with spacing {spacing}",
            "",
            "grid_matrices((rows, columns), spacing), two nodes or more each way, spacing > 0",
        )
    (m1, g1), (m2, g2) = (_line(int(k), float(h)) for k, h in zip(shape, steps, strict=True))
    mass = sp.csr_array(sp.kron(m1, m2, format="csr"))
    stiffness = sp.csr_array(sp.kron(g1, m2, format="csr") + sp.kron(m1, g2, format="csr"))
    stiffness.sort_indices()
    return MeshMatrices(mass, stiffness)


def _line(nodes: int, step: float) -> tuple[SparseMatrix, SparseMatrix]:
    mass = np.full(nodes, step)
    mass[[0, -1]] = 0.5 * step
    ones = np.ones(nodes - 1)
    d = banded([-ones, ones], (0, 1), (nodes - 1, nodes))
    return diagonal(mass), sp.csr_array(d.T @ d * (1.0 / step))


def _points(points: ArrayLike) -> Array:
    where = np.asarray(points, dtype=np.float64)
    if where.ndim != 2 or where.shape[1] != 2:
        plane = where.ndim == 2 and where.shape[1] == 3
        raise DataError.of(
            "E301",
            "`points` of a mesh have the wrong shape",
            details=("wanted (n, 2): a mesh lies in the plane", f"given  {where.shape}"),
            help="project them: points[:, :2]" if plane else "one row (x, y) for each node",
        )
    odd = np.flatnonzero(~np.isfinite(where).all(axis=1))
    if odd.size:
        raise _broken(
            f"{_count(odd, 'node')} of the mesh {_have(odd)} no finite position",
            _named(odd),
            "drop them, with their triangles",
        )
    return where


def _triangles(triangles: ArrayLike, nodes: int) -> IntArray:
    array = np.asarray(triangles)
    if array.ndim != 2 or array.shape[1] != 3 or not len(array):
        raise DataError.of(
            "E301",
            "`triangles` of a mesh have the wrong shape",
            details=("wanted (t, 3): the positions of three nodes", f"given  {array.shape}"),
            help="scipy.spatial.Delaunay(points).simplices",
        )
    whole = array.astype(np.int64)
    if not np.array_equal(whole, array):
        raise _broken("`triangles` hold numbers that are not whole", "", "give node positions")
    outside = np.flatnonzero(((whole < 0) | (whole >= nodes)).any(axis=1))
    if outside.size:
        from_one = whole.min() == 1 and whole.max() == nodes
        raise _broken(
            f"{_count(outside, 'triangle')} of the mesh {_have(outside)} a node out of range",
            f"there are {nodes} nodes, 0 to {nodes - 1}; {_named(outside)}, the first with nodes "
            + ", ".join(map(str, whole[outside[0]])),
            "triangles - 1" if from_one else "give every node a row of `points`",
        )
    return whole


def _check_edges(nodes: IntArray) -> None:
    ends = np.sort(nodes[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    edges, counts = np.unique(ends, axis=0, return_counts=True)
    crowded = edges[counts > 2]
    if len(crowded):
        raise _broken(
            "an edge of the mesh belongs to more than two triangles",
            f"the edge of nodes {crowded[0][0]} and {crowded[0][1]}",
            "drop triangles that repeat: np.unique(np.sort(triangles, axis=1), axis=0)",
        )


def _broken(message: str, detail: str, help: str) -> DataError:
    return DataError.of("E303", message, details=(detail,) if detail else (), help=help)


def _count(items: AnyArray, word: str) -> str:
    return f"one {word}" if len(items) == 1 else f"{len(items)} {word}s"


def _have(items: AnyArray) -> str:
    return "has" if len(items) == 1 else "have"


def _lie(items: AnyArray) -> str:
    return "lies" if len(items) == 1 else "lie"


def _named(items: AnyArray) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return f"at {', '.join(map(str, items[:_SHOWN]))}{more}"
