"""`lgm predict`: a saved fit at new data."""

from __future__ import annotations

import csv
import io
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lgmdsl.cli.options import json_option, map_option
from lgmdsl.cli.output import note, show, show_json

if TYPE_CHECKING:
    import xarray as xr

SUFFIXES = (".nc", ".csv", ".npz")


@click.command("predict")
@click.argument("fit", metavar="FIT.nc")
@click.argument("new", metavar="NEW")
@click.option("-o", "--output", metavar="FILE", help="Write to a .nc, .csv or .npz file.")
@click.option("--data", metavar="OLD", help="The data of the fit, should its file lack some.")
@map_option
@json_option
def command(
    fit: str, new: str, output: str | None, data: str | None, mapping: dict[str, str], as_json: bool
) -> None:
    """Predict at the rows, levels and inputs in NEW from the result in FIT.nc.

    \b
    lgm predict model.fit.nc new.npz -o predictions.csv

    Gives mean and sd of every predictor and report there, and of the response; for binary and
    count responses also the probability of each value, for classes that of each of them. Without
    -o prints csv.
    """
    from lgmdsl.cli.files import writable

    place = writable(output, SUFFIXES) if output is not None else None
    from lgmdsl.api.restore import load_fit
    from lgmdsl.dataset import read

    sources = [new] if data is None else [new, data]
    wanted = read(new, mapping) if data is None else _merged(new, data, mapping)
    found = load_fit(fit).predict(wanted).to_dataset()
    if place is not None:
        _write(place, found)
        note(f"{place}: written ({', '.join(str(n) for n in found.data_vars)})")
    if as_json:
        show_json(
            {
                "data": sources,
                "labels": {str(d): found[d].values for d in found.dims if d in found.coords},
                "values": {
                    str(n): {"dims": [str(d) for d in v.dims], "values": v.values}
                    for n, v in found.data_vars.items()
                },
            }
        )
    elif place is None:
        show(_csv(found), end="")


def _merged(new: str, old: str, mapping: dict[str, str]) -> Any:
    """The new data, and from the old what the new leave out."""
    from dataclasses import replace

    from lgmdsl.dataset import read

    first, second = read(new, mapping), read(old)
    return replace(first, entries={**second.entries, **first.entries})


def _write(place: Path, found: xr.Dataset) -> None:
    from lgmdsl.cli.files import replacing

    with replacing(place) as file:
        if place.suffix == ".csv":
            file.write(_csv(found).encode("utf-8"))
        elif place.suffix == ".npz":
            import numpy as np

            arrays = {str(n): np.asarray(v.values) for n, v in found.variables.items()}
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        else:
            import os

            file.flush()
            content = found.to_netcdf(engine="h5netcdf")
            file.write(memoryview(content) if content is not None else b"")
            os.fsync(file.fileno())


def _wide_axis(name: str, variable: xr.DataArray) -> Hashable | None:
    """The axis whose members get a column each: the values of y, or its classes."""
    return variable.dims[-1] if name.endswith("_probability") else None


def _csv(found: xr.Dataset) -> str:
    """One row for each member of the longest index set's product; columns over more indices get
    a suffix for each further label: y_probability_0, y_probability_1."""
    import numpy as np

    variables = {str(n): v for n, v in found.data_vars.items()}
    wide_axes = {name: _wide_axis(name, v) for name, v in variables.items()}
    shared = [tuple(d for d in v.dims if d != wide_axes[n]) for n, v in variables.items()]
    rows = max(shared, key=lambda dims: (int(np.prod([found.sizes[d] for d in dims])), len(dims)),
               default=())  # fmt: skip
    sizes = tuple(found.sizes[d] for d in rows)
    table: dict[str, Any] = {}
    for k, dim in enumerate(rows):
        labels = found[dim].values if dim in found.coords else np.arange(sizes[k])
        shape = tuple(-1 if d == dim else 1 for d in rows)
        table[str(dim)] = np.broadcast_to(labels.reshape(shape), sizes).reshape(-1)
    for name, variable in variables.items():
        across = wide_axes[name]
        own = tuple(d for d in variable.dims if d != across)
        if not set(own) <= set(rows):
            continue
        wide = variable.transpose(*(d for d in rows if d in own), ...).values
        shape = tuple(found.sizes[d] if d in own else 1 for d in rows)
        if across is not None:
            for j, value in enumerate(found[across].values):
                cells = np.broadcast_to(wide[..., j].reshape(shape), sizes).reshape(-1)
                table[f"{name}_{value}"] = cells
        else:
            table[name] = np.broadcast_to(wide.reshape(shape), sizes).reshape(-1)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(
        [f"{v:.10g}" if isinstance(v, float) else v for v in row]
        for row in zip(*(c.tolist() for c in table.values()), strict=True)
    )
    return out.getvalue()
