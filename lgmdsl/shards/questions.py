"""What a worker answers about a shard: tasks that are functions of the shard and of their
arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    third derivative; of averages F, 0, F_m and -2 F_V (`Averaged`). `passes`: over the rows, that
    it took to find the groups' mode, or their best average, from where it was sought."""

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


@contextmanager
def _asked(source: ShardSource) -> Iterator[Shard]:
    """The shard, for one who asks at a time."""
    shard = source.shard()
    with shard.lock, np.errstate(all="ignore"):
        yield shard


def found(source: ShardSource) -> Found:
    """Task: read the shard, and say what it is."""
    shard = source.shard()
    return Found(
        shard.gather.count,
        len(shard.members),
        shard.gather.places,
        dict(by_places(shard.model).hashes),
        labels_of(shard.model, shard.roles),
        shard.split.codes,
    )


def answered(
    source: ShardSource, point: Point, near: Near, covariance: Array | None = None
) -> Answered:
    """Task: the answer at a point, with third derivatives where they are to be contracted with a
    covariance; the value is -inf where the groups have no mode, or no best average."""
    with _asked(source) as shard:
        try:
            e = shard.eliminated(point, near)
        except NoMode:
            none = np.full(len(point.beta), np.nan)
            return Answered(-np.inf, 0.0, none, _unknown(shard), none, 0)
        value, eliminated = e.value
        third = None if covariance is None else e.third(covariance)
        return Answered(finite(value), eliminated, e.slope, e.information, third, e.passes)


def bound_slopes(source: ShardSource, point: Point, near: Near) -> Gradient:
    """Task: slopes of F in the hyperparameters (`Averaged.bound_slopes`)."""
    with _asked(source) as shard:
        e = shard.eliminated(point, near)
        assert isinstance(e, Averaged), "a point with a covariance"
        return e.bound_slopes


def slopes(
    source: ShardSource, point: Point, near: Near, covariance: Array, move: Array
) -> Gradient:
    """Task: slopes in the hyperparameters (`Eliminated.slopes`)."""
    with _asked(source) as shard:
        return shard.eliminated(point, near).slopes(covariance, move)


def unit_information(source: ShardSource, theta: Theta) -> Array:
    """Task: the information of unit weights about the shared latents."""
    with _asked(source) as shard:
        try:
            return shard.groups(theta).unit_information
        except NoMode:
            return _unknown(shard)


def _unknown(shard: Shard) -> Array:
    """An information that is not known."""
    split = shard.split
    return np.full((split.size,) * 2 if split.codes is None else len(split.codes), np.nan)


def working(
    source: ShardSource, point: Point, near: Near, covariance: Array, prior: Array | None
) -> tuple[float, float, float]:
    """Task: sums of the rows' working residuals (`Places.working_sums`)."""
    with _asked(source) as shard:
        try:
            e = shard.eliminated(shard.point(point.theta, point.beta, covariance), near)
        except NoMode:
            return np.nan, np.nan, np.nan
        before = None
        if prior is not None:
            before = e.split.at(prior)
            before[:, e.split.own] = e.groups.engine.prior_mean[0]
        return e.places.working_sums(e.z, e.variance(covariance), before)


def along(
    source: ShardSource, point: Point, near: Near, directions: Array, lengths: Array
) -> Array:
    """Task: sums of l with the groups' latents held at their mode at beta, or where the method
    averages at their best mean: (D, T), for directions (D, p) and lengths (D, T)."""
    with _asked(source) as shard:
        try:
            none = np.zeros_like(_unknown(shard))
            e = shard.eliminated(shard.point(point.theta, point.beta, none), near)
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
