"""The M-step of probabilities: topics over words, a simplex hyper in the argument of one family.

Where the likelihood of a datum is a mixture sum_k pi_k p_kw, or a bound keeps that form, the
expected counts are the probability times the slope of the evidence in it, whatever the bound:

    c_kw = p_kw dF/dp_kw,   p_kw <- (c_kw + alpha_kw - 1) / sum over w

(Dempster, Laird and Rubin 1977; alpha from a Dirichlet prior, 1 where it is flat.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import HyperValue, Theta
from lgmdsl.canonical.lowering.hypers import HyperBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.hyper_uses import uses
from lgmdsl.learning.coordinates.closed_simplex import ClosedSimplex
from lgmdsl.learning.coordinates.transforms import Transform
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.objective.log_posterior import Evaluation


@dataclass(frozen=True, eq=False)
class Probabilities:
    """The simplex `block`, along its last index, in the coordinates of `form` at `place`."""

    block: HyperBlock
    form: Transform
    place: slice

    @property
    def name(self) -> str:
        return self.block.name

    def step(
        self, canonical: CanonicalModel, now: Evaluation, theta: Theta, stretch: float = 1.0
    ) -> Array | None:
        """The coordinates of the maximum of the complete-data objective at the q of `now`,
        `stretch` times as far; None where no count is left."""
        p, counts = np.asarray(now.theta[self.name]), self._counts(now, theta)
        whole = counts.sum(axis=-1, keepdims=True)
        if not (np.isfinite(whole) & (whole > 0.0)).all():
            return None
        begin, end = self.form.coordinates(p), self.form.coordinates(counts / whole)
        return np.asarray(begin + stretch * (end - begin))

    def curvature(self, now: Evaluation) -> Array | None:
        """(k,) 4n for a unit of length on the sphere: 2 sum c_k log|r_k| of n counts, |r| = 1."""
        if not isinstance(self.form, ClosedSimplex):
            return None
        whole = self._counts(now, now.theta).sum(axis=-1, keepdims=True)
        lengths = self.form.lengths(now.x[self.place])
        return np.asarray(np.maximum(4.0 * whole * lengths**2, 1.0)).reshape(-1)

    def _counts(self, now: Evaluation, theta: Theta) -> Array:
        """Expected counts of words, with what the prior adds."""
        p = np.asarray(now.theta[self.name], dtype=np.float64)
        counts = np.maximum(p * now.slopes[self.name], 0.0)
        assert self.block.prior is not None
        prior = self.block.prior.at(theta)
        if prior.weights is not None:
            counts = np.maximum(counts + np.broadcast_to(prior.weights, p.shape) - 1.0, 0.0)
        return np.asarray(counts)


def probabilities(canonical: CanonicalModel, coordinates: Coordinates) -> tuple[Probabilities, ...]:
    """The free simplices with a Dirichlet or flat prior that are what words are drawn with, and
    stand nowhere else."""
    everywhere, theta = uses(canonical), canonical.hypers.start(coordinates.pinned)
    simplices = []
    for site in canonical.blocks:
        node = site.parameters.get(site.family.spec.mixture)
        if not isinstance(node, HyperValue):
            continue
        for block in coordinates.blocks:
            known = block.name == node.name and everywhere.count(block.name) == 1
            prior = block.prior.at(theta) if known and block.prior else None
            if prior is not None and (prior.constant or prior.weights is not None):
                form = coordinates.transform(block, theta)
                simplices.append(Probabilities(block, form, coordinates.slices[block.name]))
    return tuple(simplices)
