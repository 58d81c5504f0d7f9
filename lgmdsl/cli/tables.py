"""A labelled Dataset as a file, as csv text and as JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Container, Hashable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lgmdsl import files

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.api.predict.by_batches import Tables
    from lgmdsl.dataset import Dataset


def fields(dataset: xr.Dataset) -> dict[str, Any]:
    """Labels and values of a Dataset, for JSON."""
    return {
        "labels": {str(d): dataset[d].values for d in dataset.dims if d in dataset.coords},
        "values": {
            n: {"dims": [str(d) for d in v.dims], "values": v.values}
            for n, v in _data(dataset).items()
        },
    }


def write(place: Path, dataset: xr.Dataset) -> None:
    """To a file of one of the endings in `WRITERS`, whole or not at all."""
    files.write(place, WRITERS[place.suffix](dataset))


def _netcdf(dataset: xr.Dataset) -> memoryview:
    from lgmdsl.api.files.netcdf import new_file

    whole = io.BytesIO()
    with new_file(whole) as file:
        for name in (*dataset.coords, *dataset.data_vars):
            variable = dataset.variables[name]
            file.create_variable(str(name), tuple(map(str, variable.dims)), variable.values)
    return whole.getbuffer()


def _csv(dataset: xr.Dataset) -> memoryview:
    return memoryview(table(dataset).encode("utf-8"))


def _npz(dataset: xr.Dataset) -> memoryview:
    import numpy as np

    packed = io.BytesIO()
    arrays: dict[str, Any] = {str(n): np.asarray(v.values) for n, v in dataset.variables.items()}
    np.savez_compressed(packed, **arrays)
    return packed.getbuffer()


# What makes the content of a file, by its ending.
WRITERS: dict[str, Callable[[xr.Dataset], memoryview]] = {
    ".nc": _netcdf,
    ".csv": _csv,
    ".npz": _npz,
}


def write_rows(place: Path, tables: Tables, data: Dataset) -> None:
    """Tables of consecutive rows to a file of one of the endings in `ROW_WRITERS`, part by part,
    whole or not at all; `data` are those that they repeat columns of."""
    ROW_WRITERS[place.suffix](place, tables, data)


def texts(tables: Tables) -> Iterator[str]:
    """Tables in turn as csv, the first with the header."""
    header = True
    for columns in tables.columns():
        assert tables.last is not None, "a part was made"
        yield csv_of(columns, header=header, exact=tables.last.carried)
        header = False


def _csv_rows(place: Path, tables: Tables, data: Dataset) -> None:
    files.write_pieces(place, texts(tables))


def _parquet_rows(place: Path, tables: Tables, data: Dataset) -> None:
    from lgmdsl.dataset.arrow import column_types, write_parquet

    types = column_types(data.entries)
    files.write_filled(place, lambda file: write_parquet(file, tables.columns(), types))


# What writes tables row by row, by the ending of the file.
ROW_WRITERS: dict[str, Callable[[Path, Tables, Dataset], None]] = {
    ".csv": _csv_rows,
    ".parquet": _parquet_rows,
}


def _data(dataset: xr.Dataset) -> dict[str, xr.Variable]:
    """Without their coordinates, which xarray seeks among all variables for each of them."""
    return {str(n): dataset.variables[n] for n in dataset.data_vars}


def _wide_axis(name: str, variable: xr.Variable) -> Hashable | None:
    """The axis whose members get a column each: the values of y, or its classes."""
    return variable.dims[-1] if name.endswith("_probability") else None


def _rows(dataset: xr.Dataset) -> tuple[Hashable, ...]:
    """The axes that the rows of a table are over: those of most members."""
    shared = [_long_axes(n, v) for n, v in _data(dataset).items()]
    return max(
        shared, key=lambda dims: (prod(dataset.sizes[d] for d in dims), len(dims)), default=()
    )


def _long_axes(name: str, variable: xr.Variable) -> tuple[Hashable, ...]:
    wide = _wide_axis(name, variable)
    return tuple(d for d in variable.dims if d != wide)


def outside_table(dataset: xr.Dataset) -> tuple[str, ...]:
    """What is over other axes than the rows of `table`, which lacks it."""
    rows = {*_rows(dataset)}
    return tuple(n for n, v in _data(dataset).items() if not {*_long_axes(n, v)} <= rows)


def table(dataset: xr.Dataset) -> str:
    """One row for each member of the longest index set's product; columns over more indices get
    a suffix for each further label: y_probability_0, y_probability_1."""
    import numpy as np

    variables, sizes_of = _data(dataset), dataset.sizes
    wide_axes = {name: _wide_axis(name, v) for name, v in variables.items()}
    rows = _rows(dataset)
    sizes = tuple(sizes_of[d] for d in rows)
    table: dict[str, Any] = {}
    for k, dim in enumerate(rows):
        labels = dataset[dim].values if dim in dataset.coords else np.arange(sizes[k])
        shape = tuple(-1 if d == dim else 1 for d in rows)
        table[str(dim)] = np.broadcast_to(labels.reshape(shape), sizes).reshape(-1)
    for name, variable in variables.items():
        across = wide_axes[name]
        axes = _long_axes(name, variable)
        if not set(axes) <= set(rows):
            continue
        wide = variable.transpose(*(d for d in rows if d in axes), ...).values
        shape = tuple(sizes_of[d] if d in axes else 1 for d in rows)
        if across is not None:
            for j, value in enumerate(dataset[across].values):
                cells = np.broadcast_to(wide[..., j].reshape(shape), sizes).reshape(-1)
                table[f"{name}_{value}"] = cells
        else:
            table[name] = np.broadcast_to(wide.reshape(shape), sizes).reshape(-1)
    return csv_of(table)


def csv_of(columns: Mapping[str, Any], header: bool = True, exact: Container[str] = ()) -> str:
    """Columns as csv text: numbers with ten digits, those of the columns in `exact` with all that
    they have; missing entries are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow(columns)
    cells = [_cells(x, name in exact) for name, x in columns.items()]
    writer.writerows(zip(*cells, strict=True))
    return out.getvalue()


