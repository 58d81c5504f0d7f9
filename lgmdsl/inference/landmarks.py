"""Where the sites of a block are and how large: centre and distance of each row, the block's unit,
and weights of least squares on the centres."""

from __future__ import annotations

import math

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.questions import Radial
from lgmdsl.contract.site import Site

OCTAVES = 12  # powers of two beyond which the scale of a block is its unit


def is_joint(site: Site, predictor: Predictor) -> bool:
    """Whether a vector site has a unit that is free; its rows have one each, which operators that
    are not written out do not take."""
    written = all(o.in_memory or o.is_sparse for o in predictor.columns.values())
    return bool(site.log_scales) and written


def has_unit(site: Site) -> bool:
    """Whether the unit of the predictors is free: of scalar sites with scales, and of norms."""
    return bool(site.spec.scales) and (not site.spec.vector or isinstance(site, Radial))


def landmark_of(site: Site, event: int = 0) -> tuple[Array, Array] | None:
    """Centre and distance of each row, (N,), or of each of `event` predictors, (N, K); None where
    there are none to go by."""
    landmark = site.landmark() if len(site) else None
    if landmark is None:
        scale = np.array(getattr(site, site.spec.scales[0])) if len(site) else np.zeros(0)
        landmark = np.zeros_like(scale), scale
    centre, distance = landmark
    sound = np.isfinite(distance) & (distance > 0.0) & np.isfinite(centre)
    if not sound.any():
        return None
    known = np.where(sound, centre, 0.0), np.where(sound, distance, np.inf)
    if not event:
        return known
    each = np.ones(event)
    return known[0][:, None] * each, known[1][:, None] * each


def joint_landmark(site: Site) -> tuple[Array, Array] | None:
    """Centre and distance of each predictor of a vector site, (N, K): y and its spread over the
    rows for the first one, the logarithm of the spread and 1 for those that are logarithms of
    scales. None where no y is finite."""
    y = site.places[0]
    known = y[np.isfinite(y)]
    if not known.any():
        return None
    spread = float(np.median(np.abs(known - np.median(known))))
    spread = spread or float(np.median(np.abs(known))) or float(np.abs(known).max())
    shape = (len(site), len(site.spec.predictors))
    centre, distance = np.zeros(shape), np.ones(shape)
    centre[:, 0], distance[:, 0] = np.where(np.isfinite(y), y, 0.0), spread
    centre[:, list(site.log_scales)] = math.log(spread)
    return centre, distance


def unit_of(landmark: tuple[Array, Array] | None) -> float:
    """The power of two nearest to a block's median distance, 1 where that is not extreme."""
    if landmark is None:
        return 1.0
    distance = landmark[1] if landmark[1].ndim == 1 else landmark[1][:, 0]
    known = distance[np.isfinite(distance)]
    usual = math.ldexp(1.0, OCTAVES)
    if known.min() >= 1.0 / usual and known.max() <= usual:
        return 1.0  # a median of many rows takes its time
    octave = round(float(np.median(np.log2(known))))
    return 1.0 if abs(octave) <= OCTAVES else math.ldexp(1.0, octave)


def weight_of(landmark: tuple[Array, Array] | None, mean: Array) -> Array:
    """One over the square of each row's distance; 1 where there is none."""
    if landmark is not None:
        return _diagonal(landmark[1] ** -2.0 + np.zeros_like(mean))
    if mean.ndim == 1:
        return np.ones_like(mean)
    return np.broadcast_to(np.eye(mean.shape[1]), (*mean.shape, mean.shape[1])).copy()


def robust(landmark: tuple[Array, Array], residual: Array) -> Array:
    """Cauchy's weights in units of the median residual."""
    x = residual / landmark[1]
    usual = max(1.0, float(np.median(np.abs(x))))
    return _diagonal(landmark[1] ** -2.0 / (1.0 + (x / usual) ** 2))


def _diagonal(weight: Array) -> Array:
    """(N,), or (N, K, K) of (N, K)."""
    return weight if weight.ndim == 1 else weight[:, :, None] * np.eye(weight.shape[1])
