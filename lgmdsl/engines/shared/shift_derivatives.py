"""How q moves when its shifts move along a tilt t, b + e t, and what that does to the adjoints.

    u = dE[z]/de = Cov(z) B't,   dalpha/de = t - W B u

Adjoints are quadratic in b, so their derivative in e is exact: each product x y' of two things that
move adds x' y + x y'. (Laplace's evidence needs it: Rasmussen and
Williams 2006, section 5.5.1.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import StackedPredictors, flatten


@dataclass(frozen=True, eq=False)
class Turn:
    """dE[z]/de, (n,), and dalpha/de, (P,); zeros without a tilt. `pulled`: B't, (n,)."""

    latent: Array
    alpha: Array
    pulled: Array
    still: bool = False

    @staticmethod
    def of(
        q: Conditioned,
        linear: LinearGaussian,
        weighted: Callable[[Array], Array],
        tilt: Rows | None,
    ) -> Turn:
        """`weighted(x)` is W x for flat rows, (P,)."""
        if tilt is None:
            n = np.zeros(linear.size)
            return Turn(n, np.zeros(linear.rows), n, still=True)
        stacked = StackedPredictors(linear)
        pull = stacked.pulled(tilt)
        u = q.solve(pull)
        return Turn(u, flatten(tilt) - weighted(stacked.lifted(u)), pull)

    def squared(self, away: Array, rows: IntArray, columns: IntArray, start: int = 0) -> Array:
        """Entries (row, column) of xx', and of ux' + xu' with a tilt, x = `away` over all latents,
        u its turn; `start` is the first latent that rows and columns count from."""
        i, j = rows + start, columns + start
        out = away[i] * away[j]
        if not self.still:
            out = out + self.latent[i] * away[j] + away[i] * self.latent[j]
        return np.asarray(out)

    def square(self, away: Array, where: slice) -> Array:
        """xx' of one block, (n_b, n_b) dense; with a tilt, ux' + xu' is added."""
        x, u = away[where], self.latent[where]
        out = np.outer(x, x)
        if not self.still:
            cross = np.outer(u, x)
            out += cross + cross.T
        return out

    def product(self, alpha: Array, mean: Array) -> Outer:
        """alpha mean', and dalpha mean' + alpha dmean' with a tilt: dF/dB but for -W B Cov(z)."""
        if self.still:
            return Outer(alpha[:, None], mean[:, None])
        slopes = np.stack([alpha + self.alpha, alpha], axis=1)
        return Outer(slopes, np.stack([mean, self.latent], axis=1))


@dataclass(frozen=True, eq=False)
class Outer:
    """A (P, n) matrix of low rank, left right'."""

    left: Array
    right: Array

    def dense(self, rows: slice, columns: slice) -> Array:
        """A part of the matrix, dense."""
        return np.asarray(self.left[rows] @ self.right[columns].T)

    def entries(self, rows: IntArray, columns: IntArray) -> Array:
        """Some entries of the matrix."""
        return np.asarray(np.einsum("ij,ij->i", self.left[rows], self.right[columns]))
