"""The posterior of the hyperparameters with a correction of the log evidence in it.

Their density is multiplied by exp(delta), delta known at some fits. Between them it is a spline of
the standardised coordinates, or a quadratic regression on them where that predicts fits that are
left out better, as it does where delta is noisy. Some way beyond the box that the fits span it is
held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.learning.integration.hyper_posterior import HyperPosterior, matched
from lgmdsl.learning.integration.landscape import shares

LIGHTEST = 1e-3  # of the heaviest fit: the least weight that a fit has
LIGHTER = 0.25  # power of a share by which what is lighter counts for less
SPARE = 1.5  # fits for each coefficient of a quadratic

Curve: TypeAlias = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class CorrectedPosterior:
    """`posterior`: the one before times exp(delta); `gain`: the log of its integral over that
    before; `rough`: the root of the mean square by which fits that are left out are off delta's
    curve, in nats; `shares`: of all points of the mixture."""

    posterior: HyperPosterior
    gain: float
    rough: float
    shares: Array


def tilted(
    posterior: HyperPosterior,
    thetas: Sequence[Theta],
    weights: Array,
    known: Sequence[Theta],
    deltas: Array,
    beyond: float = 0.0,
) -> CorrectedPosterior:
    """The posterior corrected by `deltas` (k,) at the fits `known` (k,); the curve goes on `beyond`
    the box of these fits, in standardised coordinates. `thetas`, `weights` (n,): the points of the
    mixture."""
    fits = posterior.places(known)
    low, high = fits.min(axis=0) - beyond, fits.max(axis=0) + beyond
    heavy = _masses(posterior, fits)
    heavy = np.maximum(heavy, LIGHTEST * heavy.max())
    candidates = [(_left_out(make, fits, deltas, heavy), make) for make in (_spline, _regression)]
    rough, make = min(candidates, key=lambda c: c[0])
    within = make(fits, deltas, heavy)

    def curve(z: Array) -> Array:
        return within(np.clip(z, low, high))

    places = posterior.places(thetas)
    with np.errstate(divide="ignore"):
        nodes, gain = shares(np.log(posterior.weights) + curve(posterior.z))
        rule = shares(np.log(weights) + curve(places))[0]
    after = replace(posterior, weights=nodes, log_integral=posterior.log_integral + gain)
    natural = posterior.natural(posterior.z), posterior.natural(places)
    return CorrectedPosterior(
        after, gain, rough, matched(posterior.z, nodes, places, rule, natural)
    )


def farthest(places: Array, shares: Array, known: Array, count: int) -> list[int]:
    """Up to `count` of the `places` (n, d) of some share (n,), each far from the fits `known`
    (k, d) and from those before it, lighter ones less so: where more fits would tell most."""
    gaps = np.min([np.linalg.norm(places - p, axis=1) for p in known], axis=0)
    out = list[int]()
    while len(out) < count:
        far = gaps * shares**LIGHTER
        k = int(far.argmax())
        if far[k] <= 0.0:
            break
        out.append(k)
        gaps = np.minimum(gaps, np.linalg.norm(places - places[k], axis=1))
    return out


def _masses(posterior: HyperPosterior, fits: Array) -> Array:
    """(k,) the share of the posterior that is nearest to each fit."""
    squares = np.array([np.square(posterior.z - f).sum(axis=1) for f in fits])
    masses = np.bincount(squares.argmin(axis=0), posterior.weights, minlength=len(fits))
    return np.asarray(masses, dtype=np.float64)


def _left_out(
    make: Callable[[Array, Array, Array], Curve], fits: Array, values: Array, heavy: Array
) -> float:
    """How far each fit is off the curve through the others: the root of the mean square."""
    rest = ~np.eye(len(fits), dtype=bool)
    off = [
        float(make(fits[r], values[r], heavy[r])(fits[k : k + 1])[0] - values[k])
        for k, r in enumerate(rest)
    ]
    return float(np.sqrt(heavy @ np.square(off) / heavy.sum()))


def _spline(fits: Array, values: Array, heavy: Array) -> Curve:
    """Through all fits: a polyharmonic spline, linear far out; a natural cubic spline in one
    dimension."""
    if np.linalg.matrix_rank(_basis(fits, 0)) < 1 + fits.shape[1]:
        return _regression(fits, values, heavy)
    from scipy.interpolate import RBFInterpolator  # slow to import

    try:
        spline = RBFInterpolator(fits, values, kernel="cubic", degree=1)
    except np.linalg.LinAlgError:  # two fits at one place
        return _regression(fits, values, heavy)
    return lambda z: np.asarray(spline(z), dtype=np.float64)


def _regression(fits: Array, values: Array, heavy: Array) -> Curve:
    """A quadratic near the fits, linear where they are few."""
    count = len(fits)
    root = np.sqrt(heavy)
    level = float(heavy @ values / heavy.sum())
    basis = root[:, None] * _basis(fits, count)
    slopes = np.linalg.lstsq(basis, root * (values - level), rcond=1e-8)[0]
    return lambda z: np.asarray(level + _basis(z, count) @ slopes)


def _basis(z: Array, fits: int) -> Array:
    """(m, c) 1, the coordinates, and their products where there are fits enough."""
    d = z.shape[1]
    columns = [np.ones((len(z), 1)), z]
    if fits >= SPARE * (1 + d + d * (d + 1) // 2):
        columns += [z[:, [i]] * z[:, i:] for i in range(d)]
    return np.concatenate(columns, axis=1)