def records(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Columns as one object for each row, for JSON."""
    import numpy as np

    rows = zip(*(np.asarray(v).tolist() for v in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def aligned(columns: Mapping[str, Any], digits: int = 4) -> str:
    """Columns as text for a page: numbers with so many significant digits, to the right."""
    import numpy as np

    from lgmdsl.api.page import columns as page_columns

    values = {k: np.asarray(v) for k, v in columns.items()}
    numeric = [v.dtype.kind == "f" for v in values.values()]
    cells = [
        [f"{x:.{digits}g}" if number else str(x) for x in v.tolist()]
        for v, number in zip(values.values(), numeric, strict=True)
    ]
    rows = [tuple(values), *zip(*cells, strict=True)]
    return "\n".join(page_columns(rows, right=[k for k, number in enumerate(numeric) if number]))


def _cells(column: Any, exact: bool) -> list[Any]:
    """The cells of a column."""
    values = column.tolist() if hasattr(column, "tolist") else column
    if getattr(getattr(column, "dtype", None), "kind", "") != "f" or not values:
        return [_cell(v, exact) for v in values]
    if exact:
        plain = not ((column == column.round()) | (column != column)).any()
        return list(map(repr, values)) if plain else [_cell(v, exact) for v in values]
    # All in one operation, but for whole numbers of more than ten digits.
    texts = ("%.10g " * len(values) % tuple((column + 0.0).tolist())).split()
    for i in (abs(column) >= 1e10).nonzero()[0].tolist():
        texts[i] = _cell(values[i], exact)
    return texts


def _cell(value: Any, exact: bool) -> Any:
    if not isinstance(value, float):
        return value
    if value.is_integer() and abs(value) < 1e15:
        return int(value)
    if exact:
        return "" if value != value else repr(value)
    return f"{value:.10g}"
