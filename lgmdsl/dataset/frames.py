"""pandas and polars frames and series, recognised without importing either library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from lgmdsl.dataset.convert import clock_text, from_decimals, from_numpy, from_sequence, leveled
from lgmdsl.dataset.entries import Entry, Loaded, a_table
from lgmdsl.dataset.refusals import refused, refusing


def library(value: Any) -> str:
    """The top-level package of a value's class: `pandas`, `polars`, `xarray`, `scipy` ..."""
    return type(value).__module__.split(".", 1)[0]


def is_pandas(value: Any) -> bool:
    """Whether the value is a pandas frame, also one of geopandas."""
    return any(
        c.__module__.split(".", 1)[0] == "pandas" and c.__name__ == "DataFrame"
        for c in type(value).__mro__
    )


def is_frame(value: Any) -> bool:
    """Whether the value is a table of columns: of pandas or polars, an Arrow table, a DuckDB
    relation, and anything that narwhals takes or that says it is a table (`__arrow_c_stream__`,
    `__dataframe__`)."""
    if is_pandas(value) or (library(value) == "polars" and _named(value, "DataFrame", "LazyFrame")):
        return True
    if library(value) == "duckdb":
        return _named(value, "DuckDBPyRelation")
    if hasattr(value, "__narwhals_dataframe__") or hasattr(value, "__narwhals_lazyframe__"):
        return True
    table = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__dataframe__")
    columns = library(value) in ("pandas", "polars", "pyarrow") and not _is_arrow(value)
    return _is_arrow(value) or (table and not columns and not hasattr(value, "__array__"))


def _named(value: Any, *names: str) -> bool:
    return type(value).__name__ in names


def _is_arrow(value: Any) -> bool:
    return library(value) == "pyarrow" and _named(value, "Table", "RecordBatch")


def from_frame(source: str, frame: Any) -> Mapping[str, Entry]:
    """The columns of a frame, and a pandas index that has a name."""
    if is_pandas(frame):
        return _from_pandas(source, frame)
    if not (library(frame) == "polars" and _named(frame, "DataFrame")):
        frame = frame if _is_arrow(frame) else _native(source, frame)
    if _is_arrow(frame):
        from lgmdsl.dataset.arrow import from_table

        return from_table(source, frame)
    names, table = [str(name) for name in frame.columns], a_table()
    with refusing(source, "the frame cannot be read"):
        return {
            name: Entry(
                name,
                source,
                (len(frame),),
                partial(from_series, source, name, frame[name]),
                table=table,
            )
            for name in names
        }


def _native(source: str, frame: Any) -> Any:
    """A frame of another library: through narwhals, collected where it is lazy; else as an Arrow
    table by one of the two protocols of tables."""
    for needed in ("narwhals", "pyarrow"):
        if find_spec(needed) is None:
            raise refused(
                source,
                f"a frame of {library(frame)} needs {needed}, which is not installed",
                help="pip install 'lgmdsl[data]'",
            )
    import narwhals as nw
    import pyarrow as pa

    with refusing(source, "the frame cannot be read"):
        known = nw.from_native(frame, pass_through=True)
        if isinstance(known, nw.LazyFrame):
            known = known.collect()
        if isinstance(known, nw.DataFrame):
            native = nw.to_native(known)
            return native if _is_arrow(native) else known
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
        from pyarrow.interchange import from_dataframe

        return from_dataframe(frame)


def _from_pandas(source: str, frame: Any) -> Mapping[str, Entry]:
    with refusing(source, "the frame cannot be read"):
        levels = getattr(frame.columns, "nlevels", 1)
        if levels > 1:
            raise refused(
                source,
                f"the frame's columns have {levels} levels of names",
                help='give each one name: frame.columns = ["_".join(map(str, c)) for c in '
                "frame.columns]",
            )
        columns = [str(name) for name in frame.columns]
        if len(set(columns)) < len(columns):
            twice = next(name for name in columns if columns.count(name) > 1)
            raise refused(source, f"the frame has two columns `{twice}`")
        labels, weak = index_labels(source, frame.index)
        table = a_table()
        entries = {
            name: Entry(
                name,
                source,
                (len(frame),),
                partial(from_series, source, name, frame.iloc[:, column]),
                labels=(labels,),
                weak=weak,
                table=table,
            )
            for column, name in enumerate(columns)
        }
        name = frame.index.name
        if isinstance(name, str) and name not in entries and labels is not None:
            entries[name] = Entry(name, source, (len(frame),), lambda: labels, table=table)
        return entries


