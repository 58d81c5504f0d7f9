"""Products with the covariance of z and with the operators, as the chains take them many times.

Of few latents by matrices that are formed once: an engine's own products take some tenths of a
millisecond each, whatever their size.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.random import Generator

from lgmdsl.arrays import Array
from lgmdsl.assess.importance.draws import moves
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian

# Latents, and entries of the operators, of which matrices are formed.
FEW, ENTRIES = 300, 1_000_000
SINGULAR = 1e-15  # an eigenvalue of a correlation matrix, for each latent, that counts as zero


class Reference(Protocol):
    """The Gaussian that the chains know."""

    @property
    def latent_mean(self) -> Array: ...
    def solve(self, rhs: Array) -> Array: ...
    def sample(self, rng: Generator, size: int) -> Array: ...


class Formed:
    """A Gaussian by its mean and a root of its covariance, (n, rank)."""

    def __init__(self, q: Conditioned) -> None:
        self.latent_mean = q.latent_mean
        covariance = q.solve(np.eye(len(self.latent_mean)))
        sd = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        unit = np.where(sd > 0.0, sd, 1.0)
        correlation = 0.5 * (covariance + covariance.T) / np.outer(unit, unit)
        values, vectors = np.linalg.eigh(correlation)
        # What rounding leaves of a constrained direction would be drawn as its root, 1e-8.
        kept = values > SINGULAR * len(values)
        self.root = unit[:, None] * vectors[:, kept] * np.sqrt(values[kept])

    def solve(self, rhs: Array) -> Array:
        """Cov rhs."""
        return np.asarray(self.root @ (self.root.T @ rhs))

    def sample(self, rng: Generator, size: int) -> Array:
        """(size, n) draws."""
        noise = rng.standard_normal((size, self.root.shape[1]))
        return np.asarray(self.latent_mean + noise @ self.root.T)


def reference(q: Conditioned) -> Reference:
    """q, or its matrices where it is small."""
    return Formed(q) if len(q.latent_mean) <= FEW else q


class Products:
    """B x and B'r for x (k, n) and r (k, P) of each site block."""

    def __init__(self, linear: LinearGaussian) -> None:
        self.linear = linear
        small = linear.size <= FEW and linear.size * linear.rows <= ENTRIES
        self.dense = [b.T.copy() for b in moves(linear, np.eye(linear.size))] if small else []

    def moves(self, x: Array) -> list[Array]:
        """(k, P) for each site block."""
        return [x @ b.T for b in self.dense] if self.dense else moves(self.linear, x)

    def add_transposed(self, number: int, r: Array, out: Array) -> None:
        """Add B'r of one block to out, (n, k)."""
        if self.dense:
            out += self.dense[number].T @ r.T
        else:
            self.linear.predictors[number].add_transposed(r.T, self.linear.slices, out)
