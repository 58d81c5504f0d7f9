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
from lgmdsl.canonical.coefficient import HyperValue, Theta
from lgmdsl.canonical.hypers import HyperBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.uses import uses
from lgmdsl.learning.coordinates import Coordinates
from lgmdsl.learning.objective import Evaluation
from lgmdsl.learning.transforms import Transform
from lgmdsl.priors.flat import Flat
from lgmdsl.priors.simplex import Dirichlet

FAMILY, ARGUMENT = "admixture.softmax", "emission"


@dataclass(frozen=True, eq=False)
class Probabilities:
    """The simplex `block`, along its last index, in the coordinates of `form`."""

    block: HyperBlock
    form: Transform

    @property
    def name(self) -> str:
        return self.block.name

    def step(
        self, canonical: CanonicalModel, now: Evaluation, theta: Theta, stretch: float = 1.0
    ) -> Array | None:
        """The coordinates of the maximum of the complete-data objective at the q of `now`,
        `stretch` times as far; None where no count is left."""
        p = np.asarray(now.theta[self.name], dtype=np.float64)
        counts = np.maximum(p * now.slopes[self.name], 0.0)
        assert self.block.prior is not None
        prior = self.block.prior.at(theta)
        if isinstance(prior, Dirichlet):
            counts = np.maximum(counts + np.broadcast_to(prior.alpha, p.shape) - 1.0, 0.0)
        whole = counts.sum(axis=-1, keepdims=True)
        if not (np.isfinite(whole) & (whole > 0.0)).all():
            return None
        begin, end = self.form.coordinates(p), self.form.coordinates(counts / whole)
        return np.asarray(begin + stretch * (end - begin))

    def curvature(self, now: Evaluation) -> Array | None:
        """Not written out."""
        return None


def probabilities(canonical: CanonicalModel, coordinates: Coordinates) -> tuple[Probabilities, ...]:
    """The free simplices with a Dirichlet or flat prior that are what words are drawn with, and
    stand nowhere else."""
    everywhere, theta = uses(canonical), canonical.hypers.start(coordinates.pinned)
    found = []
    for site in canonical.blocks:
        node = site.parameters.get(ARGUMENT)
        if site.family.spec.name != FAMILY or not isinstance(node, HyperValue):
            continue
        for block in coordinates.blocks:
            known = block.name == node.name and everywhere.count(block.name) == 1
            if known and block.prior and isinstance(block.prior.at(theta), (Dirichlet, Flat)):
                found.append(Probabilities(block, coordinates.transform(block, theta)))
    return tuple(found)
