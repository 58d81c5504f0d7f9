"""The posterior of the groups' latents, shard by shard, as .parquet.

    u | theta ~ N(u(beta^), D^-1 + J V J'),   J = -D^-1 C,   beta^ and V the mean and covariance
                                                             of the shared latents at theta

and where hyperparameters were integrated over, the moments of the mixture: sum w m, and
sum w (v + m^2) - (sum w m)^2 by differences from the first mean.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.grounding.labels import reported
from lgmdsl.contract.engine import Rows
from lgmdsl.files import write
from lgmdsl.shards.shard import Shard, ShardSource

NAME = "groups-{:05d}.parquet"


@dataclass(frozen=True, eq=False)
class AtTheta:
    """A point of a fit to all shards: theta, its share of the mixture, its sites, and the shared
    latents' mean and covariance, laid out as `Eliminated.information`."""

    theta: Theta
    share: float
    weight: Rows
    shift: Rows
    mean: Array
    covariance: Array


def write_groups(
    source: ShardSource, points: Sequence[AtTheta], folder: str, number: int
) -> tuple[int, list[str]]:
    """Task: write the means and sds of a shard's groups; how many there are, and the columns.

    Raises NumericalError E601 where the groups have no mode at a point."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shard = source.shard()
    with shard.lock, np.errstate(all="ignore"):
        mean, sd = _moments(shard, points)
    members = shard.members
    labels = reported(shard.model.layout.labels[shard.roles.index][members])
    key = source.by_key()
    if pa.types.is_floating(pq.read_schema(source.file.path).field(key).type):
        labels = labels.astype(np.float64)  # which a shard by itself may take for whole numbers
    columns = {key: pa.array(labels)}
    start = 0
    for latent in shard.model.latents:
        if latent.name not in shard.roles.inner:
            continue
        axis = latent.dims.index(shard.roles.index)
        part = slice(start, start + latent.size)
        start += latent.size
        both = [np.moveaxis(x[part].reshape(latent.sizes), axis, 0) for x in (mean, sd)]
        rest = tuple(d for d in latent.dims if d != shard.roles.index)
        for entry in np.ndindex(*both[0].shape[1:]):
            names = [str(shard.model.layout.labels[d][i]) for d, i in zip(rest, entry, strict=True)]
            name = f"{latent.name}[{', '.join(names)}]" if names else latent.name
            for kind, values in zip(("mean", "sd"), both, strict=True):
                columns[f"{name}.{kind}"] = pa.array(values[members][:, *entry])
    place = Path(folder) / NAME.format(number)
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content, compression="zstd")
    write(place, content.getbuffer())  # whole, also where a task is done twice
    return len(labels), list(columns)


def _moments(shard: Shard, points: Sequence[AtTheta]) -> tuple[Array, Array]:
    """(n,) means and sds of the groups' latents."""
    first: Array | None = None
    total, off, square = 0.0, np.zeros(()), np.zeros(())
    places = [shard.point(p.theta, p.mean, p.covariance) for p in points]
    for point, e in zip(points, shard.eliminated_at(places), strict=True):
        mean = e.q.latent_mean
        variance = e.q.latent_variance + e.spread(point.covariance)
        first = mean if first is None else first
        gap = mean - first
        total += point.share
        off = off + point.share * gap
        square = square + point.share * (variance + gap * gap)
    assert first is not None, "a posterior has a point"
    off, square = off / total, square / total
    return first + off, np.sqrt(np.maximum(square - off * off, 0.0))
