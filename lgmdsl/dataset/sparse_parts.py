"""Sparse matrices stored as plain arrays: `X.data`, `X.indices`, `X.indptr`, `X.shape`.

Also the files of `scipy.sparse.save_npz`, which say their layout in a key `format`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.dataset.dataset import Dataset
from lgmdsl.dataset.entries import Entry, Loaded
from lgmdsl.dataset.refusals import refused, refusing

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
