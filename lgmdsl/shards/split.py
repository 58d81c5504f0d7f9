"""`lgm shard`: a table sorted by groups once, whole groups to a shard, in bounded memory.

A group goes to the shard that a hash of its label names, so that shards are of about one size and
depend on the table alone. Its rows are read by batches and dealt out to files, which
are then sorted one by one. Never more than a batch, or one shard, is in memory. Dates that name
groups are read once more before, and written as texts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lgmdsl import __version__
from lgmdsl.canonical.grounding.labels import labels_of
from lgmdsl.dataset.arrow import from_arrow, text_types
from lgmdsl.dataset.refusals import check_regular, refused, refusing
from lgmdsl.errors import DataError, Diagnostic, MethodError
from lgmdsl.files import write
from lgmdsl.remedies import either
from lgmdsl.shards.keys import (
    BATCH,
    check_column,
    dates_as_text,
    missing,
    plain,
    shard_of,
    unit_of_dates,
)
from lgmdsl.shards.manifest import MOST, NAME, Manifest, ShardFile, check_new, sha256_of

ROWS = 4_000_000  # of a shard, where nobody says how many shards there are to be
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
        raise MethodError(
            Diagnostic(
                "E108",
                f"`shards` must be a whole number from 1 to {MOST:,}",
                help=either("--shards 8", "shards=8"),
            )
        )
    source, target = Path(os.fsdecode(rows)), Path(os.path.abspath(os.fsdecode(output)))
    check_regular(source)
    with refusing(source.name, "its rows cannot be read"):
        file = pq.ParquetFile(source)
    with file:
        schema = file.schema_arrow
        check_column(source.name, schema, by)
        count = int(file.metadata.num_rows)
        if not count:
            raise refused(source.name, "it has no rows")
        check_new(target)
        number = shards if shards is not None else -(-count // ROWS)
        with refusing(str(target), "it cannot be made"):
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            parts = _dealt(file, source.name, by, number, scratch, count, on_rows)
            files: list[ShardFile] = []
            for bucket, path in parts:
                with refusing(source.name, "its rows cannot be sorted"):
                    files.append(_sorted(path, by, scratch, len(files), bucket))
                path.unlink()
            columns = tuple((f.name, str(f.type)) for f in pq.read_schema(files[0].path))
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

    unit = unit_of_dates(file, source, by)
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
            absent = missing(labels)
            if absent.any():
                first = done + int(np.flatnonzero(absent)[0])
                raise DataError(
                    Diagnostic(
                        "E304",
                        f"`{by}` is missing in row {first:,} of {source}",
                        help="leave such rows out, or give them a group of their own",
                    )
                )
            table = _without_views(pa.Table.from_batches([batch]))
            labels = table.column(by).combine_chunks()
            if unit:
                labels = dates_as_text(labels, unit)
                table = table.set_column(table.column_names.index(by), by, labels)
            where = shard_of(labels, number)
            for k in np.unique(where):
                part = table.take(pa.array(np.flatnonzero(where == k)))
                if k not in writers:
                    writer = pq.ParquetWriter(paths[k], table.schema, compression="lz4")
                    writers[int(k)] = stack.enter_context(writer)
                writers[int(k)].write_table(part)
            done += batch.num_rows
            on_rows(done, count)
    return [(k, paths[k]) for k in sorted(writers)]


def _without_views(table: Any) -> Any:
    """Texts in a layout that rows can be taken of."""
    import pyarrow as pa

    plain = pa.types.is_string, pa.types.is_large_string
    for k, column in enumerate(table.columns):
        is_text, is_plain = (any(f(column.type) for f in fs) for fs in (text_types(), plain))
        if is_text and not is_plain:
            table = table.set_column(k, table.column_names[k], column.cast(pa.large_string()))
    return table


def _sorted(path: Path, by: str, scratch: Path, k: int, bucket: int) -> ShardFile:
    """One shard, rows of a group together in the order of the table."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(path, use_threads=False)
    column = plain(table.column(by))
    # A stable order: rows of a group stay as they were.
    order = pc.sort_indices(
        pa.table({"group": column, "row": pa.array(np.arange(len(column)))}),
        sort_keys=[("group", "ascending"), ("row", "ascending")],
    )
    final = scratch / f"shard-{k:05d}.parquet"
    pq.write_table(table.take(order), final, row_group_size=GROUP, compression="zstd")
    groups = len(np.unique(labels_of(from_arrow(path.name, by, column)).values))
    return ShardFile(str(final), sha256_of(final), len(column), groups, bucket)
