"""`read`: whatever holds the data, by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.dataset.convert import from_nested, from_numpy
from lgmdsl.dataset.dataset import Dataset, Selection
from lgmdsl.dataset.entries import Entry, Loaded
from lgmdsl.dataset.frames import (
    from_frame,
    from_series,
    index_labels,
    is_frame,
    is_pandas,
    library,
)
from lgmdsl.dataset.graphs import adjacency_of
from lgmdsl.dataset.refusals import (
    check_mapping,
    check_regular,
    check_tables,
    no_source,
    refused,
    refusing,
)
from lgmdsl.dataset.tables import table_entry
from lgmdsl.errors import DataError
from lgmdsl.files import DATA, similar
from lgmdsl.remedies import either

# What reads a file, by its ending: a module of this package and its function.
READERS = {
    ".npz": ("npz", "read_npz"),
    ".csv": ("delimited", "read_csv"),
    ".parquet": ("arrow", "read_parquet"),
    ".nc": ("labelled", "read_netcdf"),
}
# A file of neighbours, which holds one graph and needs a name.
GRAPHS = (".graph", ".adj")


def read(source: Any, mapping: Mapping[str, str | Sequence[str]] | None = None) -> Dataset:
    """Named raw entries of a source; arrays of files are expanded only when asked for.

    `source`: a path to .npz, .csv, .parquet or .nc; a dict of arrays, scipy sparse matrices,
    lists, masked arrays, series, DataArrays, graphs, frames or paths; a frame (pandas, polars,
    Arrow, DuckDB, and what narwhals, `__arrow_c_stream__` or `__dataframe__` make one); an xarray
    Dataset; a Dataset; or a list of these, merged. Frames and files in a dict are tables of their
    own, by their keys. `mapping` leads from a name of the model to a key of the source
    (`--map X=key`), or to the columns of a matrix (`--map X=a,b`, a list in Python). A sparse
    matrix in .npz is `X.data`, `X.indices`, `X.indptr`, `X.shape`; a mapped key that ends in `_` or
    `.` is the prefix of the four (`--map X=t_` reads `t_data` ...), and `.` or the empty key means
    no prefix (`--map X=.` reads `data` ...).
    Raises DataError E306 for what cannot be read or would not fit into memory.
    """
    check_mapping(mapping)
    names = {str(k): _selection(v) for k, v in (mapping or {}).items()}
    if isinstance(source, Dataset):
        return replace(source, mapping={**source.mapping, **names})
    if isinstance(source, (list, tuple)):
        check_tables(source)
        return _merged([read(part) for part in source], names)
    if isinstance(source, (str, os.PathLike)):
        path = Path(os.fsdecode(source))
        return Dataset(path.name, _read_path(path), names, assemble)
    if isinstance(source, Mapping) and library(source) != "xarray":
        entries = _from_dict("dict", source)
        tables = {key: entry for key, entry in entries.items() if entry.columns is not None}
        plain = {key: entry for key, entry in entries.items() if key not in tables}
        return Dataset(_named(source), plain, names, assemble, tables=tables)
    if is_frame(source):
        return Dataset("frame", from_frame("frame", source), names, assemble)
    if library(source) == "xarray" and type(source).__name__ in ("Dataset", "DataArray"):
        from lgmdsl.dataset.labelled import from_dataset

        with refusing("dataset", "the dataset cannot be read"):
            whole = source if type(source).__name__ == "Dataset" else source.to_dataset()
            return Dataset("dataset", from_dataset("dataset", whole), names, assemble)
    raise no_source(source, DATA)


def _selection(value: object) -> Selection:
    """A key, or the names of columns."""
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _named(source: Mapping[Any, Any]) -> str:
    """The names of the files where a dict holds nothing else."""
    paths = [_path(value) for value in source.values()]
    known = [path.name for path in paths if path is not None]
    return ", ".join(known) if known and len(known) == len(paths) else "dict"


def _merged(parts: list[Dataset], names: Mapping[str, Selection]) -> Dataset:
    entries: dict[str, Entry] = {}
    tables: dict[str, Entry] = {}
    for part in parts:
        for known, added in ((entries, part.entries), (tables, part.tables)):
            for key, entry in added.items():
                if key in known:
                    refusal = entry.refusal or known[key].refusal
                    if refusal is not None:
                        raise refusal
                    raise refused(part.name, f"`{key}` is in {known[key].source} too")
                known[key] = entry
    name = ", ".join(part.name for part in parts) or "no data"
    return Dataset(name, entries, names, assemble, tables=tables)


def _read_path(path: Path) -> Mapping[str, Entry]:
    with refusing(path.name or str(path), "it cannot be opened"):
        check_regular(path)
        if not path.exists():
            raise refused(path.name, "there is no such file", help=similar(path, DATA))
        # Opened first, so that a missing file or a directory is named as such.
        with path.open("rb"):
            pass
        suffix = path.suffix.lower()
        if suffix in READERS:
            module, function = READERS[suffix]
            entries: Mapping[str, Entry] = getattr(
                import_module(f"lgmdsl.dataset.{module}"), function
            )(path)
            return entries
        if suffix in GRAPHS:
            help = "give the graph by its name in the model: "
            help += either(f"--data NAME={path.name}", f'{{"NAME": "{path.name}"}}')
            raise refused(path.name, "it holds a graph alone", help=help)
    shown = f"files that end in {suffix} are not read" if suffix else "its name has no ending"
    raise refused(path.name, shown, help=f"save the data as one of {' '.join(DATA)}")


def _from_dict(source: str, data: Mapping[Any, Any]) -> Mapping[str, Entry]:
    entries: dict[str, Entry] = {}
    with refusing(source, "its entries cannot be read"):
        items = list(data.items())
    for key, value in items:
        name = str(key)
        if name in entries:
            raise refused(source, f"it has two keys `{name}`")
        path = _path(value)
        if path is not None:
            added = _from_file(path, name)
            twice = next((k for k in added if k in entries), None)
            if twice is not None:
                raise refused(path.name, f"`{twice}` is in {entries[twice].source} too")
            entries |= added
            continue
        try:
            entries[name] = entry_of(source, name, value)
        except DataError as error:
            # What no model asks for may be anything.
            refusal = error if is_frame(value) else None
            entries[name] = Entry(name, source, (), partial(_raise, error), refusal=refusal)
    return entries


def _path(value: Any) -> Path | None:
    """A value of a dict that is a path to a file."""
    if isinstance(value, os.PathLike):
        return Path(os.fsdecode(value))
    known = isinstance(value, str) and value.lower().endswith((*DATA, *GRAPHS))
    return Path(value) if known else None


def _from_file(path: Path, name: str) -> Mapping[str, Entry]:
    """A file that has a name: a graph, a table, one array or one sparse matrix; the arrays of any
    other by their own keys."""
    if path.suffix.lower() in GRAPHS:
        from lgmdsl.dataset.graphs import read_graph

        return {name: read_graph(path, name)}
    entries = _read_path(path)
    if entries and all(entry.table for entry in entries.values()):
        return {name: table_entry(name, path.name, entries)}
    if len(entries) == 1:
        (entry,) = entries.values()
        return {name: replace(entry, name=name)}
    if "data" in entries and "shape" in entries:
        return {f"{name}.{key}": entry for key, entry in entries.items()}
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
        graph = adjacency_of(source, name, value)
        if graph is not None:
            return graph.entry(source, name)
        if is_frame(value):
            columns = from_frame(name, value)
            if not is_pandas(value):
                return table_entry(name, name, columns)
            matrix = _from_pandas_matrix(source, name, value)
            table = next((entry.table for entry in columns.values()), "")
            return replace(matrix, source=name, columns=columns, table=table)
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


# ---- sparse parts ------------------------------------------------------------------------------
# Sparse matrices stored as plain arrays: `X.data`, `X.indices`, `X.indptr`, `X.shape`.
#
# Also the files of `scipy.sparse.save_npz`, which say their layout in a key `format`.


PARTS = ("data", "indices", "indptr", "shape")
PARTS_OF_FORMAT = {
    "csr": PARTS,
    "csc": PARTS,
    "bsr": PARTS,
    "coo": ("data", "row", "col", "shape"),
    "dia": ("data", "offsets", "shape"),
}


def prefix_of(key: str, mapped: bool) -> str:
    """The prefix that a key means: `X.`; or, where `--map` gave it, `t_` itself or nothing."""
    if mapped and key in ("", "."):
        return ""
    if mapped and key.endswith(("_", ".")):
        return key
    return f"{key}."


def assemble(dataset: Dataset, key: str, mapped: bool) -> Entry | None:
    """The entry of a sparse matrix kept in parts, or None where the parts are not there."""
    prefix = prefix_of(key, mapped)
    layout = _layout(dataset, prefix)
    if not all(prefix + part in dataset.entries for part in PARTS_OF_FORMAT[layout]):
        return None
    parts = {part: dataset.entries[prefix + part] for part in PARTS_OF_FORMAT[layout]}
    name = prefix.rstrip("._") or "data"
    source = parts["data"].source
    shape = _shape(parts["shape"])
    return Entry(name, source, shape, lambda: _build(name, source, layout, parts))


def _layout(dataset: Dataset, prefix: str) -> str:
    """csr, unless a key `format` (as scipy.sparse.save_npz writes it) says another."""
    entry = dataset.entries.get(f"{prefix}format")
    if entry is None or entry.shape != ():
        return "csr"
    text = str(entry.loaded.values[()])
    return text if text in PARTS_OF_FORMAT else "csr"


def _shape(entry: Entry) -> tuple[int, int]:
    if entry.shape != (2,):
        raise refused(entry.source, f"`{entry.name}` is not the shape of a matrix")
    values = entry.loaded.values
    if values.dtype.kind not in "iu" or (values < 0).any():
        raise refused(entry.source, f"`{entry.name}` is not the shape of a matrix")
    return int(values[0]), int(values[1])


def _build(name: str, source: str, layout: str, parts: dict[str, Entry]) -> Loaded:
    import scipy.sparse as sp

    shape = _shape(parts["shape"])
    arrays: dict[str, AnyArray] = {}
    for part, entry in parts.items():
        loaded = entry.loaded
        if loaded.missing is not None or loaded.values.dtype.kind not in "biuf":
            raise refused(source, f"`{entry.name}` does not hold numbers")
        arrays[part] = np.asarray(loaded.values)
    data = arrays["data"]
    with refusing(source, f"`{name}` is not a sparse matrix"):
        if layout == "csr":
            return Loaded(_csr(source, name, data, arrays["indices"], arrays["indptr"], shape))
        if layout == "coo":
            matrix: Any = sp.coo_array((data, (arrays["row"], arrays["col"])), shape=shape)
        elif layout == "dia":
            matrix = sp.dia_array((data, arrays["offsets"]), shape=shape)
        else:
            kind = sp.csc_array if layout == "csc" else sp.bsr_array
            matrix = kind((data, arrays["indices"], arrays["indptr"]), shape=shape)
            matrix.check_format(full_check=True)
        return Loaded(sp.csr_array(matrix))


def _csr(
    source: str,
    name: str,
    data: AnyArray,
    indices: AnyArray,
    indptr: AnyArray,
    shape: tuple[int, int],
) -> Any:
    """A csr matrix whose parts are checked first: scipy trusts them, and reads past the end."""
    import scipy.sparse as sp

    rows, columns = shape
    problem = ""
    if data.ndim != 1 or indices.shape != data.shape:
        problem = f"data {data.shape} and indices {indices.shape} must be of one length"
    elif indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
        problem = "indices and indptr must be integers"
    elif indptr.shape != (rows + 1,):
        problem = f"indptr has {indptr.size} entries, a matrix of {rows} rows needs {rows + 1}"
    elif indptr[0] != 0 or indptr[-1] != data.size or (indptr[1:] < indptr[:-1]).any():
        problem = f"indptr must rise from 0 to {data.size}"
    elif data.size and (indices.min() < 0 or indices.max() >= columns):
        problem = f"indices must lie in 0..{columns - 1}"
    if problem:
        raise refused(source, f"`{name}` is not a sparse matrix: {problem}")
    wide = np.int32 if max(rows, columns, data.size) < 2**31 else np.int64
    return sp.csr_array((data, indices.astype(wide), indptr.astype(wide)), shape=shape)
