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
from lgmdsl.contract.engine import Rows
from lgmdsl.learning.integration.surrogate import squares

LENGTH = 3.0  # of the covariance, in half-axes
NOISE = 1e-6  # of it: what the fits' tolerances leave of the parameters
NEAREST = 24  # fits that count
MET = 1e-3  # to what the conditions of a linear trend hold
WILD = 20.0  # sum of |c| from which the nearest fit is a better start


@dataclass(frozen=True, eq=False)
class SiteSurface:
    """`places` (n, d), in half-axes, of fits with site parameters `weight` and `shift`."""

    places: Array
    weight: Sequence[Rows]
    shift: Sequence[Rows]

    def at(self, place: Array) -> tuple[Rows, Rows]:
        """(W, b) at a place (d,); those of the nearest fit where coefficients are WILD, and in
        blocks that have weights which are matrices or not positive."""
        away = np.linalg.norm(self.places - place, axis=1)
        near = np.argsort(away, kind="stable")[:NEAREST]
        share = coefficients(self.places[near], place)
        first = int(near[0])
        if not np.abs(share).sum() <= WILD:
            return self.weight[first], self.shift[first]
        weight, shift = list[Array](), list[Array]()
        for block, nearest in enumerate(self.weight[first]):
            known = [self.weight[k][block] for k in near]
            scalar = nearest.ndim == 1 and all((w > 0.0).all() for w in known)
            if not scalar:
                weight.append(nearest)
                shift.append(self.shift[first][block])
                continue
            pairs = zip(share, known, strict=True)
            weight.append(np.exp(sum(c * np.log(w) for c, w in pairs)))
            others = (self.shift[k][block] for k in near)
            shift.append(np.asarray(sum(c * b for c, b in zip(share, others, strict=True))))
        return tuple(weight), tuple(shift)


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
