"""The prior of `batched` by groups: a root of each covariance, K_n = R_n R_n'.

Posteriors are worked out in x, z_n = mu_n + R_n x_n, x_n ~ N(0, I): their precision there,
I + R'B'WBR, needs no inverse of K, which may be singular or as near to it as a covariance that is
being learned comes. Blocks whose structures have a precision alone give R = L'^-1, Q = LL'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, BoolArray, IntArray, SparseMatrix
from lgmdsl.contract.linear import PriorBlock
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.engines.grouped.plates import WIDEST, Plates
from lgmdsl.engines.shared.prior import BlockPrior, is_tied
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.numerics.cholesky import pivoted_root
from lgmdsl.vocabulary.signature import Trait


class Form(Enum):
    """What a block's root is made from: its variances, small covariances, or its precision."""

    diagonal = "diagonal"
    covariance = "covariance"
    precision = "precision"


def form_of(block: PriorBlock) -> Form | None:
    """None for a block that `batched` cannot take: improper, tied, or with a large covariance."""
    shape = block.shape
    if Shape.IMPROPER in shape or any(is_tied(f) for f in block.factors):
        return None
    sparse = Shape.PRECISION | Shape.SPARSE
    if sparse | Shape.DIAGONAL in shape:
        return Form.diagonal
    small = all(_plain(f) or f.size <= WIDEST for f in block.factors)
    if (
        Shape.COVARIANCE in shape
        and small
        and not all(Shape.DIAGONAL in f.shape for f in block.factors)
    ):
        return Form.covariance
    return Form.precision if sparse in shape else None


def _plain(factor: Structure) -> bool:
    return Trait.IDENTITY in factor.traits()


def pattern(prior: BlockPrior) -> SparseMatrix:
    """(n, n) csr, an entry wherever a block's covariance or precision joins two latents."""
    form = form_of(prior.block)
    if form is Form.diagonal:
        return sp.csr_array(sp.eye_array(prior.size, format="csr"))
    if form is Form.covariance:
        return _product(lambda f: np.ones((f.size, f.size)), prior.block)
    return prior.sparse_precision


def joins(prior: BlockPrior) -> SparseMatrix:
    """(n, n) csr that joins the same latents as `pattern`, through the first of those that a matrix
    joins: of k latents 3k entries, where a pattern has k^2."""
    if form_of(prior.block) is not Form.covariance:
        return pattern(prior)
    parts = [sp.eye_array(f.size, format="csr") for f in prior.block.factors]
    for k, factor in enumerate(prior.block.factors):
        if not _plain(factor):
            members = np.arange(factor.size)
            first = np.zeros_like(members)
            ends = np.r_[members, members, first], np.r_[members, first, members]
            shape = (factor.size, factor.size)
            parts[k] = sp.csr_array((np.ones(3 * factor.size), ends), shape=shape)
    return sp.csr_array(reduce(lambda a, b: sp.kron(a, b, format="csr"), parts))


def _product(matrix: Callable[[Structure], Array], block: PriorBlock) -> SparseMatrix:
    """The Kronecker product of small matrices, all their entries stored, the identity for `iid`."""
    parts = [
        sp.csr_array(sp.eye_array(f.size, format="csr")) if _plain(f) else _stored(matrix(f))
        for f in block.factors
    ]
    return sp.csr_array(reduce(lambda a, b: sp.kron(a, b, format="csr"), parts))


def _stored(matrix: Array) -> SparseMatrix:
    """A small matrix as csr, its zeros too."""
    n = len(matrix)
    columns, starts = np.tile(np.arange(n), n), np.arange(n + 1) * n
    return sp.csr_array((matrix.reshape(-1), columns, starts), shape=(n, n))


@dataclass(frozen=True, eq=False)
class Roots:
    """`root`: R, (N, L, L), or (1, L, L) where all groups share it; 1 on the diagonal where a
    group is smaller. `moving`: (n,) False for columns of R that are zero, as many as K lacks in
    rank. `unit`: whether R is the identity."""

    root: Array
    moving: BoolArray
    unit: bool


