"""besag(graph): the intrinsic autoregression on a graph, Q = D - W, scaled by component.

Freni-Sterrantino, Ventrucci and Rue (2018): each component of two members or more has variances of
geometric mean 1 (times sd^2) and sums to zero by itself; a member without neighbours is N(0, sd^2),
without constraint.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import SparseMatrix
from lgmdsl.contract.structure import Structure
from lgmdsl.structures.shared.banded import diagonal
from lgmdsl.structures.shared.content import Content
from lgmdsl.structures.shared.generalised import TooManyFlops, generalised_variances
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.structures.shared.scaled import Scaled, UnitPrecision
from lgmdsl.structures.spatial.graphs import Components, degrees, with_diagonal
from lgmdsl.vocabulary.lookup import declared

# Flops of the factorisation that scaling needs, with its inverse half a minute. A map reaches them
# at three million areas, a lattice of three dimensions at a hundred thousand.
PATIENCE = 2e11


class Besag(Scaled):
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
