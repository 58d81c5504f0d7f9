"""The joint density over a Gaussian's.

q(z) = p(z) exp(-1/2 s'Ws + b's - log_normaliser), so that the ratio of the joint density to q needs
no prior density and holds for flat, constrained and singular priors as for any other:

    log p(y, z) / q(z) = log_normaliser + sum l(s) + 1/2 s'Ws - b's

Around q's mean, s = m + d, with alpha = b - Wm, it is a constant + sum [l - alpha'd + 1/2 d'Wd],
which keeps digits where predictors are far from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.site import Site


class DensityRatio:
    """log p(y, z) / q(z) at z = E z + x, from B x."""

    def __init__(self, sites: Sequence[Site], conditioned: Conditioned) -> None:
        self.sites, self.weight, self.mean = sites, conditioned.weight, conditioned.mean
        self.alpha = rows.slope_of(conditioned.shift, self.weight, self.mean)
        self.constant = conditioned.centred
        self._repeated: dict[tuple[int, int], Site] = {}

    def __call__(self, moves: Sequence[Array]) -> Array:
        """(k,) for B x of k draws: (k, P) for each site block. -inf where a site has no density
        (or none in floating point)."""
        return np.asarray(self.constant + sum(t.sum(axis=1) for t in self.terms(moves)))

    def terms(self, moves: Sequence[Array]) -> list[Array]:
        """The sites' own contributions, l(m + d) - alpha'd + 1/2 d'Wd: (k, N) for each block."""
        return [self.term(number, flat) for number, flat in enumerate(moves)]

    @np.errstate(all="ignore")
    def term(self, number: int, flat: Array) -> Array:
        """Terms of one block's sites, (k, N), at moves (k, P) of its predictors."""
        site, s, d, w, a = self.tiled(number, flat)
        term = site.log_density(s) - rows.inner(a, d) + 0.5 * rows.quadratic(w, d)
        sites = len(self.mean[number])
        return np.where(np.isnan(term), -np.inf, term).reshape(len(flat), sites)

    def tiled(self, number: int, flat: Array) -> tuple[Site, Array, Array, Array, Array]:
        """One block's sites, once for each draw; s = m + d, d, W and alpha, at moves (k, P)."""
        mean, draws = self.mean[number], len(flat)
        d = flat.reshape(draws * len(mean), *mean.shape[1:])
        s, w, a = (
            np.tile(x, (draws, *[1] * (x.ndim - 1)))
            for x in (mean, self.weight[number], self.alpha[number])
        )
        return self.repeated(number, len(mean), draws), s + d, d, w, a

    def part(self, chosen: Sequence[IntArray]) -> DensityRatio:
        """Ratio of some sites of each block, by positions, without the constant."""
        out = copy(self)
        pairs = list(zip(self.sites, chosen, strict=True))
        out.sites = [site.take(rows) for site, rows in pairs]
        out.mean, out.weight, out.alpha = (
            tuple(a[rows] for a, rows in zip(values, chosen, strict=True))
            for values in (self.mean, self.weight, self.alpha)
        )
        out.constant, out._repeated = 0.0, {}
        return out

    def repeated(self, number: int, sites: int, draws: int) -> Site:
        """The sites of a block, once for each draw."""
        if (number, draws) not in self._repeated:
            every = np.tile(np.arange(sites), draws)
            self._repeated[number, draws] = self.sites[number].take(every)
        return self._repeated[number, draws]