def roots(blocks: Sequence[BlockPrior], plates: Plates) -> Roots:
    """Roots of the priors of all groups. Raises NumericalError E601 where a prior is not positive
    semidefinite."""
    size, width = len(plates.latents.group), plates.width
    by_precision = np.zeros(size, dtype=bool)
    pieces: list[SparseMatrix] = []
    for prior in blocks:
        form = form_of(prior.block)
        if form is Form.precision:
            by_precision[prior.where] = True
            pieces.append(sp.csr_array((prior.size, prior.size)))
        elif form is Form.diagonal:
            pieces.append(sp.csr_array(sp.diags_array(np.sqrt(prior.variance), format="csr")))
        else:
            pieces.append(_product(_root, prior.block))
    root = _by_group(sp.csr_array(sp.block_diag(pieces, format="csr")), plates)
    if by_precision.any():
        root += _inverse_roots(blocks, by_precision, plates)
    index = np.arange(width)
    root[:, index, index] += 1.0 - plates.latents.padded(np.ones(size))
    column = np.abs(root).max(axis=1, initial=0.0) > 0.0
    moving = column.reshape(-1)[plates.latents.at]
    if bool((root[-1] == root[0]).all() and (root == root[:1]).all()):
        root = root[:1]
    unit = len(root) == 1 and bool((root[0] == np.eye(width)).all())
    return Roots(root, moving, unit)


def _root(factor: Structure) -> Array:
    """(k, k) R with RR' = K, columns of zeros for what K lacks in rank. Pivots are judged against
    the latents' own variances, which may be of very different sizes."""
    k = factor.covariance()
    sd = np.sqrt(np.maximum(k.diagonal(), 0.0))
    scale = np.where(sd > 0.0, sd, 1.0)
    root = scale[:, None] * pivoted_root(k / scale[:, None] / scale)
    out = np.zeros_like(k)
    out[:, : root.shape[1]] = root
    return out


def _by_group(matrix: SparseMatrix, plates: Plates) -> Array:
    """(N, L, L) of (n, n) csr that joins no groups."""
    width = plates.width
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    out = np.zeros(plates.groups * width * width)
    np.add.at(
        out, plates.latents.at[rows] * width + plates.latents.place[matrix.indices], matrix.data
    )
    return out.reshape(plates.groups, width, width)


def _inverse_roots(blocks: Sequence[BlockPrior], by_precision: BoolArray, plates: Plates) -> Array:
    """(N, L, L) L'^-1 of the latents `by_precision`, whose prior is Q = LL'."""
    pieces = [
        p.sparse_precision if by_precision[p.where.start] else sp.csr_array((p.size, p.size))
        for p in blocks
    ]
    q = _by_group(sp.csr_array(sp.block_diag(pieces, format="csr")), plates)
    index, indicator = (
        np.arange(plates.width),
        plates.latents.padded(by_precision.astype(np.float64)),
    )
    q[:, index, index] += 1.0 - indicator
    try:
        out = np.linalg.inv(np.linalg.cholesky(q)).transpose(0, 2, 1).copy()
    except np.linalg.LinAlgError:
        raise NumericalError(
            Diagnostic("E601", "the precision of a prior is not positive definite")
        ) from None
    out[:, index, index] -= 1.0 - indicator
    return out


def folded(
    block: PriorBlock, adjoint: Array, places: tuple[IntArray, IntArray]
) -> list[Array | None]:
    """dF/dK_f of each factor of K = K_1 (x) K_2 (x) ... from entries of dF/dK at `places` (rows and
    columns) of a block of form `covariance`; None for iid."""
    sizes = [f.size for f in block.factors]
    rows, columns = (np.unravel_index(i, sizes) for i in places)
    out: list[Array | None] = []
    for keep, factor in enumerate(block.factors):
        if _plain(factor):
            out.append(None)
            continue
        product = adjoint
        for k, other in enumerate(block.factors):
            if k != keep and not _plain(other):
                product = product * other.covariance()[rows[k], columns[k]]
        flat = np.bincount(rows[keep] * factor.size + columns[keep], product, factor.size**2)
        out.append(np.asarray(flat, dtype=np.float64).reshape(factor.size, factor.size))
    return out
