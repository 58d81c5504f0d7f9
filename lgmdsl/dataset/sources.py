"""`read`: whatever holds the data, by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lgmdsl.dataset.convert import from_nested, from_numpy
from lgmdsl.dataset.entries import Dataset, Entry, Loaded
from lgmdsl.dataset.frames import from_frame, from_series, index_labels, is_frame, library
from lgmdsl.dataset.refusals import refused, refusing
from lgmdsl.dataset.sparse_parts import assemble
from lgmdsl.errors import DataError, listed
from lgmdsl.files import irregular, similar

SUFFIXES = (".npz", ".csv", ".parquet", ".nc")


def read(source: Any, mapping: Mapping[str, str] | None = None) -> Dataset:
    """Named raw entries of a source; arrays of files are expanded only when asked for.

    `source`: a path to .npz, .csv, .parquet or .nc; a dict of arrays, scipy sparse matrices,
    lists, masked arrays, series or DataArrays; a pandas or polars frame; an xarray Dataset; a
    Dataset; or a list of these, merged. `mapping` leads from a name of the model to a key of the
    source (`--map X=key`). A sparse matrix in .npz is `X.data`, `X.indices`, `X.indptr`,
    `X.shape`; a mapped key that ends in `_` or `.` is the prefix of the four (`--map X=t_` reads
    `t_data` ...), and `.` or the empty key means no prefix (`--map X=.` reads `data` ...).
    Raises DataError E306 for what cannot be read or would not fit into memory.
    """
    names = {str(k): str(v) for k, v in (mapping or {}).items()}
    if isinstance(source, Dataset):
        return Dataset(source.name, source.entries, {**source.mapping, **names}, assemble)
    if isinstance(source, (list, tuple)):
        return _merged([read(part) for part in source], names)
    if isinstance(source, (str, os.PathLike)):
        path = Path(os.fsdecode(source))
        return Dataset(path.name, _read_path(path), names, assemble)
    if isinstance(source, Mapping) and library(source) != "xarray":
        return Dataset("dict", _from_dict("dict", source), names, assemble)
    if is_frame(source):
        return Dataset("frame", from_frame("frame", source), names, assemble)
    if library(source) == "xarray" and type(source).__name__ in ("Dataset", "DataArray"):
        from lgmdsl.dataset.labelled import from_dataset

        with refusing("dataset", "the dataset cannot be read"):
            whole = source if type(source).__name__ == "Dataset" else source.to_dataset()
            return Dataset("dataset", from_dataset("dataset", whole), names, assemble)
    raise refused(
        type(source).__name__,
        "this is not a source of data",
        help=f"give a path ({' '.join(SUFFIXES)}), a dict, a frame or an xarray Dataset",
    )


def _merged(parts: list[Dataset], names: Mapping[str, str]) -> Dataset:
    entries: dict[str, Entry] = {}
    for part in parts:
        for key, entry in part.entries.items():
            if key in entries:
                raise refused(part.name, f"`{key}` is in {entries[key].source} too")
            entries[key] = entry
    name = ", ".join(part.name for part in parts) or "no data"
    return Dataset(name, entries, names, assemble)


def _read_path(path: Path) -> Mapping[str, Entry]:
    with refusing(path.name or str(path), "it cannot be opened"):
        irregularity = irregular(path)
        if irregularity and irregularity != "a folder":
            help = f"write its content to a file that ends in {listed(SUFFIXES, 'or')}"
            raise refused(path.name, f"this is {irregularity}, not a data file", help=help)
        if not path.exists():
            raise refused(path.name, "there is no such file", help=similar(path, SUFFIXES))
        # Opened first, so that a missing file or a directory is named as such.
        with path.open("rb"):
            pass
        suffix = path.suffix.lower()
        if suffix == ".npz":
            from lgmdsl.dataset.npz import read_npz

            return read_npz(path)
        if suffix == ".csv":
            from lgmdsl.dataset.delimited import read_csv

            return read_csv(path)
        if suffix == ".parquet":
            from lgmdsl.dataset.arrow import read_parquet

            return read_parquet(path)
        if suffix == ".nc":
            from lgmdsl.dataset.labelled import read_netcdf

            return read_netcdf(path)
    shown = f"files that end in {suffix} are not read" if suffix else "its name has no ending"
    raise refused(path.name, shown, help=f"save the data as one of {' '.join(SUFFIXES)}")


def _from_dict(source: str, data: Mapping[Any, Any]) -> Mapping[str, Entry]:
    entries: dict[str, Entry] = {}
    with refusing(source, "its entries cannot be read"):
        items = list(data.items())
    for key, value in items:
        name = str(key)
        if name in entries:
            raise refused(source, f"it has two keys `{name}`")
        try:
            entries[name] = entry_of(source, name, value)
        except DataError as error:
            # What no model asks for may be anything.
            entries[name] = Entry(name, source, (), partial(_raise, error))
    return entries


def _raise(error: DataError) -> Loaded:
    raise error


def entry_of(source: str, name: str, value: Any) -> Entry:
    """The entry of one Python value; what it is decides, not what it could be turned into."""
    kind = library(value)
    with refusing(source, f"`{name}` cannot be read"):
        if isinstance(value, np.ndarray):
            shape = tuple(int(n) for n in value.shape)
            return Entry(name, source, shape, partial(from_numpy, source, name, value))
        if kind == "scipy" and hasattr(value, "tocsr"):
            shape = tuple(int(n) for n in value.shape)
            return Entry(name, source, shape, partial(_from_scipy, source, name, value))
        if kind == "pandas" and is_frame(value):
            return _from_pandas_matrix(source, name, value)
        if kind == "pandas" and hasattr(value, "isna"):
            rows = getattr(value, "index", None)
            labels, weak = (None, True) if rows is None else index_labels(source, rows)
            return Entry(
                name,
                source,
                (len(value),),
                partial(from_series, source, name, value),
                labels=(labels,),
                weak=weak,
            )
        if kind == "polars" and is_frame(value):
            return Entry(
                name,
                source,
                tuple(value.shape),
                partial(from_numpy, source, name, np.asarray(value.to_numpy())),
                labels=(None, from_nested(source, "columns", list(value.columns))),
            )
        if kind == "polars":
            return Entry(name, source, (len(value),), partial(from_series, source, name, value))
        if kind == "pyarrow" and hasattr(value, "to_pylist"):
            from lgmdsl.dataset.arrow import from_arrow

            return Entry(name, source, (len(value),), partial(from_arrow, source, name, value))
        if kind == "xarray":
            from lgmdsl.dataset.labelled import from_array

            return from_array(source, name, value)
        if hasattr(value, "__array__") and hasattr(value, "shape"):
            array = np.asarray(value)
            return Entry(name, source, array.shape, partial(from_numpy, source, name, array))
        if isinstance(value, range):
            value = list(value)
        if isinstance(value, (list, tuple)):
            if any(isinstance(item, np.ndarray) for item in value):
                array = np.asarray(value)
                return Entry(name, source, array.shape, partial(from_numpy, source, name, array))
            nested = from_nested(source, name, value)
            return Entry(name, source, nested.shape, lambda: nested)
        if isinstance(value, (bool, int, float, str, np.generic)) or value is None:
            items = from_nested(source, name, [value])
            scalar = Loaded(
                items.values.reshape(()),
                None if items.missing is None else items.missing.reshape(()),
            )
            return Entry(name, source, (), lambda: scalar)
    raise refused(
        source,
        f"`{name}` is a {type(value).__name__}, which is not an array",
        help="give a numpy array, a sparse matrix, a list, a series or a DataArray",
    )


def _from_scipy(source: str, name: str, value: Any) -> Loaded:
    import scipy.sparse as sp

    with refusing(source, f"`{name}` is not a valid sparse matrix"):
        matrix = sp.csr_array(value)
        matrix.check_format(full_check=True)
        if matrix.dtype.kind not in "biuf" or matrix.ndim != 2:
            raise refused(source, f"`{name}` is not a matrix of numbers")
        return Loaded(matrix)


def _from_pandas_matrix(source: str, name: str, frame: Any) -> Entry:
    """A frame as one value of a dict: a matrix whose rows and columns are labelled."""
    rows, weak = index_labels(source, frame.index)
    columns, default = index_labels(source, frame.columns)
    return Entry(
        name,
        source,
        tuple(int(n) for n in frame.shape),
        partial(from_numpy, source, name, np.array(frame.to_numpy())),
        labels=(None if weak else rows, None if default else columns),
    )
