"""Derivatives of the sites, averaged over a Gaussian, and what their own terms are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.rows import trace

PAIRS, ROWS = (12, 64), 400_000  # draws x, y for variances, fewer of very many rows
MATERIAL = 0.02  # of an sd, relative: below, the fourth derivatives are left out
SKEWED = 1.0  # a third Hermite coefficient of a site


@dataclass(frozen=True, eq=False)
class Derivatives:
    """E_q[l'''] of each site block, (N,), or the tensors of a vector one, (N, K, K, K), and
    E_q[l''''], (N,), or (N, K, K, K, K) of sums over rows; nothing, (0,), of other vector ones.
    `own`: of each block, what its sites add to the log evidence one by one, to all orders, (N,),
    or nothing where that is not known."""

    third: Rows
    fourth: Rows
    own: Rows = ()

    @classmethod
    def of(
        cls, third: Iterable[Array], fourth: Iterable[Array], q: Conditioned, own: Rows = ()
    ) -> Derivatives:
        """Without the fourth ones of sites that are far from symmetric: of theirs the series
        diverges, and terms of third order undo what these add."""
        every = tuple(third)
        kept = tuple(map(_unless_skewed, every, fourth, q.variance))
        return cls(every, kept, own)

    def bends(self, q: Conditioned) -> bool:
        """Whether the fourth ones may matter."""
        for f, w, v in zip(self.fourth, q.weight, q.variance, strict=True):
            if len(f) and f.any():
                if f.ndim > 1:  # over the whole of each site
                    f, w = np.einsum("nijkl,nij,nkl->n", f, v, v, optimize=True), trace(w, v)
                    v = np.ones(len(f))
                own = np.where(f != 0.0, w, 1.0)
                if (own <= 0.0).any() or float(((f * v / own) ** 2).max()) > 12.0 * MATERIAL:
                    return True
        return False

    def orders(self, q: Conditioned) -> tuple[int, ...]:
        """Orders of the derivatives that are taken."""
        return (3, 4) if self.bends(q) else (3,)

    def own_terms(self, order: int, variance: Rows) -> tuple[float, Array]:
        """The terms i = j, of vector sites along each predictor alone: of the evidence, and w,
        (P,), of the covariance by VB' diag(w^2) BV over (order - 1)!."""
        evidence, weights = 0.0, [np.zeros(0)]
        for t, f, v in zip(self.third, self.fourth, variance, strict=True):
            k, own = _along(t, v)
            if order == 4:
                k = f if t.ndim == 1 else np.zeros(len(k))
            evidence += float(np.sum(k**2 * own**order)) / (2.0 * factorial(order))
            weights.append(np.abs(k) * own ** (0.5 * (order - 1)))
        return evidence, np.concatenate(weights)

    def excess(self, order: int, variance: Rows, tilted: bool) -> float:
        """What the terms i = j of the evidence are beyond the right ones: those of EP are in its
        evidence, those of a bound are `own` where that is known."""
        if tilted:
            return self.own_terms(order, variance)[0]
        total, several = 0.0, self.third if order == 3 else self.fourth
        known = self.own or tuple(np.zeros(0) for _ in several)
        for k, v, own in zip(several, variance, known, strict=True):
            if len(own):
                series = k**2 * v**order / (2.0 * factorial(order))
                total += float(np.sum(np.where(np.isfinite(own), series - own, 0.0)))
        return total

    @property
    def scalar(self) -> bool:
        """Whether each site has one predictor."""
        return all(t.ndim == 1 for t in self.third)

    @property
    def complete(self) -> bool:
        """Whether the fourth ones of all are known."""
        return all(len(f) == len(t) for f, t in zip(self.fourth, self.third, strict=True))

    def slopes(self, variance: Rows, wide: Array, cubes: Array, tilted: bool) -> Array:
        """(P, 2) what changes `wide` of the variances of scalar sites' predictors, and their third
        cumulants `cubes`, (P,) each, make of the expected slopes: by third derivatives, and by
        fourth ones. EP's moments hold the terms of a site alone."""
        k, f, v = (np.concatenate(a) for a in (self.third, self.fourth, variance))
        if tilted:
            cubes = cubes - k * v**3
            wide = wide - k * v * cubes
        return np.column_stack([0.5 * k * wide, f * cubes / 6.0])

    def products(self, order: int, linear: LinearGaussian, draws: Sequence[Array]) -> Array:
        """(P, m) the derivatives contracted with `order` - 1 draws of the predictors, (P, m)
        each."""
        out, start = np.zeros((linear.rows, draws[0].shape[1])), 0
        for t, f, p in zip(self.third, self.fourth, linear.predictors, strict=True):
            x = [d[start : start + p.rows] for d in draws]
            here = out[start : start + p.rows]
            if t.ndim == 1:
                here += (t if order == 3 else f)[:, None] * np.prod(x, axis=0)
            elif order == 3:
                a, b = (d.reshape(*t.shape[:2], -1) for d in x)
                here += np.einsum("nijk,njd,nkd->nid", t, a, b, optimize=True).reshape(here.shape)
            elif f.ndim > 1:
                a, b, c = (d.reshape(*t.shape[:2], -1) for d in x)
                product = np.einsum("nijkl,njd,nkd,nld->nid", f, a, b, c, optimize=True)
                here += product.reshape(here.shape)
            start += p.rows
        return out


def _unless_skewed(k: Array, f: Array, v: Array) -> Array:
    """The fourth derivatives of sites that are not far from symmetric."""
    if not len(f):
        return f
    if f.ndim == 1:
        return np.where(k**2 * v**3 > SKEWED**2, 0.0, f)
    square = np.einsum("nijk,nabc,nia,njb,nkc->n", k, k, v, v, v, optimize=True)
    return np.where((square > SKEWED**2)[:, None, None, None, None], 0.0, f)


def pairs_of(linear: LinearGaussian) -> int:
    """Draws x, y for variances."""
    return int(np.clip(ROWS // max(linear.rows, 1), *PAIRS))


def _along(t: Array, v: Array) -> tuple[Array, Array]:
    """(N,) or (N K,) each: third derivatives and variances along each predictor alone."""
    if t.ndim > 1:
        t, v = np.einsum("niii->ni", t), np.einsum("nii->ni", v)
    return t.reshape(-1), v.reshape(-1)
