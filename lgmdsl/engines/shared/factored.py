"""One posterior class for every engine that factors a covariance V once for a choice of weights.

An engine supplies a `Factorisation`: solves, variances, draws and derivatives with V. The posterior
N(mu + away, V) of any shift b follows from it without a second factorisation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix, SparseMatrix
from lgmdsl.contract.engine import Adjoints, Conditioned, Draws, Engine, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.engines.shared.conditioned import RowConditioned
from lgmdsl.engines.shared.design import sparse_rows
from lgmdsl.engines.shared.shift_derivatives import Outer, Turn
from lgmdsl.engines.shared.weights import SiteWeight
from lgmdsl.numerics.sparse.base import entries_of, filled, times

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True, eq=False)
class Centre:
    """Mean of a posterior: `away` is E[z] - mu, (n,), None where the factorisation makes it when
    asked; `rows` is E[s], (P,). `centred`, `alpha` = b - W E[s] and `latent`, E[z], where the
    engine has them without cancellation: mu + away keeps the rounding of `away`."""

    away: Array | None
    rows: Array
    log_normaliser: float
    centred: float | None = None
    alpha: Array | None = None
    latent: Array | None = None


class PriorAdjoints(NamedTuple):
    """Derivatives in the prior by latent block, as of `Adjoints`."""

    mean: Mapping[str, Array]
    precision: Mapping[str, Matrix] = {}
    factors: Mapping[str, Sequence[Array | None]] = {}


class Factorisation(ABC):
    """Cov(z) = V of an engine's model at `weight`; `mu`, (n,), is the mean that priors name."""

    engine: Engine
    mu: Array
    weight: Rows
    site_weight: SiteWeight

    @property
    @abstractmethod
    def rank(self) -> int:
        """The rank of V."""

    @property
    def lost(self) -> float:
        """Nats that log_normaliser may lack besides those that its exponent loses."""
        return 0.0

    @property
    def linear(self) -> LinearGaussian:
        """The engine's model."""
        return self.engine.linear

    @abstractmethod
    def centre(self, shift: Rows) -> Centre:
        """The mean for a shift."""

    def away(self, centre: Centre) -> Array:
        """(n,) E[z] - mu."""
        assert centre.away is not None, "it is known, or made here by a subclass"
        return centre.away

    @abstractmethod
    def solve(self, rhs: Array) -> Array:
        """V rhs for (n, k)."""

    @abstractmethod
    def variance(self) -> Sequence[Array]:
        """Var(s) by site block, with its rounding."""

    @abstractmethod
    def latent_variance(self) -> Array:
        """(n,) diagonal of V, with its rounding."""

    @abstractmethod
    def functional(self, x: SparseMatrix) -> Array:
        """diag(XVX') for rows X, (r, n) csr without duplicates, with its rounding."""

    @abstractmethod
    def draws(self, rng: Generator, size: int) -> tuple[Array, Callable[[], Array]]:
        """(size, n) draws of z - E[z], and what computes their squared lengths x'V^+ x."""

    @abstractmethod
    def crossed(self, k: int, name: str) -> Array:
        """Entries of W B V in the rows of site block k at the columns of one latent block: where
        its operator stores entries, (nnz,), or all of them, (P_k, n_b), where it is dense."""

    @abstractmethod
    def adjoints(self, q: FactoredConditioned, turn: Turn) -> PriorAdjoints:
        """Derivatives of q's log_normaliser in the prior."""

    def squared_length(self, slope: Array) -> float:
        """g'Vg."""
        return float(slope @ self.solve(slope[:, None])[:, 0])


class FactoredConditioned(RowConditioned):
    """q(z) = N(mu + away, V) of a factorisation and a shift."""

    def __init__(self, factored: Factorisation, shift: Rows) -> None:
        self.factored, self.shift = factored, shift
        self.linear, self.weight = factored.linear, factored.weight
        self.site_weight, self.engine = factored.site_weight, factored.engine
        self.located = factored.centre(shift)
        self.log_normaliser = self.located.log_normaliser

    def with_shift(self, shift: Rows) -> Conditioned:
        return FactoredConditioned(self.factored, shift)

    @property
    def centred(self) -> float:
        known = self.located.centred
        return super().centred if known is None else known

    @property
    def lost(self) -> float:
        return super().lost + self.factored.lost

    @property
    def flat_mean(self) -> Array:
        return self.located.rows

    @cached_property
    def alpha(self) -> Array:
        """(P,) b - W m."""
        known = self.located.alpha
        return super().alpha if known is None else known

    @cached_property
    def away(self) -> Array:
        """(n,) E[z] - mu."""
        return self.factored.away(self.located)

    @cached_property
    def latent_mean(self) -> Array:
        known = self.located.latent
        return self.factored.mu + self.away if known is None else known

    def _variance(self) -> Sequence[Array]:
        return self.factored.variance()

    def _latent_variance(self) -> Array:
        return self.factored.latent_variance()

    def solve(self, rhs: Array) -> Array:
        out = self.factored.solve(rhs[:, None] if rhs.ndim == 1 else rhs)
        return np.asarray(out[:, 0] if rhs.ndim == 1 else out)

    def squared_length(self, slope: Array) -> float:
        return self.factored.squared_length(slope)

    def _project(self, predictor: Predictor, full: bool) -> tuple[Array, Array]:
        x = sparse_rows(predictor, self.linear)
        mean = times(x, self.latent_mean) + predictor.offset
        if not full:
            return mean, self.factored.functional(x)
        square = times(x, self.factored.solve(x.toarray().T))
        return mean, np.asarray(0.5 * (square + square.T))

    def sample(self, rng: Generator, size: int) -> Array:
        return self.latent_mean + self.factored.draws(rng, size)[0]

    def draw(self, rng: Generator, size: int) -> Draws:
        away, lengths = self.factored.draws(rng, size)
        return Draws(self.latent_mean + away, np.maximum(lengths(), 0.0), self.factored.rank)

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        turn = self.turn(tilt)
        prior = self.factored.adjoints(self, turn)
        return Adjoints(
            self.offset_adjoints(turn),
            self.operator_adjoints(turn),
            prior.mean,
            precision=prior.precision,
            factors=prior.factors,
        )

    def _operator_adjoint(self, k: int, first: int, name: str, product: Outer) -> object:
        p, where = self.linear.predictors[k], self.linear.slices[name]
        operator = p.columns[name]
        crossed = self.factored.crossed(k, name)
        if not operator.is_sparse:
            return product.dense(slice(first, first + p.rows), where) - crossed
        pattern = sp.csr_array(operator.sparse())
        line, columns = entries_of(pattern)
        return filled(pattern, product.entries(line + first, columns + where.start) - crossed)
