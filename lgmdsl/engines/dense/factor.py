"""Factorisations over predictor rows, S = BKB' and W: everything through M = (W^-1 + S)^-1.

M = W - W cov(s) W,   cov(s) = S - SMS,   (I + WS)^-1 = I - MS,   log|I + SW|.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.stacked import cut, row_slices
from lgmdsl.engines.shared.weights import Basis, SiteWeight, site_blocks
from lgmdsl.numerics.cholesky import Cholesky, cholesky

_TILE = 128


class RowFactor(ABC):
    """One factorisation for one W; `variances` are those of the site blocks, once computed."""

    half_log_det: float
    variances: list[Array] | None = None

    @abstractmethod
    def inverse(self, x: Array) -> Array:
        """M x for (P,) or (P, k)."""

    @abstractmethod
    def residual(self, b: Array) -> Array:
        """(I + WS)^-1 b for (P,) or (P, k), without cancellation where W is large."""

    @abstractmethod
    def quadratic(self, x: Array) -> Array:
        """diag(x'Mx) for (P, k)."""

    @abstractmethod
    def dense(self) -> Array:
        """M, (P, P)."""

    @abstractmethod
    def variance(self, predictors: Sequence[Predictor]) -> list[Array]:
        """Blocks of cov(s) by site block (pseudo-rows after the last are left out)."""


class PositiveFactor(RowFactor):
    """W >= 0: with W = U diag(r^2) U', B_w = I + r U'SU r = LL', M = U r B_w^-1 r U'."""

    def __init__(self, s: Array, root: Array, basis: Basis | None, factor: Cholesky) -> None:
        self.s, self.root, self.basis, self.factor = s, root, basis, factor
        self.half_log_det = factor.half_log_det

    @staticmethod
    def build(s: Array, values: Array, basis: Basis | None) -> PositiveFactor | None:
        """None where B_w has no factor (weights or S not finite)."""
        root = np.sqrt(values)
        turned = s if basis is None else basis.forward(basis.forward(s).T)
        factor = cholesky(_scaled(turned, root))
        return None if factor is None else PositiveFactor(turned, root, basis, factor)

    def _to(self, x: Array) -> Array:
        return x if self.basis is None else self.basis.forward(x)

    def _from(self, x: Array) -> Array:
        return x if self.basis is None else self.basis.back(x)

    def _rooted(self, x: Array) -> Array:
        return self.root * x if x.ndim == 1 else self.root[:, None] * x

    def inverse(self, x: Array) -> Array:
        return self._from(self._rooted(self.factor.solve(self._rooted(self._to(x)))))

    def residual(self, b: Array) -> Array:
        # Modes that the site dominates (r^2 S > 1) use r B_w^-1 r^-1, the others 1 - M S.
        turned = self._to(b)
        strong = self.root * self.root * self.s.diagonal() > 1.0
        scale = np.divide(1.0, self.root, out=np.zeros_like(self.root), where=strong)
        if b.ndim == 2:
            strong, scale = strong[:, None], scale[:, None]
        weak = np.where(strong, 0.0, turned)
        half = scale * turned - self._rooted(self.s @ weak)
        return self._from(self._rooted(self.factor.solve(half)) + weak)

    def quadratic(self, x: Array) -> Array:
        half = self.factor.forward(self._rooted(self._to(x)))
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def dense(self) -> Array:
        inverse = self.factor.inverse()
        inverse *= self.root[:, None]
        inverse *= self.root
        if self.basis is not None:
            inverse = self.basis.back(np.ascontiguousarray(self.basis.back(inverse).T))
        return inverse

    def variance(self, predictors: Sequence[Predictor]) -> list[Array]:
        if self.basis is None and not any(p.event for p in predictors):
            return cut(self._diagonal(), predictors)
        # cov(s) = S - A'A with A = L^-1 r U'S; S is turned back from U'SU.
        half = self.factor.forward(self.root[:, None] * self.s)
        s = self.s
        if self.basis is not None:
            half = self.basis.back(np.ascontiguousarray(half.T)).T
            s = self.basis.back(np.ascontiguousarray(self.basis.back(s).T))
        lost = site_blocks(half, half, predictors)
        return [a - b for a, b in zip(diagonal_blocks(s, predictors), lost, strict=True)]

    def _diagonal(self) -> Array:
        """(1 - (B_w^-1)_ii) / w_i costs N^3/3, loses eps / (w v); where w S is small, S - A'A."""
        w, prior = self.root * self.root, self.s.diagonal()
        weak = np.flatnonzero(w * prior < 1e-2)
        out = np.empty(len(w))
        if len(weak) < len(w):
            inverse = self.factor.inverse_diagonal()
            np.divide(1.0 - inverse, w, out=out, where=w > 0.0)
        for start in range(0, len(weak), 512):
            some = weak[start : start + 512]
            half = self.factor.forward(self.root[:, None] * self.s[:, some])
            out[some] = prior[some] - np.einsum("ij,ij->j", half, half)
        return out


class SignedFactor(RowFactor):
    """Signed W: with S = RR', T = I + R'WR = LL', cov(s) = R T^-1 R'; None unless T > 0."""

    def __init__(self, r: Array, w: SiteWeight, factor: Cholesky) -> None:
        self.r, self.w, self.factor = r, w, factor
        self.half_log_det = factor.half_log_det

    @staticmethod
    def build(r: Array, w: SiteWeight) -> SignedFactor | None:
        t = r.T @ w.times(r)
        t[np.diag_indices_from(t)] += 1.0
        factor = cholesky(np.ascontiguousarray(t))
        return None if factor is None else SignedFactor(r, w, factor)

    def _covariance(self, x: Array) -> Array:
        return np.asarray(self.r @ self.factor.solve(self.r.T @ x))

    def inverse(self, x: Array) -> Array:
        weighted = self.w.times(x)
        return weighted - self.w.times(self._covariance(weighted))

    def residual(self, b: Array) -> Array:
        return b - self.w.times(self._covariance(b))

    def quadratic(self, x: Array) -> Array:
        weighted = self.w.times(x)
        half = self.factor.forward(self.r.T @ weighted)
        return np.asarray(np.einsum("ij,ij->j", x, weighted) - np.einsum("ij,ij->j", half, half))

    def dense(self) -> Array:
        m = self.inverse(np.eye(self.w.rows))
        return np.asarray(0.5 * (m + m.T))

    def variance(self, predictors: Sequence[Predictor]) -> list[Array]:
        half = self.factor.forward(self.r.T)
        return site_blocks(half, half, predictors)


def _scaled(s: Array, root: Array) -> Array:
    """Upper triangle of I + r S r, C-ordered, tile by tile so that each is touched once."""
    n = len(root)
    out = np.empty((n, n))
    for start in range(0, n, _TILE):
        rows = slice(start, min(start + _TILE, n))
        piece = out[rows, start:]
        np.multiply(s[rows, start:], root[start:], out=piece)
        piece *= root[rows, None]
    out.reshape(-1)[:: n + 1] += 1.0
    return out


def diagonal_blocks(s: Array, predictors: Sequence[Predictor]) -> list[Array]:
    """(N,) or (N, K, K) blocks on the diagonal of a (P, P) array."""
    out = []
    for p, rows in zip(predictors, row_slices(predictors), strict=True):
        if p.event:
            index = rows.start + np.arange(p.rows).reshape(-1, p.event)
            out.append(s[index[:, :, None], index[:, None, :]])
        else:
            out.append(s.diagonal()[rows].copy())
    return out
