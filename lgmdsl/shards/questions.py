"""What a worker answers about a shard: tasks that are functions of the shard and of their
arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Gradient, Theta
from lgmdsl.dataset import Loaded
from lgmdsl.shards.anchors import Near, Point
from lgmdsl.shards.averages.averaged import Averaged
from lgmdsl.shards.eliminate import NoMode, finite
from lgmdsl.shards.shard import Shard, ShardSource, labels_of
from lgmdsl.streams.model import by_places
from lgmdsl.streams.prepare import first_rows


class Answered(NamedTuple):
    """h, e, h' (p,), -h'' as `Eliminated.information` and, where it was asked for, the contracted
    third derivative. `passes`: over the rows, that it took to find the groups' mode from where it
    was sought."""

    value: float
    eliminated: float
    slope: Array
    information: Array
    third: Array | None
    passes: int


class Found(NamedTuple):
    """What a shard is, once it was read: counts, and hashes of its data and of the labels of the
    indices of the shared latents. `codes`: the pairs of these that it touches (`Touched.codes`),
    None where it answers for all."""

    rows: int
    groups: int
    places: int
    hashes: Mapping[str, str]
    labels: str
    codes: IntArray | None


def found(source: ShardSource) -> Found:
    """Task: read the shard, and say what it is."""
    shard = source.shard()
    gather = shard.gather
    return Found(
        gather.count,
        len(shard.members),
        gather.places,
        dict(by_places(shard.model).hashes),
        labels_of(shard.model, shard.roles),
        shard.split.codes,
    )


def pointwise(
    source: ShardSource, theta: Theta, beta: Array, near: Near, covariance: Array | None
) -> Answered:
    """Task: the answer at beta; h is -inf where the groups have no mode."""
    shard = source.shard()
    with shard.lock, np.errstate(all="ignore"):
        try:
            e = shard.eliminated(Point(theta, beta), near)
        except NoMode:
            none = np.full(len(beta), np.nan)
            return Answered(-np.inf, 0.0, none, _unknown(shard), none, 0)
        value, eliminated = e.value
        third = None if covariance is None else e.third(covariance)
        return Answered(finite(value), eliminated, e.slope, e.information, third, e.passes)


def expected(source: ShardSource, point: Point, near: Near) -> Answered:
    """Task: the expectation F with its slope and -2 F_V (`Averaged`); F is -inf where there is no
    best average."""
    shard = source.shard()
    with shard.lock, np.errstate(all="ignore"):
        try:
            e = shard.eliminated(point, near)
        except NoMode:
            none = np.full(len(point.beta), np.nan)
            return Answered(-np.inf, 0.0, none, _unknown(shard), None, 0)
        value, eliminated = e.value
        return Answered(finite(value), eliminated, e.slope, e.information, None, e.passes)


def expected_slopes(source: ShardSource, point: Point, near: Near) -> Gradient:
    """Task: slopes of F in the hyperparameters (`Averaged.bound_slopes`)."""
    shard = source.shard()
    with shard.lock, np.errstate(all="ignore"):
        e = shard.eliminated(point, near)
        assert isinstance(e, Averaged), "a point with a covariance"
        return e.bound_slopes


def slopes(
    source: ShardSource, theta: Theta, beta: Array, near: Near, covariance: Array, move: Array
) -> Gradient:
    """Task: slopes in the hyperparameters (`Eliminated.slopes`)."""
    shard = source.shard()
    with shard.lock, np.errstate(all="ignore"):
        return shard.eliminated(Point(theta, beta), near).slopes(covariance, move)


def unit_information(source: ShardSource, theta: Theta) -> Array:
    """Task: the information of unit weights about the shared latents."""
    shard = source.shard()
    with shard.lock:
        groups = shard.groups(theta)
        try:
            return groups.unit_information
        except NoMode:
            return _unknown(shard)


def _unknown(shard: Shard) -> Array:
    """An information that is not known."""
    split = shard.split
    return np.full((split.size,) * 2 if split.codes is None else len(split.codes), np.nan)


def working(
    source: ShardSource,
    theta: Theta,
    beta: Array,
    near: Near,
    covariance: Array,
    prior: Array | None,
) -> tuple[float, float, float]:
    """Task: sums of the rows' working residuals (`Places.working_sums`)."""
    shard = source.shard()
    with shard.lock, np.errstate(all="ignore"):
        try:
            e = shard.eliminated(shard.point(theta, beta, covariance), near)
        except NoMode:
            return np.nan, np.nan, np.nan
        before = None
        if prior is not None:
            before = e.split.at(prior)
            before[:, e.split.own] = e.groups.engine.prior_mean[0]
        return e.places.working_sums(e.z, e.variance(covariance), before)


def along(
    source: ShardSource, theta: Theta, beta: Array, near: Near, directions: Array, lengths: Array
) -> Array:
    """Task: sums of l with the groups' latents held at their mode at beta, or where the method
    averages at their best mean: (D, T), for directions (D, p) and lengths (D, T)."""
    shard = source.shard()
    with shard.lock, np.errstate(all="ignore"):
        try:
            none = np.zeros_like(_unknown(shard))
            e = shard.eliminated(shard.point(theta, beta, none), near)
        except NoMode:
            return np.full(lengths.shape, -np.inf)
        steps = np.array([e.split.along_shared(d) for d in directions])
        steps = steps.reshape(len(directions), *e.z.shape)
        return e.places.along(e.z, steps, lengths)


def members(
    source: ShardSource, columns: tuple[str, ...], keys: tuple[str, ...], index: str, least: int
) -> dict[str, Loaded]:
    """Task: the first `least` rows, and those that are the first to name a value in `columns`."""
    return first_rows(source.dataset(), keys, index, columns, least)
