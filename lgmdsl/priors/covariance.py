"""Priors of covariance matrices (..., k, k).

lkj_cov: the correlations are LKJ(eta) (Lewandowski, Kurowicka and Joe 2009, eq. 16) and each sd has
pc_sd(u, alpha), `u` one for all or one for each member; a density of the sds and correlations.
inv_wishart: the inverse is Wishart; a density of the lower triangle.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.priors.prior import REAL, VALUE, Bounds, Prior, Scatter, Unsuitable, require, summed_to
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_LOG_2 = float(np.log(2.0))
ZERO = 1e-11  # of two entries on the diagonal: what rounding makes of a 0 of a precision


class OnCovariances(Prior):
    """A density of each symmetric positive definite matrix."""

    @property
    def bounds(self) -> Bounds:
        return REAL

    @abstractmethod
    def each(self, value: Array) -> Array:
        """(...) the log density of each matrix of (..., k, k), all positive definite."""

    @abstractmethod
    def slopes(self, value: Array) -> dict[str, Array]:
        """The slopes: (..., k, k) in the value, and of shapes that sum to the arguments'."""

    def log_density(self, value: Array) -> float:
        value = np.asarray(value, dtype=np.float64)
        return float(self.each(value).sum()) if definite(value) else -np.inf

    def gradient(self, value: Array) -> dict[str, Array]:
        slopes = self.slopes(np.asarray(value, dtype=np.float64))
        inside = slopes.pop(VALUE)
        out = {k: summed_to(s, s, getattr(self, k).shape) for k, s in slopes.items()}
        return {VALUE: 0.5 * (inside + _transposed(inside)), **out}


def _transposed(matrices: Array) -> Array:
    return np.swapaxes(matrices, -1, -2)


def _diagonals(matrices: Array) -> Array:
    return np.asarray(np.diagonal(matrices, axis1=-2, axis2=-1))


def definite(matrices: Array) -> bool:
    """Whether all are positive definite to working precision."""
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return bool(np.isfinite(matrices).all())


def sparse_inverse(matrices: Array) -> Array:
    """(..., k, k) the inverses, symmetric, with 0 for entries that are 0 to rounding."""
    raw: Array = np.asarray(np.linalg.inv(matrices), dtype=np.float64)
    inverse: Array = np.asarray(0.5 * (raw + _transposed(raw)), dtype=np.float64)
    scale = np.sqrt(np.abs(_diagonals(inverse)))
    small = ZERO * scale[..., :, None] * scale[..., None, :]
    return np.where(np.abs(inverse) <= small, 0.0, inverse)


