"""The posterior of the hyperparameters with a correction of the log evidence in it.

Their density is multiplied by exp(delta), delta known at some fits: between them it is a quadratic
function of the standardised coordinates (linear where there are few), and it is held at the ends of
the box that the fits span, or some way beyond where delta is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.learning.integration.hyper_posterior import HyperPosterior, matched
from lgmdsl.learning.integration.landscape import shares

LIGHTEST = 1e-3  # of the heaviest fit: the least weight that a fit has in the regression
SPARE = 1.5  # fits for each coefficient of a quadratic


@dataclass(frozen=True, eq=False)
class Tilted:
    """`posterior`: the one before times exp(delta); `gain`: the log of its integral over that
    before; `rough`: the root of the mean square by which fits are off delta's curve, in nats;
    `shares`: of all points of the mixture."""

    posterior: HyperPosterior
    gain: float
    rough: float
    shares: Array


def tilted(
    posterior: HyperPosterior,
    thetas: Sequence[Theta],
    weights: Array,
    deltas: Array,
    beyond: float = 0.0,
) -> Tilted:
    """The posterior corrected by `deltas` (k,), NaN where they are not known, at the points
    `thetas` of a mixture of `weights` (k,); the curve goes on `beyond` the box of the fits that
    they are known at, in standardised coordinates."""
    places, known = posterior.places(thetas), np.isfinite(deltas)
    fits, values, heavy = places[known], deltas[known], weights[known]
    low, high = fits.min(axis=0) - beyond, fits.max(axis=0) + beyond
    basis = _basis(fits, len(fits))
    root = np.sqrt(np.maximum(heavy, LIGHTEST * heavy.max()))
    level = float(heavy @ values / heavy.sum())
    slopes = np.linalg.lstsq(root[:, None] * basis, root * (values - level), rcond=1e-8)[0]
    off = basis @ slopes + level - values
    rough = float(np.sqrt(heavy @ off**2 / heavy.sum()))

    def curve(z: Array) -> Array:
        return np.asarray(level + _basis(np.clip(z, low, high), len(fits)) @ slopes)

    with np.errstate(divide="ignore"):
        nodes, gain = shares(np.log(posterior.weights) + curve(posterior.z))
        rule = shares(np.log(weights) + curve(places))[0]
    after = replace(posterior, weights=nodes, log_integral=posterior.log_integral + gain)
    return Tilted(after, gain, rough, matched(posterior.z, nodes, places, rule))


def _basis(z: Array, fits: int) -> Array:
    """(m, c) 1, the coordinates, and their products where there are fits enough."""
    d = z.shape[1]
    columns = [np.ones((len(z), 1)), z]
    if fits >= SPARE * (1 + d + d * (d + 1) // 2):
        columns += [z[:, [i]] * z[:, i:] for i in range(d)]
    return np.concatenate(columns, axis=1)
