"""besag(graph): the intrinsic autoregression on a graph, Q = D - W, scaled by component.

Freni-Sterrantino, Ventrucci and Rue (2018): each component of two members or more has variances of
geometric mean 1 (times sd^2) and sums to zero by itself; a member without neighbours is N(0, sd^2),
without constraint.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.contract.structure import Structure
from lgmdsl.memory import check
from lgmdsl.structures.shared.content import Content, diagonal
from lgmdsl.structures.shared.generalised import TooManyFlops, generalised_variances
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.structures.shared.scaled import ScaledPrecision, UnitPrecision
from lgmdsl.structures.spatial.graphs import Components, degrees, with_diagonal
from lgmdsl.vocabulary.lookup import declared

# Flops of the factorisation that scaling needs, with its inverse half a minute. A map reaches them
# at three million areas, a lattice of three dimensions at a hundred thousand.
PATIENCE = 2e11


class Besag(ScaledPrecision):
    """z_i | neighbours ~ N(their mean, proportional to 1 / their number)."""

    signature = declared("structure", "besag")


def besag(size: int, graph: SparseMatrix, sd: object) -> Structure:
    """`graph` is a symmetric csr adjacency of ones, (n, n). Raises Refused (E401)."""
    return Besag(_unit(Content(graph)), np.asarray(sd))


@lru_cache(maxsize=8)
def _unit(content: Content) -> UnitPrecision:
    graph = content.value
    assert not isinstance(graph, np.ndarray)
    if graph.nnz == 0:
        raise Refused(
            "E401",
            "no member of {axis} has a neighbour in `{given}`",
            "graph",
            label="a graph without edges",
            help="independent effects: normal(sd = 1), or correct `{given}`",
        )
    parts = Components.of(graph)
    number = parts.sizes[parts.label].astype(np.float64)
    laplacian = with_diagonal(graph, np.where(parts.alone, 1.0, degrees(graph)), 1.0)
    tied = parts.indicators
    null = sp.csr_array(diagonal(number**-0.5) @ tied)
    try:
        inverse = generalised_variances(laplacian, null, PATIENCE)
    except TooManyFlops as expensive:
        raise Refused(
            "E501",
            f"scaling this prior takes a factorisation of {expensive.flops:.2g} flops",
            "graph",
            label=f"a graph of {len(number)} members in which far ones are neighbours; at most "
            f"{PATIENCE:.0e} are made",
            help="`car(graph = {graph}, sd = {sd}, alpha = 0.99)` needs no scaling; or keep near "
            "neighbours only, as in a map",
        ) from None
    assert inverse is not None, "a Laplacian is positive definite off its components' levels"
    logs = np.log(inverse.variances)
    # the log of the geometric mean of each member's component; singletons have variance 1 already
    means = (np.bincount(parts.label, logs) / parts.sizes)[parts.label]
    laplacian.sort_indices()
    # every component loses one eigenvalue
    rank = float(means @ (1.0 - np.where(parts.alone, 0.0, 1.0 / number)))
    return UnitPrecision(
        laplacian, np.exp(means), null, sp.csr_array(tied.T), inverse.log_det + rank
    )


# ---- spectrum ----------------------------------------------------------------------------------
# The spectrum of besag's covariance, by which a bym2's distance from independence is known.


_NARROW = 0.15  # of the size: the bandwidth up to which LAPACK's banded reduction is quicker


def besag_spectrum(graph: SparseMatrix) -> Array:
    """(n,) eigenvalues of the covariance of besag(graph, sd = 1), increasing; not to be written to.

    One is 0 for each component of two members or more, and 1 for each member alone. Found once for
    each graph, in O(n^2 bandwidth) where it can be ordered into a band. Raises Refused (E401), and
    TooLarge where it cannot, and the memory budget holds no dense matrix of it.
    """
    return _spectrum(Content(graph))


@lru_cache(maxsize=8)
def _spectrum(content: Content) -> Array:
    graph = content.value
    assert not isinstance(graph, np.ndarray)
    structure = besag(graph.shape[0], graph, 1.0)
    assert isinstance(structure, Besag)
    precision, parts = structure.unit.precision, Components.of(graph)
    eigenvalues = [np.ones(int(parts.alone.sum()))]
    order = np.argsort(parts.label, kind="stable")
    ends = np.cumsum(parts.sizes)
    for start, end in zip(ends - parts.sizes, ends, strict=True):
        if end - start > 1:
            members = order[start:end]
            values = _eigenvalues(sp.csr_array(precision[members][:, members]))
            eigenvalues += [np.zeros(1), 1.0 / values[1:]]
    return np.sort(np.concatenate(eigenvalues))


def _eigenvalues(matrix: SparseMatrix) -> Array:
    """(n,) increasing."""
    order = reverse_cuthill_mckee(sp.csr_matrix(matrix), symmetric_mode=True)
    entries = sp.coo_array(matrix[order][:, order])
    offset = entries.row - entries.col
    width, n = int(offset.max()), matrix.shape[0]
    if width > _NARROW * n:
        check(
            "the spectrum of a graph",
            f"a matrix of {n:,} x {n:,}",
            16.0 * n * n,
            help="a graph whose neighbours are near, as in a map, or a prior of `mix` that "
            "takes no graph, such as uniform(low = 0, high = 1)",
        )
        return np.asarray(np.linalg.eigvalsh(matrix.toarray()))
    band = np.zeros((width + 1, n))
    lower = offset >= 0
    band[offset[lower], entries.col[lower]] = entries.data[lower]
    return np.asarray(sla.eig_banded(band, lower=True, eigvals_only=True))
