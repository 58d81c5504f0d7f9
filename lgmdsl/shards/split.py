"""`lgm shard`: a table sorted by groups once, whole groups to a shard, in bounded memory.

A group goes to the shard that a hash of its label names, so that shards are of about one size and
depend on the table alone. The table is read twice by batches: once to count (rows, labels that are
missing), once to deal rows out to files, which are then sorted one by one. Never more than a batch,
or one shard, is in memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lgmdsl import __version__
from lgmdsl.arrays import BoolArray, IntArray
from lgmdsl.dataset.refusals import refused, refusing
from lgmdsl.errors import DataError, Diagnostic, MethodError, suggestion
from lgmdsl.files import write
from lgmdsl.shards.manifest import NAME, Manifest, ShardFile, check_new, sha256_of

ROWS = 4_000_000  # of a shard, where nobody says how many shards there are to be
MOST = 4_096  # shards: each is an open file while rows are dealt out
BATCH = 1 << 18
GROUP = 1 << 20  # rows of a row group


def split(
    rows: str | os.PathLike[str],
    by: str,
    output: str | os.PathLike[str],
    shards: int | None = None,
    on_rows: Callable[[int, int], None] = lambda done, of: None,
) -> Manifest:
    """Split a .parquet file by the groups that the column `by` names into a new folder. `shards`:
    how many, by default one for each 4 million rows; at most as many as there are groups with
    distinct hashes (a shard without rows is left out).

    Raises DataError E306 for what is no .parquet file, a column that it lacks or that holds no
    labels, labels that are missing (E304), an empty table, and a folder that is there already;
    MethodError E108 for a number of shards below 1 or above 4,096.
    """
    import pyarrow.parquet as pq

    if shards is not None and not (
        isinstance(shards, int) and not isinstance(shards, bool) and 1 <= shards <= MOST
    ):
        raise MethodError(Diagnostic("E108", f"`shards` must be a whole number from 1 to {MOST:,}"))
    source, target = Path(os.fsdecode(rows)), Path(os.path.abspath(os.fsdecode(output)))
    with refusing(source.name, "its rows cannot be read"):
        file = pq.ParquetFile(source)
    with file:
        schema = file.schema_arrow
        _check_column(source.name, schema, by)
        count = int(file.metadata.num_rows)
        if not count:
            raise refused(source.name, "it has no rows")
        check_new(target)
        number = shards if shards is not None else -(-count // ROWS)
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            parts = _dealt(file, source.name, by, number, scratch, count, on_rows)
            files: list[ShardFile] = []
            for bucket, path in parts:
                with refusing(source.name, "its rows cannot be sorted"):
                    files.append(_sorted(path, by, scratch, len(files), bucket))
                path.unlink()
            columns = tuple((f.name, str(f.type)) for f in schema)
            made = Manifest(by, number, columns, tuple(files), __version__)
            write(scratch / NAME, made.text().encode())
            if target.is_dir():
                target.rmdir()
            scratch.chmod(0o755)
            scratch.rename(target)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
    at = tuple(replace(f, path=str(target / os.path.basename(f.path))) for f in files)
    return replace(made, shards=at, sha256=sha256_of(target / NAME))


def _check_column(source: str, schema: Any, by: str) -> None:
    import pyarrow as pa

    twice = {name for name in schema.names if schema.names.count(name) > 1}
    if twice:
        raise refused(
            source, f"it has two columns `{min(twice)}`", help="rename or drop one of them"
        )
    if by not in schema.names:
        raise without_column(source, by, schema.names)
    kind = schema.field(by).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    known = pa.types
    if not any(f(kind) for f in (known.is_integer, known.is_string, known.is_large_string)):
        raise refused(
            source,
            f"`{by}` holds {kind}, not labels of groups",
            help="groups are named by whole numbers or texts"
            + (
                ": a gap turns whole numbers into decimals; leave such rows out and write integers"
                if known.is_floating(kind)
                else "; write them as texts"
            ),
        )


def _dealt(
    file: Any,
    source: str,
    by: str,
    number: int,
    scratch: Path,
    count: int,
    on_rows: Callable[[int, int], None],
) -> list[tuple[int, Path]]:
    """Files with the rows of each hash of labels, in the order of the table; those without rows are
    none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [scratch / f"part-{k}.parquet" for k in range(number)]
    writers: dict[int, Any] = {}
    done = 0
    with ExitStack() as stack:
        batches = file.iter_batches(batch_size=BATCH, use_threads=False)
        while True:
            with refusing(source, "its rows cannot be read"):
                batch = next(batches, None)
            if batch is None:
                break
            labels = batch.column(by)
            missing = _missing(labels)
            if missing.any():
                first = done + int(np.flatnonzero(missing)[0])
                raise DataError(
                    Diagnostic(
                        "E304",
                        f"`{by}` is missing in row {first:,} of {source}",
                        help="leave such rows out, or give them a group of their own",
                    )
                )
            where = shard_of(labels, number)
            table = pa.Table.from_batches([batch])
            for k in np.unique(where):
                part = table.take(pa.array(np.flatnonzero(where == k)))
                if k not in writers:
                    writer = pq.ParquetWriter(paths[k], table.schema, compression="lz4")
                    writers[int(k)] = stack.enter_context(writer)
                writers[int(k)].write_table(part)
            done += batch.num_rows
            on_rows(done, count)
    return [(k, paths[k]) for k in sorted(writers)]


