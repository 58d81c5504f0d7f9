"""The M-step of noise sds: Gaussian observations whose sd is a hyperparameter as it stands.

    sigma^2 = S / (n - sigma p'(sigma)),   S = sum E_q (y - s)^2 over the n sites that share sigma,

p' being the slope of the log prior: the root of the slope of -n log sigma - S / (2 sigma^2) + log p
(Khan 2012, algorithm 2, where the prior is flat).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.hyper_uses import uses
from lgmdsl.canonical.queries.loadings import leaf, leaf_places
from lgmdsl.contract.site import Property
from lgmdsl.learning.coordinates.transforms import Above
from lgmdsl.learning.coordinates.vector import Coordinates, transform
from lgmdsl.learning.objective.log_posterior import Evaluation
from lgmdsl.priors.prior import VALUE

ROUNDS = 60  # of the fixed point, which contracts like the prior's weight beside n sites


@dataclass(frozen=True, eq=False)
class Noise:
    """One site block `block` of normal observations: `places` (N,) of each site in the hyper."""

    block: int
    name: str
    places: IntArray

    def step(
        self, canonical: CanonicalModel, now: Evaluation, theta: Theta, stretch: float = 1.0
    ) -> Array | None:
        """The logs that maximise the complete-data objective at the other hypers of `theta` and the
        q of `now`, `stretch` times as far; None where the sd is on the edge, or there is no root.
        """
        sites = canonical.blocks[self.block]
        assert sites.y is not None
        rows = None if sites.complete else sites.rows
        predictor = canonical.predictor(sites.form, sites.dims, theta, rows)
        mean, variance = now.posterior.conditioned.project(predictor)
        last = np.asarray(theta[self.name], dtype=np.float64)
        squares = np.bincount(self.places, (sites.y - mean) ** 2 + variance, last.size)
        count = np.bincount(self.places, minlength=last.size)
        block = canonical.hypers.block(self.name)
        assert block is not None and block.prior is not None
        prior, sd = block.prior.at(theta), last.reshape(-1)
        for _ in range(ROUNDS):
            slope = prior.gradient(sd.reshape(last.shape))[VALUE].reshape(-1)
            with np.errstate(all="ignore"):
                following = np.sqrt(squares / (count - sd * slope))
            if not (np.isfinite(following) & (following > 0.0)).all():
                return None
            moved, sd = np.abs(following / sd - 1.0).max(initial=0.0), following
            if moved < 1e-13:
                break
        begin = np.log(last.reshape(-1))
        return np.asarray(begin + stretch * (np.log(sd) - begin))

    def curvature(self, now: Evaluation) -> Array:
        """(k,) 2n, in the logs: of n log sigma + S / (2 sigma^2) at its least."""
        size = np.size(now.theta[self.name])
        return np.asarray(np.maximum(2.0 * np.bincount(self.places, minlength=size), 1.0))


def noises(canonical: CanonicalModel, coordinates: Coordinates, theta: Theta) -> tuple[Noise, ...]:
    """The noise sds that are positive hypers of their own, free, and stand nowhere else."""
    everywhere = uses(canonical)
    out = []
    for k, block in enumerate(canonical.blocks):
        spec = block.site.spec
        node = block.parameters.get(spec.gaussian_scale)
        observed = Property.GAUSSIAN in spec.properties and "y" in spec.places
        observed = observed and block.weight is None  # S and n are sums of rows here
        if not observed or node is None:
            continue
        hyper = leaf(node)
        if (
            hyper is None
            or hyper.name not in coordinates.slices
            or everywhere.count(hyper.name) != 1
        ):
            continue
        free = next(b for b in coordinates.blocks if b.name == hyper.name)
        form = transform(free, theta)
        if not isinstance(form, Above) or np.any(form.lower != 0.0):
            continue
        places = leaf_places(node, block.dims, block.sizes, free.sizes)
        out.append(Noise(k, hyper.name, places[block.rows]))
    return tuple(out)
