"""xarray datasets and .nc files: arrays with named dimensions and coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lgmdsl.dataset.convert import from_numpy
from lgmdsl.dataset.entries import Entry, Loaded
from lgmdsl.dataset.refusals import check_memory, refused, refusing

ENGINES = {b"\x89HDF\r\n\x1a\n": "h5netcdf", b"CDF\x01": "scipy", b"CDF\x02": "scipy"}


def read_netcdf(path: Path) -> Mapping[str, Entry]:
    """The variables and coordinates of a netCDF file (versions 3 and 4), read when asked for."""
    source = path.name
    with refusing(source, "not a readable .nc file"):
        with path.open("rb") as stream:
            start = stream.read(8)
        engine = next((e for magic, e in ENGINES.items() if start.startswith(magic)), None)
        if engine is None:
            raise refused(source, "it is not a netCDF file")
        with _opened(path, engine) as opened:
            return {
                str(name): _entry(
                    source,
                    str(name),
                    opened[name],
                    partial(_from_file, path, engine, name),
                    _coordinate_loaders(path, engine),
                )
                for name in opened.variables
            }


def _opened(path: Path, engine: str) -> Any:
    import xarray as xr

    if engine == "h5netcdf":
        _walk_hdf5(path)
    # mask and scale are kept (that is where missing entries are); times stay numbers with units.
    return xr.open_dataset(path, engine=engine, cache=False, decode_timedelta=False)


def _walk_hdf5(path: Path) -> None:
    """Open every object and attribute once: a damaged file that stops h5netcdf half-way leaves an
    object that complains on stderr when it is collected, h5py raises cleanly."""
    import h5py

    with h5py.File(path, "r") as file:
        dict(file.attrs)
        for name in file:
            dict(file[name].attrs)


def _coordinate_loaders(path: Path, engine: str) -> Any:
    return lambda name: _from_file(path, engine, name)


def _from_file(path: Path, engine: str, name: Any) -> Loaded:
    source = path.name
    with refusing(source, f"`{name}` cannot be read"), _opened(path, engine) as opened:
        variable = opened[name].variable
        shape = tuple(int(n) for n in variable.shape)
        check_memory(source, str(name), shape, max(8, variable.dtype.itemsize))
        return from_numpy(source, str(name), np.asarray(variable.values))


def from_dataset(source: str, dataset: Any) -> Mapping[str, Entry]:
    """The variables and coordinates of an xarray Dataset in memory."""
    return {str(name): from_array(source, str(name), dataset[name]) for name in dataset.variables}


def from_array(source: str, name: str, array: Any) -> Entry:
    """A DataArray in memory."""

    def coordinate(dim: Any) -> Loaded:
        return from_numpy(source, str(dim), np.asarray(array.coords[dim].values))

    return _entry(
        source, name, array, lambda: from_numpy(source, name, np.asarray(array.values)), coordinate
    )


def _entry(source: str, name: str, array: Any, loader: Any, coordinate: Any) -> Entry:
    dims = tuple(str(d) for d in array.dims)
    labels = tuple(
        coordinate(d) if d in array.coords and array.coords[d].ndim == 1 else None
        for d in array.dims
    )
    shape = tuple(int(n) for n in array.shape)
    return Entry(name, source, shape, loader, dims=dims, labels=labels)
