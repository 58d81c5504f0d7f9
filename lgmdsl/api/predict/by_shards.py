"""Predictions at the rows of a folder of shards: a .parquet file for each, in its rows' order.

The latents of a group are with the shard of its rows. New rows of a fit to shards are dealt out to
the shards that hold their groups, which the hash of a label names; groups that no shard holds have
their prior, next to any.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lgmdsl.api.columns import LEVELS
from lgmdsl.api.jobs import workers_for
from lgmdsl.api.predict.by_batches import Tables, predicted_pieces
from lgmdsl.api.predict.table import outside
from lgmdsl.api.sharding import shared_at, sources_of
from lgmdsl.arrays import Array
from lgmdsl.dataset import Keys, read
from lgmdsl.dataset.arrow import check_pyarrow, column_types, write_parquet
from lgmdsl.errors import DataError, Diagnostic, with_note
from lgmdsl.files import write_filled
from lgmdsl.posterior.marginals import column_levels
from lgmdsl.shards.groups import AtTheta
from lgmdsl.shards.joint import joined
from lgmdsl.shards.keys import buckets_of
from lgmdsl.shards.manifest import Manifest, ShardFile, filling, read_manifest
from lgmdsl.shards.model import shards_of
from lgmdsl.shards.refusals import other_folder
from lgmdsl.shards.shard import ShardSource
from lgmdsl.shards.shelf import SHELF
from lgmdsl.workers.task import Jobs, Task
from lgmdsl.workers.workers import Workers

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

NAME = "predictions-{:05d}.parquet"


@dataclass(frozen=True)
class ShardPredictions:
    """What was written: a path for each shard, in order, with these `columns`. `left_out`: what is
    not over the rows; `warnings`: as those of a `Prediction`."""

    paths: tuple[Path, ...]
    columns: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


class Written(NamedTuple):
    """What a task wrote: names of columns, what is not over the rows, warnings."""

    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    warnings: tuple[Diagnostic, ...]


class Owners(NamedTuple):
    """The shards of a fit that may hold the groups of some rows, and the fit's `points`. `buckets`:
    by how many hashes of labels these were dealt out; 0 where there is one shard, which holds all
    groups of the rows."""

    sources: tuple[ShardSource, ...]
    points: tuple[AtTheta, ...]
    buckets: int


def predict_shards(
    fit: FitRecord,
    shards: str | os.PathLike[str],
    output: str | os.PathLike[str],
    fitted: object = None,
    quantiles: Sequence[float] | None = LEVELS,
    mapping: Keys | None = None,
    jobs: Jobs = None,
) -> ShardPredictions:
    """Write predictions at the rows of a folder (`Fit.predict_shards`)."""
    levels = column_levels(quantiles)
    check_pyarrow(os.fsdecode(output))
    manifest = read_manifest(shards)
    with workers_for(jobs, fit.model.tree) as workers, filling(output) as folder:
        owners = _owners(fit, shards, manifest, fitted, mapping, workers)
        starts, count = np.cumsum([0, *(s.rows for s in manifest.shards)]), len(manifest.shards)
        shared, tasks = [], []
        for k, shard in enumerate(manifest.shards):
            shared.append((fit, owners[k] if len(owners) > 1 else owners[0]))
            at = (shard, mapping, levels, str(folder), k, int(starts[k]))
            tasks.append((f"predictions of shard {k + 1} of {count}", at))
        try:
            written = _done(tasks, shared, workers)
        finally:
            for owner in owners:
                for source in () if owner is None else owner.sources:
                    SHELF.drop(source)
    said = {w.message: w for part in written for w in part.warnings}
    paths = tuple(folder / NAME.format(k) for k in range(count))
    return ShardPredictions(paths, written[0].columns, written[0].left_out, tuple(said.values()))


def _done(
    tasks: Sequence[tuple[str, tuple[Any, ...]]],
    shared: Sequence[tuple[Any, ...]],
    workers: Workers | None,
) -> list[Written]:
    pairs = list(zip(tasks, shared, strict=True))
    if workers is None:
        return [write_predictions(*given, *at) for (_, at), given in pairs]
    made = [
        Task(name, write_predictions, at, tuple(workers.bundle(g) for g in given))
        for (name, at), given in pairs
    ]
    return workers.results(made)


def _owners(
    fit: FitRecord,
    shards: str | os.PathLike[str],
    manifest: Manifest,
    fitted: object,
    mapping: Keys | None,
    workers: Workers | None,
) -> tuple[Owners | None, ...]:
    """`Owners` of each shard of the folder, or one for all of them; None for a fit that has the
    groups."""
    lying = shards_of(fit.canonical)
    if lying is None:
        return (None,)
    same = manifest.sha256 == lying.about.manifest
    if not same and fitted is None:
        raise other_folder(os.fsdecode(shards))
    known = shards if fitted is None else fitted
    sources = sources_of(fit, lying, known, mapping, workers)
    points = tuple(shared_at(lying, p) for p in fit.points)
    if same:
        return tuple(Owners((source,), points, 0) for source in sources)
    return (Owners(sources, points, sources[0].buckets),)


def write_predictions(
    fit: FitRecord,
    owners: Owners | None,
    shard: ShardFile,
    mapping: Keys | None,
    levels: Array,
    folder: str,
    number: int,
    first: int,
) -> Written:
    """Task: write the predictions at the rows of a shard, of which `first` come before. Raises what
    `predict` does of the rows, and as `shards.joint.joined`."""
    path = shard.checked()
    place = Path(folder) / NAME.format(number)
    try:
        if owners is None or len(owners.sources) == 1:
            known = fit if owners is None else _at_shard(fit, owners.sources[0], owners.points)
            return _written(known, path, mapping, levels, place, first)
        return _dealt(fit, owners, path, mapping, levels, place, first)
    except DataError as error:
        raise with_note(error, f"in {shard.name}") from None


def _at_shard(fit: FitRecord, source: ShardSource, points: Sequence[AtTheta]) -> FitRecord:
    """The fit, as one that has the groups of a shard."""
    known = shards_of(fit.canonical)
    assert known is not None, "groups lie in shards"
    canonical, sites = joined(known, source, points)
    mixed = tuple(
        replace(p, weight=s.weight, shift=s.shift, condition=s.condition)
        for p, s in zip(fit.points, sites, strict=True)
    )
    return replace(
        fit,
        canonical=canonical,
        theta=mixed[0].theta,
        weight=mixed[0].weight,
        shift=mixed[0].shift,
        condition=mixed[0].condition,
        mixed=mixed,
        stored={},
    )


def _written(
    fit: FitRecord, path: str, mapping: Keys | None, levels: Array, place: Path, first: int
) -> Written:
    """Write the predictions of one fit at all rows of a file."""
    dataset = read(path, mapping)
    warnings: list[Diagnostic] = []
    tables = Tables(predicted_pieces(fit, dataset, first=first), levels, warnings.extend)
    types = column_types(dataset.entries)
    write_filled(place, lambda file: write_parquet(file, tables.columns(), types))
    left = outside(tables.last) if tables.last is not None else ()
    return Written(tables.names, left, tuple(warnings))


def _dealt(
    fit: FitRecord,
    owners: Owners,
    path: str,
    mapping: Keys | None,
    levels: Array,
    place: Path,
    first: int,
) -> Written:
    """Write predictions at rows whose groups lie in several shards."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = owners.sources[0]
    key = source.by_key()
    rows = pq.read_table(path, use_threads=False)
    known: Mapping[int, int] = {s.file.bucket: k for k, s in enumerate(owners.sources)}
    like = pq.read_schema(source.file.checked()).field(key).type
    bucket = buckets_of(rows, key, like, owners.buckets, Path(path).name)
    # Groups that no shard holds are new ones next to the shared latents, in any shard.
    owner = np.array([known.get(b, 0) for b in range(owners.buckets)])[bucket]
    parts, order, said = list[Any](), [], list[Written]()
    with tempfile.TemporaryDirectory() as scratch:
        for k in np.unique(owner):
            where = np.flatnonzero(owner == k)
            some, made = Path(scratch) / "rows.parquet", Path(scratch) / "made.parquet"
            pq.write_table(rows.take(pa.array(where)), some)
            at = _at_shard(fit, owners.sources[k], owners.points)
            said.append(_written(at, str(some), mapping, levels, made, first))
            parts.append(pq.read_table(made, use_threads=False))
            order.append(where)
    back = np.argsort(np.concatenate(order), kind="stable")
    whole = pa.concat_tables(parts).take(pa.array(back))
    axis = fit.canonical.rows.over[0]
    if read(path, mapping).ask(axis) is None and axis in whole.column_names:  # rows are counted
        at = whole.column_names.index(axis)
        whole = whole.set_column(at, axis, pa.array(first + np.arange(len(whole))))
    write_filled(place, lambda file: pq.write_table(whole, file, compression="zstd"))
    return Written(said[0].columns, said[0].left_out, tuple(w for s in said for w in s.warnings))
