"""What the posterior has and its Gaussian lacks: the level and the slope of log p(y, z) / q(z).

With r_i(s) = l_i(s) + 1/2 s'w_i s - b_i's, the sites less q's, the posterior is q(z) exp sum r_i,
and the slope of its logarithm less q's is B'r'. Both are taken around q's mean, as
`importance.weights` does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lgmdsl.accuracy.density_ratio import DensityRatio
from lgmdsl.arrays import Array
from lgmdsl.assess.sampling.products import Products
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.questions import Pointwise, Sloped
from lgmdsl.contract.site import Site

# A slope beyond this is as good as infinite: the chain that meets it is rejected.
STEEPEST = 1e50
# The step of central differences, relative: the cube root of the rounding error.
DIFFERENCE = 6e-6


class Residual:
    """sum r and B'r' at moves x = z - E_q z of many chains, (chains, n)."""

    def __init__(self, sites: Sequence[Site], linear: LinearGaussian, q: Conditioned) -> None:
        self.products, self.ratio = Products(linear), DensityRatio(sites, q)

    def level(self, x: Array) -> Array:
        """(chains,) log p(y, z) / q(z); -inf where a site has no density."""
        return self.ratio(self.products.moves(x))

    def slope(self, x: Array) -> Array:
        """(chains, n) B'r'. Where a site has no slope it counts as zero: chains remain exact
        whatever is kicked by, as long as it is a function of x."""
        out = np.zeros(x.T.shape)
        for number, flat in enumerate(self.products.moves(x)):
            self.products.add_transposed(number, self._rows(number, flat), out)
        return out.T

    @np.errstate(all="ignore")
    def _rows(self, number: int, flat: Array) -> Array:
        """r' of one site block at moves (chains, P) of its predictors."""
        mean, weight = self.ratio.mean[number], self.ratio.weight[number]
        chains, each = len(flat), (1,) * (mean.ndim - 1)
        d = flat.reshape(chains * len(mean), *mean.shape[1:])
        s = np.tile(mean, (chains, *each)) + d
        site = self.ratio.repeated(number, len(mean), chains)
        alpha = np.tile(self.ratio.alpha[number], (chains, *each))
        w = np.tile(weight, (chains, *(1,) * (weight.ndim - 1)))
        slope = np.nan_to_num(site_slope(site, s) + rows.times(w, d) - alpha)
        return np.clip(slope, -STEEPEST, STEEPEST).reshape(flat.shape)


def site_slope(site: Site, s: Array) -> Array:
    """l'(s), shaped as s: of sites that do not answer for it, by central differences."""
    if isinstance(site, Sloped):
        return np.asarray(site.sloped(s[None])[1][0])
    if isinstance(site, Pointwise):
        return site.pointwise(s).slope
    step = DIFFERENCE * (1.0 + np.abs(s))
    if s.ndim == 1:
        return np.asarray((site.log_density(s + step) - site.log_density(s - step)) / (2.0 * step))
    out = np.empty_like(s)
    for k in range(s.shape[1]):
        move = np.zeros_like(s)
        move[:, k] = step[:, k]
        up, down = site.log_density(s + move), site.log_density(s - move)
        out[:, k] = (up - down) / (2.0 * step[:, k])
    return out
