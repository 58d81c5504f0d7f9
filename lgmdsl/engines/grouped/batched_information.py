"""The information in the rows of a group: slopes in covariances without their inverse.

With H = B'WB and K = RR' of a group,

    C = (K + H^-1)^-1,   p = (I + HK)^-1 h

are what log_normaliser's slope in K, (pp' - C)/2, is made of. The differences H - HVH and h - HVh
that they are, V = Cov(z), lose all digits where rows outweigh the prior. With H = T'T (by its
eigenvectors: H may be singular) and h = T'g + r, r where H is 0,

    C = T'(I + TKT')^-1 T,   p = T'(I + TKT')^-1 g + r - HVr
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, BoolArray


@dataclass(frozen=True, eq=False)
class Information:
    """Information in the rows of N groups, arrays (N, L, L). `half`: (I + TKT')^-1/2 T; `vectors`,
    `scale`: the columns of T', by their lengths; `signed`: (N,) groups whose H has negative
    eigenvalues."""

    h: Array
    root: Array
    half: Array
    inverse: Array
    vectors: Array
    scale: Array
    signed: BoolArray

    @classmethod
    def of(cls, h: Array, root: Array) -> Information:
        """The information of H, (N, L, L) symmetric, and R, (N, L, L) or (1, L, L); the posterior
        exists."""
        values, vectors = np.linalg.eigh(h)
        noise = h.shape[1] * np.finfo(np.float64).eps * np.abs(values).max(axis=1)
        scale = np.sqrt(np.where(values > noise[:, None], values, 0.0))
        t = scale[:, :, None] * vectors.transpose(0, 2, 1)
        spread, index = t @ root, np.arange(h.shape[1])
        inner = spread @ spread.transpose(0, 2, 1)
        inner[:, index, index] += 1.0
        inverse = np.linalg.inv(np.linalg.cholesky(inner))
        return cls(h, root, inverse @ t, inverse, vectors, scale, values[:, 0] < -noise)

    @property
    def slope(self) -> Array:
        """(N, L, L) C."""
        out = self.half.transpose(0, 2, 1) @ self.half
        if self.signed.any():
            h = self.h[self.signed]
            out[self.signed] = h - self._lost(h, self.signed)
        return np.asarray(out)

    def pull(self, h: Array) -> Array:
        """(N, L) p, of h, (N, L)."""
        along = np.einsum("nij,ni->nj", self.vectors, h)
        informed = self.scale > 0.0
        rest = np.where(informed, 0.0, along)
        g = np.where(informed, along / np.where(informed, self.scale, 1.0), 0.0)
        out = np.einsum("nji,nj->ni", self.half, np.einsum("nij,nj->ni", self.inverse, g))
        if rest.any():
            outside = np.einsum("nij,nj->ni", self.vectors, rest)
            out += outside - self._lost(outside[:, :, None], slice(None))[:, :, 0]
        if self.signed.any():
            part = h[self.signed]
            out[self.signed] = part - self._lost(part[:, :, None], self.signed)[:, :, 0]
        return np.asarray(out)

    def _lost(self, x: Array, some: BoolArray | slice) -> Array:
        """HVx of some groups."""
        h = self.h[some]
        r = np.broadcast_to(self.root, self.h.shape)[some]
        turned = r.transpose(0, 2, 1)
        inner, index = turned @ h @ r, np.arange(h.shape[1])
        inner[:, index, index] += 1.0
        return np.asarray(h @ r @ np.linalg.solve(inner, turned @ x))
