"""A conditioned Gaussian with members that were not fitted: z' = W z + e, e ~ N(0, C).

W and C come from the structures' conditionals of new members given the fitted ones, so the
posterior of z is unchanged. C is a Kronecker product of the conditional covariance along the axis
that grows and of the covariances along the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.linear import Predictor
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Sparse

if TYPE_CHECKING:
    from numpy.random import Generator

# Rows of a predictor with no more new members than this have their variance pair by pair.
FEW = 64


class Gaussian(Protocol):
    """The interface of the Gaussian over z: see `contract.engine.Conditioned`."""

    @property
    def latent_mean(self) -> Array: ...
    @property
    def latent_variance(self) -> Array: ...
    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]: ...
    def sample(self, rng: Generator, size: int) -> Array: ...


@dataclass(frozen=True, eq=False)
class NewMemberNoise:
    """N(0, C_1 (x) C_2 (x) ...), row-major over the axes: each C an array, or its diagonal."""

    covariances: tuple[Array, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(c) for c in self.covariances)

    def entries(self, rows: IntArray, columns: IntArray) -> Array:
        """Entries of C at pairs of flat positions."""
        out = np.ones(len(rows))
        pairs = zip(
            np.unravel_index(rows, self.shape),
            np.unravel_index(columns, self.shape),
            self.covariances,
            strict=True,
        )
        for i, j, c in pairs:
            out *= np.where(i == j, c[i], 0.0) if c.ndim == 1 else c[i, j]
        return out

    def applied(self, x: Array) -> Array:
        """C x for x (M, k)."""
        return self._along(x, self.covariances)

    def _along(self, x: Array, matrices: Sequence[Array]) -> Array:
        out = x.reshape(*self.shape, -1)
        for axis, c in enumerate(matrices):
            if c.ndim == 1:
                shape = tuple(-1 if k == axis else 1 for k in range(out.ndim))
                out = out * c.reshape(shape)
            else:
                out = np.moveaxis(np.tensordot(c, out, axes=(1, axis)), 0, axis)
        return out.reshape(x.shape)

    @cached_property
    def _roots(self) -> tuple[Array, ...]:
        return tuple(np.sqrt(c) if c.ndim == 1 else _root(c) for c in self.covariances)

    def draws(self, rng: Generator, size: int) -> Array:
        """(size, M)."""
        x = rng.standard_normal((size, int(np.prod(self.shape))))
        return self._along(x.T, self._roots).T

    def variance(self, b: SparseMatrix) -> Array:
        """diag(b C b'): row by row, few entries by their pairs, many by a product with C."""
        out = np.zeros(b.shape[0])
        count = np.diff(b.indptr)
        for row in np.flatnonzero(count > FEW):
            dense = b[[row]].toarray().reshape(-1, 1)
            out[row] = float(dense[:, 0] @ self.applied(dense)[:, 0])
        for k in np.unique(count[(count > 0) & (count <= FEW)]):
            rows = np.flatnonzero(count == k)
            entries = b.indptr[rows][:, None] + np.arange(k)
            columns, values = b.indices[entries].astype(np.int64), b.data[entries]
            for i in range(k):
                for j in range(k):
                    c = self.entries(columns[:, i], columns[:, j])
                    out[rows] += values[:, i] * values[:, j] * c
        return out

    def covariance(self, b: SparseMatrix) -> Array:
        """b C b', dense."""
        return np.asarray(b @ self.applied(b.T.toarray()))


def _root(c: Array) -> Array:
    """S with SS' = c, which may be singular."""
    out = np.zeros_like(c)
    varying = np.flatnonzero(c.diagonal() > 0.0)
    part = c[np.ix_(varying, varying)]
    try:
        root = sla.cholesky(part, lower=True) if varying.size else part
    except sla.LinAlgError:
        values, vectors = sla.eigh(part)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
    out[np.ix_(varying, varying)] = root
    return out


@dataclass(frozen=True, eq=False)
class NewMembers:
    """New members of the latent `block`, under a separate name: `weights` (M, k) on the k
    members of the block before them, those of the pieces before this one included."""

    name: str
    block: str
    weights: SparseMatrix
    noise: NewMemberNoise

    @property
    def size(self) -> int:
        return int(self.weights.shape[0])


@dataclass(frozen=True, eq=False)
class Extended:
    """`base` over the blocks of z with their `starts` and `sizes`, and pieces of new members after
    them, in order."""

    base: Gaussian
    starts: Mapping[str, int]
    sizes: Mapping[str, int]
    pieces: tuple[NewMembers, ...]

    def _before(self, piece: NewMembers) -> list[tuple[str, int, int]]:
        """What a piece's weights are on: the block, and its pieces before; begin and end."""
        out, end = [(piece.block, 0, self.sizes[piece.block])], self.sizes[piece.block]
        for other in self.pieces:
            if other is piece:
                break
            if other.block == piece.block:
                out.append((other.name, end, end + other.size))
                end += other.size
        return out

    def _rooted(self, predictor: Predictor) -> tuple[Predictor, dict[str, SparseMatrix]]:
        """The predictor on `base` alone, and its rows on the noise of each piece."""
        columns: dict[str, Operator] = dict(predictor.columns)
        noise: dict[str, SparseMatrix] = {}
        for piece in reversed(self.pieces):
            operator = columns.pop(piece.name, None)
            if operator is None:
                continue
            b = sp.csr_array(operator.sparse())
            b.sum_duplicates()
            noise[piece.name] = b
            on = sp.csc_array(b @ piece.weights)
            for name, begin, end in self._before(piece):
                part = sp.csr_array(on[:, begin:end])
                if part.nnz:
                    known = columns.get(name)
                    columns[name] = Sparse(
                        sp.csr_array(part if known is None else known.sparse() + part)
                    )
        return Predictor(columns, predictor.offset, predictor.event), noise

    def on_base(self, predictor: Predictor) -> Predictor:
        """What is expected of a predictor given `base`."""
        return self._rooted(predictor)[0]

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        """Mean and variance, or covariance, of any affine functional."""
        on_base, noise = self._rooted(predictor)
        mean, variance = self.base.project(on_base, full)
        for piece in self.pieces:
            if piece.name in noise:
                rows = noise[piece.name]
                of = piece.noise.covariance(rows) if full else piece.noise.variance(rows)
                variance = variance + of
        return mean, variance

    def _all(self, name: str, z: Mapping[str, Array]) -> Array:
        piece = next(p for p in self.pieces if p.name == name)
        return np.concatenate([z[n] for n, _, _ in self._before(piece)], axis=-1)

    @cached_property
    def latent_mean(self) -> Array:
        """(n,) the blocks of `base`, then the pieces."""
        mean = self.base.latent_mean
        z = {
            n: mean[start : start + self.sizes[n]]
            for n, start in self.starts.items()
            if n in self.sizes
        }
        for piece in self.pieces:
            z[piece.name] = np.asarray(piece.weights @ self._all(piece.name, z))
        return np.concatenate([mean, *(z[p.name] for p in self.pieces)])

    @cached_property
    def latent_variance(self) -> Array:
        """(n,) as `latent_mean`."""
        out = [self.base.latent_variance]
        for piece in self.pieces:
            one = Sparse(sp.eye_array(piece.size, format="csr"))
            out.append(self.project(Predictor({piece.name: one}, np.zeros(piece.size)))[1])
        return np.concatenate(out)

    def sample(self, rng: Generator, size: int) -> Array:
        """(size, n) joint draws."""
        return self.extended(self.base.sample(rng, size), rng)

    def extended(self, drawn: Array, rng: Generator) -> Array:
        """Draws of the base, (size, n_base), with draws of the new members given them."""
        z = {n: drawn[:, start : start + self.sizes[n]] for n, start in self.starts.items()}
        for piece in self.pieces:
            known = self._all(piece.name, z)
            z[piece.name] = (piece.weights @ known.T).T + piece.noise.draws(rng, len(drawn))
        return np.concatenate([drawn, *(z[p.name] for p in self.pieces)], axis=1)
