"""The spectrum of besag's covariance, by which a bym2's distance from independence is known."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.memory import check
from lgmdsl.structures.shared.content import Content
from lgmdsl.structures.spatial.besag import Besag, besag
from lgmdsl.structures.spatial.graphs import Components

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