def index_labels(source: str, index: Any) -> tuple[Loaded | None, bool]:
    """The labels of a pandas index, and whether they are only positions 0..n-1: the default, or in
    place of unnamed labels that repeat, as a bootstrap sample's do."""
    with refusing(source, "the frame's index cannot be read"):
        if getattr(index, "nlevels", 1) > 1:
            raise refused(
                source,
                "a frame with several index levels has no single label for a row",
                help="frame.reset_index()",
            )
        if index.name is None and not index.is_unique:  # rows drawn with replacement: no names
            return Loaded(np.arange(len(index))), True
        default = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
        return from_series(source, "index", index), bool(default and index.name is None)


def from_series(source: str, name: str, series: Any) -> Loaded:
    """A column: numbers with their missing entries as a mask, else text."""
    with refusing(source, f"column `{name}` cannot be read"):
        kind = getattr(series.dtype, "kind", "O")
        if library(series) == "pandas" and kind == "m":
            help = f'numbers of one unit, as days: frame["{name}"].dt.total_seconds() / 86400'
            raise refused(source, f"column `{name}` holds durations", help=help)
        if library(series) == "pandas" and kind in "biufM" and len(series):
            missing = np.asarray(series.isna(), dtype=bool)
            if not missing.any() and kind != "M":
                return from_numpy(source, name, np.array(series.to_numpy(_plain(kind, series))))
            if kind in "biu":
                known = np.array(series.fillna(kind != "b" and 0).to_numpy(_plain(kind, series)))
                return from_numpy(source, name, np.ma.MaskedArray(known, missing))
            if kind == "f" and not isinstance(series.dtype, np.dtype):
                values = np.array(series.to_numpy(dtype=_plain(kind, series), na_value=np.nan))
                return from_numpy(source, name, np.ma.MaskedArray(values, missing))
            values = np.array(series.to_numpy())
            return from_numpy(source, name, np.ma.MaskedArray(values, missing))
        if library(series) == "pandas" and hasattr(series.dtype, "categories"):
            return _of_categories(source, name, series)
        if library(series) in ("polars", "narwhals") and series.dtype.is_numeric():
            gone = np.asarray(series.is_null().to_numpy(), dtype=bool)
            if series.dtype.is_decimal():
                return from_decimals(source, name, series.cast(_types_of(series).String).to_list())
            values = np.array(series.fill_null(0).to_numpy() if gone.any() else series.to_numpy())
            if gone.any() and values.dtype.kind == "f":
                values[gone] = np.nan
            return from_numpy(source, name, np.ma.MaskedArray(values, gone))
        if library(series) in ("polars", "narwhals"):
            if _named(series.dtype, "Date", "Datetime"):
                return from_numpy(source, name, np.array(series.to_numpy()))
            if _named(series.dtype, "Time"):
                gone = np.asarray(series.is_null().to_numpy(), dtype=bool)
                counted = series.cast(_types_of(series).Int64).fill_null(0).to_numpy()
                texts = np.where(gone, "", clock_text(np.asarray(counted, dtype=np.int64)))
                return Loaded(texts, gone if gone.any() else None)
        items = series.to_list() if hasattr(series, "to_list") else list(series)
        levels = _levels(series.dtype)
        if levels is None:
            return from_sequence(source, name, items)
        return leveled(from_sequence(source, name, items), from_sequence(source, name, levels))


def _of_categories(source: str, name: str, series: Any) -> Loaded:
    """A categorical of pandas, by its categories."""
    known = from_series(source, name, series.dtype.categories)
    codes = np.asarray(getattr(series, "array", series).codes)
    gone = codes < 0
    if gone.all():
        loaded = from_sequence(source, name, [None] * len(codes))
    else:
        loaded = known.rows(np.where(gone, 0, codes))
        missing = loaded.absent | gone
        if loaded.values.dtype.kind == "f":
            loaded.values[gone] = np.nan
        loaded = replace(loaded, missing=missing if missing.any() else None)
    return leveled(loaded, known) if series.dtype.ordered else loaded


def _levels(dtype: Any) -> list[Any] | None:
    """The levels of an Enum of polars and narwhals, in their order; plain categoricals have
    none."""
    return list(dtype.categories) if type(dtype).__name__ == "Enum" else None


def _plain(kind: str, series: Any) -> Any:
    """The numpy type of a pandas column without missing entries (Int64 is not one)."""
    if isinstance(series.dtype, np.dtype):
        return series.dtype
    if kind == "f":
        return np.float32 if series.dtype.itemsize == 4 else np.float64
    return {"b": np.bool_, "i": np.int64, "u": np.uint64}[kind]


def _types_of(series: Any) -> Any:
    """The library that names the types of a series."""
    if library(series) == "polars":
        import polars as pl

        return pl
    import narwhals as nw

    return nw
