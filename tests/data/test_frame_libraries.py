"""Tables of other libraries: Arrow, DuckDB, and what says of itself that it is a table."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lgmdsl.dataset import read
from lgmdsl.errors import DataError
from tests.data.models import ROWS, bind

FRAME = pd.DataFrame(
    {
        "y": [3, 1, 2],
        "x": [0.5, None, 1.5],
        "who": ["ann", "bob", "ann"],
        "flag": [1, 0, 1],
    }
)


class Streamed:
    """A table by the Arrow protocol alone."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.Table.from_pandas(FRAME).__arrow_c_stream__(requested_schema)


class Interchanged:
    """A table by the interchange protocol alone."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object:
        return pa.Table.from_pandas(FRAME).__dataframe__(nan_as_null, allow_copy)


def duck() -> Any:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("rows", pa.Table.from_pandas(FRAME))
    return connection.sql("select * from rows")


SOURCES = {
    "arrow table": lambda: pa.Table.from_pandas(FRAME),
    "arrow batch": lambda: pa.RecordBatch.from_pandas(FRAME),
    "polars lazy": lambda: pl.from_pandas(FRAME).lazy(),
    "duckdb": duck,
    "arrow stream": Streamed,
    "interchange": Interchanged,
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("named", [False, True], ids=["alone", "in a dict"])
def test_all_are_read_alike(kind: str, named: bool) -> None:
    table = SOURCES[kind]()
    whole = bind(ROWS, {"main": table} if named else table)
    wanted = bind(ROWS, FRAME)
    assert whole.hashes == wanted.hashes
    assert np.array_equal(whole.missing["x"], wanted.missing["x"])


def test_an_arrow_table_with_a_column_twice_is_refused() -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["y", "y"])
    with pytest.raises(DataError, match=r"E306.*two columns `y`"):
        read(table)


def test_an_arrow_column_in_a_dict_is_a_column() -> None:
    """It has the stream protocol too, and is no table."""
    data = {name: pa.chunked_array([pa.array(FRAME[name], from_pandas=True)]) for name in FRAME}
    assert bind(ROWS, data).hashes == bind(ROWS, FRAME).hashes
    series = {name: pl.Series(FRAME[name]) for name in FRAME}
    assert bind(ROWS, series).hashes == bind(ROWS, FRAME).hashes
