"""Columns as a .parquet file, a row group at a time (pyarrow, extra `data`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from lgmdsl.dataset.entries import Entry
from lgmdsl.dataset.refusals import refused


def check_pyarrow(path: str) -> None:
    """Raise DataError E306 where a .parquet file cannot be written, before any work."""
    if find_spec("pyarrow") is None:
        raise refused(
            path,
            "writing .parquet needs pyarrow, which is not installed",
            help="pip install 'lgmdsl[data]'",
        )


def text_types() -> tuple[Any, ...]:
    """Whether an Arrow type is one of text: a function for each."""
    import pyarrow as pa

    known = pa.types
    views = (known.is_string_view,) if hasattr(known, "is_string_view") else ()
    return known.is_string, known.is_large_string, *views


def opened(table: str) -> Any:
    """The file of a batched entry as pyarrow's dataset, whose format the ending names."""
    import pyarrow.dataset as pads

    return pads.dataset(table, format=Path(table).suffix.lower().removeprefix("."))


def column_types(entries: Mapping[str, Entry]) -> dict[str, Any]:
    """The Arrow types of columns of numbers and text that come from a batched file."""
    import pyarrow as pa

    known = pa.types
    kept = (known.is_boolean, known.is_integer, known.is_floating, *text_types())
    out: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for key, entry in entries.items():
        if not entry.batched:
            continue
        if entry.table not in schemas:
            schemas[entry.table] = opened(entry.table).schema
        kind = schemas[entry.table].field(key).type
        if any(is_one(kind) for is_one in kept):
            out[key] = kind
    return out


def write_parquet(
    file: IO[bytes], parts: Iterable[Mapping[str, Any]], types: Mapping[str, Any]
) -> None:
    """Columns (arrays, or lists where entries are missing) of consecutive rows, each part a row
    group. NaN is written as null. `types`: those of some columns by name; others have that of the
    first part."""
    import pyarrow.parquet as pq

    writer = None
    try:
        for columns in parts:
            table = _table(columns, types if writer is None else _types(writer.schema))
            if writer is None:
                writer = pq.ParquetWriter(file, table.schema, compression="zstd")
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _types(schema: Any) -> dict[str, Any]:
    return {field.name: field.type for field in schema}


def _table(columns: Mapping[str, Any], types: Mapping[str, Any]) -> Any:
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        text = getattr(getattr(values, "dtype", None), "kind", "") in ("U", "O")
        array = pa.array(values.tolist() if text else values, from_pandas=True)
        empty = pa.string() if pa.types.is_null(array.type) else array.type
        arrays[name] = array.cast(types.get(name, empty))
    return pa.table(arrays)
