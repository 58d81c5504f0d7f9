"""Where a further fit starts: site parameters (W, b) at a place, through those of fits made.

    log w(u) = sum_k c_k(u) log w_k,   b(u) = sum_k c_k(u) b_k

c(u) are the coefficients of universal kriging with a linear trend and a squared exponential
covariance (Cressie 1993, section 3.4), the same for all rows. The sites' parameters are smooth in
the hyperparameters, so that a fit that starts there has little left to do; it is iterated to the
same tolerances from there as from anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.learning.integration.surrogate import squares
from lgmdsl.learning.objective.blend import Blend, Sites

LENGTH = 3.0  # of the covariance, in half-axes
NOISE = 1e-6  # of it: what the fits' tolerances leave of the parameters
NEAREST = 24  # fits that count
MET = 1e-3  # to what the conditions of a linear trend hold
WILD = 20.0  # sum of |c| from which the nearest fit is a better start


@dataclass(frozen=True, eq=False)
class SiteSurface:
    """`places` (n, d), in half-axes, of fits with `sites` (W, b)."""

    places: Array
    sites: Sequence[Sites]

    def at(self, place: Array) -> Blend:
        """Blend of the sites at a place (d,); the nearest fit's sites where coefficients are
        WILD."""
        away = np.linalg.norm(self.places - place, axis=1)
        near = np.argsort(away, kind="stable")[:NEAREST]
        share = coefficients(self.places[near], place)
        if not np.abs(share).sum() <= WILD:
            return Blend((self.sites[near[0]],), None)
        return Blend(tuple(self.sites[k] for k in near), share)


def coefficients(places: Array, place: Array) -> Array:
    """(n,) c at a place (d,), which sum to 1, from places (n, d): exact for what is linear; inf
    where the places leave a trend open."""
    n, d = places.shape
    scaled, here = places / LENGTH, place / LENGTH
    system = np.zeros((n + 1 + d, n + 1 + d))
    system[:n, :n] = np.exp(-0.5 * squares(scaled, scaled)) + NOISE * np.eye(n)
    system[:n, n] = system[n, :n] = 1.0
    system[:n, n + 1 :] = scaled - here
    system[n + 1 :, :n] = (scaled - here).T
    wanted = np.zeros(n + 1 + d)
    wanted[:n] = np.exp(-0.5 * squares(here[None], scaled))[0]
    wanted[n] = 1.0
    found = np.linalg.lstsq(system, wanted, rcond=1e-12)[0][:n]
    met = np.concatenate([[found.sum() - 1.0], system[n + 1 :, :n] @ found])
    return np.asarray(found if np.abs(met).max() < MET else np.full(n, np.inf))