def log_dets(matrices: Array) -> Array:
    """(...) the log determinants of positive definite matrices."""
    roots: Array = np.asarray(np.linalg.cholesky(matrices), dtype=np.float64)
    return np.asarray(2.0 * np.log(_diagonals(roots)).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class LkjCov(OnCovariances):
    """|R|^(eta - 1) of the correlations, sds exponential.

    With respect to these, not to the entries of S: there the density is 1 / (2^k prod sd^k) times
    that, which is infinite at S = 0, so that its mode would be S = 0 whatever the data say.
    """

    eta: Array
    u: Array
    alpha: Array
    signature = declared("prior", "lkj_cov")
    separated: ClassVar[bool] = True

    @property
    def rate(self) -> Array:
        return np.asarray(-np.log(self.alpha) / self.u)

    def each(self, value: Array) -> Array:
        k, variances = value.shape[-1], _diagonals(value)
        log_variance = np.log(variances).sum(axis=-1)
        sds = (np.log(self.rate) - self.rate * np.sqrt(variances)).sum(axis=-1)
        correlations = (self.eta - 1.0) * (log_dets(value) - log_variance)
        return np.asarray(_lkj_constant(k, self.eta)[0] + correlations + sds)

    def slopes(self, value: Array) -> dict[str, Array]:
        k, variances, rate = value.shape[-1], _diagonals(value), self.rate
        sd = np.sqrt(variances)
        on_diagonal = (self.eta - 1.0) / variances + 0.5 * rate / sd
        up = 1.0 / rate - sd  # of each member
        log_det_r = log_dets(value) - np.log(variances).sum(axis=-1)
        return {
            VALUE: (self.eta - 1.0) * np.linalg.inv(value) - on_diagonal[..., None] * np.eye(k),
            "eta": _lkj_constant(k, self.eta)[1] + log_det_r,
            "u": -up * rate / self.u,
            "alpha": -(up / (self.alpha * self.u)).sum(axis=-1),
        }

    def sample(self, rng: Generator, shape: tuple[int, ...] = ()) -> Array:
        k = shape[-1]
        out = np.empty((int(np.prod(shape[:-2], dtype=np.int64)), k, k))
        rates = np.broadcast_to(self.rate, shape[:-1]).reshape(-1, k)
        for matrix, rate in zip(out, rates, strict=True):
            sd = rng.standard_exponential(k) / rate
            factor = sd[:, None] * _onion(rng, k, float(self.eta))
            matrix[...] = factor @ factor.T
        return out.reshape(shape)

    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        """No correlation, sds at their median."""
        variances = np.broadcast_to((_LOG_2 / self.rate) ** 2, shape[:-1])
        return np.array(variances[..., None] * np.eye(shape[-1]))


def _lkj_constant(k: int, eta: Array) -> tuple[Array, Array]:
    """-log of the integral of |R|^(eta - 1) over correlation matrices, and its slope in eta."""
    i = np.arange(1, k)
    a = eta + 0.5 * (k - i - 1)
    log = (2.0 * a - 1.0) * _LOG_2 + special.betaln(a, a)
    slope = 2.0 * _LOG_2 + 2.0 * (special.digamma(a) - special.digamma(2.0 * a))
    return -np.asarray((k - i) @ log), -np.asarray((k - i) @ slope)


def _onion(rng: Generator, k: int, eta: float) -> Array:
    """The Cholesky factor of an LKJ(eta) correlation matrix (the paper's section 3.2)."""
    factor = np.zeros((k, k))
    factor[0, 0] = 1.0
    for m in range(1, k):
        share = rng.beta(0.5 * m, eta + 0.5 * (k - 1 - m))
        direction = rng.standard_normal(m)
        factor[m, :m] = np.sqrt(share) * direction / np.linalg.norm(direction)
        factor[m, m] = np.sqrt(1.0 - share)
    return factor


@dataclass(frozen=True, eq=False)
class InvWishart(OnCovariances):
    """|Psi|^(df/2) |S|^(-(df + k + 1)/2) exp(-tr(Psi S^-1)/2) / (2^(df k/2) Gamma_k(df/2)).

    `scale` is Psi, (k, k) or (..., k, k).
    """

    df: Array
    scale: Array
    signature = declared("prior", "inv_wishart")

    @property
    def scatter(self) -> Scatter:
        return Scatter(self.df, self.scale)

    def check(self) -> None:
        if self.scale.ndim < 2 or self.scale.shape[-1] != self.scale.shape[-2]:
            raise Unsuitable(
                "scale",
                "`scale` of `inv_wishart` must be a matrix",
                "is not one",
                "declare it as data over the hyper's index, e.g. data Psi[i, i] : real, "
                "and write scale = Psi",
            )
        k = self.scale.shape[-1]
        wanted = f"above {k - 1}, for a {k} x {k} covariance"
        help = f"give df a value above {k - 1}, e.g. df = {k + 1}"
        require(self.df > k - 1.0, self.name, "df", self.df, wanted, help)
        if not (_symmetric(self.scale).all() and definite(self.scale)):
            raise Unsuitable(
                "scale",
                "`scale` of `inv_wishart` must be a symmetric positive definite matrix",
                "is not one",
                "give a covariance matrix, e.g. one with a positive diagonal alone",
            )

    def each(self, value: Array) -> Array:
        k, half = value.shape[-1], 0.5 * self.df
        # tr(Psi S^-1) as a sum of squares: with a nearly singular S a solution with S loses even
        # its sign, and the density its bound.
        ratio = np.linalg.solve(np.linalg.cholesky(value), np.linalg.cholesky(self.scale))
        trace = (ratio * ratio).sum(axis=(-1, -2))
        powers = half * log_dets(self.scale) - (half + 0.5 * (k + 1)) * log_dets(value)
        return np.asarray(powers - 0.5 * trace - half * k * _LOG_2 - _multigammaln(half, k))

    def slopes(self, value: Array) -> dict[str, Array]:
        k, half = value.shape[-1], 0.5 * self.df
        root = np.linalg.inv(np.linalg.cholesky(value))
        inverse = _transposed(root) @ root
        digammas = special.digamma(half - 0.5 * np.arange(k)).sum()
        ratio = log_dets(self.scale) - log_dets(value)
        in_scale = half * np.linalg.inv(self.scale) - 0.5 * inverse
        middle = 0.5 * inverse @ self.scale @ inverse
        return {
            VALUE: middle - (half + 0.5 * (k + 1)) * inverse,
            "df": 0.5 * (ratio - k * _LOG_2 - digammas),
            "scale": 0.5 * (in_scale + _transposed(in_scale)),
        }

    def sample(self, rng: Generator, shape: tuple[int, ...] = ()) -> Array:
        # Bartlett: S = C A'^-1 A^-1 C', Psi = C C', A lower triangular of a unit Wishart
        k = shape[-1]
        out = np.empty((int(np.prod(shape[:-2], dtype=np.int64)), k, k))
        roots = np.broadcast_to(np.linalg.cholesky(self.scale), shape).reshape(out.shape)
        for matrix, root in zip(out, roots, strict=True):
            bartlett = np.tril(rng.standard_normal((k, k)), -1)
            bartlett += np.diag(np.sqrt(rng.chisquare(float(self.df) - np.arange(k))))
            factor = np.linalg.solve(bartlett, root.T)
            matrix[...] = factor.T @ factor
        return out.reshape(shape)

    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        """scale / df, the inverse of the mean of the inverse."""
        return np.array(np.broadcast_to(self.scale / self.df, shape))


def _symmetric(matrices: Array) -> BoolArray:
    return np.asarray(np.isclose(matrices, _transposed(matrices), rtol=1e-10, atol=0.0))


def _multigammaln(a: Array, k: int) -> Array:
    parts = special.gammaln(a - 0.5 * np.arange(k)).sum()
    return np.asarray(0.25 * k * (k - 1) * np.log(np.pi) + parts)


@dataclass(frozen=True, eq=False)
class GraphicalLasso(OnCovariances):
    """Wang (2012), eq. 1: double exponential off the diagonal of the precision matrix P = S^-1 with
    the rate, exponential with rate/2 on it; in all (rate/2)^(k(k+1)/2) exp(-rate/2 sum |P_ij|).

    A density of P, without the Jacobian of the inverse, so that the mode is the graphical lasso's
    estimate; and without the constant of positive definiteness, which is not known. It is for em
    and map: neither averages nor draws can be taken with it. Where an entry of P is 0 the slope is
    that of the rest: 0 of all slopes from -rate/2 to rate/2 that the corner has.
    """

    rate: Array
    signature = declared("prior", "graphical_lasso")
    sparse: ClassVar[bool] = True
    normalised: ClassVar[bool] = False
    improper: ClassVar[bool] = True

    @property
    def penalty(self) -> Array:
        return self.rate

    def each(self, value: Array) -> Array:
        k = value.shape[-1]
        norm = np.abs(sparse_inverse(value)).sum(axis=(-1, -2))
        return np.asarray(0.5 * k * (k + 1) * np.log(0.5 * self.rate) - 0.5 * self.rate * norm)

    def slopes(self, value: Array) -> dict[str, Array]:
        k, precision = value.shape[-1], sparse_inverse(value)
        norm = np.abs(precision).sum(axis=(-1, -2))
        return {
            VALUE: 0.5 * self.rate * precision @ np.sign(precision) @ precision,
            "rate": 0.5 * k * (k + 1) / self.rate - 0.5 * norm,
        }

    def sample(self, rng: Generator, shape: tuple[int, ...] = ()) -> Array:
        raise TypeError("graphical_lasso cannot be drawn from")

    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        """Independent, each precision at its mean 2/rate."""
        return np.array(np.broadcast_to(0.5 * self.rate * np.eye(shape[-1]), shape))
