"""NetCDF 4 files of many variables, in time linear in their number.

A NetCDF 4 file is an HDF5 file in which dimensions are dimension scales (Unidata, NetCDF-4 file
format). h5netcdf and netCDF4 read what is written here and write what is read here, but look names
up at every access: 2 ms for each variable, and more the more there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np

from lgmdsl.arrays import AnyArray

NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable."
CLASHING = "_nc4_non_coord_"  # begins the stored name of a variable that is called like a dimension
OURS = {
    "REFERENCE_LIST",
    "CLASS",
    "DIMENSION_LIST",
    "NAME",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "_nc3_strict",
    "_NCProperties",
}


def attributes(object_: Any) -> dict[str, Any]:
    """The attributes of an HDF5 object that are not NetCDF's own; an array of one entry is that."""
    out = {}
    for key, value in object_.attrs.items():
        if key not in OURS:
            single = isinstance(value, np.ndarray) and value.size == 1
            value = value.reshape(-1)[0] if single else value
            out[key] = value.decode() if isinstance(value, bytes) else value
    return out


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable of a file that is open for reading."""

    dataset: Any

    @cached_property
    def attrs(self) -> Mapping[str, Any]:
        return attributes(self.dataset)

    def __getitem__(self, key: Any) -> Any:
        return self.dataset[key]


@dataclass(frozen=True, eq=False)
class Group:
    """A group, or a whole file, that is open for reading; what it holds is looked up once."""

    h5: Any

    @cached_property
    def attrs(self) -> Mapping[str, Any]:
        return attributes(self.h5)

    @cached_property
    def groups(self) -> Mapping[str, Group]:
        import h5py

        return {name: Group(item) for name, item in self.h5.items() if isinstance(item, h5py.Group)}

    @cached_property
    def variables(self) -> Mapping[str, Variable]:
        import h5py

        datasets = {n: item for n, item in self.h5.items() if isinstance(item, h5py.Dataset)}
        return {
            name.removeprefix(CLASHING): Variable(item)
            for name, item in datasets.items()
            if not bytes(item.attrs.get("NAME", b"")).startswith(NO_VARIABLE)
        }

    def __getitem__(self, name: str) -> Group:
        return self.groups[name]


@contextmanager
def opened(place: object) -> Iterator[Group]:
    """A file to read. Raises OSError where it is not HDF5."""
    import h5py

    with h5py.File(place, "r") as file:
        yield Group(file)


class NewGroup:
    """A group, or a whole file, that is being written."""

    def __init__(self, h5: Any, dimensions: Iterator[int]) -> None:
        self.h5, self._numbers = h5, dimensions
        self.dimensions: dict[str, Any] = {}

    def create_group(self, name: str) -> NewGroup:
        """A group inside this one."""
        return NewGroup(self.h5.create_group(name, track_order=True), self._numbers)

    def set(self, /, **values: str | float) -> None:
        """Attributes: text and numbers."""
        for key, value in values.items():
            self.h5.attrs[key] = str(value) if isinstance(value, str) else np.atleast_1d(value)

    def create_variable(
        self, name: str, dims: tuple[str, ...], values: AnyArray, **attrs: str | float
    ) -> None:
        """A variable of numbers or text: a coordinate where it is called like its one dimension.
        Dimensions that are new get their sizes from it."""
        import h5py

        if dims == (name,) and name not in self.dimensions:
            dataset = self._dataset(name, values)
            self._make_scale(name, dataset, name.encode())
        else:
            scales = [self._scale(d, n) for d, n in zip(dims, values.shape, strict=True)]
            dataset = self._dataset(CLASHING * (name in self.dimensions) + name, values)
            for k, scale in enumerate(scales):
                h5py.h5ds.attach_scale(dataset.id, scale.id, k)
        NewGroup(dataset, self._numbers).set(**attrs)

    def _dataset(self, name: str, values: AnyArray) -> Any:
        import h5py

        text = values.dtype.kind == "U"
        return self.h5.create_dataset(
            name,
            values.shape,
            track_order=True,
            dtype=h5py.string_dtype() if text else values.dtype,
            data=values.astype(object) if text else values,
            maxshape=tuple(n or None for n in values.shape) if 0 in values.shape else None,
        )

    def _scale(self, name: str, size: int) -> Any:
        """A dimension: one that has no variable of its name is stored as an array of no values."""
        if name not in self.dimensions:
            stored = name
            while stored in self.h5:  # a variable with dimensions of its own
                stored += "_"
            dataset = self.h5.create_dataset(
                stored, (size,), ">f4", track_order=True, maxshape=None if size else (None,)
            )
            self._make_scale(name, dataset, NO_VARIABLE + f"{size:10}".encode())
        return self.dimensions[name]

    def _make_scale(self, name: str, dataset: Any, title: bytes) -> None:
        dataset.attrs["_Netcdf4Dimid"] = np.int32(next(self._numbers))
        dataset.make_scale(title)
        self.dimensions[name] = dataset


@contextmanager
def new_file(content: BinaryIO) -> Iterator[NewGroup]:
    """A file to write; its bytes are in `content` when it is closed."""
    from itertools import count

    import h5py

    with h5py.File(content, "w", track_order=True) as file:
        versions = f"version=2,hdf5={h5py.version.hdf5_version},h5py={h5py.__version__}".encode()
        file.attrs["_NCProperties"] = np.bytes_(versions)
        yield NewGroup(file, count())


# ---- digest ------------------------------------------------------------------------------------
# A digest of a result file: what is read back is what was written, or the file is refused.


ATTRIBUTE = "digest"


def digest(file: Any) -> str:
    """SHA-256 over all attributes and arrays of an open file, by their names."""
    sha256 = hashlib.sha256()
    groups = {"": file, **{str(name): file[name] for name in file.groups}}
    for name, group in sorted(groups.items()):
        for key in sorted(k for k in group.attrs if k != ATTRIBUTE):
            sha256.update(f"{name}@{key}={group.attrs[key]}\n".encode())
        for key in sorted(group.variables):
            variable = group.variables[key]
            values = array(variable)
            origin = variable.attrs.get("origin", "")
            sha256.update(f"{name}/{key}{values.dtype.str}{values.shape}{origin}\n".encode())
            sha256.update(np.ascontiguousarray(values).tobytes())
    return sha256.hexdigest()


def array(variable: Any) -> AnyArray:
    """The values of a variable; text as an array of str."""
    values = np.asarray(variable[...])
    if values.dtype.kind == "O":
        texts = [v.decode() if isinstance(v, bytes) else str(v) for v in values.ravel()]
        return np.array(texts, dtype=np.str_).reshape(values.shape)
    return values
