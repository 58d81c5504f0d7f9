"""log p(y, z) with its derivatives at many points at once, in coordinates where q is standard.

With z = E_q z + R u, Cov_q = RR', and r_i(s) = l_i(s) + 1/2 s'w_i s - b_i's,

    log p(y, z(u)) = -|u|^2 / 2 + sum_i r_i(s_i(u)) + constant,   s(u) = E_q s + BR u.

No prior density is evaluated, so flat, constrained and singular priors are no special case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lgmdsl.accuracy.density_ratio import DensityRatio
from lgmdsl.arrays import Array, BoolArray
from lgmdsl.assess.sampling.products import Formed, Products
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property, Site

FEWEST = 0.05  # of q's curvature, what a step takes for the curvature where there is less
SHORTEST = 1e-6  # of a step, before it is given up
STEEPEST = 1e100


def smooth(sites: Sequence[Site]) -> bool:
    """Whether every site has the two derivatives that Newton's method asks for."""
    return all(isinstance(s, Pointwise) and Property.KINKED not in s.spec.properties for s in sites)


class Landscape:
    """`root`, (n, r): R; `mean`, (n,): E_q z; `size`: r."""

    def __init__(self, sites: Sequence[Site], linear: LinearGaussian, q: Conditioned) -> None:
        formed = Formed(q)
        self.sites, self.mean, self.root = sites, formed.latent_mean, formed.root
        self.size = formed.root.shape[1]
        self.rows = Products(linear).moves(np.ascontiguousarray(formed.root.T))  # (r, P) each
        self.ratio = DensityRatio(sites, q)
        self.constant = -0.5 * self.size * math.log(2.0 * math.pi)

    def coordinates(self, z: Array) -> Array:
        """u, (k, r), of z, (k, n); the nearest, where none leads to z."""
        return np.asarray((z - self.mean) @ np.linalg.pinv(self.root).T)

    def latents(self, u: Array) -> Array:
        """z, (k, n)."""
        return np.asarray(self.mean + u @ self.root.T)

    def moves(self, u: Array) -> list[Array]:
        """s(u) - E_q s of each site block, (k, P)."""
        return [u @ r for r in self.rows]

    def level(self, u: Array) -> Array:
        """(k,) the log density of (y, u)."""
        return np.asarray(self.ratio(self.moves(u)) - 0.5 * (u * u).sum(axis=1) + self.constant)

    @np.errstate(all="ignore")
    def derivatives(self, u: Array) -> tuple[Array, Array]:
        """The slope, (k, r), and minus the second derivatives, (k, r, r), of `level`."""
        points = len(u)
        slope, bent = -u, np.tile(np.eye(self.size), (points, 1, 1))
        for number, (flat, root) in enumerate(zip(self.moves(u), self.rows, strict=True)):
            mean = self.ratio.mean[number]
            each = (1,) * (mean.ndim - 1)
            d = flat.reshape(points * len(mean), *mean.shape[1:])
            site = self.ratio.repeated(number, len(mean), points)
            assert isinstance(site, Pointwise)
            answer = site.pointwise(np.tile(mean, (points, *each)) + d)
            weight = self.ratio.weight[number]
            w = np.tile(weight, (points, *(1,) * (weight.ndim - 1)))
            alpha = np.tile(self.ratio.alpha[number], (points, *each))
            first = _finite(answer.slope + rows.times(w, d) - alpha)
            second = -_finite(answer.curvature + w)
            slope = slope + first.reshape(points, -1) @ root.T
            if mean.ndim == 1:
                weighted = second.reshape(points, 1, -1) * root
            else:
                block = root.T.reshape(*mean.shape, self.size)  # (N, K, r)
                pairs = second.reshape(points, *weight.shape)
                weighted = np.einsum("pnij,njr->prni", pairs, block)
                weighted = weighted.reshape(points, self.size, -1)
            bent = bent + weighted @ root.T
        return slope, 0.5 * (bent + bent.swapaxes(1, 2))

    def climbed(self, u: Array, steps: int, enough: float) -> tuple[Array, BoolArray, Array]:
        """Where Newton's steps, turned and halved until they climb, lead from each u, (k, r): the
        points, which of them are within `enough` of a maximum by the step's promise, in nats, and
        minus the second derivatives there."""
        level = self.level(u)
        usable = np.isfinite(level)
        u, level = u[usable].copy(), level[usable]
        top = np.zeros(len(u), dtype=np.bool_)
        bent = np.zeros((*u.shape, self.size))
        open_ = np.arange(len(u))
        for step in range(steps + 1 if len(u) else 0):  # no usable start: nothing to climb
            slope, bent[open_] = self.derivatives(u[open_])
            values, vectors = np.linalg.eigh(bent[open_])
            along = np.einsum("kji,kj->ki", vectors, slope)
            curved = np.maximum(np.abs(values), FEWEST)
            promise = (along**2 / curved).sum(axis=1)
            top[open_] = (promise < enough) & (values.min(axis=1, initial=1.0) > 0.0)
            if top[open_].all() or step == steps:
                break
            move = np.einsum("kij,kj->ki", vectors, along / curved)
            left, length = np.flatnonzero(~top[open_]), 1.0
            while len(left) and length > SHORTEST:
                there = u[open_[left]] + length * move[left]
                reached = self.level(there)
                up = reached > level[open_[left]]
                u[open_[left[up]]], level[open_[left[up]]] = there[up], reached[up]
                left, length = left[~up], 0.25 * length
            if 2 * np.count_nonzero(~top[open_]) <= len(open_):
                open_ = open_[~top[open_]]
        return u, top, bent


def _finite(x: Array) -> Array:
    return np.clip(np.nan_to_num(x), -STEEPEST, STEEPEST)
