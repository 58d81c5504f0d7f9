"""Labels of groups in a column of a table: of which types they may be, which are missing, and the
shard that each names."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from lgmdsl.arrays import BoolArray, IntArray
from lgmdsl.dataset.arrow import text_types
from lgmdsl.dataset.entries import texts_of
from lgmdsl.dataset.refusals import refused, refusing
from lgmdsl.errors import DataError, Diagnostic, suggestion
from lgmdsl.shards.manifest import ShardFile
from lgmdsl.shards.refusals import without_shard

BATCH = 1 << 18  # rows that are read together


def check_column(source: str, schema: Any, by: str) -> None:
    """Raise DataError E306 for a table with two columns of one name, or whose column `by` holds no
    labels; E305 for one without the column."""
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
    if not any(is_one(kind) for is_one in _kinds()):
        raise refused(
            source,
            f"`{by}` holds {kind}, not labels of groups",
            help="groups are named by numbers, texts or dates; write them as texts",
        )


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
    absent = missing(labels)
    out = np.zeros(len(labels), dtype=np.int64)
    out[~absent] = shard_of(labels.filter(pa.array(~absent)), number)
    return out


def check_rows(file: ShardFile, by: str, buckets: int) -> None:
    """Raise WorkerError E703 for rows that are not those of the manifest: a group in two shards
    would be two groups."""
    import pyarrow.parquet as pq

    column = pq.read_table(file.path, columns=[by], use_threads=False)
    if len(column) != file.rows:
        raise without_shard(file.path, "it has other rows than its manifest says")
    kind = column.schema.field(by).type
    if (buckets_of(column, by, kind, buckets, file.name) != file.bucket).any():
        raise without_shard(file.path, "it has groups that belong to other shards")


def shard_of(labels: Any, number: int) -> IntArray:
    """The shard of each label of an Arrow array: of whole numbers by a mixing of their
    bits (splitmix64: Steele, Lea and Flood 2014), of texts, and of fractions by the digits that
    they are as labels, by their CRC-32, mixed."""
    import pyarrow as pa

    kind = labels.type
    if pa.types.is_dictionary(kind):
        codes = labels.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return np.asarray(shard_of(labels.dictionary, number)[codes])
    if not any(is_one(kind) for is_one in (*text_types(), *_fractions())):
        words = labels.to_numpy(zero_copy_only=False)
        return _mixed(words.astype(np.int64).view(np.uint64), number)
    if pa.types.is_floating(kind):
        labels = pa.array(texts_of(labels.to_numpy(zero_copy_only=False) + 0.0).tolist())
    coded = labels.cast(pa.large_string()).dictionary_encode()
    texts = [zlib.crc32(t.encode()) for t in coded.dictionary.to_pylist()]
    codes = coded.indices.to_numpy(zero_copy_only=False)
    return np.asarray(_mixed(np.array(texts, dtype=np.uint64), number)[codes])


def _mixed(words: Any, number: int) -> IntArray:
    with np.errstate(over="ignore"):
        x = words + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return np.asarray((x % np.uint64(number)).astype(np.int64))


def missing(labels: Any) -> BoolArray:
    """Which labels a fit would take for missing: nulls, NaN, and texts without characters."""
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = plain(labels)
    if pa.types.is_large_string(labels.type):
        labels = pc.if_else(pc.equal(labels, ""), None, labels)
    absent = labels.is_null(nan_is_null=True)
    return np.asarray(absent.to_numpy(zero_copy_only=False), dtype=np.bool_)


def plain(labels: Any) -> Any:
    """Labels as they are, not as places among categories, with texts in one layout."""
    import pyarrow as pa

    if pa.types.is_dictionary(labels.type):
        labels = labels.cast(labels.type.value_type)
    texts = any(is_text(labels.type) for is_text in text_types())
    return labels.cast(pa.large_string()) if texts else labels


def unit_of_dates(file: Any, source: str, by: str) -> str:
    """The coarsest unit that all dates of the groups are whole numbers of, which says how labels
    are spelt (`dataset.convert.date_text`); "" for other labels. They are written as texts, since a
    shard by itself would not know."""

    if not any(is_date(file.schema_arrow.field(by).type) for is_date in _dates()):
        return ""
    units = ["D", "s", "us"]
    with refusing(source, "its rows cannot be read"):
        for batch in file.iter_batches(batch_size=BATCH, columns=[by], use_threads=False):
            known = batch.column(by).drop_null().to_numpy(zero_copy_only=False)
            units = [u for u in units if (known.astype(f"datetime64[{u}]") == known).all()]
    return units[0] if units else "ns"


def dates_as_text(labels: Any, unit: str) -> Any:
    """Dates of an Arrow array as texts."""
    import pyarrow as pa

    times = labels.to_numpy(zero_copy_only=False)
    return pa.array(times.astype(f"datetime64[{unit}]").astype(np.str_).tolist(), pa.string())


def without_column(source: str, by: str, names: Sequence[str]) -> DataError:
    """E305 for a table without the column of the groups."""
    return DataError(
        Diagnostic(
            "E305",
            f"{source} has no column `{by}`",
            help=suggestion(by, names, then=f"columns: {', '.join(names)}"),
        )
    )


def _kinds() -> tuple[Any, ...]:
    """The types of Arrow columns that a fit reads labels from."""
    import pyarrow as pa

    return (*text_types(), *_dates(), *_fractions(), pa.types.is_integer, pa.types.is_boolean)


def _dates() -> tuple[Any, ...]:
    import pyarrow as pa

    return pa.types.is_date, pa.types.is_timestamp


def _fractions() -> tuple[Any, ...]:
    import pyarrow as pa

    return pa.types.is_floating, pa.types.is_decimal
