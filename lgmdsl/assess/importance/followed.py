"""Single directions of z that draws are followed along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from lgmdsl.accuracy.density_ratio import DensityRatio
from lgmdsl.arrays import Array
from lgmdsl.assess.importance.pareto import k_hat
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.operators.explicit import Dense

# So many predictors, those whose sites depart most from q's, are followed.
FOLLOWED = 3
PROJECTION = "a random projection"

Places: TypeAlias = tuple[tuple[int, int], ...]  # site block and row


def direction(linear: LinearGaussian, q: Conditioned, seed: int) -> Array:
    """(n,) a random direction of all latents, each in units of its sd."""
    sd = np.sqrt(np.maximum(q.latent_variance, 0.0))
    normal = np.random.default_rng([seed, 1]).standard_normal(linear.size)
    return np.divide(normal, sd, out=np.zeros_like(sd), where=sd > 1e-12 * sd.max(initial=0.0))


def along(linear: LinearGaussian, q: Conditioned, row: Array) -> tuple[Array, Array]:
    """Mean and variance of z along a direction under q, (1,) each."""
    columns = {b.name: Dense(row[None, linear.slices[b.name]]) for b in linear.blocks}
    return q.project(Predictor(columns, np.zeros(1)))


class FollowedDirections:
    """Single directions, drawn along with q: the random projection, and the predictors whose
    sites' own contributions to the log weights vary most (in the first chunk of draws)."""

    def __init__(self, ratio: DensityRatio, direction: Array, places: Places | None = None) -> None:
        self.ratio, self.direction = ratio, direction
        self.places = places
        self.distances: list[Array] = []

    def add(self, x: Array, bx: Sequence[Array]) -> None:
        """The next draws, and their predictors."""
        self.distances.append(self.distances_of(x, bx))

    def distances_of(self, x: Array, bx: Sequence[Array]) -> Array:
        """(k, f) moves of draws (k, n) along each direction; the first ones say which."""
        if self.places is None:
            self.places = self._widest(bx)
        chosen = [bx[block][:, row] for block, row in self.places]
        return np.column_stack([x @ self.direction, *chosen])

    def _widest(self, bx: Sequence[Array]) -> Places:
        spreads: list[tuple[float, int, int]] = []
        for block, term in enumerate(self.ratio.terms(bx)):
            with np.errstate(all="ignore"):
                spread = np.nan_to_num(term.std(axis=0), nan=np.inf)
            event = self.ratio.mean[block].shape[-1] if self.ratio.mean[block].ndim > 1 else 1
            top = np.argsort(-spread, kind="stable")[:FOLLOWED]
            spreads += [(float(spread[i]), block, int(i) * event) for i in top]
        spreads.sort(key=lambda f: -f[0])
        return tuple((block, row) for _, block, row in spreads[:FOLLOWED])


def k_hats(distances: Sequence[Array], log_weights: Array, effective: float) -> dict[str, float]:
    """k-hat of weight times distance along each direction, the worst of the predictors.
    `distances`: of all draws, chunk by chunk."""
    with np.errstate(divide="ignore"):
        distance = np.log(np.abs(np.concatenate(distances)))
    if np.ptp(log_weights) <= 1e-6:
        return {PROJECTION: -np.inf, "predictors": -np.inf}
    each = [k_hat(log_weights + d, effective) for d in distance.T]
    return {PROJECTION: each[0], "predictors": max(each[1:], default=-np.inf)}
