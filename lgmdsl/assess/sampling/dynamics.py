"""Hamiltonian dynamics with a Gaussian as reference measure.

Of the density q(z) exp R(z), at x = z - E_q z with velocities v ~ N(0, Cov_q), the energy is
-R + 1/2 x'Cov^-1 x + 1/2 v'Cov^-1 v. Its Gaussian part moves exactly on ellipses,

    (x, v) -> (x cos t + v sin t, v cos t - x sin t),

and R kicks, v -> v + h Cov g with g = grad R, which changes the energy by h v'g + h^2/2 g'Cov g.
Only these sums and R itself enter the acceptance, so that no precision matrix is formed: flat,
constrained and singular priors are no special case. Where q is exact every move is accepted and
a quarter of a turn gives an independent draw.

R is the sum of r_i(s_i) = l_i(s) + 1/2 s'w_i s - b_i's, the sites less q's.

Beskos, Pinski, Sanz-Serna, Stuart (2011), Hybrid Monte Carlo on Hilbert spaces; Shahbaba, Lan,
Johnson, Neal (2014), Split Hamiltonian Monte Carlo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from lgmdsl.accuracy.density_ratio import DensityRatio
from lgmdsl.arrays import Array
from lgmdsl.assess.sampling.products import Products, Reference
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.questions import Pointwise, Sloped
from lgmdsl.contract.site import Site

# Lengths of trajectories, as shares of a quarter turn. Wide, so that steps are short now and then:
# with 0.7 to 1.3 chains stuck at steep places (0 of 47, R-hat 1.1).
SHORTEST, LONGEST = 0.3, 1.5
# The largest kick, in sds of each latent's velocity. At 30 some chains never left where they
# started; at 2 far tails were visited too seldom.
HARDEST = 5.0
# How much wider than q chains start, at most: modes next to q's are found from there.
WIDEST = 3.0
# How far below the lowest level among draws of q a chain may start, in nats.
BELOW = 10.0


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
        site, s, d, w, alpha = self.ratio.tiled(number, flat)
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


@dataclass(frozen=True, eq=False)
class State:
    """x, (chains, n), with R, (chains,), its slope g and Cov_q g, (chains, n) each."""

    x: Array
    level: Array
    slope: Array
    pull: Array


class Dynamics:
    """Chains on q(z) exp R(z), all moved at once. `gradients`: slopes of R evaluated so far, of all
    chains."""

    def __init__(self, residual: Residual, q: Reference) -> None:
        self.residual, self.q = residual, q
        self.gradients = 0

    def velocity(self, rng: Generator, chains: int) -> Array:
        """(chains, n) draws of N(0, Cov_q)."""
        return self.q.sample(rng, chains) - self.q.latent_mean

    def start(self, rng: Generator, chains: int) -> State:
        """The first half at draws of q, the others stretched by up to WIDEST; halved where the
        posterior is all but zero."""
        x = self.velocity(rng, chains)
        drawn = self.residual.level(x)
        possible = drawn[np.isfinite(drawn)]
        least = float(possible.min(initial=0.0)) - BELOW
        x *= np.clip(np.linspace(2.0 - WIDEST, WIDEST, chains), 1.0, None)[:, None]
        level = self.residual.level(x)
        for _ in range(60):
            low = ~(level >= least)
            if not low.any():
                break
            x[low] *= 0.5
            level = self.residual.level(x)
        return State(x, level, *self._slopes(x))

    def _slopes(self, x: Array) -> tuple[Array, Array]:
        self.gradients += len(x)
        slope = self.residual.slope(x)
        return slope, self.q.solve(np.ascontiguousarray(slope.T)).T

    @np.errstate(all="ignore")
    def step(self, state: State, kicks: int, rng: Generator) -> tuple[State, Array]:
        """One trajectory of about a quarter turn, in `kicks` steps, and the chains' probabilities
        of having accepted it, (chains,)."""
        chains = len(state.x)
        v = self.velocity(rng, chains)
        turn = 0.5 * np.pi * rng.uniform(SHORTEST, LONGEST, chains) / kicks
        uniform = rng.random(chains)
        cos, sin = np.cos(turn)[:, None], np.sin(turn)[:, None]
        x, slope, pull = state.x, state.slope, state.pull
        work, v = _kicked(v, slope, pull, 0.5 * turn)
        for k in range(kicks):
            x, v = cos * x + sin * v, cos * v - sin * x
            slope, pull = self._slopes(x)
            change, v = _kicked(v, slope, pull, turn if k + 1 < kicks else 0.5 * turn)
            work = work + change
        level = self.residual.level(x)
        probability = np.exp(np.minimum(np.nan_to_num(level - state.level - work, nan=-np.inf), 0))
        taken = uniform < probability
        keep = taken[:, None]
        moved = State(
            np.where(keep, x, state.x),
            np.where(taken, level, state.level),
            np.where(keep, slope, state.slope),
            np.where(keep, pull, state.pull),
        )
        return moved, probability


def _kicked(v: Array, slope: Array, pull: Array, time: Array) -> tuple[Array, Array]:
    """What a kick adds to the energy, (chains,), and the velocities after it. One that would change
    the velocity by much more than its own size is shortened: chains in steep places then leave
    them, where a whole kick would be rejected for ever."""
    square = np.einsum("ij,ij->i", slope, pull)
    size = np.sqrt(np.maximum(square, 0.0) / max(v.shape[1], 1))
    time = np.minimum(time, HARDEST / np.maximum(size, 1e-300))
    power = np.einsum("ij,ij->i", v, slope) + 0.5 * time * square
    return time * power, v + time[:, None] * pull
