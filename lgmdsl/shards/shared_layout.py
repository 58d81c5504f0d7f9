"""How what rows say about the shared latents is a block of vector sites.

Where p, the number of the shared latents, is small, or most pairs of them are touched by one group,
it is one site of all p, whose curvature is p x p.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array
from lgmdsl.contract.linear import Predictor
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Sparse


@dataclass(frozen=True)
class SharedLayout:
    """Of `sizes`, name and length of each shared latent, p entries together: N sites with K
    predictors each."""

    sizes: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        """p."""
        return sum(n for _, n in self.sizes)

    def predictor(self) -> Predictor:
        """The predictors of the sites."""
        size, start = self.size, 0
        columns: dict[str, Operator] = {}
        for name, n in self.sizes:
            rows = start + np.arange(n)
            csr = sp.csr_array((np.ones(n), (rows, np.arange(n))), shape=(size, n))
            columns[name] = Sparse(csr)
            start += n
        return Predictor(columns, np.zeros(size), size)

    def lifted(self, beta: Array) -> Array:
        """(N, K): the predictors at beta, (p,)."""
        return beta[None]

    def shared(self, s: Array) -> Array:
        """(p,): beta of the predictors, (N, K)."""
        return np.asarray(s[0])

    def placed(self, slope: Array) -> Array:
        """(N, K): a slope in beta, (p,), as slopes in the predictors."""
        return slope[None]

    def weights(self, information: Array) -> Array:
        """(N, K, K): an information about beta as weights."""
        return information[None]

    def entries(self, variance: Array) -> Array:
        """Entries of a covariance of beta, as `information` has its own: of (N, K, K)."""
        return np.asarray(variance[0])