def _missing(labels: Any) -> BoolArray:
    """Which labels a fit would take for missing: nulls, and texts without characters."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = labels.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        labels = labels.cast(kind)
    if not pa.types.is_integer(kind):
        labels = pc.if_else(pc.equal(labels, ""), None, labels)
    return np.asarray(labels.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def shard_of(labels: Any, number: int) -> IntArray:
    """The shard of each label of an Arrow array: of whole numbers by a mixing of their bits
    (splitmix64: Steele, Lea and Flood 2014), of texts by their CRC-32, mixed."""
    import pyarrow as pa

    kind = labels.type
    if pa.types.is_dictionary(kind):
        codes = labels.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return np.asarray(shard_of(labels.dictionary, number)[codes])
    if pa.types.is_integer(kind):
        words = labels.to_numpy(zero_copy_only=False)
        return _mixed(words.astype(np.int64).view(np.uint64), number)
    coded = labels.dictionary_encode()
    texts = [zlib.crc32(t.encode()) for t in coded.dictionary.to_pylist()]
    codes = coded.indices.to_numpy(zero_copy_only=False)
    return np.asarray(_mixed(np.array(texts, dtype=np.uint64), number)[codes])


def buckets_of(table: Any, by: str, like: Any, number: int, source: str) -> IntArray:
    """The hashes of the labels in a column of an Arrow table, as where they are of the type `like`,
    0 where they are missing. Raises DataError E305 for a table without the column, E306 for one of
    a type that has no such labels."""
    import pyarrow as pa

    if by not in table.column_names:
        raise without_column(source, by, table.column_names)
    labels = table.column(by)
    with refusing(source, f"`{by}` holds {labels.type}, and the groups of the fit are {like}"):
        plain = like.value_type if pa.types.is_dictionary(like) else like
        labels = labels.cast(
            labels.type.value_type if pa.types.is_dictionary(labels.type) else plain
        )
        labels = labels.cast(plain).combine_chunks()
    missing = _missing(labels)
    out = np.zeros(len(labels), dtype=np.int64)
    out[~missing] = shard_of(labels.filter(pa.array(~missing)), number)
    return out


def without_column(source: str, by: str, names: Sequence[str]) -> DataError:
    """E305 for a table without the column of the groups."""
    return DataError(
        Diagnostic(
            "E305",
            f"{source} has no column `{by}`",
            help=suggestion(by, names, then=f"columns: {', '.join(names)}"),
        )
    )


def _mixed(words: Any, number: int) -> IntArray:
    with np.errstate(over="ignore"):
        x = words + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return np.asarray((x % np.uint64(number)).astype(np.int64))


def _sorted(path: Path, by: str, scratch: Path, k: int, bucket: int) -> ShardFile:
    """One shard, rows of a group together in the order of the table."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(path, use_threads=False)
    column = table.column(by)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    # A stable order: rows of a group stay as they were.
    order = pc.sort_indices(
        pa.table({"group": column, "row": pa.array(np.arange(len(column)))}),
        sort_keys=[("group", "ascending"), ("row", "ascending")],
    )
    final = scratch / f"shard-{k:05d}.parquet"
    pq.write_table(table.take(order), final, row_group_size=GROUP, compression="zstd")
    groups = int(pc.count_distinct(column).as_py())
    return ShardFile(str(final), sha256_of(final), len(column), groups, bucket)
