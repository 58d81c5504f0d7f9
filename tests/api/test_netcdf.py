"""NetCDF files as they are written and read here, and by h5netcdf and xarray."""

from __future__ import annotations

import io
from pathlib import Path

import h5netcdf
import h5py
import numpy as np
import pytest
import xarray as xr

import lgmdsl as lgm
from lgmdsl.api.files.netcdf import NO_VARIABLE, array, digest, new_file, opened
from lgmdsl.arrays import AnyArray
from lgmdsl.cli import tables

ARRAYS: dict[str, tuple[tuple[str, ...], AnyArray]] = {
    "obs": (("obs",), np.array(["a", "zwölf", ""])),
    "k": (("k",), np.array([3, 1])),
    "table": (("obs", "k"), np.arange(6.0).reshape(3, 2)),
    "scalar": ((), np.array(1.5)),
    "x": (("x_0",), np.array([1, 2], dtype=np.int8)),
    "x_0": (("x_0_0",), np.array([0.5])),  # is called like a dimension
    "z_0": (("z_0_0",), np.array([2.5])),
    "z": (("z_0",), np.array([1.0, 2.0])),  # has a dimension that is called like a variable
    "none": (("none_0", "k"), np.zeros((0, 2))),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    content = io.BytesIO()
    with new_file(content) as file:
        file.set(text="größe", number=0.1, whole=7, empty="")
        group = file.create_group("part")
        for name, (dims, values) in ARRAYS.items():
            group.create_variable(name, dims, values, origin="here" if name == "obs" else "")
    (tmp_path / "a.nc").write_bytes(content.getvalue())
    return tmp_path / "a.nc"


def test_h5netcdf_reads_what_was_written(place: Path) -> None:
    with h5netcdf.File(place, "r") as file, opened(place) as ours:
        assert dict(file.attrs) == dict(ours.attrs)
        assert dict(ours.attrs) == {"text": "größe", "number": 0.1, "whole": 7, "empty": ""}
        part, read = file["part"], ours["part"]
        assert set(part.variables) == set(read.variables) == set(ARRAYS)
        for name, (dims, values) in ARRAYS.items():
            for found in (part.variables[name], read.variables[name]):
                assert array(found).tolist() == values.tolist() and array(found).dtype.kind in "Uif"
                assert found.attrs["origin"] == ("here" if name == "obs" else "")
            if name != "z":
                assert part.variables[name].dimensions == dims
        assert digest(file) == digest(ours)


def test_what_other_readers_want_of_dimensions(tmp_path: Path) -> None:
    """A dimension without a variable says its size; one without members is unlimited, as no other
    may be empty; a coordinate may come after the variables that have its dimension."""
    content = io.BytesIO()
    with new_file(content) as file:
        file.create_variable("a", ("t",), np.arange(3.0))
        file.create_variable("t", ("t",), np.array([5, 6, 7]))
        file.create_variable("g", (), np.array(1.0))
        file.create_variable("g_", (), np.array(2.0))
        file.create_variable("b", ("g",), np.arange(2.0))  # g and g_ are variables already
        file.create_variable("e", ("empty",), np.zeros(0))
        file.h5.attrs["nothing"] = np.zeros(0)
    (tmp_path / "a.nc").write_bytes(content.getvalue())
    with h5py.File(tmp_path / "a.nc", "r") as raw:
        assert raw["g__"].attrs["NAME"] == NO_VARIABLE + b"         2"
        assert raw["g__"].shape == raw["g__"].maxshape == (2,)
        assert raw["e"].maxshape == raw["empty"].maxshape == (None,)
    with h5netcdf.File(tmp_path / "a.nc", "r") as file, opened(tmp_path / "a.nc") as ours:
        assert set(ours.variables) == {"a", "t", "g", "g_", "b", "e"}
        assert array(ours.variables["t"]).tolist() == [5, 6, 7]
        assert file.dimensions["empty"].isunlimited() and not file.dimensions["t"].isunlimited()
        assert np.size(ours.attrs["nothing"]) == 0


def test_xarray_finds_the_coordinates(place: Path) -> None:
    with xr.open_dataset(place, group="part", engine="h5netcdf") as found:
        assert found["obs"].values.tolist() == ["a", "zwölf", ""]
        np.testing.assert_array_equal(found["table"].sel(obs="zwölf", k=1), 3.0)


def test_what_h5netcdf_wrote_is_read(tmp_path: Path) -> None:
    arrays = {n: a for n, a in ARRAYS.items() if n != "z"}  # which h5netcdf cannot write
    with h5netcdf.File(tmp_path / "b.nc", "w") as file:
        file.attrs.update(text="größe", number=np.float64(0.1), whole=7, empty="")
        group = file.create_group("part")
        for name, (dims, values) in arrays.items():
            text = values.astype(object) if values.dtype.kind == "U" else values
            for dim, size in zip(dims, values.shape, strict=True):
                if dim not in group.dimensions:
                    group.dimensions[dim] = size
            kind = h5netcdf.core.h5py.string_dtype() if text is not values else values.dtype
            group.create_variable(name, dims, kind, data=text)
    with h5netcdf.File(tmp_path / "b.nc", "r") as file, opened(tmp_path / "b.nc") as ours:
        assert set(ours["part"].variables) == set(arrays)
        assert digest(file) == digest(ours)


@pytest.mark.thorough
def test_a_file_is_read_and_written_in_time_linear_in_its_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Objects that are looked up by HDF5: a few for each variable, however many there are."""
    import h5py

    counted = [0]
    plain, name = h5py.Group.__getitem__, h5py.Dataset.name.fget

    def item(self: h5py.Group, key: object) -> object:
        counted[0] += 1
        return plain(self, key)

    def named(self: h5py.Dataset) -> object:  # itself linear in their number
        counted[0] += 1000
        return name(self)

    monkeypatch.setattr(h5py.Group, "__getitem__", item)
    monkeypatch.setattr(h5py.Dataset, "name", property(named))
    lets = "".join(f"let e{k}[obs] = a + {k}\n" for k in range(100))
    text = "lgm 1\nindex obs\ndata y[obs] : real\nlatent a ~ normal(sd = 1)\n" + lets
    fit = lgm.fit(lgm.loads(text + "observe y ~ normal(mean = a, sd = 1)\n"), {"y": [1.0, 2.0]})
    fit.save(tmp_path / "f.nc")
    kept = lgm.load_fit(tmp_path / "f.nc")
    tables.write(tmp_path / "p.nc", kept.predict({"y": [0.0, 1.0]}).to_dataset())
    assert counted[0] < 1000
    with xr.open_dataset(tmp_path / "p.nc", engine="h5netcdf") as found:
        assert found["e7_mean"].dims == ("obs",) and len(found.data_vars) == 202
        np.testing.assert_allclose(found["e7_mean"] - found["e6_mean"], 1.0)
