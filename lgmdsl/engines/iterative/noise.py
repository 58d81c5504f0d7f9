"""The random numbers of an iterative engine: the same at every step and for every weight."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.engines.iterative.prior import IterativePrior


class Noise:
    """Drawn from `seed`; the first columns of anything do not depend on how many there are."""

    def __init__(self, seed: int, rows: int, prior: IterativePrior, probes: int) -> None:
        self.seed, self.rows, self.prior, self.probes = seed, rows, prior, probes
        self.size = len(prior.mu)
        self._made: tuple[Array, Array] | None = None

    def perturbations(self, samples: int) -> tuple[Array, Array]:
        """e1 (P, K) and noise of covariance Q, (n, K)."""
        if self._made is None or self._made[0].shape[1] != samples:
            drawn = [np.random.default_rng((self.seed, 1, k)) for k in range(samples)]
            e1 = np.column_stack([r.standard_normal(self.rows) for r in drawn])
            e2 = np.column_stack([r.standard_normal(self.prior.whites) for r in drawn])
            self._made = e1, self.prior.noise(e2)
        return self._made

    @cached_property
    def probe(self) -> Array:
        """(n, m) of independent signs, for log|A|."""
        return self._signs(2, self.probes)

    @cached_property
    def signs(self) -> Array:
        """(n, 32) of independent signs, for diag A."""
        return self._signs(3, 32)

    def loose(self, samples: int) -> Array:
        """(64, K) of normals, for directions that constraints leave loose."""
        return np.random.default_rng((self.seed, 6)).standard_normal((samples, 64)).T

    @cached_property
    def white(self) -> Array:
        """(n, 1) of independent normals, for the smallest eigenvalue."""
        return np.random.default_rng((self.seed, 5)).standard_normal((self.size, 1))

    @cached_property
    def start(self) -> Array:
        """(n,) of independent normals, for Lanczos."""
        return np.random.default_rng((self.seed, 4)).standard_normal(self.size)

    def _signs(self, stream: int, count: int) -> Array:
        rng = np.random.default_rng((self.seed, stream))
        drawn = rng.integers(0, 2, size=(count, self.size), dtype=np.int8)
        return np.ascontiguousarray((2.0 * drawn - 1.0).T)
