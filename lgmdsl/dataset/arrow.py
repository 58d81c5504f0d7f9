""".parquet files and Arrow tables, read column by column with pyarrow (extra `data`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np

from lgmdsl.dataset.convert import clock_text, from_decimals, from_numpy, from_sequence, leveled
from lgmdsl.dataset.entries import Entry, Loaded, a_table
from lgmdsl.dataset.refusals import check_memory, refused, refusing


def read_parquet(path: Path) -> Mapping[str, Entry]:
    """The columns of a .parquet file; values are read when asked for.

    Raises E306 where pyarrow is not installed or the file is damaged.
    """
    source = path.name
    if find_spec("pyarrow") is None:
        raise refused(
            source,
            "reading .parquet needs pyarrow, which is not installed",
            help="pip install 'lgmdsl[data]'",
        )
    with refusing(source, "not a readable .parquet file"):
        import pyarrow.parquet as pq

        with path.open("rb") as stream:
            file = pq.ParquetFile(stream)
            names, rows = list(file.schema_arrow.names), int(file.metadata.num_rows)
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise refused(source, f"it has two columns `{min(repeated)}`")
    if rows < 0:
        raise refused(source, f"it claims {rows} rows")
    return {
        name: Entry(
            name, source, (rows,), partial(_load, path, name, rows), table=str(path), batched=True
        )
        for name in names
    }


def _load(path: Path, name: str, rows: int) -> Loaded:
    source = path.name
    check_memory(source, name, (rows,), 8)
    with refusing(source, f"column `{name}` cannot be read"):
        import pyarrow.parquet as pq

        with path.open("rb") as stream:
            column = pq.ParquetFile(stream).read(columns=[name], use_threads=False).column(name)
        if len(column) != rows:
            raise refused(source, f"`{name}` has {len(column)} of the {rows} rows it claims")
        return from_arrow(source, name, column)


def from_table(source: str, table: Any) -> Mapping[str, Entry]:
    """The columns of an Arrow table in memory."""
    names, identity = [str(name) for name in table.column_names], a_table()
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise refused(source, f"the table has two columns `{repeated[0]}`")
    return {
        str(name): Entry(
            str(name),
            source,
            (int(table.num_rows),),
            partial(from_arrow, source, str(name), table.column(name)),
            table=identity,
        )
        for name in table.column_names
    }


def from_arrow(source: str, name: str, column: Any) -> Loaded:
    """An Arrow column (chunked or not): nulls become a mask."""
    import pyarrow as pa

    with refusing(source, f"column `{name}` cannot be read"):
        if pa.types.is_dictionary(column.type):
            if column.type.ordered:
                return _ordered(source, name, column)
            column = column.cast(column.type.value_type)
        kind = column.type
        if pa.types.is_decimal(kind):
            return from_decimals(source, name, column.cast(pa.string()).to_pylist())
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return from_numpy(source, name, np.asarray(column.to_numpy(zero_copy_only=False)))
        if pa.types.is_time(kind):
            return _clocks(column)
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=bool)
            if missing.any():
                column = column.fill_null(False if pa.types.is_boolean(kind) else 0)
            values = np.array(column.to_numpy(zero_copy_only=False))
            if missing.any() and values.dtype.kind == "f":
                values[missing] = np.nan
            return from_numpy(source, name, np.ma.MaskedArray(values, missing))
        return from_sequence(source, name, column.to_pylist())


def _clocks(column: Any) -> Loaded:
    """Times of day."""
    import pyarrow as pa

    missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    counted = column.cast(pa.time64("ns")).cast(pa.int64()).fill_null(0)
    texts = clock_text(np.asarray(counted.to_numpy(zero_copy_only=False)))
    return Loaded(np.where(missing, "", texts), missing if missing.any() else None)


def _ordered(source: str, name: str, column: Any) -> Loaded:
    """An ordered dictionary: the values, and all of its entries in their order as levels."""
    whole = column.unify_dictionaries() if hasattr(column, "chunks") else column
    chunks = getattr(whole, "chunks", [whole])
    values = from_arrow(source, name, column.cast(column.type.value_type))
    if not chunks:
        return values
    return leveled(values, from_arrow(source, name, chunks[0].dictionary))


# ---- parquet -----------------------------------------------------------------------------------
# Columns as a .parquet file, a row group at a time (pyarrow, extra `data`).


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
