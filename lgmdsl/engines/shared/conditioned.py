"""What both dense engines share of `Conditioned`: chunked functionals, kriging, adjoints of B."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix, SparseMatrix
from lgmdsl.contract.engine import Adjoints, Conditioned, Draws, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.rows import semidefinite
from lgmdsl.contract.stacked import cut, flatten, row_slices, split
from lgmdsl.engines.shared.constraints import Kriging, PreparedConstraints, krige, left
from lgmdsl.engines.shared.design import row_chunks, transpose_dense
from lgmdsl.engines.shared.shift_derivatives import Outer, Turn
from lgmdsl.engines.shared.weights import SiteWeight, site_blocks
from lgmdsl.numerics.sparse.base import filled

if TYPE_CHECKING:
    from numpy.random import Generator

Pieces: TypeAlias = Sequence[tuple[slice, Matrix]]

CHUNK = 1 << 22  # entries of one dense temporary


V = TypeVar("V")


class Lazy(Mapping[str, V]):
    """A mapping whose values are computed when read."""

    def __init__(self, makers: Mapping[str, Callable[[], V]]) -> None:
        self.makers, self.made = dict(makers), dict[str, V]()

    def __getitem__(self, key: str) -> V:
        if key not in self.made:
            self.made[key] = self.makers[key]()
        return self.made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)


class RowConditioned(Conditioned):
    """What every engine has that holds B explicitly: slopes at the predictor rows."""

    linear: LinearGaussian
    site_weight: SiteWeight

    @property
    @abstractmethod
    def flat_mean(self) -> Array:
        """m, (P,)."""

    @abstractmethod
    def _operator_adjoint(self, k: int, first: int, name: str, product: Outer) -> object:
        """dF/dB of site block k, whose rows begin at `first`, and one latent block; `product` is
        its part of low rank over all rows and latents."""

    @abstractmethod
    def _variance(self) -> Sequence[Array]:
        """Var of the predictors by site block, with its rounding: it may be below 0."""

    @abstractmethod
    def _latent_variance(self) -> Array:
        """(n,) diagonal of Cov(z), with its rounding."""

    @abstractmethod
    def _project(self, predictor: Predictor, full: bool) -> tuple[Array, Array]:
        """`project`, with the rounding of variances."""

    @cached_property
    def mean(self) -> Rows:
        return split(self.flat_mean, self.linear.predictors)

    @cached_property
    def variance(self) -> Rows:
        return tuple(semidefinite(v) for v in self._variance())

    @cached_property
    def latent_variance(self) -> Array:
        return semidefinite(self._latent_variance())

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        mean, variance = self._project(predictor, full)
        return mean, semidefinite(variance[None])[0] if full else semidefinite(variance)

    @cached_property
    def alpha(self) -> Array:
        """b - W m = dF/dc, (P,)."""
        return flatten(self.shift) - self.site_weight.times(self.flat_mean)

    def turn(self, tilt: Rows | None) -> Turn:
        """How q moves along a tilt of its shifts."""
        return Turn.of(self, self.linear, self.site_weight.times, tilt)

    def offset_adjoints(self, turn: Turn) -> Rows:
        """alpha in flat pieces, one for each site block, and its turn."""
        return tuple(cut(self.alpha + turn.alpha, self.linear.predictors))

    def operator_adjoints(self, turn: Turn) -> tuple[Mapping[str, object], ...]:
        """dF/dB = alpha mean' - W B Cov(z), computed when read; on B's pattern where sparse."""
        out, predictors = [], self.linear.predictors
        product = turn.product(self.alpha, self.latent_mean)
        for k, (p, rows) in enumerate(zip(predictors, row_slices(predictors), strict=True)):
            makers = {name: _maker(self, k, rows.start, name, product) for name in p.columns}
            out.append(Lazy(makers))
        return tuple(out)


class DenseConditioned(RowConditioned):
    """Free (unconstrained) answers come from the engine's subclass; the rest is here.

    Subclasses give `free_*`, and set: linear, weight, shift, site_weight, free_mean (n,),
    free_predictor_mean (P,), log_normaliser, kriging, extra (pseudo-observation rows are theirs).
    """

    kriging: Kriging | None

    @property
    @abstractmethod
    def free_mean(self) -> Array:
        """(n,) E[z] without constraints."""

    @abstractmethod
    def predictor(self, z: Array) -> Array:
        """B z for (n, k)."""

    @abstractmethod
    def predictor_mean(self) -> Array:
        """m without constraints, (P,)."""

    @abstractmethod
    def free_solve(self, rhs: Array) -> Array:
        """V rhs for (n, k)."""

    @abstractmethod
    def free_quadratic(self, pieces: Pieces, rows: int) -> Array:
        """diag(X V X') for some rows of an affine functional, given by latent blocks."""

    @abstractmethod
    def free_draws(self, rng: Generator, size: int) -> tuple[Array, Callable[[], Array]]:
        """Draws (size, n) without constraints, and what computes their squared distances."""

    @property
    @abstractmethod
    def free_rank(self) -> int:
        """The rank of Cov(z) without constraints."""

    @abstractmethod
    def free_variance(self) -> list[Array]:
        """Var of the predictors by site block, without constraints."""

    @abstractmethod
    def adjoints(self, tilt: Rows | None = None) -> Adjoints: ...

    def constrain(self, constraints: PreparedConstraints) -> bool:
        """Condition on the constraints; False where CVC' is not positive definite."""
        spread = self.free_solve(np.asfortranarray(constraints.rows.T))
        self.kriging = krige(constraints, self.free_mean, spread)
        if self.kriging is None:
            return False
        self.log_normaliser += self.kriging.log_density + constraints.constant
        return True

    @cached_property
    def kriged_predictor(self) -> Array:
        """B V C', (P, k)."""
        assert self.kriging is not None
        return self.predictor(self.kriging.spread)

    @cached_property
    def flat_mean(self) -> Array:
        """m, (P,)."""
        mean = self.predictor_mean()
        if self.kriging is not None:
            mean = mean + self.kriged_predictor @ self.kriging.multiplier
        return mean

    def _variance(self) -> Sequence[Array]:
        blocks = self.free_variance()
        if self.kriging is not None:
            half = self.kriging.reduction(self.kriged_predictor)
            lost = site_blocks(half, half, self.linear.predictors)
            blocks = [left(b, gone) for b, gone in zip(blocks, lost, strict=True)]
        return blocks

    @cached_property
    def latent_mean(self) -> Array:
        return self.free_mean if self.kriging is None else left(self.free_mean, -self.kriging.shift)

    def latent_variance_by_rows(self, numbers: int | None = None) -> Array:
        """(n,) diagonal of Cov(z), by chunks of latents; `numbers`: what the quadratic form
        of one of them stores, n by default."""
        step = max(1, CHUNK // max(self.linear.size if numbers is None else numbers, 1))
        out = np.empty(self.linear.size)
        for where in self.linear.slices.values():
            size = where.stop - where.start
            for start in range(0, size, step):
                width = min(step, size - start)
                unit: SparseMatrix = sp.csr_array(sp.eye_array(width, size, k=start, format="csr"))
                out[where.start + start : where.start + start + width] = self._quadratic(
                    [(where, unit)], width
                )
        return out

    def _quadratic(self, pieces: Pieces, rows: int) -> Array:
        """Variances of some rows of an affine functional."""
        form = self.free_quadratic(pieces, rows)
        if self.kriging is not None:
            projected = np.zeros((rows, self.kriging.spread.shape[1]))
            for where, m in pieces:
                projected += np.asarray(m @ self.kriging.spread[where])
            half = self.kriging.reduction(projected)
            form = left(form, np.einsum("ij,ij->j", half, half))
        return form

    def solve(self, rhs: Array) -> Array:
        x = rhs[:, None] if rhs.ndim == 1 else rhs
        out = self.free_solve(x)
        if self.kriging is not None:
            inner = self.kriging.factor.solve(self.kriging.spread.T @ x)
            out = out - self.kriging.spread @ inner
            out[self.kriging.fixed] = 0.0
        return np.asarray(out[:, 0] if rhs.ndim == 1 else out)

    def _project(self, predictor: Predictor, full: bool) -> tuple[Array, Array]:
        n, rows, where = self.linear.size, predictor.rows, self.linear.slices
        mean = predictor.values(self.latent_mean, where)
        if full:
            ((_, pieces),) = row_chunks(predictor.columns, where, rows, n, max(rows, 1))
            x = transpose_dense(pieces, rows, n)
            square = x.T @ self.solve(x)
            return mean, np.asarray(0.5 * (square + square.T))
        variance = np.empty(rows)
        for chunk, pieces in row_chunks(
            predictor.columns, where, rows, n, max(1, CHUNK // max(n, 1))
        ):
            variance[chunk] = self._quadratic(pieces, chunk.stop - chunk.start)
        return mean, variance

    def sample(self, rng: Generator, size: int) -> Array:
        draws, _ = self.free_draws(rng, size)
        return draws if self.kriging is None else self.kriging.correct(draws)

    def draw(self, rng: Generator, size: int) -> Draws:
        z, radius = self.free_draws(rng, size)
        if self.kriging is None:
            return Draws(z, radius(), self.free_rank)
        # x'V^-1 x of what the correction takes away: (Cx)'(CVC')^-1 Cx, x = z - E z.
        half = self.kriging.factor.forward(self.kriging.constraints.rows @ (z - self.free_mean).T)
        lost = np.einsum("ij,ij->j", half, half)
        rank = self.free_rank - len(self.kriging.constraints.rows)
        return Draws(self.kriging.correct(z), np.maximum(radius() - lost, 0.0), rank)

    def _operator_adjoint(self, k: int, first: int, name: str, product: Outer) -> object:
        p, where = self.linear.predictors[k], self.linear.slices
        weight = SiteWeight((p,), (self.weight[k],))
        operator, block = p.columns[name], where[name]
        step = max(1, CHUNK // max(self.linear.size, 1))
        if p.event:
            step = max(p.event, step - step % p.event)
        crosses = self._crosses(k, step)
        if not operator.is_sparse:
            dense = np.empty(operator.shape)
            for rows, whole in crosses:
                cross = whole[block].T
                lines = slice(first + rows.start, first + rows.stop)
                dense[rows] = product.dense(lines, block) - _weighted(weight, p, rows, cross)
            return dense
        pattern = operator.sparse()
        values = np.empty(pattern.nnz)
        for rows, whole in crosses:
            cross = whole[block].T
            lines = slice(first + rows.start, first + rows.stop)
            value = product.dense(lines, block) - _weighted(weight, p, rows, cross)
            entries = slice(pattern.indptr[rows.start], pattern.indptr[rows.stop])
            line = np.repeat(
                np.arange(rows.stop - rows.start),
                np.diff(pattern.indptr[rows.start : rows.stop + 1]),
            )
            values[entries] = value[line, pattern.indices[entries]]
        return filled(pattern, values)

    def _crosses(self, k: int, step: int) -> Iterable[tuple[slice, Array]]:
        """`step` rows of B of a site block after the others, and Cov(z) B' of them, (n, rows); kept
        for the next latent block where they are all of them."""
        if k in self._whole:
            return self._whole[k]
        p, where, n = self.linear.predictors[k], self.linear.slices, self.linear.size
        chunks = row_chunks(p.columns, where, p.rows, n, step)
        crosses = (
            (rows, self.solve(transpose_dense(pieces, rows.stop - rows.start, n)))
            for rows, pieces in chunks
        )
        if len(chunks) > 1:
            return crosses
        return self._whole.setdefault(k, list(crosses))

    @cached_property
    def _whole(self) -> dict[int, list[tuple[slice, Array]]]:
        return {}


def _maker(
    q: RowConditioned, k: int, first: int, name: str, product: Outer
) -> Callable[[], object]:
    return lambda: q._operator_adjoint(k, first, name, product)


def _weighted(weight: SiteWeight, p: Predictor, rows: slice, cross: Array) -> Array:
    """W times rows of a matrix, for whole sites."""
    w = weight.parts[0][1]
    if not p.event:
        return np.asarray(w[rows, None] * cross)
    sites = slice(rows.start // p.event, rows.stop // p.event)
    part = Predictor(p.columns, p.offset[rows], p.event)
    return SiteWeight((part,), (w[sites],)).times(np.ascontiguousarray(cross))
