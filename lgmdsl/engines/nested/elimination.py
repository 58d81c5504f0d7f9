"""The groups' factors and the border's: what solves with A = Q + B'WB."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.engines.nested.border import Border
from lgmdsl.engines.nested.nest import Nest
from lgmdsl.engines.shared.constraints import left
from lgmdsl.engines.shared.restriction import Restriction

if TYPE_CHECKING:
    from numpy.random import Generator


class Covariances(NamedTuple):
    """V within groups, (r, r) each, between a group and the columns it touches, (r, k) each, and
    on the border, on its pattern."""

    own: Array
    shared: Array
    border: Array


@dataclass(frozen=True, eq=False)
class Elimination:
    """`lower`, `cross`: L and T of the groups (`kernels`); `data`: what they add to S on its
    pattern; `total`, (p,): diag X'WX; `half`: sum log|L|. `restriction` is that of S."""

    nest: Nest
    border: Border
    lower: Array
    cross: Array
    data: Array
    total: Array
    half: float
    restriction: Restriction | None = None

    @staticmethod
    def begin(nest: Nest, border: Border, prior: Array, weight: Array) -> Elimination | None:
        """The groups eliminated; None where one is not positive definite."""
        from lgmdsl.engines.nested import plain_kernels
        from lgmdsl.engines.nested.kernels import eliminate, gather

        lower, cross = prior.copy(), np.zeros(nest.cross_start[-1])
        square, values = border.sums()
        groups = nest.square_start, nest.cross_start, lower, cross
        sums = square, values, border.slots, border.slot_start
        if nest.plain and border.dense:
            plain_kernels.gather(nest.lines, weight, lower, cross, square)
        else:
            gather(nest.lines, weight, *groups, *sums)
        total = border.diagonal(square, values)
        half = eliminate(nest.lines, *groups, *sums)
        if not np.isfinite(half):
            return None
        data = border.on_pattern(square, values)
        return Elimination(nest, border, lower, cross, data, total, half)

    def finished(self, restriction: Restriction) -> Elimination:
        """The elimination with S factored."""
        return replace(self, restriction=restriction)

    @property
    def known(self) -> Restriction:
        """S^-1, on the constraints."""
        assert self.restriction is not None, "S is factored"
        return self.restriction

    @property
    def half_log_det(self) -> float:
        """log|A| / 2 on the constraints, and log|CC'| / 2, which is the prior's as well."""
        return self.half + self.known.half_log_det

    @property
    def _groups(self) -> tuple[IntArray, IntArray, Array, Array]:
        return self.nest.square_start, self.nest.cross_start, self.lower, self.cross

    def mean(self, inner: Array, border: Array, target: Array) -> tuple[Array, Array]:
        """A^-1 h on the constraints C beta = target, h by inner latents and border."""
        from lgmdsl.engines.nested.kernels import backward, forward

        u, beta = inner[:, None].copy(), border[:, None].copy()
        forward(self.nest.lines, *self._groups, u, beta)
        beta = self.known.place(self.known.factor.solve(beta[:, 0]), target)[:, None]
        backward(self.nest.lines, *self._groups, u, beta)
        return u[:, 0], beta[:, 0]

    def solve(self, inner: Array, border: Array) -> tuple[Array, Array]:
        """V rhs for (n_u, m) and (p, m)."""
        from lgmdsl.engines.nested.kernels import backward, forward

        u, beta = np.array(inner, order="C"), np.array(border, order="C")
        forward(self.nest.lines, *self._groups, u, beta)
        beta = np.ascontiguousarray(self.known.solve(beta))
        backward(self.nest.lines, *self._groups, u, beta)
        return u, beta

    def draws(self, rng: Generator, size: int) -> tuple[Array, Array]:
        """(n_u, size) and (p, size) draws with mean zero and covariance V."""
        from lgmdsl.engines.nested.kernels import backward

        beta = np.ascontiguousarray(self.known.draws(rng, size))
        u = rng.standard_normal((len(self.nest.inner), size))
        backward(self.nest.lines, *self._groups, u, beta)
        return u, beta

    @cached_property
    def covariances(self) -> Covariances:
        """V where rows and priors join latents."""
        from lgmdsl.engines.nested.kernels import covariances

        border = self.known.on_pattern(self.border.pattern)
        own, shared = np.zeros(len(self.lower)), np.zeros(len(self.cross))
        covariances(
            self.nest.lines,
            *self._groups,
            *self.border.both(border),
            self.border.slots,
            self.border.slot_start,
            own,
            shared,
        )
        return Covariances(own, shared, border)

    def row_variances(self, size: int) -> Array:
        """B V B' within sites, in a row as weights lie, `size` of them."""
        from lgmdsl.engines.nested import plain_kernels
        from lgmdsl.engines.nested.kernels import row_variances

        known, out = self.covariances, np.zeros(size)
        if self.nest.plain and self.border.dense:
            sigma = self.border.both(known.border)[0]
            plain_kernels.row_variances(self.nest.lines, self.lower, self.cross, sigma, out)
            return out
        row_variances(
            self.nest.lines,
            *self._groups,
            known.own,
            known.shared,
            *self.border.both(known.border),
            self.border.slots,
            self.border.slot_start,
            out,
        )
        return out

    def crossed(
        self, weight: Array, rows: slice, starts: IntArray, codes: IntArray, places: IntArray
    ) -> Array:
        """Entries of W B V in some rows, at codes and places (`kernels.crossed`)."""
        from lgmdsl.engines.nested.kernels import crossed

        known, out = self.covariances, np.zeros(len(codes))
        crossed(
            self.nest.lines,
            weight,
            self.nest.square_start,
            self.nest.cross_start,
            known.own,
            known.shared,
            *self.border.both(known.border),
            self.border.slots,
            self.border.slot_start,
            rows.start,
            rows.stop,
            starts,
            codes,
            places,
            out,
        )
        return out

    def by_pairs(self, x: SparseMatrix) -> Array:
        """diag(X V X') for rows X, (m, n) csr without duplicates, from entries of V that rows or
        priors join; NaN where another is wanted."""
        from lgmdsl.engines.nested.kernels import pair_sums

        known, out = self.covariances, np.zeros(x.shape[0])
        pair_sums(
            self.nest.lines,
            self.nest.square_start,
            self.nest.cross_start,
            known.own,
            known.shared,
            *self.border.both(known.border),
            self.border.slots,
            self.border.slot_start,
            x.indptr.astype(np.int64),
            self.nest.position[x.indices],
            self.nest.group,
            x.data,
            out,
        )
        return out

    def functional(self, x: SparseMatrix) -> Array:
        """diag(X V X') for rows X, (m, n) csr without duplicates, by solves."""
        from lgmdsl.engines.nested.kernels import split_rows

        position = self.nest.position[x.indices]
        line = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
        inner = np.flatnonzero(position >= 0)
        inner = inner[np.lexsort((position[inner], line[inner]))]
        border = np.zeros((x.shape[0], len(self.nest.border)))
        outer = position < 0
        border[line[outer], -1 - position[outer]] = x.data[outer]
        starts = np.searchsorted(line[inner], np.arange(x.shape[0] + 1))
        free = np.zeros(x.shape[0])
        split_rows(
            self.nest.lines,
            *self._groups,
            starts,
            position[inner],
            x.data[inner],
            self.nest.group,
            border,
            free,
        )
        half = self.known.factor.forward(np.ascontiguousarray(border.T))
        free += np.einsum("ij,ij->j", half, half)
        return left(free, self.known.lost(border))
